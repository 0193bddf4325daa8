"""The sets of files that an engine reads: its model, and what it reads beside it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import PurePosixPath

from warmpod.api import WarmModel
from warmpod.api.sources import S3, Http, HuggingFace, ModelSource
from warmpod.protocol import CREDENTIALS_MOUNT, STAGE_ROOT_MOUNT
from warmpod.resources import images
from warmpod.resources.digests import Digests

_KEY_HEX_DIGITS = 32


@dataclass(frozen=True)
class WeightSet:
    name: str
    """A plain name: the WarmModel's for its model, else the additional model's."""
    suffix: str
    """Of the names of its volumes; empty for the model."""
    source: ModelSource
    digest: str | None
    """Of its image, where that was resolved."""
    namespace: str
    engine_path: str
    """In the engine: the same for every source and medium, because vLLM's compile cache key holds
    the path."""

    @property
    def image(self) -> str | None:
        """The reference that is mounted."""
        written = self.source.image
        return None if written is None else images.pin(written, self.digest)

    @property
    def path(self) -> str:
        """Where the files lie in containers of ours."""
        if self.source.remote is not None:
            return f"{STAGE_ROOT_MOUNT}/{self.key}"
        if self.source.image is None:
            return f"/run/warmpod-sources/{self.name}"
        return f"/images/models/{self.name}" if self.suffix else "/images/model"

    @property
    def key(self) -> str:
        """The name of its directory on a node or in a staging volume: the same files, the same
        name, whichever WarmModel they are for."""
        if self.source.image is not None:
            return images.weights_key(self.source.image, self.digest)
        claim, node = self.source.persistent_volume_claim, self.source.node_path
        if claim is not None:
            return _hashed("claim", self.namespace, claim.claim_name, _normal(claim.path))
        if node is not None:
            return _hashed("node", _normal(node.path))
        return _remote_key(self.source.remote)

    @property
    def secret_name(self) -> str | None:
        remote = self.source.remote
        return remote.secret_name if remote is not None else None

    @property
    def credentials(self) -> str | None:
        """Where the Secret of its source is mounted."""
        return f"{CREDENTIALS_MOUNT}/{self.name}" if self.secret_name else None


def of(model: WarmModel, digests: Digests) -> tuple[WeightSet, ...]:
    """The model's own set first."""
    return (
        WeightSet(
            name=model.name,
            suffix="",
            source=model.spec.model,
            digest=digests.model,
            namespace=model.namespace,
            engine_path=f"/models/{model.served_name}",
        ),
        *(
            WeightSet(
                name=item.name,
                suffix=f"-{item.name}",
                source=item,
                digest=digests.additional.get(item.name),
                namespace=model.namespace,
                engine_path=f"/models/{item.name}",
            )
            for item in model.spec.additional_models
        ),
    )


def _remote_key(remote: HuggingFace | S3 | Http | None) -> str:
    """Of what is downloaded. Whose credentials it takes makes no difference to the files."""
    match remote:
        case HuggingFace() as hub:
            filters = (sorted(hub.include), sorted(hub.exclude))
            return _hashed("hf", hub.endpoint, hub.repository, hub.revision, *filters)
        case S3() as bucket:
            return _hashed("s3", bucket.endpoint, bucket.uri)
        case Http() as server:
            return _hashed("http", server.url)
        case None:
            raise ValueError("a model without a source")


def _normal(path: str | None) -> str:
    return str(PurePosixPath(path or "."))


def _hashed(kind: str, *parts: object) -> str:
    text = json.dumps(parts)
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:_KEY_HEX_DIGITS]}"

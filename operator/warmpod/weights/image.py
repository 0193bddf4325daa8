"""The documents of an image of files: what `FROM scratch` and one COPY a layer would give. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
# Files are for any processor, but a container runtime refuses an image that does not name its own.
# Both entries share the same layers.
ARCHITECTURES = ("amd64", "arm64")
# The digest of warmpod-manifest.json, so that who signs the image vouches for the files' content.
MANIFEST_DIGEST_ANNOTATION = "warmpod.io/manifest-digest"

Descriptor = dict[str, Any]


@dataclass(frozen=True)
class Document:
    """A JSON blob as it is stored."""

    descriptor: Descriptor
    content: bytes

    @property
    def digest(self) -> str:
        return str(self.descriptor["digest"])

    @property
    def media_type(self) -> str:
        return str(self.descriptor["mediaType"])


@dataclass(frozen=True)
class ImageDocuments:
    """Everything of an image but its layers."""

    configs: tuple[Document, ...]
    manifests: tuple[Document, ...]
    index: Document


def layer_descriptor(digest: str, size: int) -> Descriptor:
    return {"mediaType": LAYER_TYPE, "digest": digest, "size": size}


def weights_documents(layers: Sequence[Descriptor], manifest_digest: str) -> ImageDocuments:
    """`manifest_digest` is that of warmpod-manifest.json."""
    return documents(layers, {MANIFEST_DIGEST_ANNOTATION: manifest_digest})


def documents(layers: Sequence[Descriptor], annotations: Mapping[str, str]) -> ImageDocuments:
    """The same bytes for the same layers."""
    configs = [_config(architecture, layers) for architecture in ARCHITECTURES]
    manifests = [_manifest(config, layers, annotations) for config in configs]
    entries = [
        manifest.descriptor | {"platform": {"architecture": architecture, "os": "linux"}}
        for architecture, manifest in zip(ARCHITECTURES, manifests, strict=True)
    ]
    index = document(
        INDEX_TYPE, {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": entries}
    )
    return ImageDocuments(tuple(configs), tuple(manifests), index)


def document(media_type: str, body: dict[str, Any]) -> Document:
    content = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return Document({"mediaType": media_type, "digest": digest, "size": len(content)}, content)


def _config(architecture: str, layers: Sequence[Descriptor]) -> Document:
    body = {
        "architecture": architecture,
        "os": "linux",
        "config": {},
        # The digest of an uncompressed layer is its diff id.
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]},
    }
    return document(CONFIG_TYPE, body)


def _manifest(
    config: Document, layers: Sequence[Descriptor], annotations: Mapping[str, str]
) -> Document:
    body = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": config.descriptor,
        "layers": list(layers),
        "annotations": dict(annotations),
    }
    return document(MANIFEST_TYPE, body)

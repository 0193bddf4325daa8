"""Asks the registry who signed an image, and for the content of which files."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from warmpod.protocol import REMEDY
from warmpod.reasons import (
    SIGNATURE_INVALID,
    SIGNATURE_MISSING,
    SIGNATURE_UNCHECKED,
    Reason,
)
from warmpod.registry.answers import digest_of, document_in, of_platform
from warmpod.registry.client import INDEX_TYPES, Client, opened
from warmpod.registry.credentials import Credential, of_pull_secrets
from warmpod.registry.errors import Denied, NotFound, RegistryError
from warmpod.registry.reference import is_loopback, parse_reference
from warmpod.weights.findings import Finding
from warmpod.weights.image import MANIFEST_DIGEST_ANNOTATION
from warmpod.weights.manifest import MANIFEST_NAME
from warmpod.weights.signature import (
    BUNDLE_TYPE,
    SIGNATURE_ANNOTATION,
    SIMPLE_SIGNING_TYPE,
    PublicKey,
    SignatureError,
    check_bundle,
    check_simple_signing,
)

#: Seconds before a request to the registry is repeated; the next look repeats all of them.
DELAYS = (1.0, 2.0)
#: Seconds for all requests of one look: what they ask for is small.
ANSWER_SECONDS = 60.0
#: Signatures of one image that are looked at.
MAX_SIGNATURES = 32
#: What to do about an image whose signature says nothing about files.
PACK = "make the image with warmpod pack, and sign that one"
#: Of a registry on the node's own loopback interface, which containerd reaches and pods do not.
ITSELF = (
    f"in the agent's pod that address is the pod itself{REMEDY}name the image by an address of the "
    "registry that pods reach, too"
)
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


#: What documents raise that have a number where an object should be, and the like.
_NONSENSE = (ValueError, TypeError, AttributeError, LookupError, RecursionError)


@dataclass(frozen=True)
class Wanted:
    """`image` as it is mounted; `pull_secrets` are directories of mounted Secrets."""

    image: str
    public_key: str
    pull_secrets: tuple[Path, ...] = ()

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Wanted:
        directories = tuple(Path(item) for item in document.get("dockerconfig") or ())
        return cls(str(document["image"]), str(document["publicKey"]), directories)


def check(wanted: Wanted, manifest_digest: str, key: PublicKey) -> Finding | None:
    """Asks the registry whether the image is signed and stands for that `warmpod-manifest.json`.
    Blocks for ANSWER_SECONDS at most."""
    reference = parse_reference(wanted.image)
    try:
        return asyncio.run(_in_time(_check(wanted, manifest_digest, key, reference.name)))
    except TimeoutError:
        detail = f"registry {reference.host}: no answer within {ANSWER_SECONDS:.0f} s"
    except Denied as error:
        detail = f"{error}{REMEDY}add a pull secret for it to spec.pod.imagePullSecrets"
    except RegistryError as error:
        detail = str(error)
        if is_loopback(reference.host):
            detail = f"{detail}; {ITSELF}"
    except _NONSENSE as error:
        words = f"registry {reference.host}: its answer cannot be understood"
        detail = f"{words} ({type(error).__name__}){REMEDY}correct the image if that is no registry"
    return Finding(wanted.image, SIGNATURE_UNCHECKED, detail)


async def _in_time(answer: Awaitable[Finding | None]) -> Finding | None:
    async with asyncio.timeout(ANSWER_SECONDS):
        return await answer


async def _check(wanted: Wanted, manifest_digest: str, key: PublicKey, name: str) -> Finding | None:
    credentials: list[Credential | None] = [*of_pull_secrets(wanted.pull_secrets, name), None]
    for credential in credentials:
        async with opened(wanted.image, credential, delays=DELAYS) as client:
            try:
                return await _Question(wanted.image, client, key).ask(manifest_digest)
            except Denied:
                # As the kubelet does: the next secret may be the right one.
                if credential is credentials[-1]:
                    raise
    raise AssertionError("the last one is asked without credentials")


class _Question:
    def __init__(self, image: str, client: Client, key: PublicKey) -> None:
        self._image = image
        self._client = client
        self._key = key

    async def ask(self, manifest_digest: str) -> Finding | None:
        """Raises RegistryError."""
        reference = self._client.reference
        try:
            content = await self._client.manifest(reference.digest or reference.tag)
        except NotFound as error:
            return self._finding(
                SIGNATURE_MISSING,
                f"{error}, nor a signature of it{REMEDY}push it there, and run: "
                f"cosign sign --key cosign.key {reference.name}@{reference.digest}",
            )
        digest = digest_of(content)
        troubles = []
        async for trouble in self._signatures(digest):
            if trouble is None:
                return await self._vouches(document_in(content), digest, manifest_digest)
            troubles.append(trouble)
        sign = f"cosign sign --key cosign.key {reference.name}@{digest}"
        if not troubles:
            return self._finding(SIGNATURE_MISSING, f"{digest} is not signed{REMEDY}run: {sign}")
        detail = f"no signature of {digest} fits spec.model.verify.publicKey: {troubles[0]}"
        return self._finding(SIGNATURE_INVALID, f"{detail}{REMEDY}sign it with that key: {sign}")

    async def _signatures(self, digest: str) -> AsyncIterator[str | None]:
        """What is wrong with each signature that there is, None for a good one."""
        async for payload, signature in self._simple_signatures(digest):
            yield _trouble(partial(check_simple_signing, self._key, payload, signature, digest))
        async for bundle in self._bundles(digest):
            yield _trouble(partial(check_bundle, self._key, bundle, digest))

    async def _simple_signatures(self, digest: str) -> AsyncIterator[tuple[bytes, object]]:
        tag = f"{digest.replace(':', '-')}.sig"
        try:
            document = document_in(await self._client.manifest(tag))
        except NotFound:
            return
        for layer in _layers(document, SIMPLE_SIGNING_TYPE):
            annotations = layer.get("annotations")
            signature = annotations.get(SIGNATURE_ANNOTATION) if annotations else None
            yield await self._client.blob(str(layer.get("digest"))), signature

    async def _bundles(self, digest: str) -> AsyncIterator[bytes]:
        for entry in (await self._client.referrers(digest, BUNDLE_TYPE))[:MAX_SIGNATURES]:
            document = document_in(await self._client.manifest(str(entry.get("digest"))))
            for layer in _layers(document, BUNDLE_TYPE):
                yield await self._client.blob(str(layer.get("digest")))

    async def _vouches(
        self, signed: dict[str, Any], digest: str, manifest_digest: str
    ) -> Finding | None:
        """Whether the signed document leads to the files that are here."""
        found = []
        for document in [document async for document in self._image_manifests(signed)]:
            annotations = document.get("annotations")
            found.append(annotations.get(MANIFEST_DIGEST_ANNOTATION) if annotations else None)
        if manifest_digest in found:
            return None
        said = next((item for item in found if item), None)
        if said is None:
            detail = f"{digest} is signed, but says nothing about its files{REMEDY}{PACK}"
        else:
            detail = (
                f"the files here are not the signed ones: {MANIFEST_NAME} is {manifest_digest}, "
                f"that of {digest} is {said}{REMEDY}remove the image on this node (crictl "
                f"rmi {self._image}) and delete this pod, to have it pulled again"
            )
        return self._finding(SIGNATURE_INVALID, detail)

    async def _image_manifests(self, document: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """The image manifests for this machine."""
        if document.get("mediaType") not in INDEX_TYPES:
            yield document
            return
        architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
        for digest in of_platform(document, architecture):
            yield document_in(await self._client.manifest(digest))

    def _finding(self, reason: Reason, detail: str) -> Finding:
        return Finding(self._image, reason, detail)


def _trouble(check: Callable[[], None]) -> str | None:
    try:
        check()
    except SignatureError as error:
        return str(error)
    return None


def _layers(document: Mapping[str, Any], media_type: str) -> list[dict[str, Any]]:
    layers = document.get("layers")
    found = [
        layer
        for layer in (layers if isinstance(layers, list) else [])
        if isinstance(layer, dict) and layer.get("mediaType") == media_type
    ]
    return found[:MAX_SIGNATURES]

"""Whether the files of an image are those that somebody with the right key has signed.

The chain: the key signs the digest of the image (or its index); that holds the image manifest of
this platform; its annotation holds the digest of `warmpod-manifest.json`; that holds the digests of
the files, which the agent computes anyway. So neither the registry nor the one who mounted the
image has to be trusted: what counts is what lies in the directory.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from pathlib import Path

from warmpod.agent.sources.signed_image import PACK, Wanted, check
from warmpod.agent.staging.stopping import Stop
from warmpod.protocol import REMEDY
from warmpod.reasons import SIGNATURE_INVALID
from warmpod.weights import manifest as manifests
from warmpod.weights.findings import Finding, WeightsError
from warmpod.weights.hashing import Watch
from warmpod.weights.manifest import MANIFEST_NAME
from warmpod.weights.signature import PublicKey, SignatureError
from warmpod.weights.tree import walk

log = logging.getLogger(__name__)

#: Seconds between two questions while the answer is not a good one. Every node asks.
ASK_SECONDS = 60.0
KEY = "write the content of the cosign.pub that cosign generate-key-pair made"


class SignatureCheck:
    """Asks the registry only until the answer was good once: with the registry down, what is
    resident stays so, also after a restart of the agent."""

    def __init__(
        self,
        wanted: Wanted,
        state_dir: Path,
        watch: Watch,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """What `watch` raises ends the waiting for the registry, and comes out of `look`."""
        self._wanted = wanted
        self._state_dir = state_dir
        self._stop = Stop(watch)
        self._clock = clock
        self._last: tuple[float, str, Finding | None] | None = None

    def look(self, directory: Path) -> Finding | None:
        """None when the files in `directory` are signed, given that they fit their manifest.

        Blocks for as long as the registry takes, with a bound. Nothing else is raised: what keeps
        the registry from being asked is a Finding too, with the reason SignatureUnchecked."""
        try:
            key = PublicKey.of(self._wanted.public_key)
        except SignatureError as error:
            return self._invalid(f"spec.model.verify.publicKey: {error}{REMEDY}{KEY}")
        try:
            content = manifests.read_bytes(directory)
            if content is None:
                return self._invalid(f"the image holds no {MANIFEST_NAME}{REMEDY}{PACK}")
            if (unlisted := _unlisted(directory, content)) is not None:
                return self._invalid(f"{unlisted} is not among the signed files{REMEDY}{PACK}")
        except (OSError, WeightsError) as error:
            return self._invalid(str(error))
        return self._signed(f"sha256:{hashlib.sha256(content).hexdigest()}", key)

    def _signed(self, manifest_digest: str, key: PublicKey) -> Finding | None:
        proof = self._state_dir / _proof_name(manifest_digest, key)
        if proof.exists():
            return None
        if self._last is not None:
            asked, about, finding = self._last
            if about == manifest_digest and self._clock() - asked < ASK_SECONDS:
                return finding
        finding = self._stop.during(lambda: check(self._wanted, manifest_digest, key))
        self._last = (self._clock(), manifest_digest, finding)
        if finding is None:
            log.info("%s: the signature is good", self._wanted.image)
            proof.touch()
        return finding

    def _invalid(self, detail: str) -> Finding:
        return Finding(self._wanted.image, SIGNATURE_INVALID, detail)


def _unlisted(directory: Path, content: bytes) -> str | None:
    """The first file that the manifest does not list. Names with a dot count here: `pack` takes
    none along, so somebody else has put it there."""
    listed = {entry.path for entry in manifests.parse(content).files} | {MANIFEST_NAME}
    return next((path for path in walk(directory, hidden=True) if path not in listed), None)


def _proof_name(manifest_digest: str, key: PublicKey) -> str:
    about = f"{manifest_digest} {key.fingerprint}".encode()
    return f"signed-{hashlib.sha256(about).hexdigest()}"

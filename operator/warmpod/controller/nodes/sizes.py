"""How large images are: asks their registry for the sizes of the layers.

Anonymous, as when digests are resolved: a registry that wants credentials leaves the size unknown.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import aiohttp

from warmpod.controller.answers import Answers
from warmpod.controller.nodes.preflight import Layers
from warmpod.controller.registry import (
    ACCEPT,
    TIMEOUT,
    anonymous_token,
    read_body,
)
from warmpod.controller.views import Key
from warmpod.registry.reference import Reference, parse_reference

logger = logging.getLogger(__name__)

#: Seconds an answer is believed. Images are by digest nearly always.
KNOWN_SECONDS: Final = 3600.0
UNKNOWN_SECONDS: Final = 300.0

#: Image as written, and the node's processor architecture as in its label kubernetes.io/arch.
Question = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nobody tells."""

    why: str


class _NoManifest(Exception):
    """The registry gives none that can be used; says why."""


async def layers_of(session: aiohttp.ClientSession, image: str, architecture: str) -> Layers:
    """Raises _NoManifest, and what a network and a malformed answer may raise."""
    reference = parse_reference(image)
    source = _Manifests(session)
    manifest = await source.get(reference)
    if "manifests" in manifest:
        digest = _of_platform(manifest["manifests"], architecture)
        manifest = await source.get(replace(reference, digest=digest))
    return _sum(manifest["layers"])


class _Manifests:
    """Manifests of one repository, with the token that the first answer asked for."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._headers = {"Accept": ACCEPT}

    async def get(self, reference: Reference) -> dict[str, Any]:
        status, body, challenge = await self._ask(reference)
        if status == 401 and challenge and "Authorization" not in self._headers:
            token = await anonymous_token(self._session, challenge)
            if token:
                self._headers["Authorization"] = f"Bearer {token}"
                status, body, _ = await self._ask(reference)
        if status != 200:
            raise _NoManifest(f"registry {reference.host} answered {status}")
        manifest: dict[str, Any] = json.loads(body)
        return manifest

    async def _ask(self, reference: Reference) -> tuple[int, bytes, str]:
        async with self._session.get(
            reference.manifest_url, headers=self._headers, timeout=TIMEOUT
        ) as response:
            body = await read_body(response)
            return response.status, body, response.headers.get("WWW-Authenticate", "")


def _of_platform(manifests: list[Mapping[str, Any]], architecture: str) -> str:
    """The digest of the manifest that a Linux node of that architecture takes."""
    for found in manifests:
        platform = found.get("platform") or {}
        if (platform.get("os"), platform.get("architecture")) == ("linux", architecture):
            return str(found["digest"])
    raise _NoManifest(f"no manifest for linux/{architecture}")


def _sum(layers: list[Mapping[str, Any]]) -> Layers:
    plain = compressed = 0
    for layer in layers:
        if str(layer.get("mediaType", "")).endswith(".tar"):
            plain += int(layer["size"])
        else:
            compressed += int(layer["size"])
    return Layers(plain, compressed)


class Sizes(Answers[Question, Layers | Unknown]):
    def __init__(
        self,
        session: aiohttp.ClientSession,
        notify: Callable[[Key], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        async def ask(question: Question) -> Layers | Unknown:
            image, architecture = question
            try:
                return await layers_of(session, image, architecture)
            except (
                _NoManifest, aiohttp.ClientError, TimeoutError, OSError,
                ValueError, TypeError, KeyError, AttributeError,
            ) as error:  # fmt: skip
                logger.info("size of image %s: %s", image, error or type(error).__name__)
                return Unknown(str(error) or type(error).__name__)

        super().__init__(ask, notify, seconds=_seconds, failed=_failed, clock=clock)


def _seconds(answer: Layers | Unknown) -> float:
    return KNOWN_SECONDS if isinstance(answer, Layers) else UNKNOWN_SECONDS


def _failed(_: Question, error: Exception) -> Unknown:
    return Unknown(type(error).__name__)

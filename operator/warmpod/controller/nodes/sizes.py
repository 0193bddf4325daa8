"""How large images are: asks their registry for the sizes of the layers.

Anonymous, as when digests are resolved: a registry that wants credentials leaves the size unknown.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from warmpod.controller.clients.answers import Answers
from warmpod.controller.clients.resolver import TIMEOUT_SECONDS
from warmpod.controller.nodes.preflight import Layers
from warmpod.controller.objects.views import Key
from warmpod.registry.answers import document_in, of_platform
from warmpod.registry.client import Client
from warmpod.registry.errors import RegistryError
from warmpod.registry.reference import parse_reference

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


async def layers_of(session: aiohttp.ClientSession, image: str, architecture: str) -> Layers:
    """Raises RegistryError, TimeoutError, and what a malformed answer may raise."""
    reference = parse_reference(image)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        client = Client(session, reference, credential=None, delays=())
        manifest = document_in(await client.manifest(reference.digest or reference.tag))
        if "manifests" in manifest:
            digest = next(of_platform(manifest, architecture), None)
            if digest is None:
                raise RegistryError(f"{image}: there is no manifest for linux/{architecture}")
            manifest = document_in(await client.manifest(digest))
    return _sum(manifest["layers"])


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
                RegistryError, TimeoutError, ValueError, TypeError, KeyError, AttributeError,
            ) as error:  # fmt: skip
                logger.info("size of image %s: %s", image, error or type(error).__name__)
                return Unknown(str(error) or type(error).__name__)

        super().__init__(ask, notify, seconds=_seconds, failed=_failed, clock=clock)


def _seconds(answer: Layers | Unknown) -> float:
    return KNOWN_SECONDS if isinstance(answer, Layers) else UNKNOWN_SECONDS


def _failed(_: Question, error: Exception) -> Unknown:
    return Unknown(type(error).__name__)

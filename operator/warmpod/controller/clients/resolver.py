"""What an image tag stands for: asks the image's registry for the manifest's digest.

Anonymous on purpose: reading pull secrets would need rights on Secrets. A registry that wants
credentials, or cannot be reached from the operator, leaves the tag as it is written; the kubelet
with its own credentials has the last word.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import aiohttp

from warmpod.controller.clients.answers import Answers
from warmpod.controller.objects.views import Key
from warmpod.registry import errors
from warmpod.registry.client import Client
from warmpod.registry.reference import parse_reference

logger = logging.getLogger(__name__)

#: Seconds for all that a registry is asked about one tag.
TIMEOUT_SECONDS = 10.0
#: Seconds an answer is believed. Tags move, and a missing image may be pushed at any moment: who
#: has just moved one and then changes a spec gets the new digest. Many WarmModels of one image
#: that appear together are asked for once.
FOUND_SECONDS: Final = 10.0
FAILED_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Resolved:
    digest: str


@dataclass(frozen=True, slots=True)
class NotFound:
    """The registry says that it does not have the image."""

    message: str


@dataclass(frozen=True, slots=True)
class Unresolved:
    """The registry gave no answer that helps."""

    message: str


Resolution = Resolved | NotFound | Unresolved


async def resolve(session: aiohttp.ClientSession, image: str) -> Resolution:
    """Asks the registry. Never raises for what a registry or a network may do."""
    reference = parse_reference(image)
    if reference.digest:
        return Resolved(reference.digest)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            client = Client(session, reference, credential=None, delays=())
            return Resolved(await client.digest(reference.tag))
    except errors.NotFound:
        return NotFound(f"{image}: registry {reference.host} does not have it")
    except TimeoutError:
        return Unresolved(
            f"{image}: registry {reference.host} gives no answer within {TIMEOUT_SECONDS:.0f} s"
        )
    # ValueError: a host that is none.
    except (errors.RegistryError, ValueError) as error:
        return Unresolved(f"{image}: its digest is not known: {error}")


class Resolver(Answers[str, Resolution]):
    """What tags stand for, by image."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        notify: Callable[[Key], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        async def ask(image: str) -> Resolution:
            answer = await resolve(session, image)
            logger.info("image %s: %s", image, answer)
            return answer

        super().__init__(
            ask, notify, seconds=_seconds, failed=_failed, outdated=_outdated, clock=clock
        )


def _seconds(answer: Resolution) -> float:
    return FOUND_SECONDS if isinstance(answer, Resolved) else FAILED_SECONDS


def _failed(image: str, error: Exception) -> Resolution:
    return Unresolved(f"{image}: {type(error).__name__} while its registry was asked")


def _outdated(answer: Resolution) -> Resolution | None:
    """A stale answer beats none: a condition would flap while the registry is asked again."""
    return None if isinstance(answer, Resolved) else answer

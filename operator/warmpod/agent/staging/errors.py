"""What keeps a source from being staged, with the reason that the condition gets."""

from __future__ import annotations

from warmpod.reasons import (
    DIGEST_MISMATCH,
    DISK_FULL,
    PATH_MISMATCH,
    SOURCE_NOT_FOUND,
    SOURCE_UNREACHABLE,
    Reason,
)
from warmpod.weights.manifest import MANIFEST_NAME

# Soon, for what a Secret or a network that comes back can repair; seldom, for what needs an edit
# of the spec, which starts another agent anyway.
RETRY_SOON_SECONDS = 30.0
RETRY_SELDOM_SECONDS = 300.0
_SELDOM = (SOURCE_NOT_FOUND, PATH_MISMATCH, DIGEST_MISMATCH)


class SourceError(Exception):
    """The message names the source and the remedy; `retry_after` is in seconds."""

    def __init__(self, reason: Reason, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        if retry_after is None:
            retry_after = RETRY_SELDOM_SECONDS if reason in _SELDOM else RETRY_SOON_SECONDS
        self.retry_after = retry_after


def changed(what: str) -> SourceError:
    """The source replaced a file while it was being downloaded; the next attempt plans anew."""
    message = (
        f"{what} changed while it was downloaded — it is downloaded again; if that does not end, "
        f"have all servers of that address tell the same version, or put a {MANIFEST_NAME} there"
    )
    return SourceError(DIGEST_MISMATCH, message, RETRY_SOON_SECONDS)


def unversioned(what: str, header: str) -> SourceError:
    """An answer that does not say its version, which one before did: it may be another file. The
    next attempt plans anew, without it if need be."""
    message = (
        f"{what}: the server answers without the {header} that it sent before — have it send that "
        f"with every answer, or put a {MANIFEST_NAME} beside the files"
    )
    return SourceError(PATH_MISMATCH, message, RETRY_SOON_SECONDS)


def tampered(what: str) -> SourceError:
    """Somebody else wrote to a file before the others were there; the next attempt reads it."""
    message = f"{what} was written to before the download was complete — it is read again"
    return SourceError(DIGEST_MISMATCH, message, RETRY_SOON_SECONDS)


def unreachable(what: str, cause: str, retry_after: float | None = None) -> SourceError:
    return SourceError(SOURCE_UNREACHABLE, f"{what}: {cause}", retry_after)


class DiskFull(SourceError):
    """The message has the numbers alone: only who mounted the directory knows its name."""

    def __init__(self, what: str, needed: str, free: str) -> None:
        super().__init__(DISK_FULL, f"{what}: {needed} needed, {free} free")

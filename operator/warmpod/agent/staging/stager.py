"""The order of things: plan, keep what is right, download the rest, name it, manifest last."""

from __future__ import annotations

import errno
import logging
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from warmpod.agent.staging import commit
from warmpod.agent.staging.archive import unpack
from warmpod.agent.staging.assembly import Assembly, partial_paths, staged_bytes
from warmpod.agent.staging.credentials import Credentials
from warmpod.agent.staging.digests import Hashes
from warmpod.agent.staging.download import Download, Source
from warmpod.agent.staging.errors import DiskFull, SourceError
from warmpod.agent.staging.files import RemoteFile
from warmpod.agent.staging.stopping import Stop
from warmpod.agent.staging.transport import Transport, check_urls
from warmpod.agent.staging.workspace import Workspace
from warmpod.quantity import human
from warmpod.reasons import DIGEST_MISMATCH, PATH_MISMATCH
from warmpod.weights.hashing import Watch, map_in_threads, pieces
from warmpod.weights.receipt import Receipt

log = logging.getLogger(__name__)

Begin = Callable[[int], None]
#: What answers raise that have a text where a number should be, and the like.
_NONSENSE = (ValueError, TypeError, AttributeError, LookupError, RecursionError)


def stage(
    remote: Mapping[str, Any],
    credentials: Path | None,
    directory: Path,
    watch: Watch,
    begin: Begin,
) -> Receipt:
    """See warmpod.agent.staging.stage."""
    stop = Stop(watch)
    transport = Transport(stop)
    ((kind, spec),) = remote.items()
    check_urls(kind, spec)
    source = _source(kind, spec, Credentials(credentials), transport)
    try:
        stager = Stager(source, transport, Workspace(directory), begin)
        return stager.archive() if _is_archive(kind, spec) else stager.files()
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        free = shutil.disk_usage(directory).free
        raise DiskFull("the disk is full", "more", human(free)) from error
    finally:
        transport.close()


def _is_archive(kind: str, spec: Mapping[str, Any]) -> bool:
    return kind == "http" and not str(spec["url"]).partition("?")[0].endswith("/")


def _source(
    kind: str, spec: Mapping[str, Any], credentials: Credentials, transport: Transport
) -> Source:
    """Imported here: each client is loaded by who needs it."""
    match kind:
        case "huggingFace":
            from warmpod.agent.staging.hub import Hub

            return Hub(spec, credentials, transport)
        case "s3":
            from warmpod.agent.staging.s3 import Bucket

            return Bucket(spec, credentials, transport)
        case "http":
            from warmpod.agent.staging.web import Archive, Listing

            kind_of_url = Archive if _is_archive(kind, spec) else Listing
            return kind_of_url(spec, credentials, transport)
    raise ValueError(f"remote source {kind!r} is none of huggingFace, s3, http")


class Stager:
    def __init__(
        self, source: Source, transport: Transport, workspace: Workspace, begin: Begin
    ) -> None:
        self._source = source
        self._transport = transport
        self._stop = transport.stop
        self._workspace = workspace
        self._begin = begin

    def files(self) -> Receipt:
        plan = self._plan()
        self._workspace.tidy({file.path for file in plan})
        self._begin(sum(file.size for file in plan))
        digests = self._present(plan)
        missing = [file for file in plan if file.path not in digests]
        self._make_room(missing)
        digests |= self._download(missing)
        commit.note(self._workspace.directory, self._source.commit)
        brought = self._workspace.finish(digests.items())
        self._workspace.keep_only(())
        return brought

    def archive(self) -> Receipt:
        """The archive is downloaded whole, because unpacking could not go on in the middle."""
        (packed,) = self._plan()
        self._begin(packed.size)
        identity = f"{packed.path} {packed.size} {packed.identity}"
        if self._workspace.is_whole(identity):
            self._stop.watch(packed.size)
            return Receipt()
        # What an archive holds is at least as large as the archive, and both lie there for a while.
        self._make_room([packed], also=packed.size)
        Download(self._source, self._transport, self._workspace.staging, _keep).run([packed])
        brought = self._unpack(packed, identity)
        self._workspace.keep_only(())
        return brought

    def _plan(self) -> tuple[RemoteFile, ...]:
        try:
            return self._source.plan()
        except _NONSENSE as error:
            log.exception("the source's answer")
            message = f"the source's answer cannot be understood ({type(error).__name__})"
            raise SourceError(PATH_MISMATCH, f"{message} — correct its address") from error

    def _unpack(self, packed: RemoteFile, identity: str) -> Receipt:
        workspace = self._workspace
        archive, journal = partial_paths(workspace.staging, packed)
        folder = workspace.empty_folder("unpacked")
        try:
            found = unpack(archive, packed.path, folder, self._stop.check, workspace.check_room)
        except SourceError as error:
            if error.reason == DIGEST_MISMATCH:
                journal.unlink()  # so that the next attempt downloads it anew
            workspace.empty_folder("unpacked")  # a full disk is everybody's trouble
            raise
        workspace.tidy(found.keys())
        for path, (temporary, sha256) in found.items():
            workspace.publish(temporary, path, identity, sha256)
        return workspace.finish((path, sha256) for path, (_, sha256) in found.items())

    def _download(self, files: Iterable[RemoteFile]) -> dict[str, str]:
        staging = self._workspace.staging
        return Download(self._source, self._transport, staging, self._publish).run(files)

    def _publish(self, assembly: Assembly, sha256: str) -> None:
        file = assembly.file
        self._workspace.publish(assembly.partial, file.path, file.identity, sha256)
        assembly.forget()

    def _present(self, plan: Iterable[RemoteFile]) -> dict[str, str]:
        """SHA-256 of the files that are there already and right."""
        results = map_in_threads(self._digest_of_present, plan)
        return {path: sha256 for path, sha256 in results if sha256 is not None}

    def _digest_of_present(self, file: RemoteFile) -> tuple[str, str | None]:
        sha256 = self._workspace.known(file) or self._recognised(file)
        if sha256 is not None:
            self._stop.watch(file.size)
        return file.path, sha256

    def _recognised(self, file: RemoteFile) -> str | None:
        """SHA-256 of a file of unknown origin, such as one that was copied here, if the source's
        digest proves it to be the right one."""
        path = self._workspace.directory / file.path
        if file.digest is None or not path.is_file() or path.stat().st_size != file.size:
            return None
        hashes = Hashes(file.size, file.digest)
        with path.open("rb", buffering=0) as opened:
            for piece in pieces(opened):
                self._stop.check()
                hashes.update(piece)
        if hashes.mismatch() is not None:
            return None
        self._workspace.adopt(file, path.stat(), hashes.sha256())
        return hashes.sha256()

    def _make_room(self, missing: Collection[RemoteFile], also: int = 0) -> None:
        wanted = {path for file in missing for path in partial_paths(self._workspace.staging, file)}
        self._workspace.keep_only(wanted)
        needed = sum(file.size - staged_bytes(self._workspace.staging, file) for file in missing)
        self._workspace.check_room(needed + also)


def _keep(_: Assembly, __: str) -> None:
    """An archive stays a partial file; what it holds gets names."""

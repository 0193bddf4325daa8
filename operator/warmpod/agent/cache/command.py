"""`warmpod-agent cache`: looks into this node's store of compiled code, for the command line.

It is run in the agent's container by pods/exec, beside the agent and within the agent's memory, so
it imports little. Standard output is JSON, or a tar archive for `export`.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import shutil
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from warmpod.agent.disk.locks import locked
from warmpod.compilecache import entry as entries
from warmpod.compilecache.entry import Entry, EntryError, GoneError
from warmpod.compilecache.factors import as_json, is_key
from warmpod.compilecache.files import directory, open_file
from warmpod.compilecache.layout import PARTIAL, WHY, Store
from warmpod.compilecache.manifest import MANIFEST
from warmpod.protocol import CACHE_STORE_MOUNT

USAGE = "usage: warmpod-agent cache ls | rm [KEY...] | export [KEY...]"

# More than an agent writes there: LONGEST_WHY characters.
MOST_WHY_BYTES = 4096


class CommandError(Exception):
    """One line that says why, and what helps."""


def run(arguments: Sequence[str], root: Path = Path(CACHE_STORE_MOUNT)) -> int:
    """The exit status; why it is not 0 goes to standard error."""
    command, keys = (arguments[0], arguments[1:]) if arguments else ("", ())
    if command not in ("ls", "rm", "export") or (keys and command == "ls"):
        sys.stderr.write(f"{USAGE}\n")
        return 2
    try:
        _run(command, keys, root)
        sys.stdout.flush()
    except (CommandError, EntryError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _run(command: str, keys: Sequence[str], root: Path) -> None:
    """Raises CommandError, EntryError, OSError."""
    if not root.is_dir():
        raise CommandError("this pod has no store: set spec.compileCache.store to Node")
    if wrong := next((key for key in keys if not is_key(key)), None):
        raise CommandError(f"{wrong} is not a key: see warmpod-agent cache ls")
    store = Store(root)
    match command:
        case "ls":
            json.dump({"entries": list(_listing(store))}, sys.stdout)
        case "rm":
            json.dump({"removed": _remove(store, keys)}, sys.stdout)
        case _:
            _export(store, keys)


def _listing(store: Store) -> Iterator[dict[str, Any]]:
    for state, folder in (("published", store.published), ("set-aside", store.set_aside)):
        for key in _keys_in(folder):
            try:
                yield _row(state, folder / key)
            except (GoneError, FileNotFoundError):
                continue  # removed meanwhile


def _keys_in(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(name for name in os.listdir(folder) if is_key(name))


def _row(state: str, folder: Path) -> dict[str, Any]:
    """Times are seconds since 1970. The agent sets that of a directory when the entry was used."""
    used = folder.stat().st_mtime
    common = {"key": folder.name, "state": state, "used": used}
    try:
        entry = entries.read(folder)
    except GoneError:
        raise
    except EntryError as error:
        unknown = {"created": used, "bytes": 0, "files": 0, "factors": {}}
        return common | unknown | {"state": "unreadable", "why": str(error)}
    return common | {
        "created": entry.created,
        "bytes": entry.bytes,
        "files": len(entry.files),
        "factors": as_json(entry.factors),
        "why": _why(folder),
    }


def _why(folder: Path) -> str:
    """What the agent wrote when it set the entry aside."""
    try:
        with directory(folder) as opened, io.FileIO(open_file(WHY, opened)) as file:
            return file.read(MOST_WHY_BYTES).decode(errors="replace").strip()
    except FileNotFoundError:
        return ""


def _remove(store: Store, keys: Sequence[str]) -> list[str]:
    """Of the store that pods start with, and of what was set aside; no keys: everything."""
    removed = set()
    with locked(store.root):
        for folder in (store.published, store.set_aside):
            for key in _keys_in(folder):
                if not keys or key in keys:
                    _remove_entry(store, folder / key)
                    removed.add(key)
    return sorted(removed)


def _remove_entry(store: Store, folder: Path) -> None:
    """Renamed first: a pod finds a whole entry under a key, or none. What is left when this is
    killed has the name of something unfinished, which agents remove."""
    leaving = store.published / f"{PARTIAL}{folder.name}-{secrets.token_hex(4)}"
    os.rename(folder, leaving)
    shutil.rmtree(leaving)


def _export(store: Store, keys: Sequence[str]) -> None:
    """What is published, each entry in a folder of its key. Raises EntryError."""
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for key in keys or _keys_in(store.published):
            _add(archive, entries.read(store.published / key))
    sys.stdout.buffer.flush()


def _add(archive: tarfile.TarFile, entry: Entry) -> None:
    with directory(entry.directory) as folder:
        names = [MANIFEST, *(f"{entries.FILES}/{file.path}" for file in entry.files)]
        for name in names:
            with io.FileIO(open_file(name, folder)) as file:
                info = tarfile.TarInfo(f"{entry.key}/{name}")
                info.size = os.fstat(file.fileno()).st_size
                archive.addfile(info, file)

"""Stores of compiled code: what pods put into them, and what agents have published."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from warmpod.compilecache import entry as entries
from warmpod.compilecache import factors, layout
from warmpod.compilecache.entry import Entry
from warmpod.compilecache.factors import Factors
from warmpod.compilecache.layout import Store

FILES = {"vllm/aot/model": b"compiled" * 500, "triton/k.cubin": b"kernel", "empty": b""}
# Of what no compression makes smaller, as it travels.
SIZES = {"vllm/a/model": 40_000, "triton/k.cubin": 3_000, "flashinfer/op.so": 90_000, "empty": 0}


def made_for(**changed: Any) -> Factors:
    return Factors(**{"image": "sha256:1", "model": "m", "driver": "580.1"} | changed)


def key_of(**changed: Any) -> str:
    return factors.key(made_for(**changed))


def new_store(root: Path) -> Path:
    """As the kubelet makes it for pods, where the agent comes later."""
    for name in (layout.PUBLISHED, layout.INCOMING):
        (root / name).mkdir(parents=True, exist_ok=True)
    return root


def offer(root: Path, files: Mapping[str, bytes] = FILES, **changed: Any) -> Path:
    """As a pod does it whose factors differ from the usual ones in these."""
    source = root.parent / "private"
    for path, content in files.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_bytes(content)
    partial, complete = layout.new_offer(key_of(**changed))
    incoming = root / layout.INCOMING
    entries.write(source, incoming / partial, made_for(**changed), now=1_700_000_000)
    for path in files:
        (source / path).unlink()
    return (incoming / partial).rename(incoming / complete)


def mark(root: Path, kind: str, why: str = "", **changed: Any) -> None:
    layout.leave_mark(root / layout.INCOMING, kind, key_of(**changed), why)


def rewrite(made: Path, **changed: Any) -> None:
    """Change fields of what `entry.json` says."""
    path = made / entries.MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))


def publish(root: Path, created: float = 1_700_000_000, seed: int = 1, **changed: Any) -> Entry:
    """Past the agent: an entry for the usual factors, but for these."""
    store, wanted, chance = Store(root), made_for(**changed), random.Random(seed)
    store.published.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        for name, size in SIZES.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(chance.randbytes(size))
        return entries.write(Path(folder), store.published / key_of(**changed), wanted, created)


def set_aside(root: Path, entry: Entry, why: str) -> None:
    """As an agent does it with a published entry."""
    store = Store(root)
    store.set_aside.mkdir(exist_ok=True)
    target = store.set_aside / entry.key
    entry.directory.rename(target)
    (target / layout.WHY).write_text(f"{why}\n")


def published(root: Path) -> dict[str, dict[str, bytes]]:
    """The files of each entry that pods can use, by key and path."""
    return {
        folder.name: {
            path.relative_to(folder / entries.FILES).as_posix(): path.read_bytes()
            for path in (folder / entries.FILES).rglob("*")
            if path.is_file()
        }
        for folder in sorted((root / layout.PUBLISHED).iterdir())
        if not folder.name.startswith(".")
    }


def broken(root: Path) -> list[str]:
    """Entries that are published and not what their hashes say."""
    found = []
    for folder in (root / layout.PUBLISHED).iterdir():
        if folder.name.startswith("."):
            continue
        for file in entries.read(folder).files:
            data = (folder / entries.FILES / file.path).read_bytes()
            if hashlib.sha256(data).hexdigest() != file.sha256:
                found.append(f"{folder.name}: {file.path}")
    return found

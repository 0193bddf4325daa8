"""Published entries of compile caches, as an agent leaves them."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from warmpod.compilecache import entry as entries
from warmpod.compilecache.entry import Entry
from warmpod.compilecache.factors import Factors, key
from warmpod.compilecache.layout import Store

FILES = {"vllm/a/model": 40_000, "triton/k.cubin": 3_000, "flashinfer/op.so": 90_000, "empty": 0}


def factors(**changed: Any) -> Factors:
    return Factors(
        **{"image": "sha256:1", "model": "m", "gpu": ("H200",), "driver": "580.1"} | changed
    )


def publish(root: Path, created: float = 1_700_000_000, seed: int = 1, **changed: Any) -> Entry:
    """An entry for the usual factors, but for these, in the store below `root`."""
    store, wanted, chance = Store(root), factors(**changed), random.Random(seed)
    store.published.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        for name, size in FILES.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(chance.randbytes(size))
        return entries.write(Path(folder), store.published / key(wanted), wanted, created)


def set_aside(root: Path, entry: Entry, why: str) -> None:
    store = Store(root)
    store.set_aside.mkdir(exist_ok=True)
    target = store.set_aside / entry.key
    entry.directory.rename(target)
    (target / "why").write_text(f"{why}\n")

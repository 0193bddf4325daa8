"""A small model directory in the shape Hugging Face gives it."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from warmpod.weights.receipt import Seen

SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def make_model(directory: Path, shard_bytes: int = 9000) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text("{}")
    (directory / "original").mkdir()
    (directory / "original" / "params.json").write_text("{}")
    for number, shard in enumerate(SHARDS, start=1):
        (directory / shard).write_bytes(bytes([number]) * shard_bytes)
    index = {"metadata": {}, "weight_map": {"a": SHARDS[0], "b": SHARDS[1], "c": SHARDS[0]}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    for path in directory.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return directory


def as_of_an_earlier_version(receipt: Path) -> None:
    """A receipt without the times of change of its files."""
    document = json.loads(receipt.read_text())
    del document["changed"]
    receipt.write_text(json.dumps(document))


def rewrite_in_time(path: Path) -> None:
    """Other content under the same size, inode and modification time, as somebody writes it who
    sets the time back."""
    facts = path.stat()
    mode = facts.st_mode & 0o777
    path.chmod(0o644)
    with path.open("r+b") as file:
        first = file.read(1)
        file.seek(0)
        file.write(bytes([first[0] ^ 0xFF]))
    path.chmod(mode)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def spoil_unseen(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other content and nothing that shows it, as a bad disk gives it. Nobody can set the time of
    change, so it is shown as it was to who compares it."""
    before = path.stat()
    rewrite_in_time(path)
    spoilt = path.stat()
    plain = Seen.of

    def of(name: str, facts: os.stat_result, sha256: str) -> Seen:
        seen = plain(name, facts, sha256)
        same = (seen.inode, seen.ctime_ns) == (spoilt.st_ino, spoilt.st_ctime_ns)
        return replace(seen, ctime_ns=before.st_ctime_ns) if same else seen

    monkeypatch.setattr(Seen, "of", of)

"""A registry, a model, and the command that packs it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pack_process import SHARD_BYTES, SHARDS, Pack

from support.crane import registry

OPERATOR = Path(__file__).parents[3] / "operator"


__all__ = ["registry"]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("model")
    chance = random.Random(5)
    (directory / "config.json").write_text("{}")
    (directory / "original").mkdir()
    (directory / "original" / "params.json").write_text("[]")
    for number in range(SHARDS):
        (directory / f"model-{number}.safetensors").write_bytes(chance.randbytes(SHARD_BYTES))
    return directory


@pytest.fixture
def pack(tmp_path: Path) -> Iterator[Pack]:
    """Starts `warmpod pack` with these arguments, with a home of its own."""
    started: list[subprocess.Popen[str]] = []
    own = {
        "PYTHONPATH": str(OPERATOR),
        "HOME": str(tmp_path),
        "DOCKER_CONFIG": str(tmp_path / "docker"),
        "XDG_RUNTIME_DIR": str(tmp_path),
    }

    def start(*arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "warmpod.cli.main", "pack", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | own,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()

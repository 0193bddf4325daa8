from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cache_scene import Scene

from support.crane import registry
from support.exec_server import ExecServer, running

__all__ = ["registry"]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A WarmModel without nodes; `add_node` gives it some."""
    scene = Scene(tmp_path, ExecServer(lambda pod, command: scene.argv_of(pod, command)))
    scene.server.models["tiny"] = {"metadata": {"name": "tiny", "namespace": "demo"}, "spec": {}}
    with running(scene.server):
        yield scene
        scene.end()

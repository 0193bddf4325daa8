"""Nodes with stores, whose agents' commands are processes, and `warmpod cache` as another one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.cache_pods import prefetch_pod
from support.exec_server import ExecServer
from warmpod.cli.cache.build import SUFFIX

OPERATOR = Path(__file__).parents[3] / "operator"
AGENT = (
    "import sys; from pathlib import Path; from warmpod.agent.cache import command;"
    "raise SystemExit(command.run(sys.argv[2:], Path(sys.argv[1])))"
)


@dataclass
class Scene:
    folder: Path
    server: ExecServer
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def add_node(self, node: str, model: str = "tiny") -> Path:
        """Its store."""
        self.server.pods[node] = prefetch_pod(node, node, model=model)
        root = self.folder / "nodes" / node
        root.mkdir(parents=True)
        return root

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        own = {
            "PYTHONPATH": str(OPERATOR),
            "KUBECONFIG": str(self.server.kubeconfig(self.folder)),
            "HOME": str(self.folder),
            "DOCKER_CONFIG": str(self.folder / "docker"),
            "XDG_RUNTIME_DIR": str(self.folder),
            "NO_PROXY": "*",
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "warmpod.cli.main", "cache", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | own,
        )
        self.started.append(process)
        return process

    def run(self, *arguments: object) -> tuple[int, str, str]:
        """Exit status, standard output, and the rest."""
        process = self.start(*arguments)
        output, errors = process.communicate(timeout=120)
        return process.returncode, output, errors

    def argv_of(self, pod: str, command: Sequence[str]) -> list[str]:
        """The agent's own program, with the store of its node in place of the mount."""
        assert command[:2] == ["warmpod-agent", "cache"]
        return [sys.executable, "-c", AGENT, str(self.folder / "nodes" / pod), *command[2:]]

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()


def file_of_a_model(folder: Path, name: str = "tiny") -> Path:
    path = folder / "model.yaml"
    document: dict[str, Any] = {
        "apiVersion": "warmpod.io/v1alpha1",
        "kind": "WarmModel",
        "metadata": {"name": name},
        "spec": {
            "replicas": 3,
            "model": {"image": "registry.example.com/models/tiny:1.0"},
            "engine": {"image": "vllm/vllm-openai:v0.26.0"},
        },
    }
    path.write_text(json.dumps(document))
    return path


BUILD = f"tiny{SUFFIX}"

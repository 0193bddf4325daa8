"""Pods of one node that share a store of compile caches, and the agent that keeps it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from launcher_process import ENVIRONMENT, Launcher, start_launcher

from simulator.harness import SIMULATOR, free_port
from warmpod.compilecache import entry as entries
from warmpod.compilecache.entry import Entry
from warmpod.compilecache.layout import BAD, OFFER, Arrival, Store, arrival
from warmpod.launcher.processes import descendants, send

FACTS = {"image": "sha256:image", "model": "sha256:model"}
SIMULATED = {
    "PATH": os.pathsep.join([str(SIMULATOR.parent), ENVIRONMENT["PATH"]]),
    "SIM_LOAD_SECONDS": "0.05",
}


@dataclass
class Pod:
    """Its launcher may be started again, as the kubelet does with a container."""

    directory: Path
    engine: Sequence[str]
    options: Sequence[str]
    environment: Mapping[str, str]
    launcher: Launcher = field(init=False)

    def start(self) -> None:
        for name in ("run", "cache"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        self.launcher = start_launcher(
            self.directory / "run",
            list(self.engine),
            f"--cache-dir={self.directory / 'cache'}",
            *self.options,
            environment={**SIMULATED, **self.environment},
        )

    def wait_warm(self) -> None:
        """Wait until an engine is ready, and find it warm."""
        self.launcher.wait_ready()
        self.launcher.mark_warm()

    def outcomes(self) -> list[tuple[str, str]]:
        """Of its cache, each with why."""
        return [(event["outcome"], event["why"]) for event in self.launcher.events("cache")]

    def stages(self) -> list[str]:
        """Of all boots."""
        return [event["stage"] for event in self.launcher.events("stage")]

    def kill(self) -> None:
        """End all of its processes."""
        left = descendants(self.launcher.process.pid)
        self.launcher.process.kill()
        for process in left:
            send(process.pid, signal.SIGKILL)
        self.launcher.process.wait()

    def stop(self) -> None:
        """As the kubelet does."""
        self.launcher.process.terminate()
        assert self.launcher.exit_code() == 0


class Node:
    """`keep` does what the agent does at each of its looks."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = Store(directory / "store")
        self.pods: list[Pod] = []
        for path, mode in ((self.store.published, 0o755), (self.store.incoming, 0o1733)):
            path.mkdir(parents=True)
            path.chmod(mode)

    def pod(
        self,
        *arguments: str,
        facts: Mapping[str, str] = FACTS,
        environment: Mapping[str, str] | None = None,
    ) -> Pod:
        """A pod whose engine is the simulator, started."""
        port = f"--port={free_port()}"
        engine = [sys.executable, str(SIMULATOR), "serve", "/models/m", port, *arguments]
        options = [
            f"--cache-store={self.store.root}",
            f"--cache-factors={json.dumps(facts)}",
            port,
        ]
        name = f"pod-{len(self.pods)}"
        pod = Pod(self.directory / name, engine, options, environment or {})
        self.pods.append(pod)
        pod.start()
        return pod

    def arrivals(self, kind: str) -> list[Arrival]:
        found = [arrival(name) for name in sorted(os.listdir(self.store.incoming))]
        return [each for each in found if each is not None and each.kind == kind]

    def keep(self) -> None:
        for mark in self.arrivals(BAD):
            shutil.rmtree(self.store.published / mark.key, ignore_errors=True)
            (self.store.incoming / mark.name).unlink()
        for offer in self.arrivals(OFFER):
            path = self.store.incoming / offer.name
            target = self.store.published / offer.key
            if not target.exists():
                entries.copy(entries.read(path), target)
            shutil.rmtree(path)

    def entry(self) -> Entry:
        """The only one that is published."""
        (path,) = self.store.published.iterdir()
        return entries.read(path)

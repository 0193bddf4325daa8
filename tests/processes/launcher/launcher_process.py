"""Runs the real launcher as a process, the way it runs in the engine container."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.waiting import wait_for
from warmpod.launcher.processes import descendants

OPERATOR = Path(__file__).parents[3] / "operator"
FAKE_ENGINE = Path(__file__).parent / "fake_engine.py"
LAUNCHER = [sys.executable, "-m", "warmpod.launcher.main"]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(OPERATOR)}

Event = dict[str, Any]


@dataclass
class Launcher:
    """A running launcher."""

    process: subprocess.Popen[bytes]
    run_dir: Path

    def events(self, name: str | None = None) -> list[Event]:
        """The events so far; only those with this name, if one is given."""
        path = self.run_dir / "events.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        events: list[Event] = [json.loads(line) for line in lines]
        return [event for event in events if name is None or event["event"] == name]

    def wait_event(self, name: str, count: int = 1) -> Event:
        """Wait for the `count`-th event of this name."""
        wait_for(lambda: self.process.poll() is not None or len(self.events(name)) >= count)
        return self.events(name)[count - 1]

    def wait_ready(self, count: int = 1) -> None:
        """Wait until the `count`-th boot has said that it is ready."""
        wait_for(lambda: [event["stage"] for event in self.events("stage")].count("ready") >= count)

    def engine_pid(self) -> int:
        """The pid of the engine's main process."""
        return next(pid for pid in sorted(self.children()) if not is_fork_server(pid))

    def children(self) -> list[int]:
        """The pids of the launcher's own processes, zombies too."""
        own = self.process.pid
        return [process.pid for process in descendants(own) if process.parent == own]

    def mark_warm(self) -> str:
        """Do what the sidecar does when the current boot has become warm."""
        boot: str = self.events("boot-started")[-1]["boot"]
        (self.run_dir / "warm.json").write_text(json.dumps({"boot": boot, "warm": True}))
        return boot

    def ask_to_end(self, boot: str) -> Path:
        """Do what the sidecar does when a boot's warm-up has failed."""
        path = self.run_dir / "end-boot.json"
        new = self.run_dir / ".end-boot.json.new"
        new.write_text(json.dumps({"boot": boot, "why": "no progress"}))
        new.replace(path)
        return path

    def exit_code(self) -> int:
        """Wait for the launcher's end."""
        return self.process.wait(30)


def start_launcher(
    run_dir: Path,
    engine: list[str],
    *options: str,
    times: dict[str, float] | None = None,
    environment: dict[str, str] | None = None,
) -> Launcher:
    """Start the launcher on an engine. `environment` is over that of the tests.

    `times` shortens waits, by module and name: {"shutdown.FIRST_TERM": 0.3}.
    """
    launcher = LAUNCHER
    if times:
        changes = "".join(f"{name} = {seconds};" for name, seconds in times.items())
        imports = (
            "import sys;"
            "from warmpod.launcher import forks, mainloop, main, policy, requests, shutdown;"
        )
        launcher = [sys.executable, "-c", f"{imports}{changes}sys.exit(main.main())"]
    command = [*launcher, "run", f"--run-dir={run_dir}", *options, "--", *engine]
    process = subprocess.Popen(
        command,
        env=ENVIRONMENT | (environment or {}),
        cwd=run_dir,
        stdout=(run_dir.parent / "stdout").open("wb"),
        stderr=(run_dir.parent / "stderr").open("wb"),
        umask=0o077,  # an image may set it so; the sidecar must read the files all the same
    )
    return Launcher(process, run_dir)


def is_fork_server(pid: int) -> bool:
    """Its engines have its command line, but the name of a plain one."""
    server = b"/forkserver\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return server and Path(f"/proc/{pid}/comm").read_text() != "vllm\n"


def holds_pidfd(holder: int, pid: int) -> bool:
    """Whether a process holds a pidfd of another one."""
    for path in Path(f"/proc/{holder}/fdinfo").iterdir():
        try:
            if f"Pid:\t{pid}\n" in path.read_text():
                return True
        except FileNotFoundError:
            continue  # a descriptor that was closed meanwhile
    return False


def fake(*words: object) -> list[str]:
    """The command line of a fake engine."""
    return [sys.executable, str(FAKE_ENGINE), *(str(word) for word in words)]

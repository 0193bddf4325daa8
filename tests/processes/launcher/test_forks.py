"""Engines that are forked from a process which has imported vLLM, and the fall-backs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from launcher_process import ENVIRONMENT, Event, Launcher, fake, holds_pidfd, is_fork_server

from simulator.harness import SIMULATOR, free_port
from support.waiting import wait_for
from warmpod.launcher.processes import descendants, read_process
from warmpod.sidecar.supervisor import DIED

Launch = Callable[..., Launcher]
KILLS = 20
SOON = {"mainloop.STEP_SECONDS": 0.05}
# The script's first line looks for python3 on PATH, and the simulator needs that of the tests.
IMAGE = {
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    "PYTHONPATH": os.pathsep.join([ENVIRONMENT["PYTHONPATH"], str(SIMULATOR.parent / "site")]),
    "SIM_LOAD_SECONDS": "0.05",
}
LOST = "the fork server does not answer: "


def simulator(*arguments: str) -> list[str]:
    return [str(SIMULATOR), "serve", "/models/tiny", f"--port={free_port()}", *arguments]


@pytest.fixture
def fork(launch: Launch) -> Launch:
    """Starts a launcher that forks its engines, with knobs of the simulator."""

    def start(
        engine: list[str], *options: str, times: dict[str, float] | None = None, **knobs: object
    ) -> Launcher:
        environment = {f"SIM_{name.upper()}": str(value) for name, value in knobs.items()}
        return launch(
            engine, "--fork", *options, times=SOON | (times or {}), environment=IMAGE | environment
        )

    return start


def how(launcher: Launcher) -> list[str]:
    """How each boot was started, or why not forked."""
    events = [e for e in launcher.events() if e["event"] in ("boot-forked", "start-plain")]
    return [event.get("why", "forked") for event in events]


def server_of(launcher: Launcher) -> int:
    return next(pid for pid in launcher.children() if is_fork_server(pid))


def kill_engine(launcher: Launcher, count: int) -> Event:
    """Kill the `count`-th boot, and wait until that is seen."""
    os.kill(launcher.engine_pid(), signal.SIGKILL)
    return launcher.wait_event("boot-ended", count)


def test_a_forked_engine_is_the_launchers_own_child(fork: Launch, tmp_path: Path) -> None:
    launcher = fork(simulator(), import_seconds=0.2)
    launcher.wait_ready()
    started, forked = launcher.events("boot-started")[0], launcher.events("boot-forked")[0]
    assert forked["boot"] == started["boot"]
    assert forked["import_seconds"] >= 0.2
    engine, server = launcher.engine_pid(), server_of(launcher)
    assert {engine, server} == set(launcher.children())
    assert (os.getpgid(engine), os.getpgid(server)) == (engine, server)
    assert f"(APIServer pid={engine})" in (tmp_path / "stdout").read_text()
    # Its workers are found below it: the death of one is the death of the boot.
    launcher.mark_warm()
    core = next(process.pid for process in descendants(engine))
    wait_for(lambda: holds_pidfd(launcher.process.pid, core))
    os.kill(core, signal.SIGKILL)
    assert launcher.wait_event("boot-ended")["cause"] == "engine-process-died"
    launcher.wait_ready(2)
    launcher.process.terminate()
    assert launcher.exit_code() == 0
    wait_for(lambda: read_process(server) is None)


def test_killed_twenty_times_each_boot_is_forked_again(fork: Launch) -> None:
    launcher = fork(simulator())
    seen = []
    for count in range(1, KILLS + 1):
        launcher.wait_ready(count)
        launcher.mark_warm()
        seen.append((open_files(launcher.engine_pid()), open_files(launcher.process.pid)))
        # Its worker dies with it, and either death may be seen first.
        assert kill_engine(launcher, count)["cause"] in DIED
    launcher.wait_ready(KILLS + 1)
    assert how(launcher) == ["forked"] * (KILLS + 1)
    assert {engine for engine, _ in seen} == {seen[0][0]}
    assert seen[-1][1] <= seen[0][1] + 1  # a pidfd of the engine's worker, at times
    assert open_files(server_of(launcher)) == 4
    assert len(launcher.children()) == 2
    states = [process.state for process in descendants(launcher.process.pid)]
    assert "Z" not in states


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.mark.parametrize(
    ("fault", "code"), [("crash-at-start", 1), ("unsupported-argument", 2), ("missing-token", 1)]
)
def test_exit_codes_of_a_forked_engine_are_seen(fork: Launch, fault: str, code: int) -> None:
    launcher = fork(simulator(), "--max-failed-boots=1", fault=fault)
    assert launcher.exit_code() == code
    assert launcher.events("boot-ended")[0]["exit_code"] == code
    assert how(launcher) == ["forked"]


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("fails", "import of vllm failed: ImportError('libcudart.so.13: cannot open"),
        ("hangs", "importing vLLM takes longer than 1 s"),
        ("dies", "the fork server ended while it imported vLLM"),
        ("cuda", "import of vllm initialised CUDA"),
        ("thread", "import of vllm started threads: "),
        ("process", "import of vllm started processes"),
    ],
)
def test_a_server_of_no_use_is_said_and_the_engine_starts_plainly(
    fork: Launch, tmp_path: Path, fault: str, why: str
) -> None:
    times = {"forks.IMPORT_SECONDS": 1} if fault == "hangs" else None
    launcher = fork(simulator(), times=times, import_fault=fault)
    launcher.wait_ready()
    assert how(launcher)[0].startswith(why)
    assert f"not forked: {why}" in (tmp_path / "stderr").read_text()
    launcher.mark_warm()
    kill_engine(launcher, 1)
    launcher.wait_ready(2)
    assert len(how(launcher)) == 2
    assert launcher.children() == [launcher.engine_pid()]


def test_a_long_reason_is_cut(
    launch: Launch, tmp_path: Path, looking_engine: dict[str, str]
) -> None:
    """What is longer than a message would leave the launcher waiting."""
    (tmp_path / "site/vllm/__init__.py").write_text("raise ImportError('x' * 100_000)")
    engine = ["vllm", "serve", "/models/m"]
    launcher = launch(engine, "--fork", "--max-failed-boots=1", environment=looking_engine)
    assert launcher.exit_code() == 1
    (why,) = how(launcher)
    assert why.startswith("import of vllm failed: ImportError('xxx")


def test_threads_that_a_fork_may_lack_do_no_harm(fork: Launch) -> None:
    launcher = fork(simulator(), import_fault="harmless-threads")
    launcher.wait_ready()
    assert how(launcher) == ["forked"]


@pytest.mark.parametrize("fault", ["cuda-in-module", "thread-in-module"])
def test_a_module_that_no_fork_may_follow_is_left_out(fork: Launch, fault: str) -> None:
    launcher = fork(simulator(), import_fault=fault)
    launcher.wait_ready()
    assert how(launcher) == ["forked"]
    words = Path(f"/proc/{server_of(launcher)}/cmdline").read_text().split("\0")
    assert words[-2] == "vllm.compilation.decorators"


def test_a_killed_server_costs_one_plain_start(fork: Launch) -> None:
    launcher = fork(simulator())
    launcher.wait_ready()
    launcher.mark_warm()
    server = server_of(launcher)
    os.kill(server, signal.SIGKILL)
    wait_for(lambda: read_process(server) is None)
    for count in (1, 2):
        kill_engine(launcher, count)
        launcher.wait_ready(count + 1)
        launcher.mark_warm()
    first, second, third = how(launcher)
    assert (first, third) == ("forked", "forked")
    assert second.startswith(LOST)


def test_a_stopped_server_is_not_waited_for_for_ever(fork: Launch) -> None:
    launcher = fork(simulator(), times={"forks.FORK_SECONDS": 0.5})
    launcher.wait_ready()
    launcher.mark_warm()
    server = server_of(launcher)
    os.kill(server, signal.SIGSTOP)
    kill_engine(launcher, 1)
    launcher.wait_ready(2)
    assert how(launcher)[1].startswith(LOST)
    wait_for(lambda: read_process(server) is None)


def test_a_boot_that_was_not_warm_is_followed_by_a_plain_one(fork: Launch) -> None:
    launcher = fork(simulator(), times={"policy.MAX_DELAY_SECONDS": 0.05})
    launcher.wait_ready()
    kill_engine(launcher, 1)
    launcher.wait_ready(2)
    launcher.mark_warm()
    kill_engine(launcher, 2)
    launcher.wait_ready(3)
    assert how(launcher) == ["forked", "a forked boot ended before it was warm", "forked"]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [({}, "forked"), ({"SIM_X": "1"}, "its variable SIM_X is not what it is for other boots")],
)
def test_a_boot_to_compare_with_is_forked_unless_a_variable_differs(
    fork: Launch, variables: dict[str, str], expected: str
) -> None:
    engine = simulator()
    launcher = fork(
        engine,
        f"--reference-argv={json.dumps([*engine, '--enforce-eager'])}",
        f"--reference-env={json.dumps(variables)}",
    )
    launcher.wait_ready()
    launcher.ask_to_end(launcher.events("boot-started")[0]["boot"])
    launcher.wait_ready(2)
    assert how(launcher) == [expected, "forked"]


def test_another_command_than_vllm_is_run_plainly(fork: Launch) -> None:
    launcher = fork(fake("serve"))
    launcher.wait_ready()
    assert how(launcher) == [
        f"the engine is started by {sys.executable}, not by vLLM's own command"
    ]


def test_a_stop_does_not_wait_for_the_imports(fork: Launch) -> None:
    launcher = fork(simulator(), import_seconds=3600)
    launcher.wait_event("boot-started")
    launcher.process.terminate()
    assert launcher.exit_code() == 0
    assert launcher.events("boot-ended")[0]["cause"] == "stopping"


def test_without_the_option_nothing_is_forked_or_said(launch: Launch) -> None:
    launcher = launch(simulator(), environment=IMAGE)
    launcher.wait_ready()
    assert how(launcher) == []
    assert launcher.children() == [launcher.engine_pid()]


SCRIPT = """#!/usr/bin/env python3
import sys
from vllm.entrypoints.cli.main import main
if __name__ == "__main__":
    sys.exit(main())
"""


@pytest.fixture
def looking_engine(tmp_path: Path) -> dict[str, str]:
    """The environment of an image whose `vllm` tells what it sees."""
    package, binaries = tmp_path / "site/vllm/entrypoints/cli", tmp_path / "bin"
    package.mkdir(parents=True)
    for folder in (package, package.parent, package.parent.parent):
        (folder / "__init__.py").touch()
    shutil.copy(Path(__file__).with_name("looking_engine.py"), package / "main.py")
    binaries.mkdir()
    (binaries / "vllm").write_text(SCRIPT)
    (binaries / "vllm").chmod(0o755)
    return {
        "PATH": os.pathsep.join([str(binaries), IMAGE["PATH"]]),
        "PYTHONPATH": os.pathsep.join([ENVIRONMENT["PYTHONPATH"], str(tmp_path / "site")]),
    }


def test_a_forked_engine_sees_what_a_plain_one_sees(
    launch: Launch, tmp_path: Path, looking_engine: dict[str, str]
) -> None:
    def what_is_seen(*options: str) -> list[Event]:
        """By two boots; the second is a plain one."""
        launcher = launch(
            ["vllm", "serve", "a model", "--x=1"],
            "--max-failed-boots=2",
            *options,
            environment=looking_engine,
            times={"policy.MAX_DELAY_SECONDS": 0.05},
        )
        assert launcher.exit_code() == 7
        assert [event["exit_code"] for event in launcher.events("boot-ended")[-2:]] == [7, 7]
        lines = (tmp_path / "stdout").read_text().splitlines()
        assert lines[1::2] == ["at exit", "at exit"]
        told = [json.loads(line) for line in lines[::2]]
        assert [each["parent"] for each in told] == [launcher.process.pid] * 2
        assert told[0]["random"] != told[1]["random"]
        return told

    plain, (forked, second) = what_is_seen()[0], what_is_seen("--fork")
    for process in ("own", "spawned"):
        assert forked[process]["environment"].pop("VLLM_WORKER_MULTIPROC_METHOD") == "fork"
        assert forked[process] == plain[process]
        assert second[process] == plain[process]

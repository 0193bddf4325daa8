"""The launcher as a process: boots, their ends, and what follows."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from launcher_process import ENVIRONMENT, LAUNCHER, Launcher, fake, holds_pidfd

from support.waiting import wait_for
from warmpod.launcher.processes import read_process
from warmpod.protocol import USERS_LOCK

Launch = Callable[..., Launcher]


def wait_for_lock(path: Path) -> threading.Thread:
    """Wait for the boot's end in a thread, as the sidecar does; the thread ends when it came."""

    def block() -> None:
        descriptor = os.open(path, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        os.close(descriptor)

    thread = threading.Thread(target=block, daemon=True)
    thread.start()
    return thread


def is_alive(pid: int) -> bool:
    process = read_process(pid)
    return process is not None and process.alive


def test_boot_is_announced_with_its_lock_held(launch: Launch, run_dir: Path) -> None:
    launcher = launch(fake("serve"))
    started = launcher.wait_event("boot-started")
    assert started["number"] == 1
    assert len(started["boot"]) == 12
    assert started["lock"] == f"boot-{started['boot']}.lock"
    assert started["argv"][-1] == "serve"
    assert launcher.events()[0]["event"] == "launcher-started"
    with (run_dir / started["lock"]).open() as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    for path in run_dir.iterdir():
        assert path.stat().st_mode & 0o777 == 0o644


def test_death_of_the_main_process_frees_the_lock_at_once(launch: Launch, run_dir: Path) -> None:
    launcher = launch(fake("serve"))
    launcher.wait_ready()
    first = launcher.mark_warm()
    thread = wait_for_lock(run_dir / f"boot-{first}.lock")
    os.kill(launcher.engine_pid(), signal.SIGKILL)
    thread.join(10)
    assert not thread.is_alive()
    ended = launcher.wait_event("boot-ended")
    assert (ended["cause"], ended["exit_code"], ended["signal"]) == ("exited", None, 9)
    second = launcher.wait_event("boot-started", 2)
    assert second["number"] == 2
    assert second["boot"] != first
    launcher.wait_ready(2)
    assert [path.name for path in run_dir.glob("boot-*.lock")] == [second["lock"]]


def test_lock_is_free_before_the_end_is_written(launch: Launch, run_dir: Path) -> None:
    launcher = launch(fake("serve"))
    launcher.wait_ready()
    boot = launcher.mark_warm()
    with (run_dir / f"boot-{boot}.lock").open() as lock:
        os.kill(launcher.engine_pid(), signal.SIGKILL)
        launcher.wait_event("boot-ended")
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)


def test_death_of_a_worker_process_ends_the_boot(
    launch: Launch, run_dir: Path, tmp_path: Path
) -> None:
    pid_file = tmp_path / "worker"
    launcher = launch(fake("with_worker", "yes", pid_file))
    launcher.wait_ready()
    wait_for(pid_file.exists)
    boot = launcher.mark_warm()
    main = launcher.engine_pid()
    worker = int(pid_file.read_text())
    wait_for(lambda: holds_pidfd(launcher.process.pid, worker))
    thread = wait_for_lock(run_dir / f"boot-{boot}.lock")
    os.kill(worker, signal.SIGKILL)
    thread.join(10)
    assert not thread.is_alive()
    assert launcher.wait_event("boot-ended")["cause"] == "engine-process-died"
    launcher.wait_event("boot-started", 2)
    assert not is_alive(main)


def test_worker_that_dies_while_starting_leaves_the_main_process_its_last_word(
    launch: Launch, tmp_path: Path
) -> None:
    engine = fake("with_worker", "no", tmp_path / "worker", 1.5)
    times = {"policy.START_GRACE_SECONDS": 0.5}
    launcher = launch(engine, "--max-failed-boots=1", times=times)
    assert launcher.exit_code() == 1
    ended = launcher.events("boot-ended")[0]
    assert ended["cause"] == "engine-process-died"
    assert ended["ts"] - launcher.events("boot-started")[0]["ts"] >= 2


def test_exit_code_zero_is_a_death_and_failures_are_bounded(launch: Launch) -> None:
    launcher = launch(fake("exit_with", 0, "bye"), "--max-failed-boots=2")
    assert launcher.exit_code() == 1
    ended = launcher.events("boot-ended")
    assert [event["exit_code"] for event in ended] == [0, 0]
    assert ended[0]["last_lines"] == ["bye"]
    assert launcher.events()[-1]["event"] == "gave-up"
    first_end, second_start = ended[0]["ts"], launcher.events("boot-started")[1]["ts"]
    assert second_start - first_end >= 1


def test_engines_own_exit_code_is_passed_on(launch: Launch) -> None:
    launcher = launch(fake("exit_with", 7), "--max-failed-boots=1")
    assert launcher.exit_code() == 7


def test_a_warm_boot_resets_the_count_of_failures(launch: Launch) -> None:
    launcher = launch(fake("serve"), "--max-failed-boots=2")
    for number, warm in ((1, False), (2, True), (3, False)):
        launcher.wait_ready(number)
        if warm:
            launcher.mark_warm()
        os.kill(launcher.engine_pid(), signal.SIGKILL)
        launcher.wait_event("boot-ended", number)
    launcher.wait_event("boot-started", 4)
    assert launcher.events("gave-up") == []


def test_missing_engine_is_named(launch: Launch, tmp_path: Path) -> None:
    launcher = launch(["no-such-engine"], "--max-failed-boots=1")
    assert launcher.exit_code() == 1
    failure = launcher.events("failure")[0]
    assert failure["reason"] == "EngineNotFound"
    assert "no-such-engine is not in the engine image" in failure["line"]
    assert launcher.events("boot-ended")[0]["last_lines"] == [failure["line"]]
    assert "no-such-engine" in (tmp_path / "stderr").read_text()


def test_known_failure_becomes_an_event(launch: Launch) -> None:
    line = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    launcher = launch(fake("exit_with", 1, line, line), "--max-failed-boots=1")
    assert launcher.exit_code() == 1
    failures = launcher.events("failure")
    assert [(event["reason"], event["line"]) for event in failures] == [("OutOfMemory", line)]


def test_output_is_passed_on_unchanged(launch: Launch, tmp_path: Path) -> None:
    launcher = launch(fake("noise"))
    launcher.wait_ready()
    expected = b"\xff\xfe not utf-8 \x00\n" + b"x" * 1_000_000 + b"\n10%\r50%\r100%\n"
    wait_for(lambda: (tmp_path / "stdout").read_bytes().startswith(expected))
    wait_for(lambda: b"no newline at the end" in (tmp_path / "stderr").read_bytes())


def test_process_that_keeps_the_pipes_open_does_not_block(launch: Launch, tmp_path: Path) -> None:
    pid_file = tmp_path / "holder"
    launcher = launch(
        fake("holder", pid_file), "--max-failed-boots=1", times={"shutdown.LEFTOVERS_TERM": 0.3}
    )
    assert launcher.exit_code() == 5
    assert not is_alive(int(pid_file.read_text()))
    ended = launcher.events("boot-ended")[0]
    assert ended["last_lines"] == [f"left {pid_file.read_text()} behind"]


def test_orphans_are_collected(launch: Launch, tmp_path: Path) -> None:
    pid_file = tmp_path / "orphan"
    launcher = launch(fake("orphan", pid_file))
    launcher.wait_ready()
    wait_for(lambda: read_process(int(pid_file.read_text())) is None)


def test_environment_is_passed_on_untouched(launch: Launch, tmp_path: Path) -> None:
    launcher = launch(fake("environment"), "--max-failed-boots=1")
    launcher.exit_code()
    assert json.loads((tmp_path / "stdout").read_text()) == ENVIRONMENT


def test_engine_gets_the_default_action_of_sigpipe(launch: Launch, tmp_path: Path) -> None:
    launcher = launch(["grep", "SigIgn", "/proc/self/status"], "--max-failed-boots=1")
    launcher.exit_code()
    ignored = int((tmp_path / "stdout").read_text().split()[1], 16)
    assert not ignored & 1 << (signal.SIGPIPE - 1)


def test_engine_does_not_inherit_the_lock(launch: Launch, run_dir: Path) -> None:
    launcher = launch(fake("serve"))
    launcher.wait_ready()
    engine = launcher.engine_pid()
    held = [os.readlink(path) for path in Path(f"/proc/{engine}/fd").iterdir()]
    assert not [target for target in held if target.startswith(str(run_dir))]


def test_death_of_the_launcher_frees_the_lock(launch: Launch, run_dir: Path) -> None:
    launcher = launch(fake("serve"))
    launcher.wait_ready()
    lock = run_dir / launcher.events("boot-started")[0]["lock"]
    engine = launcher.engine_pid()
    thread = wait_for_lock(lock)
    launcher.process.kill()
    thread.join(10)
    assert not thread.is_alive()
    os.kill(engine, signal.SIGKILL)  # in a container the kernel does this when PID 1 ends


def test_waits_for_the_weights(launch: Launch, tmp_path: Path) -> None:
    receipt = tmp_path / "receipt"
    launcher = launch(fake("serve"), f"--wait-for={receipt}")
    launcher.wait_event("launcher-started")
    wait_for(lambda: "waiting for the weights" in (tmp_path / "stderr").read_text())
    assert launcher.events("boot-started") == []
    receipt.touch()
    launcher.wait_event("boot-started")
    names = [event["event"] for event in launcher.events()]
    assert names[:3] == ["launcher-started", "weights-ready", "boot-started"]


def test_waits_for_all_weights(launch: Launch, tmp_path: Path) -> None:
    receipts = [tmp_path / name for name in ("model", "draft")]
    receipts[0].touch()
    launcher = launch(fake("serve"), *(f"--wait-for={receipt}" for receipt in receipts))
    wait_for(lambda: f"waiting for the weights: {receipts[1]}" in (tmp_path / "stderr").read_text())
    assert launcher.events("boot-started") == []
    receipts[1].touch()
    launcher.wait_event("boot-started")
    assert len(launcher.events("weights-ready")) == 1


def test_next_boot_waits_for_weights_that_are_put_right(launch: Launch, tmp_path: Path) -> None:
    receipt = tmp_path / "receipt"
    receipt.touch()
    launcher = launch(fake("serve"), f"--wait-for={receipt}")
    launcher.wait_ready()
    launcher.mark_warm()
    receipt.unlink()
    os.kill(launcher.engine_pid(), signal.SIGKILL)
    wait_for(lambda: "waiting for the weights" in (tmp_path / "stderr").read_text())
    assert len(launcher.events("boot-started")) == 1
    receipt.touch()
    launcher.wait_event("boot-started", 2)


def test_waits_for_all_weights_and_keeps_them_from_being_removed(
    launch: Launch, tmp_path: Path
) -> None:
    receipts = [tmp_path / name / "receipt" for name in ("llama", "draft")]
    for receipt in receipts:
        receipt.parent.mkdir()
    receipts[0].touch()
    lock = receipts[1].parent / USERS_LOCK
    launcher = launch(fake("serve"), *(f"--wait-for={receipt}" for receipt in receipts))
    wait_for(lambda: f"weights: {receipts[1]}\n" in (tmp_path / "stderr").read_text())
    assert [is_held(receipt.parent) for receipt in receipts] == [True, True]
    # The agent comes after the engine, as it does on a new node.
    lock.touch()
    receipts[1].touch()
    launcher.wait_ready()
    assert is_held(lock)
    # A receipt that is replaced when a file was repaired changes nothing.
    receipts[0].unlink()
    receipts[0].touch()
    assert [is_held(receipt.parent) for receipt in receipts] == [True, True]
    launcher.process.terminate()
    assert launcher.exit_code() == 0
    assert [is_held(receipt.parent) for receipt in receipts] == [False, False]
    assert not is_held(lock)


def is_held(path: Path) -> bool:
    """As an agent sees it that wants to remove the copy."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def test_ends_when_the_directory_of_the_weights_is_removed_before_they_come(
    launch: Launch, tmp_path: Path
) -> None:
    """Nobody could fill it any more; the next container finds the next directory."""
    (tmp_path / "weights").mkdir()
    launcher = launch(fake("serve"), f"--wait-for={tmp_path}/weights/receipt")
    wait_for(lambda: is_held(tmp_path / "weights"))
    (tmp_path / "weights").rmdir()
    assert launcher.exit_code() == 1
    assert launcher.events("boot-started") == []


def test_run_dir_that_takes_no_bytes_does_not_stop_the_engine(
    launch: Launch, run_dir: Path, tmp_path: Path
) -> None:
    limited = (
        "import os, resource, sys;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0));"
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    command = [sys.executable, "-c", limited, *LAUNCHER[1:], "run", f"--run-dir={run_dir}"]
    process = subprocess.Popen(
        [*command, "--drain-seconds=0", "--", *fake("serve")],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "Application startup complete" in process.stdout.readline()
    process.terminate()
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert errors.count("events are lost") == 1


def test_missing_run_dir_is_a_usage_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [*LAUNCHER, "run", f"--run-dir={tmp_path}/none", "--", "true"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "is not a writable directory: mount the pod's shared emptyDir" in done.stderr


def test_missing_command_is_a_usage_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [*LAUNCHER, "run", f"--run-dir={tmp_path}"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "no engine command: give it after --" in done.stderr

"""The launcher told to stop: drain, second signals, and the hook before it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from launcher_process import ENVIRONMENT, LAUNCHER, Launcher, fake

from support.waiting import wait_for

Launch = Callable[..., Launcher]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def running(tmp_path: Path) -> Path:
    """The number of requests that the fake engine says are running."""
    path = tmp_path / "running"
    path.write_text("2.0")
    return path


def drains(launcher: Launcher, tmp_path: Path) -> None:
    """Wait until the launcher has read the metrics while it drains."""
    launcher.wait_event("draining")
    wait_for(lambda: "GET /metrics" in (tmp_path / "stdout").read_text())


def test_waits_for_running_requests(launch: Launch, tmp_path: Path, running: Path) -> None:
    port = free_port()
    launcher = launch(fake("metrics", port, running), f"--port={port}", "--drain-seconds=60")
    launcher.wait_ready()
    launcher.process.terminate()
    drains(launcher, tmp_path)
    assert launcher.events("boot-ended") == []
    running.write_text("0.0")
    assert launcher.exit_code() == 0
    ended = launcher.events("boot-ended")[0]
    assert (ended["cause"], ended["exit_code"]) == ("stopping", 0)


def test_drains_an_engine_with_tls(launch: Launch, tmp_path: Path, running: Path) -> None:
    certificate = tmp_path / "both.pem"
    key = tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-subj", "/CN=elsewhere", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    certificate.write_text(certificate.read_text() + key.read_text())
    port = free_port()
    engine = fake("metrics", port, running, certificate)
    launcher = launch(engine, f"--port={port}", "--scheme=https")
    launcher.wait_ready()
    launcher.process.terminate()
    drains(launcher, tmp_path)
    running.write_text("0.0")
    assert launcher.exit_code() == 0


def test_drain_is_bounded(launch: Launch, running: Path) -> None:
    port = free_port()
    launcher = launch(fake("metrics", port, running), f"--port={port}", "--drain-seconds=0.5")
    launcher.wait_ready()
    launcher.process.terminate()
    assert launcher.exit_code() == 0


def test_second_signal_skips_the_drain(launch: Launch, tmp_path: Path, running: Path) -> None:
    port = free_port()
    launcher = launch(fake("metrics", port, running), f"--port={port}", "--drain-seconds=600")
    launcher.wait_ready()
    launcher.process.send_signal(signal.SIGINT)
    drains(launcher, tmp_path)
    launcher.process.terminate()
    assert launcher.exit_code() == 0


def test_engine_without_metrics_is_stopped_soon(launch: Launch) -> None:
    launcher = launch(fake("serve"), f"--port={free_port()}", "--drain-seconds=600")
    launcher.wait_ready()
    launcher.process.terminate()
    assert launcher.exit_code() == 0
    assert launcher.events("boot-ended")[0]["exit_code"] == 0


def test_engine_that_ignores_the_first_signal_gets_a_second(launch: Launch) -> None:
    launcher = launch(
        fake("stubborn"),
        f"--port={free_port()}",
        "--drain-seconds=0",
        times={"shutdown.FIRST_TERM": 0.3},
    )
    launcher.wait_ready()
    launcher.process.terminate()
    assert launcher.exit_code() == 0
    assert launcher.events("boot-ended")[0]["exit_code"] == 3


def test_engine_that_still_starts_is_killed_at_once(launch: Launch) -> None:
    launcher = launch(fake("load"), f"--port={free_port()}")
    launcher.wait_event("stage")
    launcher.process.terminate()
    assert launcher.exit_code() == 0
    assert launcher.events("draining") == []
    ended = launcher.events("boot-ended")[0]
    assert (ended["cause"], ended["signal"]) == ("stopping", 9)


def test_stop_while_waiting_for_the_weights(launch: Launch, tmp_path: Path) -> None:
    launcher = launch(fake("serve"), f"--wait-for={tmp_path}/never")
    launcher.wait_event("launcher-started")
    launcher.process.terminate()
    assert launcher.exit_code() == 0


def test_stop_between_two_boots(launch: Launch) -> None:
    launcher = launch(fake("exit_with", 1), "--max-failed-boots=9")
    launcher.wait_event("boot-ended", 2)
    launcher.process.terminate()
    assert launcher.exit_code() == 0


def test_other_signals_reach_the_engine(launch: Launch) -> None:
    launcher = launch(fake("serve"))
    launcher.wait_ready()
    launcher.process.send_signal(signal.SIGUSR1)  # the fake engine dies of it
    assert launcher.wait_event("boot-ended")["signal"] == signal.SIGUSR1


def start_hook(run_dir: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*LAUNCHER, "pre-stop", f"--run-dir={run_dir}"], env=ENVIRONMENT)


def test_hook_waits_for_the_closed_gate(run_dir: Path) -> None:
    stale = run_dir / "gate-closed"
    stale.write_text("1.0")
    os.utime(stale, (1, 1))
    hook = start_hook(run_dir)
    wait_for((run_dir / "stopping").exists)
    with pytest.raises(subprocess.TimeoutExpired):
        hook.wait(0.3)
    stale.write_text("2.0")
    closed_at = time.monotonic()
    assert hook.wait(20) == 0
    assert time.monotonic() - closed_at > 1.4


def test_hook_without_a_run_dir_succeeds(tmp_path: Path) -> None:
    assert start_hook(tmp_path / "none").wait(20) == 0


def test_launcher_removes_the_mark_of_the_last_stop(launch: Launch, run_dir: Path) -> None:
    (run_dir / "stopping").touch()
    launcher = launch(fake("serve"))
    launcher.wait_event("boot-started")
    assert not (run_dir / "stopping").exists()

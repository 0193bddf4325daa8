"""The boot with other settings, which comes first."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from launcher_process import Launcher, fake

from warmpod.launcher.invocation.reference import expanded, reference_command
from warmpod.launcher.main import main

Launch = Callable[..., Launcher]
SOON = {"mainloop.STEP_SECONDS": 0.05}


def reference(*words: object, **variables: str) -> list[str]:
    return [
        f"--reference-argv={json.dumps(fake(*words))}",
        f"--reference-env={json.dumps(variables)}",
    ]


@pytest.mark.parametrize(
    ("word", "result"),
    [
        ("--api-key=$(KEY)", "--api-key=s3"),
        ("$(KEY)$(KEY)", "s3s3"),
        ("$(NONE)", "$(NONE)"),
        ("$$(KEY)", "$(KEY)"),
        ("a$b $", "a$b $"),
        ("$(KEY", "$(KEY"),
    ],
)
def test_arguments_are_expanded_as_the_kubelet_does(word: str, result: str) -> None:
    assert expanded(word, {"KEY": "s3"}) == result


def test_its_variables_are_over_those_of_the_container() -> None:
    command = reference_command(["x", "$(A)$(B)"], {"A": "$(B)"}, {"A": "0", "B": "1"})
    assert command.environment == {"A": "$(B)", "B": "1"}
    assert command.argv == ["x", "$(B)1"]
    assert command.reference


def test_it_comes_first_and_is_ended_on_request(launch: Launch, tmp_path: Path) -> None:
    launcher = launch(
        fake("environment"), "--max-failed-boots=1", *reference("serve", X="y"), times=SOON
    )
    launcher.wait_ready()
    started = launcher.events("boot-started")[0]
    assert (started["reference"], started["number"]) == (True, 0)
    assert started["argv"] == fake("serve")
    engine = Path(f"/proc/{launcher.engine_pid()}/environ").read_bytes()
    assert b"X=y" in engine.split(b"\0")
    launcher.ask_to_end(started["boot"])
    assert launcher.wait_event("boot-ended")["cause"] == "reference-done"
    real = launcher.wait_event("boot-started", 2)
    assert "reference" not in real
    assert (real["number"], real["argv"]) == (1, fake("environment"))
    assert launcher.exit_code() == 1
    lines = (tmp_path / "stdout").read_text().splitlines()
    assert "X" not in json.loads(lines[-1])


def test_its_own_death_does_not_count(launch: Launch) -> None:
    launcher = launch(fake("serve"), "--max-failed-boots=1", *reference("exit_with", 3))
    launcher.wait_ready()
    ended = launcher.events("boot-ended")
    assert [(event["cause"], event["exit_code"]) for event in ended] == [("exited", 3)]
    assert ["reference" in event for event in launcher.events("boot-started")] == [True, False]


def test_a_reference_that_cannot_start_does_not_count(launch: Launch) -> None:
    argv = json.dumps(["no-such-engine"])
    launcher = launch(fake("serve"), "--max-failed-boots=1", f"--reference-argv={argv}")
    launcher.wait_ready()
    assert launcher.events("failure")[0]["reason"] == "EngineNotFound"


def test_there_is_none_when_its_answers_are_there(launch: Launch, run_dir: Path) -> None:
    (run_dir / "reference.json").touch()
    launcher = launch(fake("serve"), *reference("load"))
    launcher.wait_ready()
    assert ["reference" in event for event in launcher.events("boot-started")] == [False]


def test_a_stop_ends_it_and_nothing_follows(launch: Launch) -> None:
    launcher = launch(fake("serve"), *reference("load"))
    launcher.wait_event("stage")
    launcher.process.terminate()
    assert launcher.exit_code() == 0
    assert [event["cause"] for event in launcher.events("boot-ended")] == ["stopping"]
    assert len(launcher.events("boot-started")) == 1


@pytest.mark.parametrize(
    "option",
    [
        "--reference-argv=[",
        "--reference-argv=[]",
        "--reference-argv=[1]",
        '--reference-argv={"a": "b"}',
        "--reference-env=[]",
        '--reference-env={"a": 1}',
    ],
)
def test_what_is_no_command_is_a_usage_error(
    option: str, run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", f"--run-dir={run_dir}", option, "--", "true"])
    assert ended.value.code == 2
    assert option.partition("=")[0] in capsys.readouterr().err
    assert os.listdir(run_dir) == []

"""The decisions of the programs in hack/."""

from pathlib import Path

import pytest

import demo
import install
import run_tests
from devtools import kube


def test_the_overlay_sets_the_image_also_for_the_pods_that_the_operator_makes(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("REGISTRY", "registry.example.com/warmpod")
    overlay = install.overlay_document("../manifests/install", "dev-0123456789ab")
    assert overlay["images"] == [
        {
            "name": "127.0.0.1:5000/warmpod/operator",
            "newName": "registry.example.com/warmpod/operator",
            "newTag": "dev-0123456789ab",
        }
    ]
    (target,) = overlay["replacements"][0]["targets"]
    assert target["fieldPaths"][0].endswith("[name=WARMPOD_OPERATOR_IMAGE].value")


def test_the_sample_names_the_registry_in_use(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REGISTRY", "registry.example.com/warmpod")
    text = kube.with_registry(demo.SAMPLE.read_text())
    assert "127.0.0.1:5000" not in text
    assert "image: registry.example.com/warmpod/engine-cpu:dev" in text


@pytest.mark.parametrize(
    ("status", "observed", "ready"),
    [("True", 2, True), ("True", 1, False), ("False", 2, False)],
)
def test_ready_counts_for_the_current_generation_only(status: str, observed: int, ready: bool):
    condition = {"type": "Ready", "status": status, "observedGeneration": observed}
    model = {"metadata": {"generation": 2}, "status": {"conditions": [condition]}}
    assert demo.is_true("Ready", model) is ready


def test_a_model_without_status_is_not_ready():
    assert not demo.is_true("Ready", {"metadata": {"generation": 1}})


def test_the_demo_waits_for_as_long_as_there_is_progress():
    model = {"metadata": {"generation": 1}}
    assert demo.why_give_up(model, quiet_s=60) is None
    gives_up = demo.why_give_up(model, quiet_s=demo.QUIET_S + 1)
    assert gives_up is not None
    assert "nothing has changed" in gives_up


def test_the_demo_gives_up_when_a_person_is_needed():
    stalled = {"type": "Stalled", "status": "True", "observedGeneration": 1}
    model = {"metadata": {"generation": 1}, "status": {"conditions": [stalled]}}
    gives_up = demo.why_give_up(model, quiet_s=0)
    assert gives_up is not None
    assert "without help" in gives_up
    model["metadata"]["generation"] = 2
    assert demo.why_give_up(model, quiet_s=0) is None


def test_states_are_told_from_the_model_and_its_pods():
    model = {
        "metadata": {"generation": 1},
        "status": {
            "conditions": [
                {"type": "Ready", "status": "False", "reason": "Warming", "message": "1 of 1"},
                {"type": "Reconciling", "status": "True", "reason": "Warming", "message": ""},
            ]
        },
    }
    pod = {
        "metadata": {"name": "tiny-1"},
        "status": {
            "conditions": [
                {"type": "warmpod.io/Warm", "status": "False", "reason": "EngineStarting"},
                {"type": "Ready", "status": "False"},
            ]
        },
    }
    assert demo.current_states(model, [pod]) == {
        "tiny: Ready is False (Warming)": "1 of 1",
        "pod tiny-1: Warm is False (EngineStarting)": "",
    }


REPORT = '<testsuites><testsuite tests="5" failures="1" errors="1" skipped="1"/></testsuites>'


def test_results_are_counted_from_the_report(tmp_path: Path):
    (tmp_path / "report.xml").write_text(REPORT)
    result = run_tests.counted("unit", 1.5, tmp_path / "report.xml", ended_well=True)
    assert (result.passed, result.failed, result.skipped) == (2, 2, 1)


def test_a_run_that_broke_off_is_a_failure(tmp_path: Path):
    missing = run_tests.counted("unit", 1.5, tmp_path / "report.xml", ended_well=False)
    assert (missing.passed, missing.failed) == (0, 1)
    (tmp_path / "report.xml").write_text(REPORT)
    broken = run_tests.counted("unit", 1.5, tmp_path / "report.xml", ended_well=False)
    assert broken.failed == 3


def test_the_table_has_a_line_for_each_layer():
    lines = run_tests.table([run_tests.Result("unit", 12.34, 5, 0, 1)]).splitlines()
    assert lines[-1].split() == ["unit", "12.3", "5", "0", "1"]

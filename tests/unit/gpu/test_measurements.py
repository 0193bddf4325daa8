"""What the measurements read, keep and show, without a cluster."""

from __future__ import annotations

import importlib
import inspect
import json
import tarfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from gpu import kinds, machine, report, sleeping, table, weights
from gpu.readings import GpuMemory, of_log, of_timeline
from gpu.results import Results
from gpu.setting import LEAN_ARGUMENTS, Setting
from gpu.weights import Content, Form, Shape
from warmpod.api import WarmModel

JsonObject = dict[str, Any]


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    (tmp_path / "model.safetensors").write_bytes(b"123")
    return Setting(tmp_path)


class Clock:
    """Each repeat takes as long as it is told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_warm_model_of_each_measurement_is_valid(setting: Setting):
    bodies = [
        setting.warm_model(),
        setting.warm_model(forked=True),
        setting.warm_model(forked=True, lean=True),
        setting.sleeper(2),
        kinds.fp8_model(setting),
        kinds.lora_model(setting),
        kinds.two_gpus_model(setting),
    ]
    for body in bodies:
        body["metadata"] |= {"uid": "1", "generation": 1}
        assert WarmModel.parse(json.loads(json.dumps(body))).spec.weights.size == 3


def test_all_starts_have_the_same_settings(setting: Setting):
    (deployment, _) = setting.plain_objects()
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    engine = setting.warm_model()["spec"]["engine"]
    assert container["args"] == engine["args"]
    assert container["env"][: len(engine["env"])] == engine["env"]
    lean = setting.warm_model(lean=True)["spec"]["engine"]
    assert lean["args"] == [*engine["args"], *LEAN_ARGUMENTS]


@pytest.mark.parametrize(
    ("budget", "seconds", "done"),
    [
        (100, [10, 10, 10, 10, 10], 5),
        (100, [40, 30, 30, 30, 30], 2),  # a third one could take 40 s
        (100, [300, 10, 10, 10, 10], 1),
        (0, [1, 1, 1, 1, 1], 1),
    ],
)
def test_repeats_end_where_there_is_no_time_for_another(
    budget: float, seconds: list[float], done: int
):
    clock = Clock()
    records: list[JsonObject] = []
    results = Results("step", budget, clock, lambda _, record: records.append(record))
    for number in results.repeats():
        clock.now += seconds[number]
        results.add("starts", number)
        assert records[-1]["result"]["starts"] == list(range(number + 1))  # at once
    assert results.found["starts"] == list(range(done))
    assert ("left_out" in results.found) == (done < 5)


def test_the_report_does_without_logs_that_are_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """Pods take theirs with them, also while they are read."""
    logs = tmp_path / "logs"
    (logs / "pods").mkdir(parents=True)
    (logs / "pods" / "0.log").write_text("said")
    monkeypatch.setattr(machine, "STEPS", tmp_path / "steps")
    monkeypatch.setattr(machine, "CLUSTER_LOGS", logs)
    there = Path.rglob
    monkeypatch.setattr(Path, "rglob", lambda self, any: [self / "gone", *there(self, any)])
    report.save((), tmp_path / "out")
    with tarfile.open(tmp_path / "out" / report.LOGS) as tar:
        assert "logs/pods/0.log" in tar.getnames()


LOG = """\
2026-11-30T16:04:42.803443530Z (APIServer pid=7) INFO  ▄▄ ▄█ █  █ ▀▄▀ █  version 0.26.0
2026-11-30T16:05:02.213771150Z (APIServer pid=7) INFO [model.py:1788] Using max model len 8192
2026-11-30T16:05:23.445913616Z (EngineCore pid=118) Loading safetensors shards: 100%|██| 1/1
2026-11-30T16:05:23.802087794Z (EngineCore pid=118) INFO Loading weights took 0.36 seconds
2026-11-30T16:05:40.791861078Z Directly load AOT compilation from path /x
2026-11-30T16:06:03.795798462Z (APIServer pid=7) INFO:     Application startup complete.
2026-11-30T16:06:04.000000000Z (APIServer pid=7) INFO:     Application startup complete.
"""
BEGAN = 1796054672.8  # ten seconds before the first line


def test_a_plain_engine_tells_its_phases_by_its_log():
    start = of_log(LOG.splitlines(), BEGAN)
    assert start["to_answer_s"] == pytest.approx(91.0, abs=0.01)
    assert start["compile"] == "hit"
    seconds = {phase["phase"]: phase["seconds"] for phase in start["phases"]}
    assert seconds["import"] == pytest.approx(10.0, abs=0.01)
    assert sum(seconds.values()) == pytest.approx(91.0, abs=0.1)


def test_a_plain_engine_that_compiles_has_missed():
    miss = LOG.replace(
        "Directly load AOT compilation from path /x", "torch.compile took 9.5 s in total"
    )
    assert of_log(miss.splitlines(), BEGAN)["compile"] == "miss"


@pytest.mark.parametrize(("cause", "seconds"), [("pod-start", 30.0), ("engine-died", 20.0)])
def test_a_start_begins_with_the_container_or_with_the_boot(cause: str, seconds: float):
    timeline = {
        "boot": "b", "cause": cause, "launcher": 1000.0, "boot_started": 1010.0,
        "stages": {"version": 1015.0, "ready": 1029.0}, "http": 1030.0, "gate": 1040.0,
        "compile": "hit", "start": {"how": "forked"},
    }  # fmt: skip
    memory = GpuMemory(samples=[(1000.0, 10), (1029.8, 50), (1039.0, 60)])
    start = of_timeline(timeline, memory)
    assert start["to_answer_s"] == seconds
    assert start["to_warm_s"] == seconds + 10
    assert start["gpu_memory_mib"] == {"before_warm_up": 50, "warm": 60}
    assert start["engine"] == {"how": "forked"}
    assert start["timeline"] == timeline
    json.dumps(start)


def test_the_engine_says_how_long_it_took_to_sleep_and_to_wake():
    found = sleeping.times_of(
        [
            "2026 INFO [abstract.py:1] It took 8.123456 seconds to fall asleep.",
            "2026 INFO [abstract.py:1] It took 0.301000 seconds to wake up tags ['weights'].",
            "2026 INFO [abstract.py:1] It took 0.350000 seconds to fall asleep.",
            "2026 It took long",
        ]
    )
    assert found == {"fall asleep": [8.123456, 0.35], "wake up tags ['weights']": [0.301]}


class FakeEngine:
    """Notes what it is told; its sleep lasts until `asleep` is set."""

    def __init__(self, told: list[str], asleep: threading.Event) -> None:
        self._told = told
        self._asleep = asleep

    def sleep(self) -> None:
        self._told.append("sleep")
        assert self._asleep.wait(20)
        self._told.append("asleep")

    def wake(self, tags: str = "") -> None:
        self._told.append(f"wake {tags}".strip())
        if tags == "weights":
            self._asleep.set()

    def first_token(self) -> float:
        self._told.append("token")
        return time.monotonic()


def test_weights_come_while_those_of_the_other_go():
    told: list[str] = []
    asleep = threading.Event()
    engines = (FakeEngine(told, asleep), FakeEngine(told, asleep))
    found = sleeping.WAYS["weights_beside"](*engines)
    assert sorted(told[:3]) == ["asleep", "sleep", "wake weights"]
    assert told[3:] == ["wake kv_cache", "token"]
    assert 0 <= found["weights_s"] <= found["woken_s"] <= found["first_token_s"]
    assert found["slept_s"] <= found["woken_s"]


def test_one_sleeps_before_the_other_wakes_up():
    told: list[str] = []
    asleep = threading.Event()
    asleep.set()
    found = sleeping.WAYS["one_after_the_other"](FakeEngine(told, asleep), FakeEngine(told, asleep))
    assert told == ["sleep", "asleep", "wake", "token"]
    assert found["slept_s"] <= found["woken_s"] <= found["first_token_s"]


def test_every_measurement_names_a_function():
    from gpu import steps

    source = inspect.getsource(steps)
    places = [line.split('"')[3] for line in source.splitlines() if "    _measured(" in line]
    assert len(places) == len(steps.MEASUREMENTS) + len(steps.KINDS)
    for place in places:
        module, _, function = place.partition(":")
        measure = getattr(importlib.import_module(f"gpu.{module}"), function)
        assert list(inspect.signature(measure).parameters) == ["api", "setting", "results"]


def test_what_a_pass_has_no_time_for_is_measured_by_name():
    from gpu import steps

    names = [step.name for step in steps.wanted("awq warm-first")]
    assert names[-2:] == ["awq", "warm-first"]
    assert "awq" not in [step.name for step in steps.wanted("")]


SHAPE = Shape(1024, 2048, 2, 16, 8, 500, tied=False)


@pytest.mark.parametrize(
    ("form", "packed", "bits"),
    [
        (Form.BF16, {"weight": (1024, 2048)}, 16),
        (
            Form.GPTQ,
            {"qweight": (256, 1024), "qzeros": (16, 128), "scales": (16, 1024), "g_idx": (2048,)},
            4,
        ),
        (Form.AWQ, {"qweight": (2048, 128), "qzeros": (16, 128), "scales": (16, 1024)}, 4),
    ],
)
def test_a_matrix_is_packed_as_its_form_asks(
    form: Form, packed: dict[str, tuple[int, ...]], bits: int
):
    """The one from 2048 inputs to 1024 outputs."""
    prefix = "model.layers.1.mlp.down_proj."
    found = [each for each in weights.tensors(SHAPE, form) if each.name.startswith(prefix)]
    assert {each.name.removeprefix(prefix): each.dimensions for each in found} == packed
    numbers = [each for each in found if each.content in (Content.RANDOM, Content.WORDS)]
    assert [each.size for each in numbers] == [2048 * 1024 * bits // 8]
    said = weights.config(SHAPE, form).get("quantization_config", {"bits": 16})
    assert said["bits"] == bits


def test_an_adapter_fits_the_model():
    tensors = {each.name: each.dimensions for each in weights.adapter_tensors(SHAPE)}
    prefix = "base_model.model.model.layers.1.self_attn.v_proj."
    assert tensors[f"{prefix}lora_A.weight"] == (weights.RANK, 1024)
    assert tensors[f"{prefix}lora_B.weight"] == (512, weights.RANK)
    assert len(tensors) == 2 * 2 * 2


def start(answer: float, *phases: tuple[str, float]) -> JsonObject:
    return {
        "to_answer_s": answer,
        "to_traffic_s": answer + 10,
        "compile": "hit",
        "phases": [{"phase": name, "seconds": s, "silent": False} for name, s in phases],
        "gpu_memory_mib": {"before_warm_up": 100, "warm": 120},
    }


def test_tables_show_medians_and_each_repeat():
    switch = {"slept_s": 0.35, "woken_s": 0.8, "first_token_s": 0.85}
    wake = {"label_s": 0.01, "endpoint_s": 0.9, "answer_s": 1.0, "asleep_again_s": 4.0}
    records = {
        "machine": {"state": "done", "result": {"gpu": "a GPU"}},
        "warm-second": {
            "state": "failed",  # what it had found counts
            "result": {
                "starts": [
                    start(10, ("import", 4), ("compile", 1), ("import", 1)),
                    start(12, ("import", 6)) | {"compile": "miss", "compile_why": "another driver"},
                    start(20, ("import", 7)) | {"engine": {"how": "forked"}},
                ],
                "features": {"chat": {"first": 0.05, "steady": 0.04}},
            },
        },
        "plain": {"state": "running"},
        "awq": {
            "result": {
                "starts": [start(70) | {"compile": "miss"}],
                "boots": [start(9) | {"engine": {"how": "forked"}}, start(8)],
            }
        },
        "sleep": {"result": {"wakes": [wake | {"asleep_mib": 2, "awake_mib": 60}]}},
        "switch": {"result": {"one_after_the_other": [switch], "weights_beside": [switch]}},
        "cycles": {"result": {"cycles": [{"awake_mib": 60, "asleep_mib": 2}] * 20}},
    }
    text = table.markdown(records)
    kinds = "2 hit, 1 miss: another driver | 2 plain, 1 forked"
    assert f"| 12.0 | 10.0, 12.0, 20.0 | 22.0 | {kinds} | 100 → 120 |" in text
    assert "| import vLLM | 6.0 |" in text
    assert "| compile | 0.0 |" in text
    assert "| chat | 50 | 40 | 1.25 |" in text
    assert "| AWQ, 4 bits | 70.0 | miss | 9.0, 8.0 | hit | 1 forked, 1 plain |" in text
    assert "| first token through the Service | 1.00 | 1.00 |" in text
    assert "| one after the other | 0.35 | 0.80 | 0.85 | 0.85 |" in text
    assert "| asleep | 2 | 2 | 0 |" in text
    assert "plain Deployment" not in text
    for block in text.split("\n\n"):
        assert len({line.count("|") for line in block.splitlines()}) == 1


def test_nothing_measured_is_no_table():
    assert table.markdown({"machine": {"state": "done", "result": {}}}) == ""

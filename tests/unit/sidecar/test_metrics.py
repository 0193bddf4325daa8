"""The sidecar's metrics, as they are scraped."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from warmpod.sidecar.answers import Answer
from warmpod.sidecar.engine import EngineError, Reply
from warmpod.sidecar.lifecycle import Evidence, Verdict
from warmpod.sidecar.metrics import MOST_BUCKETS, Metrics
from warmpod.sidecar.planning import Bucket, Plan
from warmpod.sidecar.record import Record


@dataclass(frozen=True)
class Figures:
    first: float
    steady: float
    fastest: float = 0.01


@pytest.fixture
def metrics() -> Metrics:
    return Metrics("llama")


def samples(
    metrics: Metrics, name: str, record: Record | None = None
) -> dict[tuple[str, ...], float]:
    """By the values of the labels other than the model's name, in the order of their names."""
    found = {}
    for family in text_string_to_metric_families(metrics.render(record or Record(), 0).decode()):
        for sample in family.samples:
            if sample.name == name:
                assert sample.labels.pop("model_name") == "llama"
                found[tuple(value for _, value in sorted(sample.labels.items()))] = sample.value
    return found


@pytest.mark.parametrize(
    ("gpus", "label"),
    [
        (["GPU-1", "GPU-2"], "GPU-1,GPU-2"),
        ([0], "0"),
        ([], "none"),
        (None, "none"),
        ("all", "none"),
    ],
)
def test_status_names_the_gpus(metrics: Metrics, gpus: Any, label: str) -> None:
    assert samples(metrics, "warmpod_warmup_status") == {("none",): 0}
    metrics.launcher_started(gpus)
    metrics.gate_changed(Verdict(True, "Warm", ""))
    assert samples(metrics, "warmpod_warmup_status") == {(label,): 1}
    metrics.gate_changed(Verdict(False, "EngineDied", ""))
    assert samples(metrics, "warmpod_warmup_status") == {(label,): 0}
    assert samples(metrics, "warmpod_gate_changes_total") == {
        ("Warm", "open"): 1,
        ("EngineDied", "closed"): 1,
    }


def reply(first_token: float) -> Reply:
    return Reply(first_token, first_token * 2, Answer(True, 16, 4))


def test_requests_can_be_subtracted_from_the_engines_own_numbers(metrics: Metrics) -> None:
    with metrics.request(False) as answered:
        assert samples(metrics, "warmpod_warmup_requests_running") == {(): 1}
        answered(reply(0.3))
    with metrics.request(True) as answered:
        answered(reply(0.01))
    with pytest.raises(EngineError), metrics.request(False):
        raise EngineError("no")
    assert samples(metrics, "warmpod_warmup_requests_running") == {(): 0}
    assert samples(metrics, "warmpod_warmup_requests_total") == {("answered",): 2, ("failed",): 1}
    assert samples(metrics, "warmpod_warmup_tokens_total") == {("prompt",): 32, ("generation",): 8}


def test_first_token_latency_has_the_warm_up_requests_only(metrics: Metrics) -> None:
    for seconds in (0.05, 0.3, 7.0):
        with metrics.request(False) as answered:
            answered(reply(seconds))
    with metrics.request(True) as answered:
        answered(reply(0.01))
    assert samples(metrics, "warmpod_first_token_latency_seconds_bucket") == {
        ("0.1",): 1,
        ("0.5",): 2,
        ("1.0",): 2,
        ("2.0",): 2,
        ("5.0",): 2,
        ("10.0",): 3,
        ("+Inf",): 3,
    }


def test_an_answer_without_counts_is_an_answer(metrics: Metrics) -> None:
    with metrics.request(False) as answered:
        answered(Reply(0.1, 0.1, Answer(True, None)))
    assert samples(metrics, "warmpod_warmup_requests_total") == {("answered",): 1}


def test_figures_of_a_boot_end_with_it(metrics: Metrics) -> None:
    metrics.new_boot()
    metrics.warmed(Evidence(3, 0.8, 0.02), {"chat": Figures(0.8, 0.02)})
    metrics.started(json.dumps({"boot_started": 10.0, "http": 30.0, "gate": 35.0}))
    metrics.prefix_cache(30, 40)
    assert samples(metrics, "warmpod_warmup_bucket_seconds") == {
        ("chat", "first"): 0.8,
        ("chat", "steady"): 0.02,
    }
    assert samples(metrics, "warmpod_warmup_first_token_seconds") == {
        ("first",): 0.8,
        ("steady",): 0.02,
    }
    assert samples(metrics, "warmpod_boot_phase_seconds") == {("start-http",): 20, ("rounds",): 5}
    assert samples(metrics, "warmpod_cache_hit_rate") == {("prefix",): 0.75}
    metrics.new_boot()
    for name in ("bucket_seconds", "first_token_seconds"):
        assert samples(metrics, f"warmpod_warmup_{name}") == {}
    assert samples(metrics, "warmpod_boot_phase_seconds") == {}
    assert samples(metrics, "warmpod_cache_hit_rate") == {}


def test_the_number_of_buckets_is_bounded_and_the_most_used_stay(metrics: Metrics) -> None:
    figures = {f"b{n}": Figures(1.0, 0.1) for n in range(3 * MOST_BUCKETS)}
    metrics.warmed(Evidence(3, 0.8, 0.02), figures)
    names = {name for name, _ in samples(metrics, "warmpod_warmup_bucket_seconds")}
    assert names == {f"b{n}" for n in range(MOST_BUCKETS)}


def test_an_engine_without_a_query_has_no_hit_rate(metrics: Metrics) -> None:
    metrics.prefix_cache(0, 0)
    assert samples(metrics, "warmpod_cache_hit_rate") == {}


def test_a_time_line_that_cannot_be_read_has_no_phases(metrics: Metrics) -> None:
    metrics.started("{")
    assert samples(metrics, "warmpod_boot_phase_seconds") == {}


def test_numbers_of_the_warm_up_are_those_of_its_record(metrics: Metrics) -> None:
    bucket = Bucket("chat/stream", "chat", True, ())
    record = Record(plan=Plan((bucket, bucket)), played=7, canary_failures=1)
    assert samples(metrics, "warmpod_warmup_buckets", record) == {(): 2}
    assert samples(metrics, "warmpod_warmup_rounds", record) == {(): 7}
    assert samples(metrics, "warmpod_canary_failures", record) == {(): 1}

"""The grid, the temporary WarmModels, and which of them is chosen."""

from __future__ import annotations

import copy

import pytest

from unit.cli.tune.scene import FAST, POINTS, SLOW, model
from warmpod.cli.tune.points import Point, Result, TuneError, best, grid, temporary
from warmpod.load.summary import Summary


@pytest.mark.parametrize(
    ("tokens", "seqs", "expected"),
    [
        ([8192, 2048], [64], [(2048, 64), (8192, 64)]),
        ([64, 64], [64, 32], [(64, 32), (64, 64)]),
        # vLLM refuses a budget that is smaller than the number of sequences.
        ([128, 512], [64, 256], [(128, 64), (512, 64), (512, 256)]),
    ],
)
def test_all_pairs_that_vllm_takes(
    tokens: list[int], seqs: list[int], expected: list[tuple[int, int]]
) -> None:
    found = [(point.max_num_batched_tokens, point.max_num_seqs) for point in grid(tokens, seqs)]
    assert found == expected


@pytest.mark.parametrize(("tokens", "seqs"), [([64], [128]), ([0], [1]), ([1], [-1])])
def test_a_grid_of_nothing_is_refused(tokens: list[int], seqs: list[int]) -> None:
    with pytest.raises(TuneError):
        grid(tokens, seqs)


def test_it_is_the_model_with_one_pod_and_the_arguments_of_the_point() -> None:
    original = model(
        replicas=4,
        standby={"replicas": 2, "state": "Sleeping"},
        schedule=[],
        forecast={"mode": "Off"},
        warmup={"maxRounds": 5, "compare": {"args": []}},
        profile="Serverless",
        pod={"nodeSelector": {"pool": "gpu"}},
    )
    before = copy.deepcopy(original)
    made = temporary(original, Point(8192, 256))
    assert original == before
    assert made["metadata"] == {"name": "llama-tune", "namespace": "demo"}
    assert made["spec"] == {
        "model": {"image": "models/llama:1", "servedName": "llama"},
        "engine": {
            "image": "vllm/vllm-openai:v0.32.0",
            "args": ["--max-num-seqs=9", "--max-num-batched-tokens=8192", "--max-num-seqs=256"],
        },
        "replicas": 1,
        "standby": {"replicas": 0, "state": "Sleeping"},
        "rollout": {"onRegression": "Proceed"},
        "warmup": {"maxRounds": 5},
        "profile": "Serverless",
        "pod": {"nodeSelector": {"pool": "gpu"}},
    }


def test_the_served_name_stays() -> None:
    """It is part of the weights' path, and so of vLLM's cache key."""
    named = model(model={"image": "m:1", "servedName": "meta/llama"})
    assert temporary(named, POINTS[0])["spec"]["model"]["servedName"] == "meta/llama"


def test_a_command_of_ones_own_is_refused() -> None:
    own = model()
    own["spec"]["engine"]["command"] = ["serve"]
    with pytest.raises(TuneError, match=r"spec\.engine\.command"):
        temporary(own, POINTS[0])


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(None, FAST), (400.0, FAST), (399.0, SLOW), (100.0, SLOW), (99.0, None)],
)
def test_the_best_has_most_tokens_within_the_limit(
    limit: float | None, expected: Summary | None
) -> None:
    results = [Result(POINTS[0], SLOW), Result(POINTS[1], FAST), Result(POINTS[1], None, "x")]
    chosen = best(results, limit)
    assert (chosen.summary if chosen else None) == expected


@pytest.mark.parametrize(("failed", "counts"), [(1, True), (2, False)])
def test_a_point_that_fails_is_not_the_best(failed: int, counts: bool) -> None:
    summary = Summary(99, failed, 900.0, 9.0, 20.0, 400.0, 10.0, 12.0, error="503")
    assert (best([Result(POINTS[0], summary)], None) is not None) is counts

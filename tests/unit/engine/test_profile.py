"""What a profile adds to an engine: nothing that the user decides about, however it is spelled."""

from __future__ import annotations

from typing import Any

import pytest

from unit.resources.samples import engine_container, rendered, warm_model
from warmpod.engine import engine_defaults, facts_of, ignored_profile
from warmpod.engine.profile import graph_sizes

THROUGHPUT = ("--performance-mode=throughput",)
TO_128 = ("--cudagraph-capture-sizes", "1", "2", "4", "8", "16", "32", "64", "128")
TO_256 = (*TO_128, "256")
PLAN = {"VLLM_ENABLE_STARTUP_PLAN": "1"}


def added(profile: str, *args: str, **engine: Any) -> list[tuple[str, ...]]:
    spec = warm_model(profile=profile, engine={"args": list(args), **engine}).spec
    return list(engine_defaults(spec).arguments)


@pytest.mark.parametrize(
    ("profile", "arguments", "environment"),
    [
        ("HighThroughput", [THROUGHPUT], {}),
        ("MultiModel", [("--max-num-seqs=128",), TO_128], {}),
        ("Serverless", [("--max-num-seqs=256",), TO_256], PLAN),
        ("CostSaving", [THROUGHPUT], PLAN),
    ],
)
def test_what_each_profile_adds(
    profile: str, arguments: list[tuple[str, ...]], environment: dict[str, str]
) -> None:
    found = engine_defaults(warm_model(profile=profile).spec)
    assert (list(found.arguments), found.environment) == (arguments, environment)


def test_no_profile_adds_nothing() -> None:
    found = engine_defaults(warm_model().spec)
    assert (found.arguments, found.environment) == ((), {})


@pytest.mark.parametrize(
    "args",
    [
        ["--performance-mode=balanced"],
        ["--performance_mode", "interactivity"],
        ["--perf", "throughput"],
    ],
)
def test_a_mode_of_the_users_own_wins(args: list[str]) -> None:
    assert added("HighThroughput", *args) == []


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--max-num-seqs=16"], [("--cudagraph-capture-sizes", "1", "2", "4", "8", "16")]),
        (["--max_num_seqs", "300"], [(*TO_256, "512")]),
        (["--max-num-seq=4096"], [(*TO_256, "512")]),
        (["--cudagraph-capture-sizes", "1", "2"], [("--max-num-seqs=256",)]),
        (["--cudagraph-capture=1"], [("--max-num-seqs=256",)]),
        (["--max-cudagraph-capture-size=64"], [("--max-num-seqs=256",)]),
        (["--enforce-eager"], [("--max-num-seqs=256",)]),
        (["-cc.cudagraph_capture_sizes=[1]"], [("--max-num-seqs=256",)]),
        (['--compilation-config={"cudagraph_capture_sizes": [1]}'], [("--max-num-seqs=256",)]),
        (["-cc", '{"max_cudagraph_capture_size": 8}'], [("--max-num-seqs=256",)]),
        (["-cc=unreadable"], [("--max-num-seqs=256",)]),
        (["-cc.mode=3"], [("--max-num-seqs=256",), TO_256]),
        (['-cc={"mode": 3}'], [("--max-num-seqs=256",), TO_256]),
        (['--speculative-config={"method": "ngram"}'], [("--max-num-seqs=256",)]),
        # vLLM refuses a budget below the number of sequences.
        (["--max-num-batched-tokens=128"], [TO_256]),
        (["--max-num-batched-tokens=256"], [("--max-num-seqs=256",), TO_256]),
        # What a file says cannot be seen, and arguments would win over it.
        (["--config=/c.yaml"], []),
        (["--config", "/c.yaml"], []),
    ],
)
def test_what_the_user_decides_about_stays(
    args: list[str], expected: list[tuple[str, ...]]
) -> None:
    assert added("Serverless", *args) == expected


@pytest.mark.parametrize(
    ("args", "slots"),
    [
        (["--max-model-len=8192"], []),
        (["--enable-lora"], [("--max-loras=4",)]),
        (["--lora-modules", "a=/models/a", "b=/models/b"], [("--max-loras=4",)]),
        (["--enable-lora", "--max-loras=9"], []),
        (["--enable-lora", "--max_loras", "2"], []),
        # Fewer in host memory than in a batch would end the engine.
        (["--enable-lora", "--max-cpu-loras=2"], []),
    ],
)
def test_slots_for_adapters(args: list[str], slots: list[tuple[str, ...]]) -> None:
    common = [("--max-num-seqs=128",), TO_128]
    assert added("MultiModel", *args) == [*common, *slots]


@pytest.mark.parametrize(
    ("seqs", "sizes"),
    [(1, [1]), (3, [1, 2, 4]), (4, [1, 2, 4]), (256, [2**n for n in range(9)])],
)
def test_graphs_cover_all_sequences(seqs: int, sizes: list[int]) -> None:
    assert graph_sizes(seqs) == sizes


def test_graphs_end_where_vllm_ends_them() -> None:
    assert graph_sizes(2000)[-1] == 512


@pytest.mark.parametrize(
    "engine",
    [
        {"env": [{"name": "VLLM_ENABLE_STARTUP_PLAN", "value": "0"}]},
        # A plan is not told apart by the share of memory that it was made with.
        {"args": ["--gpu-memory-utilization=0.5"]},
        {"args": ["--gpu_memory_util", "0.5"]},
        {"args": ["--device-memory-utilization", "0.5"]},
        {"args": ["--config=/c.yaml"]},
    ],
)
def test_no_plan_of_memory_where_the_user_decides_about_it(engine: dict[str, Any]) -> None:
    assert engine_defaults(warm_model(profile="Serverless", engine=engine).spec).environment == {}


@pytest.mark.parametrize(
    ("engine", "why"),
    [
        ({}, ""),
        ({"command": ["serve"]}, "nothing is added to spec.engine.command"),
        ({"args": ["--config=/c.yaml"]}, "the file of --config"),
    ],
)
def test_where_it_adds_nothing_it_says_so(engine: dict[str, Any], why: str) -> None:
    said = ignored_profile(warm_model(profile="Serverless", engine=engine).spec)
    assert why in said if why else said == ""
    assert ignored_profile(warm_model(engine=engine).spec) == ""


def test_a_command_of_the_users_own_is_run_as_it_is() -> None:
    spec = warm_model(profile="Serverless", engine={"command": ["serve"]}).spec
    assert engine_defaults(spec).words == []


def test_warm_up_knows_what_was_added() -> None:
    assert facts_of(warm_model(profile="MultiModel").spec).traits.max_num_seqs == 128
    stated = warm_model(profile="MultiModel", engine={"args": ["--max-num-seqs=7"]})
    assert facts_of(stated.spec).traits.max_num_seqs == 7


def test_the_launcher_is_given_them_and_the_users_arguments_are_untouched() -> None:
    model = warm_model(profile="CostSaving", engine={"args": ["--a", "$(X)"]})
    found = engine_container(model)
    (option,) = [word for word in found["command"] if word.startswith("--defaults=")]
    assert option == (
        '--defaults={"arguments": [["--performance-mode=throughput"]], '
        '"environment": {"VLLM_ENABLE_STARTUP_PLAN": "1"}}'
    )
    assert found["args"][-2:] == ["--a", "$(X)"]


def test_a_profile_is_part_of_the_revision() -> None:
    hashes = {rendered(warm_model(profile=name)).hash for name in ("Serverless", "CostSaving")}
    assert len(hashes | {rendered(warm_model()).hash}) == 3


def test_without_a_profile_nothing_is_rendered() -> None:
    command = engine_container(warm_model())["command"]
    assert not any(word.startswith("--defaults") for word in command)

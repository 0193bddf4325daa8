"""What decides reuse: the key, and the words for what has changed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmpod.compilecache import command
from warmpod.compilecache.factors import Factors, as_json, is_key, key, parse, why_missed

SERVE = ["vllm", "serve", "/models/m"]


def of(*options: str) -> dict[str, str]:
    return command.arguments([*SERVE, *options])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["--max-model-len=8"], ["--max-model-len", "8"]),
        (["--max_model_len", "8"], ["--max-model-len", "8"]),
        (["--a=1", "--b=2"], ["--b=2", "--a=1"]),
        (["--lora-modules", "x", "y"], ["--lora-modules", "x", "--lora-modules", "y"]),
        (["--cache-threshold", "-1"], ["--cache-threshold=-1"]),
        ([], ["--port=1", "--host", "h", "--api-key", "k", "l", "--seed=3"]),
        ([], ["--served-model-name", "a", "b", "--gpu-memory-utilization=0.3"]),
        ([], ["--device-memory-utilization=0.3"]),
        ([], ["--enable-prefix-caching", "--no-enable-prefix-caching", "--load-format=x"]),
        ([], ["--no-enable-log-requests", "--ssl-keyfile=k", "--middleware=m", "-dpr", "3"]),
        ([], ["-tp", "2", "--pipeline_parallel_size=3"]),
    ],
)
def test_the_same_arguments(one: list[str], other: list[str]) -> None:
    assert of(*one) == of(*other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["--max-model-len=8"], ["--max-model-len=9"]),
        (["--enforce-eager"], []),
        (["--enable-x"], ["--no-enable-x"]),
        (["--lora-modules", "x", "y"], ["--lora-modules", "y", "x"]),
        (["--a.b_c=1"], ["--a.b-c=1"]),
        (["-O3"], ["-O2"]),
        (["-tp", "many"], ["-tp", "1"]),
        (["--x", "a", "b"], ["--x", "a b"]),
    ],
)
def test_other_arguments(one: list[str], other: list[str]) -> None:
    assert of(*one) != of(*other)


def test_the_path_of_the_weights_counts() -> None:
    assert command.arguments(["vllm", "serve", "/models/n"]) != of()
    assert list(of()) == [command.COMMAND]


def test_parallel_sizes_are_read_in_every_spelling() -> None:
    assert command.ranks([*SERVE, "-tp", "2", "--data_parallel_size=4", "-pp=1"]) == {
        "data-parallel-size": 4,
        "tensor-parallel-size": 2,
    }
    assert command.ranks([*SERVE, "-tp", "$(SIZE)"]) == {}


def test_variables_that_steer_compilation() -> None:
    found = command.environment(
        {
            "PATH": "/bin",
            "HF_TOKEN": "secret",
            "VLLM_CACHE_ROOT": "/c",
            "VLLM_API_KEY": "secret",
            "VLLM_HOST_IP": "10.0.0.1",
            "VLLM_LOGGING_LEVEL": "DEBUG",
            "TRITON_CACHE_DIR": "/t",
            "TORCHINDUCTOR_CACHE_DIR": "/i",
            "VLLM_PLUGINS": "",
            "TORCHINDUCTOR_MAX_AUTOTUNE": "1",
            "CUDA_HOME": "/usr/local/cuda",
            "DG_X": "1",
        }
    )
    assert list(found) == ["CUDA_HOME", "DG_X", "TORCHINDUCTOR_MAX_AUTOTUNE", "VLLM_PLUGINS"]


@given(st.text(min_size=8))
def test_no_value_is_kept(secret: str) -> None:
    factors = Factors(
        arguments=command.arguments(["vllm", f"--hf-overrides={secret}"]),
        environment=command.environment({"VLLM_X": secret}),
    )
    assert secret not in json.dumps(as_json(factors), ensure_ascii=False)


BASE = Factors(
    image="sha256:i",
    model="sha256:m",
    gpu=("NVIDIA H200",),
    driver="550.1",
    ranks={"tensor-parallel-size": 2},
    arguments={"command": "1", "max-model-len": "2"},
    environment={"VLLM_X": "3"},
)
NO_ARGUMENTS = {"command": "1"}


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (replace(BASE, image="sha256:j"), "engine image changed"),
        (replace(BASE, model="sha256:n"), "weights changed"),
        (replace(BASE, driver="580.2"), "driver changed from 550.1 to 580.2"),
        (replace(BASE, gpu=("NVIDIA B200",)), "GPU changed from NVIDIA H200 to NVIDIA B200"),
        (replace(BASE, gpu=()), "GPU changed from NVIDIA H200 to none"),
        (replace(BASE, cpu="c"), "CPU changed"),
        (replace(BASE, ranks={}), "tensor-parallel-size changed from 2 to 1"),
        (
            replace(BASE, arguments={**BASE.arguments, "max-model-len": "9"}),
            "argument max-model-len changed",
        ),
        (replace(BASE, arguments=NO_ARGUMENTS), "argument max-model-len removed"),
        (replace(BASE, arguments={**BASE.arguments, "x": "1"}), "argument x added"),
        (replace(BASE, arguments={**BASE.arguments, "command": "9"}), "command changed"),
        (replace(BASE, environment={"VLLM_X": "9"}), "variable VLLM_X changed"),
        (
            replace(BASE, image="", model="", driver="1", arguments=NO_ARGUMENTS, environment={}),
            "engine image changed, weights changed, driver changed from 550.1 to 1, 2 more",
        ),
    ],
)
def test_why_missed(wanted: Factors, why: str) -> None:
    assert key(wanted) != key(BASE)
    assert why_missed(wanted, [BASE]) == why


def test_the_nearest_entry_is_compared_with() -> None:
    far = replace(BASE, image="sha256:j", driver="1")
    assert why_missed(replace(BASE, driver="580.2"), [far, BASE, far]).startswith("driver changed")
    assert why_missed(BASE, []) == "nothing is stored yet"


def test_keys_stay_what_they_are() -> None:
    """A store outlives an update of warmpod: with other keys all pods would compile once more."""
    options = "--max_model_len=8 -tp 2 --lora-modules a b --x=1 2 --y -1 -O3 --a.b_c -- --seed=3 z"
    argv = [*SERVE, *options.split()]
    factors = replace(
        BASE,
        ranks=command.ranks(argv),
        arguments=command.arguments(argv),
        environment=command.environment({"VLLM_PLUGINS": "", "TORCH_LOGS": "x"}),
    )
    assert key(factors) == "03e1b4a594cc09b1fbb3c21bba840f0d"


TEXTS = st.text(st.characters(categories=["L", "N"]), max_size=20)
FACTORS = st.builds(
    Factors,
    image=TEXTS,
    model=TEXTS,
    driver=TEXTS,
    cpu=TEXTS,
    gpu=st.lists(TEXTS.filter(bool), max_size=3).map(tuple),
    ranks=st.dictionaries(TEXTS, st.integers(2, 64), max_size=3),
    arguments=st.dictionaries(TEXTS, TEXTS, max_size=3),
    environment=st.dictionaries(TEXTS, TEXTS, max_size=3),
)


@given(FACTORS, FACTORS)
def test_factors_survive_json_and_decide_the_key(one: Factors, other: Factors) -> None:
    again = parse(json.loads(json.dumps(as_json(one))))
    assert again == one
    assert key(again) == key(one)
    assert is_key(key(one))
    assert (key(one) == key(other)) == (one == other)
    assert (why_missed(one, [other]) == "") == (one == other)


@pytest.mark.parametrize(
    "change",
    [
        {"image": 1},
        {"image": "a\nb"},
        {"model": "x" * 201},
        {"gpu": "NVIDIA"},
        {"gpu": [1]},
        {"ranks": {"tensor-parallel-size": True}},
        {"ranks": {"tensor-parallel-size": 1}},
        {"arguments": []},
        {"arguments": {"a": 1}},
        {"environment": {"a\0": "b"}},
        {"more": 1},
    ],
)
def test_what_makes_no_sense_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="factors"):
        parse(as_json(BASE) | change)


@pytest.mark.parametrize("text", ["", "a" * 31, "A" * 32, "a" * 33, "../" + "a" * 29])
def test_what_is_no_key(text: str) -> None:
    assert not is_key(text)

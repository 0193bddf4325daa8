"""Every spelling of the arguments that matter, and no crash on any other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmpod.api.engine import EnvVar
from warmpod.engine import EngineTraits, read


def facts(
    *args: str, command: tuple[str, ...] = (), env: dict[str, str | None] | None = None
) -> Any:
    variables = [
        EnvVar(name=name, value=value)
        if value is not None
        else EnvVar(name=name, value_from={"secretKeyRef": {"name": "s", "key": "k"}})
        for name, value in (env or {}).items()
    ]
    return read(command, args, variables)


@pytest.mark.parametrize(
    "args",
    [
        ["-tp", "2"],
        ["-tp=2"],
        ["--tensor-parallel-size", "2"],
        ["--tensor-parallel-size=2"],
        ["--tensor_parallel_size", "2"],
        ["--tensor_parallel_size=2"],
        ["--tensor-parallel", "2"],
        ["--tensor_par=2"],
        ["--tensor-parallel-size", "8", "-tp", "2"],
        ["--enforce-eager", "-tp", "2", "--dtype", "half"],
    ],
)
def test_tensor_parallel_in_every_spelling(args: list[str]) -> None:
    assert facts(*args).tensor_parallel == 2


@pytest.mark.parametrize("args", [["-tp2"], ["--t", "2"], ["-tp"], ["-tp", "two"], ["-tp", "0"]])
def test_what_vllm_would_not_take_either_is_not_read(args: list[str]) -> None:
    assert facts(*args).tensor_parallel == 1


def test_pipeline_and_data_parallel() -> None:
    read_ = facts("--pipeline-parallel-size=4", "-dp", "32", "--data-parallel-size-local=8")
    assert (read_.pipeline_parallel, read_.data_parallel) == (4, 32)


def test_an_ambiguous_prefix_is_not_taken_for_ours() -> None:
    assert facts("--data-parallel-s", "8").data_parallel == 1


@pytest.mark.parametrize(
    "args",
    [
        ["--speculative-config", '{"model": "org/draft", "num_speculative_tokens": 7}'],
        ['--speculative-config={"model":"org/draft"}'],
        ["--speculative_config", '{"model":"org/draft"}'],
        ["--speculative-config.model", "org/draft"],
        ["--speculative-config.model=org/draft"],
        ["--speculative_config.model", "org/draft"],
        ["-sc.model", "org/draft", "--speculative-config.num_speculative_tokens", "3"],
        ["--speculative-model", "org/draft"],
        ["--spec.model", "org/draft"],
    ],
)
def test_draft_model(args: list[str]) -> None:
    expected = None if args[0] == "--spec.model" else "org/draft"  # fits two options: ambiguous
    assert facts(*args).draft_model == expected


@pytest.mark.parametrize("value", ["", "{", "[]", "3", '{"method": "mtp"}', '{"model": 3}'])
def test_no_draft_model(value: str) -> None:
    assert facts("--speculative-config", value).draft_model is None


def test_served_names_take_all_values() -> None:
    assert facts("--served-model-name", "a", "b", "c", "--port", "1").served_names == (
        "a",
        "b",
        "c",
    )
    assert facts("--served-model", "a").served_names == ("a",)
    assert facts("--served-model-name=a").served_names == ("a",)


def test_api_key() -> None:
    assert facts("--api-key", "k1", "k2").api_key_set
    assert facts("--api-key=k1").api_key_argument == "k1"
    assert facts(env={"VLLM_API_KEY": None}).api_key_set
    assert facts(env={"VLLM_API_KEY": "k"}).api_key_set
    assert not facts(env={"VLLM_API_KEY": ""}).api_key_set
    assert not facts("--api-key").api_key_set
    assert "k1" not in repr(facts("--api-key", "k1"))


def test_tls_port_socket_task_and_config_file() -> None:
    read_ = facts("--ssl-keyfile", "/k", "--ssl-certfile", "/c", "--port", "8443")
    assert (read_.tls, read_.port) == (True, 8443)
    assert facts("--uds", "/run/x.sock").uds == "/run/x.sock"
    assert facts("--task", "transcription", "--port", "8002").traits.task == "transcription"
    assert facts("--runner", "pooling").traits.task == "pooling"
    assert facts("--config", "/etc/vllm.yaml", "--config_format", "mistral").config_file == (
        "/etc/vllm.yaml"
    )
    assert facts("--config-format", "mistral").config_file is None


def test_port_out_of_range_is_not_stated() -> None:
    assert facts("--port", "70000").port is None
    assert facts("--port", "-1").port is None


@pytest.mark.parametrize(
    ("args", "loading"),
    [
        (["--load-format=safetensors"], "--load-format"),
        (["--load_format", "dummy"], "--load-format"),
        (["--loa=auto"], "--load-format"),
        (["--model-loader-extra-config.num_threads", "4"], "--model-loader-extra-config"),
        (["--model-l={}"], "--model-loader-extra-config"),
        (["--safetensors-load-strategy=prefetch"], "--safetensors-load-strategy"),
        (["--model", "m", "--model-impl=auto", "--lora-modules", "a=/a"], None),
        (["--safetensors-prefetch-num-threads=4", "--lo", "x", "--mod", "m"], None),
    ],
)
def test_how_weights_are_loaded(args: list[str], loading: str | None) -> None:
    assert facts(*args).loading == loading


def test_variables_are_expanded_like_the_kubelet_does() -> None:
    assert facts("--port=$(PORT)", env={"PORT": "9000"}).port == 9000
    assert facts("--port=$(PORT)").port is None


def test_shell_scripts_are_read_roughly() -> None:
    script = "pip install 'vllm[audio]' && exec vllm serve org/model --port 8002 -tp 2 | tee log"
    read_ = facts(script, command=("bash", "-c"))
    assert (read_.port, read_.tensor_parallel) == (8002, 2)
    module = "python3 -m vllm.entrypoints.openai.api_server --model /m --port=9 'unbalanced"
    assert facts(module, command=("sh", "-c")).port == 9


def test_additional_arguments_of_a_start_script() -> None:
    env: dict[str, str | None] = {"VLLM_ADDITIONAL_ARGS": "--tensor-parallel-size=2 --port 9"}
    assert facts(command=("/start.sh",), env=env).tensor_parallel == 2
    assert facts("--port=7", command=("/start.sh",), env=env).port == 7
    assert facts(env=env).port is None


def test_values_that_look_like_numbers_are_not_options() -> None:
    assert facts("--seed", "-1", "--port", "9").port == 9


def test_words_after_a_double_dash_are_not_options() -> None:
    assert facts("--", "--port", "9").port is None


@pytest.mark.parametrize(
    ("args", "argument", "remedy"),
    [
        (["--preload-mode", "x"], "--preload-mode", "--safetensors-load-strategy"),
        (["--preload_model=x"], "--preload-model", "WarmModel"),
        (["--warmup-peer-connection"], "--warmup-peer-connection", "first transfer"),
        (["--load-balancing-strategy=rr"], "--load-balancing-strategy", "Service"),
        (["--load-format=sharded"], "--load-format=sharded", "sharded_state"),
        (["--load_format", "sharded"], "--load-format=sharded", "sharded_state"),
        (["--scheduler", "fcfs"], "--scheduler", "--scheduling-policy"),
        (["--warmup-rounds=3"], "--warmup-rounds", "spec.warmup"),
        (["--enable-warmup-isolation"], "--enable-warmup-isolation", "warmpod"),
        (["--disable-flashinfer-autotune"], "--disable-flashinfer-autotune", "--no-enable-"),
    ],
)
def test_arguments_that_no_vllm_has(args: list[str], argument: str, remedy: str) -> None:
    (unknown,) = facts(*args, *args).unknown
    assert unknown.argument == argument
    assert remedy in unknown.remedy
    assert str(unknown).startswith(f"spec.engine.args: {argument}: ")


@pytest.mark.parametrize(
    "args",
    [
        ["--load-format=sharded_state", "--scheduler-cls", "x", "--kv-cache-dtype", "fp8_e4m3"],
        ["--max-num-batched-tokens=1", "--download-dir=/d", "--kv-cache-memory", "1G"],
    ],
)
def test_arguments_that_exist_are_not_reported(args: list[str]) -> None:
    assert facts(*args).unknown == ()


COMBINATIONS: list[tuple[list[str], dict[str, Any], dict[str, Any]]] = [
    (
        ["--max-model-len", "4096", "--dtype", "bfloat16", "--tool-call-parser", "llama3_json"],
        {},
        {"max_model_len": 4096, "tool_parser": "llama3_json"},
    ),
    (["--enable-lora", "--max-loras", "4", "--max-cpu-loras", "4"], {}, {}),
    (
        [
            "--pipeline-parallel-size=4",
            "--tensor-parallel-size=2",
            "--kv-cache-dtype=fp8",
            "--enable-chunked-prefill=false",
            "--enforce-eager",
        ],
        {"pipeline_parallel": 4, "tensor_parallel": 2},
        {},
    ),
    (
        ["--max-num-batched-token=8192", "--gpu-memory-utilization=0.99"],
        {},
        {"max_num_batched_tokens": 8192},
    ),
    (
        ["--tokenizer_mode", "mistral", "-tp", "4", "--limit-mm-per-prompt.image", "0"],
        {"tensor_parallel": 4},
        {"images_per_prompt": 0},
    ),
    (["-dp", "32", "--data-parallel-size-local", "8", "-tp", "1"], {"data_parallel": 32}, {}),
    (
        ["--config", "/cfg/GPT-OSS.yaml"],
        {"config_file": "/cfg/GPT-OSS.yaml"},
        {"config_file": True},
    ),
    (
        [
            "--speculative-config.method",
            "mtp",
            "--speculative-config.num_speculative_tokens",
            "3",
            "--chat-template-content-format=string",
            "--served-model-name",
            "glm-5.1-fp8",
        ],
        {"served_names": ("glm-5.1-fp8",), "draft_model": None},
        {"speculative": True},
    ),
    (
        ["--trust-remote-code", "--runner", "pooling", "--hf-overrides", '{"jina_task": "x"}'],
        {},
        {"task": "pooling"},
    ),
    (
        ["--tensor_parallel_size", "2", "--gpu-memory-utilization", "0.75"],
        {"tensor_parallel": 2},
        {},
    ),
    (["--task", "transcription", "--port", "8002"], {"port": 8002}, {"task": "transcription"}),
    (
        ["--compilation-config", '{"mode":3,"pass_config":{"x":true}}', "--trust-remote-code"],
        {},
        {},
    ),
    (["--default-chat-template-kwargs", '{"enable_thinking": true}'], {}, {}),
]


@pytest.mark.parametrize(("args", "expected", "traits"), COMBINATIONS)
def test_arguments_seen_in_the_field(
    args: list[str], expected: dict[str, Any], traits: dict[str, Any]
) -> None:
    assert facts(*args) == facts().__class__(**expected, traits=EngineTraits(**traits))


TRAITS: list[tuple[list[str], dict[str, Any]]] = [
    (["--max-model-len", "8k"], {"max_model_len": 8000}),
    (["--max_model_len=8K"], {"max_model_len": 8192}),
    (["--max-m", "25.6k"], {"max_model_len": 25600}),
    (["--max-model-len=1M"], {"max_model_len": 1024**2}),
    (["--max-model-len", "auto"], {}),
    (["--max-model-len", "-1"], {}),
    (["--max-model-len=0"], {}),
    (["--max-model-len=1.5K"], {}),
    (["--max-model-len=9000000m"], {}),
    (["--max-num-seqs", "8", "--max-num-seqs=16"], {"max_num_seqs": 16}),
    (["--max-logprobs", "50"], {"max_logprobs": 50}),
    (["--max-num-s", "8"], {}),  # also --max-num-scheduled-tokens
    (["--max-num-b=2048"], {"max_num_batched_tokens": 2048}),
    (["--scheduling-policy=priority"], {"priority_scheduling": True}),
    (["--scheduling_policy", "fcfs"], {}),
    (
        ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"],
        {"auto_tool_choice": True, "tool_parser": "hermes"},
    ),
    (["--tool-call", "hermes"], {"tool_parser": "hermes"}),
    (["--tool", "hermes"], {}),
    (["--reasoning-parser=deepseek_r1"], {"reasoning_parser": "deepseek_r1"}),
    (["--reasoning-parser-plugin=/x.py"], {}),
    (["-sc", '{"method": "ngram"}'], {"speculative": True}),
    (["--spec-method", "ngram"], {"speculative": True}),
    (["--lora-modules", "a=/a", "b=/b"], {"lora_modules": ("a", "b")}),
    (["--lora-modules", '{"name": "a", "path": "/a=b"}'], {"lora_modules": ("a",)}),
    (
        ["--lora_modules", '[{"name": "a", "path": "/a"}, {"name": "b", "path": "/b"}, {}, 3]'],
        {"lora_modules": ("a", "b")},
    ),
    (["--lora-modules", "{", "=x", "none"], {}),
    (["--limit-mm-per-prompt", '{"image": 2, "video": 0}'], {"images_per_prompt": 2}),
    (["--limit-mm-per-prompt", '{"image": {"count": 3, "width": 9}}'], {"images_per_prompt": 3}),
    (["--limit-mm-per-prompt", "image=4,video=1"], {"images_per_prompt": 4}),
    (["--limit_mm_per_prompt.image=5"], {"images_per_prompt": 5}),
    (["--limit-mm-per-prompt", '{"video": 1}'], {}),
    (["--limit-mm-per-prompt", '{"image": true}'], {}),
    (["--limit-mm-per-prompt.video=1"], {}),
    (["--runner", "pooling", "--convert", "classify"], {"task": "classify"}),
    (["--runner", "auto"], {}),
]


@pytest.mark.parametrize(("args", "expected"), TRAITS)
def test_what_the_warm_up_plan_is_derived_from(args: list[str], expected: dict[str, Any]) -> None:
    assert facts(*args).traits == EngineTraits(**expected)


def test_draft_model_by_an_option_of_its_own() -> None:
    assert facts("--spec-model", "org/draft").draft_model == "org/draft"


WORDS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [
            "-tp",
            "--port",
            "--port=",
            "-",
            "--",
            "=",
            "--=",
            "-sc.",
            "--speculative-config",
            "--lora-modules",
            "--limit-mm-per-prompt",
            "--max-model-len",
            "{",
            ".",
        ]
    ),
    st.builds(
        "--{}={}".format,
        st.sampled_from(["port", "api_key", "spec", "s.x", "max-model-len", "lora-m", ""]),
        st.text(max_size=8),
    ),
    st.text(max_size=8).map("exec vllm serve x --port {}".format),
)


@given(st.lists(WORDS, max_size=8), st.lists(WORDS, max_size=8), st.text(max_size=20))
def test_never_raises_and_never_leaves_its_bounds(
    command: list[str], args: list[str], extra: str
) -> None:
    before = (list(command), list(args))
    read_ = read(command, args, [EnvVar(name="VLLM_ADDITIONAL_ARGS", value=extra)])
    assert read_.port is None or 1 <= read_.port <= 65535
    assert read_.tensor_parallel >= 1
    assert (command, args) == before


def test_huge_numbers_and_deep_json_are_survived() -> None:
    assert facts("--port", "9" * 5000).port is None
    assert facts("--speculative-config", "[" * 100000).draft_model is None

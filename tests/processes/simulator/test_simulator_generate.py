"""Completions and chat, request by request."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import struct
import threading
from typing import Any

import pytest

from processes.simulator.asking import Start, chat, complete, get, metric, post
from simulator.harness import Simulator

HELLO = {"messages": [{"role": "user", "content": "hello"}]}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 12},
        "age": {"type": "integer", "minimum": 18, "maximum": 99},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
    },
    "required": ["name", "age"],
    "$defs": {"tag": {"enum": ["a", "b"]}},
}
IMAGE = {"type": "image_url", "image_url": {"url": "https://example.com/cat.jpg"}}
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"


@pytest.mark.parametrize(
    ("path", "body", "message", "param"),
    [
        (COMPLETIONS, {}, "Either prompt or prompt_embeds must be provided", "prompt"),
        (COMPLETIONS, {"prompt": "x", "temperature": -1}, "must be non-negative", "temperature"),
        (COMPLETIONS, {"prompt": "x", "temperature": 3}, "must be in [0, 2]", "temperature"),
        (COMPLETIONS, {"prompt": "x", "top_p": 0}, "top_p must be in (0, 1]", "top_p"),
        (COMPLETIONS, {"prompt": "x", "logprobs": 30}, "greater than max allowed: 20", None),
        (COMPLETIONS, {"prompt": "x", "n": 2, "temperature": 0}, "greedy sampling, got 2", None),
        (COMPLETIONS, {"prompt": "x", "max_tokens": 0}, "at least 1, got 0", "max_tokens"),
        (COMPLETIONS, {"prompt": "x", "max_tokens": 9999}, "greater than max_m", "max_tokens"),
        (COMPLETIONS, {"prompt": "x" + " x" * 2048}, "maximum context length", "input_tokens"),
        (COMPLETIONS, {"prompt": "x", "priority": 1}, "Priority scheduling is not", "priority"),
        (COMPLETIONS, {"prompt": "x", "stop": [""]}, "stop cannot contain an empty string", None),
        (
            COMPLETIONS,
            {"prompt": "x", "stream_options": {"include_usage": True}},
            "Stream options can only be defined when `stream=True`.",
            "stream_options",
        ),
        (
            COMPLETIONS,
            {"prompt": "x", "structured_outputs": {"regex": "("}},
            "Failed to convert the grammar from regex",
            None,
        ),
        (
            COMPLETIONS,
            {"prompt": "x", "structured_outputs": {"regex": "a", "choice": ["b"]}},
            "only use one kind of constraints",
            "structured_outputs",
        ),
        (CHAT, {}, "'loc': 'body.messages', 'msg': 'Field required'", "body.messages"),
        (CHAT, HELLO | {"top_logprobs": 2}, "`logprobs` must be set to true", "top_logprobs"),
        (CHAT, HELLO | {"tools": []}, "`tools` must not be an empty array", "tools"),
        (CHAT, HELLO | {"tools": [WEATHER]}, '"auto" tool choice requires --enable-auto', None),
        (
            CHAT,
            HELLO | {"tools": [WEATHER], "tool_choice": "required"},
            'tool_choice="required" requires --tool-call-parser to be set',
            None,
        ),
        (
            CHAT,
            HELLO | {"response_format": {"type": "json_schema"}},
            "the 'json_schema' field must be provided",
            "response_format",
        ),
        (
            CHAT,
            {"messages": [{"role": "user", "content": [IMAGE]}]},
            "At most 0 image(s) may be provided in one prompt.",
            None,
        ),
        (CHAT, {"messages": ["hello"]}, "1 validation error", None),
    ],
)  # fmt: skip
def test_refuses_with_400(
    simulator: Simulator, path: str, body: dict[str, Any], message: str, param: str | None
) -> None:
    answer = post(simulator, path, body)
    assert answer.status == 400
    assert message in answer.error
    assert answer.json["error"]["param"] == param


def test_unknown_model_path_and_method(simulator: Simulator) -> None:
    unknown = post(simulator, COMPLETIONS, {"model": "other", "prompt": "x"})
    assert unknown.status == 404
    assert unknown.error == "The model `other` does not exist. Valid aliases: tiny."
    assert unknown.json["error"]["type"] == "NotFoundError"
    assert (get(simulator, "/warmup").status, get(simulator, "/warmup").error) == (404, "Not Found")
    assert get(simulator, CHAT).error == "Method Not Allowed"


@pytest.mark.parametrize(
    ("body", "headers", "message"),
    [
        (b"{", {}, "JSON decode error"),
        (b"[]", {}, "valid dictionary"),
        (b"{}", {"Content-Type": "text/plain"}, "Only 'application/json' is allowed"),
    ],
)
def test_body_that_is_no_json_object(
    simulator: Simulator, body: bytes, headers: dict[str, str], message: str
) -> None:
    answer = post(simulator, CHAT, body, headers)
    assert answer.status == 400
    assert message in answer.error


def test_answer_at_temperature_0_depends_on_model_adapter_and_prompt(
    able: Simulator, simulator: Simulator
) -> None:
    first = complete(simulator, logprobs=2)["choices"]
    assert complete(simulator, logprobs=2)["choices"] == first
    # Another process, the same model.
    assert complete(able, logprobs=2)["choices"] == first
    assert complete(able, model="german")["choices"][0]["text"] != first[0]["text"]
    assert complete(simulator, "another")["choices"][0]["text"] != first[0]["text"]


def test_sampled_answers_differ_unless_they_have_a_seed(simulator: Simulator) -> None:
    def text(**options: Any) -> str:
        return str(complete(simulator, temperature=1, max_tokens=12, **options)["choices"])

    assert text() != text()
    assert text(seed=1) == text(seed=1) != text(seed=2)


def test_logprobs_of_a_completion(simulator: Simulator) -> None:
    found = complete(simulator, logprobs=3)["choices"][0]
    logprobs = found["logprobs"]
    assert "".join(logprobs["tokens"]) == found["text"]
    assert [len(top) for top in logprobs["top_logprobs"]] == [3] * 4
    for token, logprob, top in zip(
        logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True
    ):
        assert top[token] == logprob == max(top.values()) < 0
    assert logprobs["text_offset"][:2] == [0, len(logprobs["tokens"][0])]


def test_logprobs_of_a_chat(simulator: Simulator) -> None:
    found = chat(simulator, logprobs=True, top_logprobs=2)["choices"][0]
    content = found["logprobs"]["content"]
    assert "".join(token["token"] for token in content) == found["message"]["content"]
    assert [len(token["top_logprobs"]) for token in content] == [2] * 4
    assert bytes(content[0]["bytes"]).decode() == content[0]["token"]


def test_several_prompts_get_an_answer_each(simulator: Simulator) -> None:
    both = complete(simulator, ["one", [1, 2, 3]])
    assert [choice["index"] for choice in both["choices"]] == [0, 1]
    assert both["usage"]["prompt_tokens"] == 4
    assert both["choices"][0]["text"] == complete(simulator, "one")["choices"][0]["text"]


@pytest.mark.parametrize(
    ("options", "tokens", "reason"),
    [
        ({"max_tokens": 3}, 3, "length"),
        ({"max_tokens": 100, "ignore_eos": True}, 100, "length"),
        ({"max_tokens": 500, "min_tokens": 200}, 200, "stop"),
    ],
)
def test_length_of_an_answer(
    simulator: Simulator, options: dict[str, Any], tokens: int, reason: str
) -> None:
    body = complete(simulator, **options)
    assert body["usage"]["completion_tokens"] == tokens
    assert body["choices"][0]["finish_reason"] == reason


def test_answer_that_is_longer_than_the_context_is_cut_to_it(simulator: Simulator) -> None:
    body = complete(simulator, "x" + " x" * 2043, max_tokens=50, ignore_eos=True)
    assert body["usage"]["total_tokens"] == 2048


def test_stop_string_ends_an_answer(simulator: Simulator) -> None:
    text = complete(simulator, max_tokens=20)["choices"][0]["text"]
    stop = text.split()[3]
    choice = complete(simulator, max_tokens=20, stop=stop)["choices"][0]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", stop)
    assert choice["text"] == text[: text.index(stop)]


@pytest.mark.parametrize(
    ("constraint", "fits"),
    [
        ({"regex": r"(cat|dog)-[0-9]{2,4}"}, lambda text: re.fullmatch("(cat|dog)-[0-9]+", text)),
        ({"choice": ["yes", "no"]}, lambda text: text in ("yes", "no")),
        ({"json_object": True}, lambda text: isinstance(json.loads(text), dict)),
        ({"json": PERSON}, lambda text: 18 <= json.loads(text)["age"] <= 99),
        ({"json": json.dumps(PERSON)}, lambda text: len(json.loads(text)["name"]) >= 12),
        ({"grammar": 'root ::= "select"'}, lambda text: text == "select"),
    ],
)
def test_structured_output_fits(simulator: Simulator, constraint: Any, fits: Any) -> None:
    body = complete(simulator, structured_outputs=constraint, max_tokens=200)
    assert body["choices"][0]["finish_reason"] == "stop"
    assert fits(body["choices"][0]["text"])


def test_response_format_fits(simulator: Simulator) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
    body = chat(simulator, response_format=wanted, max_tokens=200)
    assert json.loads(body["choices"][0]["message"]["content"])["tags"][0] in ("a", "b")
    body = chat(simulator, response_format={"type": "json_object"}, max_tokens=200)
    assert json.loads(body["choices"][0]["message"]["content"])


@pytest.mark.parametrize(
    ("content", "choice", "called", "reason"),
    [
        ("call get_weather", "auto", True, "tool_calls"),
        ("hello", "auto", False, "stop"),
        ("hello", "none", False, "stop"),
        ("hello", "required", True, "tool_calls"),
        ("hello", {"type": "function", "function": {"name": "get_weather"}}, True, "stop"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_tool_calls(
    able: Simulator, content: str, choice: Any, called: bool, reason: str, stream: bool
) -> None:
    options = {"tools": [WEATHER], "tool_choice": choice, "max_tokens": 300}
    if stream:
        wanted = options | {"messages": [{"role": "user", "content": content}], "stream": True}
        chunks = post(able, CHAT, wanted | {"temperature": 0}).events
        choices = [chunk["choices"][0] for chunk in chunks]
        calls = [call for found in choices for call in found["delta"].get("tool_calls", [])]
        arguments = "".join(call["function"]["arguments"] for call in calls)
        assert choices[-1]["finish_reason"] == reason
    else:
        found = chat(able, content, **options)["choices"][0]
        calls = found["message"].get("tool_calls", [])
        arguments = "".join(call["function"]["arguments"] for call in calls)
        assert found["finish_reason"] == reason
    assert bool(calls) == called
    if called:
        assert calls[0]["function"]["name"] == "get_weather"
        assert set(json.loads(arguments)) == {"city", "days"}


def test_tool_that_is_not_there(able: Simulator) -> None:
    choice = {"type": "function", "function": {"name": "other"}}
    answer = post(able, CHAT, HELLO | {"tools": [WEATHER], "tool_choice": choice})
    assert (answer.status, answer.json["error"]["param"]) == (400, "tool_choice")


def test_reasoning_comes_before_the_content(able: Simulator) -> None:
    body = chat(able, max_tokens=100)
    message = body["choices"][0]["message"]
    assert message["reasoning"]
    assert message["content"]
    thought = body["usage"]["completion_tokens_details"]["reasoning_tokens"]
    assert thought == len(message["reasoning"].split()) + 1
    chunks = post(able, CHAT, HELLO | {"stream": True, "temperature": 0, "max_tokens": 100}).events
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert "".join(delta.get("reasoning", "") for delta in deltas) == message["reasoning"]
    assert "".join(delta.get("content", "") for delta in deltas) == message["content"]


@pytest.mark.parametrize(
    ("options", "reasoning", "content"),
    [
        ({"max_tokens": 3}, True, False),  # cut while it thinks: no content at all
        ({"max_tokens": 100, "include_reasoning": False}, False, True),
        ({"max_tokens": 100, "chat_template_kwargs": {"enable_thinking": False}}, False, True),
    ],
)
def test_what_is_shown_of_reasoning(
    able: Simulator, options: dict[str, Any], reasoning: bool, content: bool
) -> None:
    message = chat(able, **options)["choices"][0]["message"]
    assert (bool(message["reasoning"]), message["content"] is not None) == (reasoning, content)


def test_image_has_a_size_class_of_its_own(able: Simulator) -> None:
    def picture(side: int) -> Any:
        head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", side, side)
        url = f"data:image/png;base64,{base64.b64encode(head).decode()}"
        return [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": url}}]

    for side in (64, 1024):
        assert chat(able, picture(side))["usage"]["prompt_tokens"] == 8 + 1 + 64
    log = able.log.read_text()
    assert "image-small" in log
    assert "image-large" in log


def test_usage_in_a_stream(simulator: Simulator) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    wanted = {"prompt": "a b", "max_tokens": 3, "stream": True, "stream_options": options}
    *chunks, last = post(simulator, COMPLETIONS, wanted).events
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks] == [1, 2, 3]
    assert last["choices"] == []
    assert last["usage"] == {"prompt_tokens": 2, "total_tokens": 5, "completion_tokens": 3}


def test_token_ids_are_those_of_the_tokenizer(simulator: Simulator) -> None:
    tokens = post(simulator, "/tokenize", {"prompt": "one two", "return_token_strs": True}).json
    assert tokens["token_strs"] == ["one", " two"]
    assert (tokens["count"], tokens["max_model_len"]) == (2, 2048)
    assert post(simulator, "/detokenize", {"tokens": tokens["tokens"]}).json == {
        "prompt": "one two"
    }
    choice = complete(simulator, return_token_ids=True)["choices"][0]
    assert choice["prompt_token_ids"] == tokens["tokens"]
    text = post(simulator, "/detokenize", {"tokens": choice["token_ids"]}).json["prompt"]
    assert text == choice["text"]
    assert post(simulator, "/tokenize", HELLO).json["count"] == 9
    assert post(simulator, "/tokenize", {}).status == 400
    assert post(simulator, "/detokenize", {"tokens": ["x"]}).status == 400


def test_prompt_logprobs(simulator: Simulator) -> None:
    first, second = complete(simulator, prompt_logprobs=1)["choices"][0]["prompt_logprobs"]
    assert first is None
    assert next(iter(second.values()))["decoded_token"] == " two"


def test_second_time_hits_the_prefix_cache(able: Simulator) -> None:
    prompt = " ".join(f"word{number}" for number in range(40))
    before = metric(able, "vllm:prefix_cache_hits_total")
    cold, warm = (complete(able, prompt)["usage"]["prompt_tokens_details"] for _ in range(2))
    assert (cold["cached_tokens"], warm["cached_tokens"]) == (0, 32)
    assert metric(able, "vllm:prefix_cache_hits_total") == before + 32
    assert metric(able, "vllm:prefix_cache_queries_total") >= 80


def test_prefix_hit_saves_its_prefill(start_simulator: Start) -> None:
    simulator = start_simulator(first_seconds=0, prefill_seconds=1)
    sums = []
    for _ in range(2):
        complete(simulator, list(range(100, 500)), max_tokens=1)
        sums.append(metric(simulator, "vllm:request_prefill_time_seconds_sum"))
    assert sums[1] - sums[0] < sums[0] / 4


def test_lower_priority_number_goes_first(start_simulator: Start) -> None:
    simulator = start_simulator(
        "--scheduling-policy=priority", "--max-num-seqs=1", first_seconds=0, token_seconds=0.05
    )
    ended: list[int] = []

    def ask(priority: int, tokens: int) -> None:
        complete(simulator, priority=priority, max_tokens=tokens, ignore_eos=True)
        ended.append(priority)

    def waiting(count: int) -> bool:
        return metric(simulator, "vllm:num_requests_waiting") == count

    threads = []
    for number, (priority, tokens) in enumerate([(0, 30), (9, 1), (1, 1)]):
        threads.append(threading.Thread(target=ask, args=(priority, tokens)))
        threads[-1].start()
        while not (waiting(number) and metric(simulator, "vllm:num_requests_running") == 1):
            pass
    for thread in threads:
        thread.join()
    assert ended == [0, 1, 9]


def test_chat_of_a_base_model_without_a_template(start_simulator: Start) -> None:
    simulator = start_simulator(chat_template="none", first_seconds=0)
    answer = post(simulator, CHAT, HELLO)
    assert answer.status == 400
    assert answer.error.startswith("As of transformers v4.44, default chat template is no longer")
    assert complete(simulator)["choices"]
    assert chat(start_simulator("--chat-template=x", chat_template="none"))["choices"]


def test_load_is_counted_only_on_request(start_simulator: Start, simulator: Simulator) -> None:
    assert get(simulator, "/load").json == {"server_load": 0}
    tracking = start_simulator("--enable-server-load-tracking", fault="no-token")

    def ask() -> None:
        with contextlib.suppress(OSError):
            post(tracking, COMPLETIONS, {"prompt": "x"})

    thread = threading.Thread(target=ask)
    thread.start()
    while get(tracking, "/load").json != {"server_load": 1}:
        pass
    tracking.stop()
    thread.join()


def test_api_keys_guard_v1_only(start_simulator: Start) -> None:
    simulator = start_simulator("--api-key", "one", "two")
    for key, status in (("one", 200), ("two", 200), ("three", 401)):
        assert get(simulator, "/v1/models", {"Authorization": f"Bearer {key}"}).status == status
    assert get(simulator, "/v1/models").json == {"error": "Unauthorized"}
    assert post(simulator, "/tokenize", {"prompt": "x"}).status == 200
    from_environment = start_simulator(env={"VLLM_API_KEY": "three"})
    assert get(from_environment, "/v1/models").status == 401


def test_every_served_name_is_the_same_model(start_simulator: Start) -> None:
    simulator = start_simulator("--served-model-name", "a", "b", first_seconds=0)
    cards = get(simulator, "/v1/models").json["data"]
    assert [(card["id"], card["root"], card["parent"]) for card in cards] == [
        ("a", "/models/tiny", None),
        ("b", "/models/tiny", None),
    ]
    answers = [complete(simulator, model=name) for name in ("a", "b")]
    assert [answer["model"] for answer in answers] == ["a", "a"]
    assert answers[0]["choices"] == answers[1]["choices"]


def test_fine_kernels_are_cold_each_by_itself(start_simulator: Start) -> None:
    simulator = start_simulator("--max-num-batched-tokens=64", kernel_classes="fine")

    def late(prompt: object, **options: Any) -> set[str]:
        before = simulator.log.read_text()
        complete(simulator, prompt, **options)
        lines = simulator.log.read_text()[len(before) :]
        return set(re.findall(r"during inference: _sim_(\S+)_kernel\.", lines))

    assert late("x") == {
        "any_one_any_prefill",
        "any_any_single_decode",
        "completions_any_any_plain",
    }
    assert late("x") == set()
    assert late("a b") == {"any_short_any_prefill"}
    assert late(list(range(16))) == {"any_short-aligned_any_prefill"}
    assert late("a b", seed=1, temperature=1) == {"any_any_any_seed", "any_any_any_sampling"}
    assert late(list(range(16)), seed=1, temperature=1) == set()
    assert late(list(range(70))) == {"any_medium_any_prefill", "any_any_any_chunked"}

"""Which buckets an engine gets, in which order."""

from __future__ import annotations

from typing import Any

import pytest

from unit.sidecar.planning.served import BASE, at, bodies, bucket, names, plan, served
from warmpod.api.warmup import Prefix
from warmpod.sidecar.planning import Served, TokenCost, waves_for
from warmpod.sidecar.planning.model import Endpoint

EMBEDDING = {"embeddings": TokenCost(1.0), "pooling": TokenCost(1.0)}


def test_the_most_used_come_first() -> None:
    found = names(plan(served()))
    assert found[:4] == [
        "chat/stream/sampled/p16/c1",
        "chat/whole/sampled/p16/c1",
        "completion/stream/sampled/p16/c1",
        "completion/whole/sampled/p16/c1",
    ]
    assert found[4:8] == [f"chat/stream/sampled/p16/c{n}" for n in (2, 8, 32, 256)]
    assert len(found) == len(set(found))


def test_prompt_lengths_at_the_edges_are_exact() -> None:
    made = plan(served(traits={"max_num_batched_tokens": 2048}))
    lengths = (1, 2, 15, 16, 17, 1024, 2048, 3073)
    for length in lengths:
        (body,) = bodies(made, f"completion/stream/sampled/p{length}/c1")
        assert len(body["prompt"]) == length
        assert set(body["prompt"]) <= {7, 8, 9}


def test_without_token_ids_prompts_are_words() -> None:
    (body,) = bodies(plan(served(token_ids=())), "completion/stream/sampled/p17/c1")
    assert len(body["prompt"].split()) == 17


def test_given_lengths_and_numbers_replace_the_derived_ones() -> None:
    found = names(plan(served(), prompt_tokens=(16, 128), concurrency=(4, 2)))
    plain = [name for name in found if "/sampled/" in name]
    assert {name.split("/")[-1] for name in plain} == {"c4", "c2"}
    assert {name.split("/")[-2] for name in plain} == {"p16", "p128"}


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (1, [1]),
        (2, [1, 2]),
        (8, [1, 2, 8]),
        (64, [1, 2, 8, 64]),
        (100, [1, 2, 8, 32, 100]),
        (4096, [1, 2, 8, 32, 256]),
    ],
)
def test_numbers_of_requests_go_up_to_what_runs_at_once(most: int, expected: list[int]) -> None:
    made = plan(served(traits={"max_num_seqs": most}))
    plain = [b for b in made.buckets if b.name.startswith("chat/stream/sampled/p16/")]
    assert [each.concurrency for each in plain] == expected
    assert [len(waves_for(each)[-1]) for each in plain] == expected


def test_what_was_assumed_is_said() -> None:
    (note,) = plan(served()).notes
    assert "--max-num-batched-tokens (8192 is assumed) and --max-num-seqs (256" in note
    assert "config file" in plan(served(traits={"config_file": True})).notes[0]
    known = {"max_num_batched_tokens": 2048, "max_num_seqs": 8}
    assert plan(served(traits=known)).notes == ()
    assert plan(served(), prompt_tokens=(16,), concurrency=(1,)).notes == ()


def test_the_same_prompt_comes_twice_and_all_others_are_new() -> None:
    made = plan(served())
    first, second = waves_for(bucket(made, "repeat"))
    assert first == second
    assert waves_for(bucket(made, "repeat"))[0] != first
    many = waves_for(bucket(made, "chat/stream/sampled/p16/c256"))[0]
    assert len({body["messages"][0]["content"] for body in many}) > 250


def test_a_long_prompt_comes_while_others_decode() -> None:
    made = plan(served(traits={"max_num_batched_tokens": 64, "max_num_seqs": 3}))
    *streams, prefill = bodies(made, "prefill-while-decoding")
    assert len(streams) == 2
    assert all(stream["max_tokens"] > prefill["max_tokens"] for stream in streams)
    assert len(prefill["messages"][0]["content"].split()) > 64
    alone = plan(served(traits={"max_num_seqs": 1}))
    assert "prefill-while-decoding" not in names(alone)


SAMPLERS: list[tuple[str, dict[str, Any]]] = [
    ("chat/stream/greedy/p16/c1", {"temperature": 0}),
    ("sampler/min-p", {"temperature": 0.8, "top_p": 0.95, "top_k": 20, "min_p": 0.05}),
    ("sampler/seed", {"seed": 7}),
    ("sampler/penalties", {"presence_penalty": 0.5, "repetition_penalty": 1.1}),
    ("sampler/n", {"n": 2}),
    ("sampler/bad-words", {"bad_words": ["zebra"]}),
    ("sampler/logit-bias", {"logit_bias": {"7": 1.0}}),
    ("sampler/min-tokens", {"min_tokens": 4, "max_tokens": 4}),
    ("sampler/logprobs", {"logprobs": True, "top_logprobs": 5}),
    ("sampler/prompt-logprobs", {"prompt_logprobs": 1}),
    ("structured/json-object", {"response_format": {"type": "json_object"}, "ignore_eos": False}),
    ("structured/regex", {"structured_outputs": {"regex": "[a-z]{4,12}"}}),
]


@pytest.mark.parametrize(("name", "fields"), SAMPLERS)
def test_features_of_requests(name: str, fields: dict[str, Any]) -> None:
    (body,) = bodies(plan(served()), name)
    assert body.items() >= fields.items()


def test_log_probabilities_are_asked_for_as_the_endpoint_wants_it() -> None:
    found = bucket(plan(served(BASE)), "sampler/logprobs").waves
    assert [ask.body["logprobs"] for (ask,) in found] == [0, 1, 3, 10, 20, 5]
    assert "prompt_logprobs" not in str(bodies(plan(served()), "sampler/logprobs"))
    assert "stream" not in bodies(plan(served()), "sampler/prompt-logprobs")[0]


def test_no_more_log_probabilities_are_asked_for_than_the_engine_gives() -> None:
    found = bucket(plan(served(traits={"max_logprobs": 4})), "sampler/logprobs").waves
    assert [ask.body["top_logprobs"] for (ask,) in found] == [0, 1, 3]


def test_json_schema() -> None:
    (body,) = bodies(plan(served()), "structured/json-schema")
    assert body["response_format"]["type"] == "json_schema"
    assert body["response_format"]["json_schema"]["schema"]["required"] == ["name", "count"]


@pytest.mark.parametrize(
    ("traits", "extra"),
    [
        ({}, set()),
        ({"tool_parser": "hermes"}, set()),
        ({"tool_parser": "hermes", "auto_tool_choice": True}, {"tools/auto"}),
        ({"reasoning_parser": "qwen3"}, {"reasoning"}),
        ({"speculative": True}, {"speculative"}),
    ],
)
def test_what_only_some_arguments_bring(traits: dict[str, Any], extra: set[str]) -> None:
    found = names(plan(served(traits=traits)))
    assert {name for name in found if name in ("tools/auto", "reasoning", "speculative")} == extra


def test_answers_of_reasoning_models_are_longer() -> None:
    made = plan(served(traits={"reasoning_parser": "qwen3"}))
    assert bodies(made, "chat/stream/sampled/p16/c1")[0]["max_tokens"] == 16
    assert bodies(made, "reasoning")[0]["max_tokens"] == 32


def test_what_the_engine_refuses_is_left_out() -> None:
    found = names(plan(served(refuses=("image/", "structured/", "sampler/n"))))
    assert not [name for name in found if name.startswith(("image/", "structured/", "sampler/n"))]
    assert "sampler/seed" in found


def test_images_of_three_sizes_where_the_context_holds_them() -> None:
    made = plan(served())
    (body,) = bodies(made, "image/large")
    image, text = body["messages"][0]["content"]
    assert image["image_url"]["url"].startswith("data:image/png;base64,")
    assert text["type"] == "text"
    assert {n for n in names(plan(served(max_model_len=1024))) if "image" in n} == {
        "image/small",
        "image/medium",
    }
    assert "image/small" not in names(plan(served(traits={"images_per_prompt": 0})))


def test_each_adapter_is_asked_by_its_name() -> None:
    made = plan(served(adapters=("sql", "org/other")))
    assert bodies(made, "adapter/sql/chat")[0]["model"] == "sql"
    assert bodies(made, "adapter/org/other/chat")[0]["model"] == "org/other"
    base = plan(served(BASE, adapters=("sql",)))
    assert bodies(base, "adapter/sql/completion")[0]["model"] == "sql"
    pooling = plan(served(EMBEDDING, adapters=("sql",)))
    assert bodies(pooling, "adapter/sql/embeddings")[0]["model"] == "sql"


def test_without_chat_template_everything_is_completion() -> None:
    made = plan(served(BASE, notes=("chat is not served",)))
    assert at("completion", made) == names(made)
    assert made.notes[0] == "chat is not served"
    assert "structured/json-object" in names(made)


PREFIX = Prefix(name="rules", text="You are a careful assistant. " * 20)


def test_a_prefix_is_put_into_the_cache_and_found_there() -> None:
    made = plan(served(), prefixes=(PREFIX,))
    first, second = waves_for(bucket(made, "prefix/rules"))
    system = {"role": "system", "content": PREFIX.text}
    assert first[0]["messages"][0] == second[0]["messages"][0] == system
    assert first[0]["messages"][1] != second[0]["messages"][1]


def test_a_prefix_where_the_template_has_no_system_prompt() -> None:
    made = plan(served(refuses=("system-prompt",)), prefixes=(PREFIX,))
    (message,) = bodies(made, "prefix/rules")[0]["messages"]
    assert message["role"] == "user"
    assert message["content"].startswith(PREFIX.text)
    (body,) = bodies(plan(served(BASE), prefixes=(PREFIX,)), "prefix/rules")
    assert body["prompt"].startswith(PREFIX.text)


def test_a_prefix_that_the_context_does_not_hold_is_left_out() -> None:
    made = plan(served(max_model_len=64), prefixes=(PREFIX,))
    assert "prefix/rules" not in names(made)
    assert any("prefix/rules is left out" in note for note in made.notes)


def fields_of(costs: dict[Endpoint, TokenCost], name: str) -> dict[str, Any]:
    (body,) = bodies(plan(served(costs)), name)
    return body


def test_embeddings_by_length_batch_and_number() -> None:
    made = plan(served(EMBEDDING, traits={"max_num_seqs": 8, "max_num_batched_tokens": 512}))
    assert names(made)[:2] == ["embeddings/p16/c1", "pooling/p16/c1"]
    assert len(fields_of(EMBEDDING, "embeddings/p17/c1")["input"]) == 17
    batch = bodies(made, "embeddings/p16/b8/c1")[0]["input"]
    assert [len(text) for text in batch] == [16] * 8
    assert bucket(made, "embeddings/p16/c8").concurrency == 8
    assert not any(each.stream for each in made.buckets)
    assert at("pooling", made) == ["pooling/p16/c1"]


def test_scores_and_ranks() -> None:
    costs: dict[Endpoint, TokenCost] = {"score": TokenCost(1.0, 3.0), "rerank": TokenCost(1.0, 3.0)}
    score = fields_of(costs, "score/p16/c1")
    assert len(score["text_1"].split()) == len(score["text_2"].split()) == 6
    assert len(fields_of(costs, "score/p16/b8/c1")["text_2"]) == 8
    rerank = fields_of(costs, "rerank/p16/c1")
    assert isinstance(rerank["query"], str)
    assert len(rerank["documents"]) == 1


def test_classes() -> None:
    assert len(fields_of({"classify": TokenCost(1.0)}, "classify/p2/c1")["input"]) == 2


def test_sounds() -> None:
    made = plan(served({"transcription": TokenCost(1.0)}))
    assert names(made) == ["transcription/short", "transcription/long"]
    (body,) = bodies(made, "transcription/short")
    assert body["file"].startswith(b"RIFF")
    assert len(body["file"]) == 44 + 2 * 16000


# --- skipping and what is left ------------------------------------------------------------------


def test_buckets_are_skipped_by_name() -> None:
    found = names(plan(served(), skip=("sampler/*", "chat/whole/*", "*/c256", "repeat")))
    assert not [name for name in found if name.startswith(("sampler/", "chat/whole/", "repeat"))]
    assert "chat/stream/sampled/p16/c32" in found
    assert "chat/stream/sampled/p16/c256" not in found


def test_skipping_everything_leaves_one_with_a_note() -> None:
    made = plan(served(), skip=("*",))
    assert names(made) == ["chat/stream/sampled/p16/c1"]
    assert "spec.warmup.skip leaves nothing" in made.notes[-1]


def test_only_what_is_new_is_left_after_a_plan() -> None:
    before = plan(served())
    after = plan(served(adapters=("sql",)))
    assert names(after.without(before.names)) == ["adapter/sql/chat"]
    assert names(after.without(after.names)) == []


# --- short contexts -----------------------------------------------------------------------------


def test_lengths_are_cut_to_the_context_with_a_note_where_they_were_given() -> None:
    made = plan(served(max_model_len=64), prompt_tokens=(16, 128), concurrency=(1,))
    assert "completion/stream/sampled/p60/c1" in names(made)
    assert made.notes == (
        "prompts of 128 tokens (spec.warmup.promptTokens) are cut to 48: the engine's context "
        "length is 64",
    )


@pytest.mark.parametrize("max_model_len", range(2, 17))
def test_the_shortest_contexts_get_a_plan(max_model_len: int) -> None:
    made = plan(served(max_model_len=max_model_len))
    assert names(made)
    if max_model_len < 10:  # the template alone takes 8
        assert at("chat", made) == []
        assert any("chat is left out: its shortest prompt" in note for note in made.notes)
    for each in made.buckets:
        for body in waves_for(each)[-1]:
            assert tokens_of(body) + body["max_tokens"] <= max_model_len, each.name


def tokens_of(body: dict[str, Any]) -> int:
    if "prompt" in body:
        prompt = body["prompt"]
        return len(prompt) if isinstance(prompt, list) else len(prompt.split())
    return 8 + sum(len(str(message["content"]).split()) for message in body["messages"])


def test_a_context_of_one_token_still_asks_the_engine() -> None:
    made = plan(served(BASE, max_model_len=1))
    (body,) = bodies(made, "completion/stream/sampled/p1/c1")
    assert body["max_tokens"] == 1


def test_an_engine_that_gives_one_token_is_asked_for_one() -> None:
    made = plan(served(answer_tokens=1))
    assert {body["max_tokens"] for each in made.buckets for body in waves_for(each)[-1]} == {1}


def test_words_follow_from_what_a_word_costs() -> None:
    costs: dict[Endpoint, TokenCost] = {"chat": TokenCost(2.0, 20.0), "completion": TokenCost(2.0)}
    made = plan(served(costs, token_ids=()), prompt_tokens=(16, 128), concurrency=(1,))
    words = {
        each.name: len(str(body.get("prompt") or body["messages"][0]["content"]).split())
        for each in made.buckets
        if "/sampled/" in each.name
        for body in waves_for(each)[-1]
    }
    assert words == {
        "chat/stream/sampled/p16/c1": 1,
        "chat/whole/sampled/p16/c1": 1,
        "completion/stream/sampled/p16/c1": 8,
        "completion/whole/sampled/p16/c1": 8,
        "completion/stream/sampled/p128/c1": 64,
    }


def test_nothing_served_is_an_empty_plan() -> None:
    assert names(plan(Served("m", 2048, {}))) == []

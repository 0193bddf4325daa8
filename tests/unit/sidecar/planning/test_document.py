"""A plan as JSON, and what can be expected of an engine by its spec alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from unit.resources.samples import warm_model
from unit.sidecar.planning.served import plan, served
from warmpod.api.warmup import Prefix
from warmpod.sidecar.planning import make_plan, plan_document
from warmpod.sidecar.planning.assumed import assumed


def test_document() -> None:
    made = plan(
        served(traits={"max_num_seqs": 4}),
        prompt_tokens=(16,),
        prefixes=(Prefix(name="a", text="b"),),
    )
    document = json.loads(json.dumps(plan_document(made)))
    by_name = {bucket["name"]: bucket for bucket in document["buckets"]}
    assert by_name["chat/stream/sampled/p16/c4"] == {
        "name": "chat/stream/sampled/p16/c4",
        "endpoint": "chat",
        "stream": True,
        "concurrency": 4,
        "requests": 4,
        "tokens": 80,
        "what": "4 requests at once, prompts of about 16 tokens",
    }
    assert by_name["prefix/a"]["requests"] == 2
    assert by_name["prefix/a"]["concurrency"] == 1
    assert document["notes"] == list(made.notes)


def expected(*args: str, **warmup: Any) -> list[str]:
    model = warm_model(engine={"args": list(args)}, warmup=warmup)
    return [bucket.name for bucket in make_plan(assumed(model), model.spec.warmup).buckets]


@pytest.mark.parametrize(
    ("args", "some"),
    [
        ([], "chat/stream/sampled/p16/c1"),
        (["--max-num-seqs=6"], "chat/stream/sampled/p16/c6"),
        (["--max-model-len=100"], "completion/stream/sampled/p96/c1"),
        (["--max-num-batched-tokens=2048"], "completion/stream/sampled/p3073/c1"),
        (["--enable-auto-tool-choice", "--tool-call-parser=hermes"], "tools/auto"),
        (["--reasoning-parser=qwen3"], "reasoning"),
        (["--lora-modules", "sql=/loras/sql"], "adapter/sql/chat"),
        (["--limit-mm-per-prompt", '{"image": 1}'], "image/small"),
        (["--runner=pooling"], "embeddings/p16/c1"),
        (["--task=embed"], "embeddings/p17/c1"),
        (["--convert=classify"], "classify/p16/c1"),
        (["--task=score"], "rerank/p16/c1"),
        (["--task=transcription"], "transcription/short"),
    ],
)
def test_what_the_arguments_show_is_expected(args: list[str], some: str) -> None:
    assert some in expected(*args)


def test_images_are_not_expected_without_a_word_about_them() -> None:
    assert not [name for name in expected() if name.startswith("image/")]


def test_an_unknown_context_is_said() -> None:
    assert any("--max-model-len" in note for note in assumed(warm_model()).notes)
    known = assumed(warm_model(engine={"args": ["--max-model-len=8k"]}))
    assert known.max_model_len == 8000
    assert not any("--max-model-len" in note for note in known.notes)

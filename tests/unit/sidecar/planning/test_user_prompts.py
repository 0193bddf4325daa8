"""Requests of the user's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unit.sidecar.planning.served import BASE, BOTH, WARMUP, served
from warmpod.api.warmup import ConfigMapSource, WarmupPrompt
from warmpod.sidecar.planning import (
    TokenCost,
    UserPrompt,
    inline_prompts,
    make_plan,
    read_prompts,
    waves_for,
)
from warmpod.sidecar.planning.user import MOST_NOTES, MOST_PROMPTS, user_buckets

EMBEDDING = {"embeddings": TokenCost(1.0)}


def body_of(prompt: UserPrompt, costs: Any = BOTH, **engine: Any) -> dict[str, Any]:
    (bucket,), notes = user_buckets(served(costs, **engine), [prompt])
    assert notes == ()
    return waves_for(bucket)[0][0]


def test_a_text_is_a_chat_where_there_is_chat() -> None:
    text = UserPrompt("a", text="Tell me.")
    chat = body_of(text)
    assert chat["messages"] == [{"role": "user", "content": "Tell me."}]
    assert chat["max_tokens"] == 16
    assert chat["stream"] is True
    assert body_of(text, BASE)["prompt"] == "Tell me."
    assert body_of(text, EMBEDDING) == {"model": "tiny", "input": "Tell me."}


def test_a_body_is_sent_as_it_is_but_for_model_and_a_bound() -> None:
    body = {"model": "gpt-4", "messages": [{"role": "user", "content": "hi"}], "top_p": 0.3}
    assert body_of(UserPrompt("a", body=body)) == body | {"model": "tiny", "max_tokens": 16}
    bounded = body | {"max_completion_tokens": 3, "model": "sql"}
    assert body_of(UserPrompt("a", body=bounded), adapters=("sql",)) == bounded


@pytest.mark.parametrize(
    ("body", "endpoint"),
    [
        ({"messages": []}, "chat"),
        ({"prompt": "x"}, "completion"),
        ({"input": "x"}, "embeddings"),
        ({"query": "x", "documents": ["y"]}, "rerank"),
        ({"text_1": "x", "text_2": "y"}, "score"),
    ],
)
def test_a_body_shows_its_endpoint(body: dict[str, Any], endpoint: str) -> None:
    costs: dict[Any, TokenCost] = {
        each: TokenCost(1.0) for each in ("chat", "completion", "embeddings", "rerank", "score")
    }
    (bucket,), _ = user_buckets(served(costs), [UserPrompt("a", body=body)])
    assert bucket.endpoint == endpoint


def test_what_the_engine_has_no_endpoint_for_is_left_out_with_a_note() -> None:
    prompts = [
        UserPrompt("a", body={"input": "x"}),
        UserPrompt("b", body={"x": 1}),
        UserPrompt("c", text="one " * 40_000),
    ]
    buckets, notes = user_buckets(served(), prompts)
    assert buckets == []
    assert "user/a is left out: the engine does not serve embeddings or" in notes[0]
    assert "user/b is left out: its body has none of the fields messages" in notes[1]
    assert "user/c is left out: it does not fit into the engine's context length" in notes[2]


def test_prompts_of_the_spec() -> None:
    given = [
        WarmupPrompt(name="a", text="x", endpoint="Completion"),
        WarmupPrompt(name="b", body={"messages": []}),
    ]
    made = make_plan(served(), WARMUP, inline_prompts(given))
    own = [bucket for bucket in made.buckets if bucket.name.startswith("user/")]
    assert [bucket.endpoint for bucket in own] == ["completion", "chat"]
    assert own[0].name.startswith("user/a#")
    assert [each.name for each in made.buckets].index(own[0].name) == 4  # after the plain ones


def test_a_changed_prompt_is_a_new_bucket() -> None:
    before, same, after = (UserPrompt("a", text=text).bucket_name for text in "xxy")
    assert before == same != after
    first = make_plan(served(), WARMUP, [UserPrompt("a", text="x"), UserPrompt("b", text="x")])
    second = make_plan(served(), WARMUP, [UserPrompt("a", text="y"), UserPrompt("b", text="x")])
    assert [bucket.name for bucket in second.without(first.names).buckets] == [after]


def test_a_prompt_is_skipped_by_its_name_without_its_content() -> None:
    warmup = WARMUP.model_copy(update={"skip": ("user/a",)})
    made = make_plan(served(), warmup, [UserPrompt("a", text="x"), UserPrompt("b", text="x")])
    own = [bucket.name for bucket in made.buckets if bucket.name.startswith("user/")]
    assert len(own) == 1
    assert own[0].startswith("user/b#")


# --- files --------------------------------------------------------------------------------------


def mounted(folder: Path, **files: str) -> Path:
    """A ConfigMap as the kubelet mounts it: links into a hidden folder."""
    hidden = folder / "mine" / "..2026"
    hidden.mkdir(parents=True)
    for name, content in files.items():
        key = name.replace("__", ".")
        (hidden / key).write_text(content)
        (folder / "mine" / key).symlink_to(hidden / key)
    return folder


SOURCE = (ConfigMapSource(config_map="mine"),)


def test_texts_and_lines_of_a_config_map(tmp_path: Path) -> None:
    lines = '{"messages": []}\n\n{"prompt": "x"}\n'
    prompts, notes = read_prompts(mounted(tmp_path, b__txt="Tell me.\n", a__jsonl=lines), SOURCE)
    assert notes == ()
    assert [(each.name, each.text, each.body) for each in prompts] == [
        ("mine/a.jsonl:1", None, {"messages": []}),
        ("mine/a.jsonl:3", None, {"prompt": "x"}),
        ("mine/b.txt", "Tell me.\n", None),
    ]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("3", "not a JSON object"),
        ('{"x": 1}', "no request body"),
    ],
)
def test_a_bad_line_becomes_a_note_that_names_it(tmp_path: Path, line: str, why: str) -> None:
    lines = f'{{"prompt": "x"}}\n{line}\n{{"prompt": "y"}}\n'
    prompts, notes = read_prompts(mounted(tmp_path, a__jsonl=lines), SOURCE)
    assert [each.name for each in prompts] == ["mine/a.jsonl:1", "mine/a.jsonl:3"]
    (note,) = notes
    assert note.startswith(f"ConfigMap mine, key a.jsonl, line 2 is left out: {why}")


def test_files_that_cannot_be_read_become_notes(tmp_path: Path) -> None:
    folder = mounted(tmp_path, empty=" \n", good="x")
    (folder / "mine" / "binary").write_bytes(b"\xff\xfe")
    prompts, notes = read_prompts(folder, SOURCE)
    assert [each.name for each in prompts] == ["mine/good"]
    assert "key binary is left out" in notes[0]
    assert notes[1] == "ConfigMap mine, key empty is empty"


def test_a_config_map_that_is_not_there_yet_is_no_problem(tmp_path: Path) -> None:
    assert read_prompts(tmp_path, SOURCE) == ([], ())


def test_the_number_of_prompts_is_bounded(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps({"prompt": str(i)}) for i in range(MOST_PROMPTS + 5))
    prompts, (note,) = read_prompts(mounted(tmp_path, a__jsonl=lines), SOURCE)
    assert len(prompts) == MOST_PROMPTS
    assert f"of {MOST_PROMPTS + 5} prompts" in note


def test_a_file_that_is_no_list_of_bodies_has_few_notes(tmp_path: Path) -> None:
    """A ConfigMap holds 1 MiB, and each note is shown, logged and compared with the others."""
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "list.jsonl").write_text("word\n" * 100_000)
    prompts, notes = read_prompts(tmp_path, [ConfigMapSource(config_map="words")])
    assert prompts == []
    assert len(notes) == MOST_NOTES + 1
    assert notes[-1].endswith("what follows is not looked at")

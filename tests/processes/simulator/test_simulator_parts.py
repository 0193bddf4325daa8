"""The parts that need no server: made-up content, caches, places, docs."""

from __future__ import annotations

import asyncio
import dataclasses
import re

import pytest
from engine_sim import faults
from engine_sim.arguments import parse_arguments
from engine_sim.buckets import Bucket, fine_batch_class, fine_prompt_class, finely_touched
from engine_sim.constraints import instance
from engine_sim.hardware import Hardware
from engine_sim.knobs import Knobs
from engine_sim.model import describe
from engine_sim.patterns import matching
from engine_sim.prefixcache import PrefixCache
from engine_sim.slots import Slots
from engine_sim.tokens import fine_pieces, ids, pieces, text
from engine_sim.words import Draws

from simulator.harness import SIMULATOR

README = (SIMULATOR.parent / "README.md").read_text()


@pytest.mark.parametrize(
    "pattern",
    [
        r"[a-c]{3}",
        r"\d+\.\d{2}",
        r"(yes|no)( indeed)?",
        r"[^x]y*",
        r"\w\s.",
        r"^(?:GET|POST) /v1/\w+$",
    ],
)
def test_made_up_text_fits_its_pattern(pattern: str) -> None:
    for key in "abcdefgh":
        assert re.fullmatch(pattern, matching(pattern, Draws(key)))


@pytest.mark.parametrize("pattern", ["(", r"(a)\1", "(?=a)b"])
def test_pattern_that_cannot_be_made_up(pattern: str) -> None:
    with pytest.raises(ValueError, match="regular expression"):
        matching(pattern, Draws(""))


@pytest.mark.parametrize(
    ("schema", "fits"),
    [
        ({"const": 3}, lambda value: value == 3),
        ({"enum": ["a", "b"]}, lambda value: value in ("a", "b")),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, lambda value: value is None),
        ({"type": "integer", "minimum": 5, "maximum": 6}, lambda value: value in (5, 6)),
        ({"type": ["boolean", "null"]}, lambda value: isinstance(value, bool)),
        ({"type": "array", "minItems": 2}, lambda value: len(value) == 2),
        ({"type": "string", "maxLength": 3}, lambda value: len(value) == 3),
        ({"type": "string", "pattern": "a{2}"}, lambda value: value == "aa"),
        ({"properties": {"x": {}}}, lambda value: set(value) == {"x"}),
        (True, lambda value: isinstance(value, str)),
    ],
)
def test_made_up_value_fits_its_schema(schema: object, fits: object) -> None:
    assert callable(fits)
    assert fits(instance(schema, Draws("key")))


def test_recursive_schema_ends() -> None:
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#"}, "name": {"type": "string"}},
        "required": ["name"],
    }
    assert "name" in instance(node, Draws("key"))


@pytest.mark.parametrize("cut", [pieces, fine_pieces])
@pytest.mark.parametrize("given", ["one two", " a  b ", '{"a": [1, 2]}', "\n", "x"])
def test_tokens_together_are_the_text(cut: object, given: str) -> None:
    assert callable(cut)
    assert text(ids(cut(given))) == given


def test_a_word_is_a_token() -> None:
    assert len(pieces("three short words ")) == 3


def test_blocks_count_only_from_the_start_and_as_a_whole() -> None:
    cache = PrefixCache(tokens=1024)
    assert cache.take("", range(40)) == 0
    assert cache.take("", [*range(32), 99, 99]) == 32
    assert cache.take("", [99, *range(1, 40)]) == 0
    assert cache.take("adapter", range(40)) == 0
    # The last token is always computed.
    assert cache.take("", range(32)) == 16
    cache.clear()
    assert cache.take("", range(40)) == 0


def test_full_prefix_cache_forgets_what_was_used_least_lately() -> None:
    cache = PrefixCache(tokens=32)
    for start in (0, 100, 200):
        cache.take("", range(start, start + 17))
    assert [cache.take("", range(start, start + 17)) for start in (200, 0)] == [16, 0]


async def test_places_go_to_the_lowest_priority_and_never_get_lost() -> None:
    slots = Slots(1)
    await slots.take()
    order: list[str] = []

    async def work(name: str, priority: int) -> None:
        await slots.take(priority)
        order.append(name)
        slots.give_back()

    tasks = [
        asyncio.create_task(work(name, priority))
        for name, priority in (("late", 9), ("gone", 0), ("first", 1), ("second", 1))
    ]
    await asyncio.sleep(0)
    tasks[1].cancel()
    slots.give_back()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == ["first", "second", "late"]
    await asyncio.wait_for(slots.take(), 5)


@pytest.mark.parametrize(
    ("tokens", "kind"),
    [(1, "one"), (2, "short"), (16, "short-aligned"), (17, "short"), (1024, "medium-aligned")],
)
def test_fine_classes_have_the_edges_of_triton(tokens: int, kind: str) -> None:
    assert fine_prompt_class(tokens) == kind


@pytest.mark.parametrize(
    ("running", "kind"), [(1, "single"), (2, "batch"), (9, "crowd"), (16, "aligned")]
)
def test_fine_batches_have_these_edges_too(running: int, kind: str) -> None:
    assert fine_batch_class(running) == kind


def test_fine_kernels_know_nothing_of_each_other() -> None:
    """A feature that is warm with one length is warm with every length."""
    one, other = (set(finely_touched("chat", tokens, 1, {"seed"})) for tokens in (1, 2))
    assert one ^ other == {
        Bucket("any", "one", "any", "prefill"),
        Bucket("any", "short", "any", "prefill"),
    }


def test_cold_cost_decays() -> None:
    hardware = Hardware(Knobs(first_seconds=1, cold_decay=0.5))
    costs = [hardware.prefill(1, cold, 2, 0) for cold in (0, 1, 2, -1)]
    assert costs == [1, 0.5, 0.25, 0]


def test_schema_costs_once() -> None:
    hardware = Hardware(Knobs(schema_seconds=1))
    assert [hardware.schema(schema) for schema in ("", "a", "a", "b")] == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("arguments", "architecture", "tasks"),
    [
        ([], "", ("generate",)),
        (["--runner", "pooling"], "", ("token_embed", "embed")),
        (["--task=classify"], "", ("classify",)),
        (["--convert=embed"], "", ("token_embed", "embed")),
        ([], "BertForSequenceClassification", ("classify",)),
        ([], "BertForTokenClassification", ("token_classify",)),
        ([], "WhisperForConditionalGeneration", ("transcription",)),
        (["--runner=generate"], "BertModel", ("generate",)),
    ],
)
def test_tasks_of_a_model(arguments: list[str], architecture: str, tasks: tuple[str, ...]) -> None:
    model = describe(parse_arguments(["m", *arguments]), Knobs(architecture=architecture))
    assert model.tasks == tasks


def test_arguments_may_be_spelled_with_underscores_and_unknown_ones_are_ignored() -> None:
    arguments = parse_arguments(
        ["m", "--max_model_len=7", "--gpu-memory-utilization", "0.9", "--no-enable-prefix-caching"]
    )
    assert (arguments.max_model_len, arguments.prefix_caching) == (7, False)


def test_every_knob_and_every_fault_is_described() -> None:
    knobs = {f"SIM_{field.name.upper()}" for field in dataclasses.fields(Knobs)}
    names = {*faults.PLAIN, *faults.COUNTED, *faults.OPTIONAL}
    described = set(re.findall(r"^\| `([^`=\[]+)", README, re.MULTILINE))
    assert knobs | names <= described

"""Start-ups as text, SVG, HTML and JSON."""

from __future__ import annotations

import io
import json
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from unit.cli import documents
from warmpod.cli import render, timeline, waterfall
from warmpod.cli.timeline import Shown
from warmpod.protocol import TIMELINE_CONDITION
from warmpod.startup.phases import Phase, Startup


def text(found: list[Shown]) -> str:
    console = Console(file=io.StringIO(), width=160, highlight=False)
    console.print(render.startups(found))
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())  # type: ignore[attr-defined]


def drawings(found: list[Shown]) -> list[str]:
    """In every way; the XML ones are well-formed."""
    svg, html, as_json = (
        waterfall.svg(found),
        waterfall.html(found, "tiny"),
        waterfall.as_json(found),
    )
    ElementTree.fromstring(svg)
    ElementTree.fromstring(html.removeprefix("<!DOCTYPE html>\n"))
    json.loads(as_json)
    return [text(found), svg, html, as_json]


def everything() -> list[Shown]:
    return timeline.startups(documents.warm_model(), documents.pods())


def of_message(message: Any, **pod: Any) -> list[Shown]:
    whole = message if isinstance(message, str) else json.dumps(message)
    condition = {"type": TIMELINE_CONDITION, "status": "True", "message": whole}
    document = documents.pod("p", "engine", [condition])
    document["metadata"] |= pod
    return timeline.startups({}, [document])


def test_living_pods_come_first_and_once() -> None:
    assert [(shown.pod, shown.boot) for shown in everything()] == [
        ("tiny-1", "abc123"),
        ("tiny-0", "fff"),
        ("tiny-3", "eee"),
    ]


def test_as_text(snapshot: SnapshotAssertion) -> None:
    assert text(everything()) == snapshot


def test_as_svg(snapshot: SnapshotAssertion) -> None:
    assert waterfall.svg(everything()) == snapshot


def test_as_html(snapshot: SnapshotAssertion) -> None:
    assert waterfall.html(everything(), "tiny") == snapshot


def test_as_json(snapshot: SnapshotAssertion) -> None:
    assert waterfall.as_json(everything()) == snapshot


def test_pictures_load_nothing_from_outside() -> None:
    page = waterfall.html(everything(), "tiny")
    found = re.findall(r"""(?:src|href|url|@import|https?:)[^\s>]*""", page)
    assert {each for each in found if "www.w3.org" not in each} == set()
    assert "<script" not in page


def test_pictures_follow_the_readers_colours() -> None:
    assert "prefers-color-scheme: dark" in waterfall.svg([])
    assert "color-scheme: light dark" in waterfall.html([], "tiny")


def test_text_from_the_cluster_is_escaped() -> None:
    evil = "</text><script>alert(1)</script>\x00\x1b[31m\ud800"
    shown = Shown(evil, evil, evil, Startup(0.0, (Phase("other", 0, 1, detail=evil),)), (evil,))
    _, svg, html, _ = drawings([shown])
    assert "<script" not in svg + html
    assert "\x00" not in svg + html


def test_a_later_boot_begins_with_the_boot_not_with_the_pod() -> None:
    (shown,) = of_message(documents.TIMELINE | {"cause": "engine-died"})
    first = shown.startup.phases[0]
    assert (first.name, first.seconds) == ("import", 10)


def test_of_a_later_boot_an_old_status_remembers_only_the_boot() -> None:
    item = {"cause": "engine-died", "startSeconds": 900, "engineSeconds": 20, "warmupSeconds": 5}
    shown = timeline.from_status(item)
    assert [(phase.name, phase.start, phase.end) for phase in shown.startup.phases] == [
        ("start-engine", 0, 20),
        ("rounds", 20, 25),
    ]


def test_a_start_up_under_way_ends_where_it_is() -> None:
    (shown,) = of_message({"cause": "pod-start", "launcher": documents.ZERO + 4, "gate": None})
    assert shown.startup.seconds == 4


def test_what_is_told_below_the_bars() -> None:
    more = {
        "cause": "warmup-failed",
        "restarts": 2,
        "compare": {"samples": 8, "differing": 1, "largest": 0.125},
    }
    (shown,) = of_message(documents.TIMELINE | more)
    assert "2 boots before it failed to become warm" in shown.remarks
    assert (
        "compared with other settings: 1 of 8 answers differ, logprobs by at most 0.125"
        in shown.remarks
    )
    assert shown.remarks[0] == (
        "bounded by: import vLLM (not logged) 22%, load the weights 22%, compile 16%"
    )


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ({"wanted": "Multithread", "used": "Multithread", "why": "x"}, "Multithread"),
        (
            {"wanted": "Tensorizer", "used": "Auto", "why": "it is not there"},
            "Auto in place of Tensorizer: it is not there",
        ),
    ],
)
def test_the_loader_is_told_from_the_pod_and_from_the_status(
    choice: dict[str, str], told: str
) -> None:
    remark = f"loader of the weights: {told}"
    (shown,) = of_message({"boot": "a", "gate": 2.0, "loader": choice})
    assert remark in shown.remarks
    assert remark in timeline.from_status({"pod": "p", "loader": told}).remarks


@pytest.mark.parametrize("loader", [None, "Multithread", {}, {"wanted": 1, "used": "Auto"}])
def test_a_loader_that_makes_no_sense_is_not_told(loader: Any) -> None:
    (shown,) = of_message({"boot": "a", "gate": 2.0, "loader": loader})
    assert not [remark for remark in shown.remarks if "loader" in remark]


def test_a_miss_of_the_compile_cache_is_told_with_its_reason() -> None:
    why = "argument max-model-len changed"
    remark = f"compile cache: miss ({why})"
    (shown,) = of_message({"boot": "a", "gate": 2.0, "compile": "miss", "compileWhy": why})
    assert remark in shown.remarks
    entry = {"pod": "p", "compile": "miss", "compileWhy": why}
    assert remark in timeline.from_status(entry).remarks


@pytest.mark.parametrize(
    ("start", "told"),
    [
        ({"how": "forked", "import_seconds": 15.9}, "forked"),
        ({"how": "plain", "why": "no memory"}, "plain: no memory"),
    ],
)
def test_the_start_of_the_engine_is_told_from_the_pod_and_from_the_status(
    start: dict[str, Any], told: str
) -> None:
    remark = f"engine start: {told}"
    (shown,) = of_message({"boot": "a", "gate": 2.0, "start": start})
    assert remark in shown.remarks
    assert remark in timeline.from_status({"pod": "p", "engineStart": told}).remarks


@pytest.mark.parametrize("start", [None, "forked", {}, {"how": 1}])
def test_a_start_that_makes_no_sense_is_not_told(start: Any) -> None:
    (shown,) = of_message({"boot": "a", "gate": 2.0, "start": start})
    assert not [remark for remark in shown.remarks if "engine start" in remark]


def test_no_start_up_yet() -> None:
    shown = drawings([])
    assert shown[0] == "No start-up has been reported yet."
    assert "No start-up has been reported yet." in shown[1]


ZERO = documents.ZERO


@pytest.mark.parametrize(
    ("message", "pod"),
    [
        ("", {}),
        ("{", {}),
        ("[]", {}),
        ("{}", {}),
        ({"boot": None, "cause": 3, "stages": None, "silent": "x", "gate": "soon"}, {}),
        ({"cause": "pod-start", "launcher": ZERO + 3, "gate": ZERO + 9}, {"creationTimestamp": ""}),
        (documents.TIMELINE, {"creationTimestamp": "2036-01-01T10:00:00Z"}),
        (documents.TIMELINE, {"creationTimestamp": "1970-01-01T00:00:00Z"}),
        ({"cause": "engine-died", "boot_started": ZERO + 9, "http": ZERO + 3, "gate": ZERO}, {}),
        ({"cause": "engine-died", "boot_started": 0, "gate": 99_999_999_999}, {}),
        ({"boot_started": ZERO, "gate": ZERO}, {}),
        (
            {
                "boot_started": ZERO,
                "stages": {f"stage{n}": ZERO + n for n in range(5000)},
                "took": {f"stage{n}": n for n in range(5000)},
                "silent": [[ZERO + n, ZERO + n + 9, f"compilers: {n}"] for n in range(5000)],
                "gate": ZERO + 5000,
            },
            {},
        ),
    ],
    ids=[
        "empty",
        "cut",
        "list",
        "nothing",
        "wrong types",
        "no creation",
        "created after it was warm",
        "a clock that was never set",
        "backwards",
        "three thousand years",
        "no time at all",
        "thousands of stages",
    ],
)
def test_weird_records_are_drawn_as_far_as_they_make_sense(message: Any, pod: Any) -> None:
    drawings(of_message(message, **pod))


def test_thousands_of_phases_are_drawn() -> None:
    kinds = ("logged", "silent", "kubernetes")
    phases = [
        Phase("other", n, n + 1, kinds[n % 3], f"stage {n}", critical=n % 2 == 0)  # type: ignore[arg-type]
        for n in range(3000)
    ]
    assert "stage 2999" in drawings([Shown("p", "b", "c", Startup(0.0, tuple(phases)))])[1]


def test_a_status_of_another_version_is_drawn() -> None:
    drawings([timeline.from_status({}), timeline.from_status({"phases": [], "rounds": "x"})])

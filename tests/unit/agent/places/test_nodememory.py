import shutil
from pathlib import Path

import pytest

from unit.weights.models import SHARDS, make_model, rewrite_in_time
from warmpod.agent.copies.nodecopy import NodeCopies
from warmpod.agent.places import nodememory
from warmpod.agent.places.nodememory import NodeMemoryWeights
from warmpod.agent.places.weights import Untouched
from warmpod.agent.progress import Progress
from warmpod.agent.sources.origin import Kind, Origin


@pytest.fixture
def fills(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The sources that were copied from."""
    sources = []
    plain = nodememory.fill

    def counting(source, *arguments):
        sources.append(source)
        return plain(source, *arguments)

    monkeypatch.setattr(nodememory, "fill", counting)
    return sources


def agent(source: Path, uid: str = "u-1", kind: Kind = Kind.CLAIM) -> NodeMemoryWeights:
    origin = Untouched(source, Origin(kind, "models"))
    root = source.with_name("memory")
    root.mkdir(exist_ok=True)
    return NodeMemoryWeights(origin, NodeCopies(root, uid, ["k"]), "k")


def look(weights: NodeMemoryWeights) -> None:
    if weights.survey().findings:
        weights.prepare(Progress())


def test_a_copy_follows_a_source_that_nothing_promises_the_content_of(
    tmp_path: Path, fills: list[Path]
) -> None:
    source = make_model(tmp_path / "source")
    weights = agent(source)
    for _ in range(3):
        look(weights)
    assert len(fills) == 1
    look(agent(source))
    assert len(fills) == 1
    rewrite_in_time(source / SHARDS[0])
    (finding,) = weights.survey().findings
    assert finding.path == SHARDS[0]
    look(weights)
    copy = tmp_path / "memory" / "k" / SHARDS[0]
    assert copy.read_bytes() == (source / SHARDS[0]).read_bytes()
    assert not weights.survey().findings


def test_two_that_see_one_source_differently_do_not_take_turns(
    tmp_path: Path, fills: list[Path]
) -> None:
    """As through mounts of their own, where each has its own times."""
    source = make_model(tmp_path / "source")
    shutil.copytree(source, tmp_path / "other")
    both = [agent(source, "u-1"), agent(tmp_path / "other", "u-2")]
    for _ in range(5):
        for weights in both:
            look(weights)
    assert fills == [source, tmp_path / "other"]


def test_the_digest_of_an_image_says_what_it_holds(tmp_path: Path, fills: list[Path]) -> None:
    """Unpacked once more, its files have other times."""
    source = make_model(tmp_path / "source")
    look(agent(source, kind=Kind.IMAGE))
    (source / SHARDS[0]).chmod(0o755)
    look(agent(source, kind=Kind.IMAGE))
    assert len(fills) == 1

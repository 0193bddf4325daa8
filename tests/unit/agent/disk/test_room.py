"""No room for what agents keep beside the weights: where, and what helps."""

import errno
from pathlib import Path

import pytest

from unit.weights.models import make_model
from warmpod import reasons
from warmpod.agent.config import Medium
from warmpod.agent.copies.nodecopy import NodeCopies
from warmpod.agent.keeper import Keeper
from warmpod.agent.lifecycle import Verdict, decide
from warmpod.agent.places.inplace import InPlaceWeights
from warmpod.agent.places.nodememory import NodeMemoryWeights
from warmpod.agent.places.staged import StagedWeights
from warmpod.agent.places.weights import Untouched, Weights
from warmpod.agent.progress import Progress
from warmpod.agent.sources.origin import Kind, Origin
from warmpod.weights import manifest
from warmpod.weights.receipt import Receipt

CLAIM = Origin(Kind.CLAIM, "models")
DISK = Origin(Kind.DOWNLOAD, "", "/var/lib/warmpod/weights")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    model = make_model(tmp_path / "model")
    manifest.write(model, manifest.from_directory(model))
    return model


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def in_memory(model: Path) -> Weights:
    copies = NodeCopies(model.with_name("memory"), "u", ["k"])
    return NodeMemoryWeights(Untouched(model, CLAIM), copies, "k")


def staged(model: Path) -> Weights:
    copies = NodeCopies(model.with_name("staged"), "u", ["k"])
    return StagedWeights(copies, "k", {"http": {"url": "http://none/"}}, None, DISK)


def in_place(model: Path) -> Weights:
    return InPlaceWeights(model, model.with_name("receipt.json"), CLAIM)


def verdict(weights: Weights, medium: Medium = Medium.POD_MEMORY) -> Verdict:
    weights.directory.parent.mkdir(exist_ok=True)
    keeper = Keeper(medium, weights, Progress(), lambda: None)
    keeper.look()
    return decide(keeper.facts())


def test_for_a_ref_in_memory(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NodeCopies, "join", full)
    found = verdict(in_memory(model), Medium.NODE_MEMORY)
    assert found.reason == reasons.MEMORY_TOO_SMALL
    assert "no room left in /dev/shm/warmpod/k on the node — remove what else" in found.message


def test_for_a_ref_on_disk(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NodeCopies, "join", full)
    found = verdict(staged(model))
    assert found.reason == reasons.DISK_FULL
    assert "/var/lib/warmpod/weights: the disk is full" in found.message
    assert "remove what fills the disk" in found.message


def test_for_the_receipt_of_a_copy(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Receipt, "save", full)
    found = verdict(in_memory(model), Medium.NODE_MEMORY)
    assert found.reason == reasons.MEMORY_TOO_SMALL
    assert "left in /dev/shm/warmpod/k on the node — remove what else" in found.message


def test_for_the_receipt_of_what_lies_in_place(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It only spares the next agent something; but one from before must not stay."""
    model.with_name("receipt.json").write_text("{}")
    monkeypatch.setattr(Receipt, "save", full)
    assert verdict(in_place(model)).ready
    assert not model.with_name("receipt.json").exists()

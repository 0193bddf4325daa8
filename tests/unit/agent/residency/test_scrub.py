import os
import threading
from pathlib import Path

import pytest

from unit.weights.models import SHARDS, make_model, spoil_unseen
from warmpod import reasons
from warmpod.agent.copies.nodecopy import NodeCopies
from warmpod.agent.places.inplace import InPlaceWeights
from warmpod.agent.places.staged import StagedWeights
from warmpod.agent.places.weights import Weights
from warmpod.agent.progress import Cancelled, Progress
from warmpod.agent.residency.scrub import LOWEST_PRIORITY, background, changed_content
from warmpod.protocol import RECEIPT_NAME
from warmpod.weights import manifest
from warmpod.weights.hashing import unwatched
from warmpod.weights.receipt import Receipt
from warmpod.weights.verify import expectations, verify


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return make_model(tmp_path / "model")


@pytest.fixture
def receipt(model: Path) -> Receipt:
    return verify(model, expectations(model), Receipt(), unwatched).receipt


def test_only_content_that_changed_unseen_is_found(
    model: Path, receipt: Receipt, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(changed_content(model, receipt, unwatched)) == []
    spoil_unseen(model / SHARDS[0], monkeypatch)
    (model / SHARDS[1]).write_bytes(b"seen by any look")
    (found,) = changed_content(model, receipt, unwatched)
    assert (found.path, found.reason) == (SHARDS[0], reasons.DIGEST_MISMATCH)
    assert "when verified it was" in found.detail


def test_a_file_that_is_gone_is_left_to_the_next_look(model: Path, receipt: Receipt) -> None:
    (model / SHARDS[0]).unlink()
    assert list(changed_content(model, receipt, unwatched)) == []


def test_it_can_be_stopped(model: Path, receipt: Receipt) -> None:
    def stop(_: int) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        list(changed_content(model, receipt, stop))


def test_it_runs_behind_everything_else() -> None:
    def priority() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    before = priority()
    with background(1) as executor:
        assert executor.submit(priority).result() == LOWEST_PRIORITY
    assert priority() == before


def killed_at_once(weights: Weights) -> None:
    """While it reads the doubted file again."""
    progress = Progress()
    progress.stop()
    with pytest.raises(Cancelled):
        weights.prepare(progress)


def test_who_comes_after_a_killed_agent_does_not_believe_the_doubted_receipt(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest.write(model, manifest.from_directory(model))
    weights = InPlaceWeights(model, tmp_path / "receipt.json")
    assert not weights.prepare(Progress()).findings
    spoil_unseen(model / SHARDS[0], monkeypatch)
    assert not weights.survey().findings
    weights.doubts.add(changed_content(model, weights.known(), unwatched))
    killed_at_once(weights)
    (finding,) = InPlaceWeights(model, tmp_path / "receipt.json").survey().findings
    assert finding.path == SHARDS[0]


def test_nor_do_engines_start_on_a_doubted_download(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest.write(model, manifest.from_directory(model))
    (tmp_path / "staged").mkdir()
    model.rename(tmp_path / "staged" / "k")
    copies = NodeCopies(tmp_path / "staged", "u", ["k"])
    weights = StagedWeights(copies, "k", {"http": {"url": "http://none/"}}, None)
    assert not weights.prepare(Progress()).findings
    spoil_unseen(weights.directory / SHARDS[0], monkeypatch)
    weights.doubts.add(changed_content(weights.directory, weights.known(), unwatched))
    killed_at_once(weights)
    assert not (weights.directory / RECEIPT_NAME).exists()

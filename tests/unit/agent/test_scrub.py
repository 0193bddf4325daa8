import os
import threading
from pathlib import Path

import pytest

from unit.weights.models import SHARDS, make_model, spoil_unseen
from warmpod import reasons
from warmpod.agent.progress import Cancelled
from warmpod.agent.scrub import LOWEST_PRIORITY, background, changed_content
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

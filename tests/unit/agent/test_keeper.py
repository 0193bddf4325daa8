import os
from pathlib import Path

from unit.weights.models import SHARDS, make_model, rewrite_in_time
from warmpod import reasons
from warmpod.agent.config import Medium
from warmpod.agent.keeper import Keeper
from warmpod.agent.lifecycle import decide
from warmpod.agent.places.inplace import InPlaceWeights
from warmpod.agent.progress import Progress, Stage
from warmpod.weights import manifest


class Loading(Progress):
    """Somebody writes to a file while it is brought into memory."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file
        self.written = False

    def watch(self, count: int) -> None:
        super().watch(count)
        if self.snapshot().stage is Stage.LOADING and not self.written:
            rewrite_in_time(self._file)
            self.written = True


def drop_from_memory(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def test_a_file_that_is_written_to_while_it_is_loaded_is_not_resident(tmp_path: Path) -> None:
    model = make_model(tmp_path / "model")
    manifest.write(model, manifest.from_directory(model))
    receipt = tmp_path / "receipt.json"
    InPlaceWeights(model, receipt).prepare(Progress())
    for shard in SHARDS:
        drop_from_memory(model / shard)
    progress = Loading(model / SHARDS[0])
    keeper = Keeper(Medium.IMAGE, InPlaceWeights(model, receipt), progress, lambda: None)
    keeper.look()
    assert progress.written
    assert decide(keeper.facts()).reason == reasons.NOT_RESIDENT
    keeper.look()
    assert decide(keeper.facts()).reason == reasons.DIGEST_MISMATCH

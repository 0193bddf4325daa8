import pytest

from warmpod.agent.progress import Cancelled, Progress, Snapshot, Stage

GIB = 2**30


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_rate_and_time_left_are_those_of_the_last_tenth() -> None:
    clock = Clock()
    progress = Progress(clock)
    progress.begin(Stage.VERIFYING, 10 * GIB)
    assert progress.snapshot().seconds_left is None
    clock.now += 4
    progress.watch(GIB)
    clock.now += 1
    progress.watch(GIB)
    now = progress.snapshot()
    assert (now.step, now.rate, now.seconds_left) == (2, GIB, 8.0)
    clock.now += 60
    progress.watch(GIB // 2)
    # Within a tenth only the count moves, so that a message made of the rest stays the same.
    assert progress.snapshot() == Snapshot(Stage.VERIFYING, 10 * GIB, 5 * GIB // 2, 2, GIB)


def test_a_new_stage_starts_from_nothing() -> None:
    progress = Progress(Clock())
    progress.begin(Stage.STAGING, 10)
    progress.watch(5)
    progress.begin(Stage.VERIFYING, 20)
    assert progress.snapshot() == Snapshot(Stage.VERIFYING, 20)
    progress.finish()
    assert progress.snapshot() == Snapshot(Stage.CHECKED)


def test_an_unknown_or_exceeded_total_does_no_harm() -> None:
    progress = Progress(Clock())
    progress.begin(Stage.STAGING, 0)
    progress.watch(5)
    assert progress.snapshot() == Snapshot(Stage.STAGING, 0, 5)
    progress.begin(Stage.STAGING, 10)
    progress.watch(15)
    assert progress.snapshot().step == 10


def test_stopping_reaches_whoever_works_or_waits() -> None:
    progress = Progress(Clock())
    progress.stop()
    with pytest.raises(Cancelled):
        progress.watch(0)
    with pytest.raises(Cancelled):
        progress.pause(60)

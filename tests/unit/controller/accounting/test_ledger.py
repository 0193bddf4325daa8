"""What changes of pods are counted as."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from unit.controller.accounting.pods import (
    Clock,
    asleep,
    cold,
    died,
    serving,
    standby,
    waking,
    warm,
)
from warmpod.controller.accounting.ledger import Ledger, Waiting
from warmpod.controller.accounting.rate import Rate
from warmpod.controller.accounting.totals import Totals
from warmpod.controller.objects.views import PodView


class Story:
    """One thing after another, a second apart."""

    def __init__(self, *, start_seconds: float | None = 60.0) -> None:
        self.clock = Clock()
        self.ledger = Ledger(self.clock())
        self.ledger.start_seconds = start_seconds

    def sees(self, *pods: PodView, after: float = 1.0) -> Story:
        for pod in pods:
            self.clock.now += after
            self.ledger.saw(pod, self.clock())
        return self

    @property
    def totals(self) -> Totals:
        return self.ledger.totals(self.clock())

    @property
    def counts(self) -> tuple[int, int, int]:
        found = self.totals
        return found.warm_hits, found.sleeping_hits, found.cold_starts


@pytest.fixture
def story() -> Story:
    return Story()


# --- Outcomes -------------------------------------------------------------------------------------


def test_a_warm_pod_that_is_promoted_is_a_warm_hit(story: Story) -> None:
    story.sees(standby("a", warm), serving("a", warm, promoted="Awake"))
    assert story.counts == (1, 0, 0)
    assert story.totals.seconds_saved == 60


def test_a_pod_that_starts_because_it_is_needed_is_a_cold_start(story: Story) -> None:
    story.sees(serving("a", cold), serving("a", cold), serving("a", warm))
    assert story.counts == (0, 0, 1)
    assert story.totals.seconds_saved == 0


def test_a_pod_that_refills_the_pool_is_neither(story: Story) -> None:
    """Pods are born serving, and the operator holds back what exceeds the demand."""
    story.sees(serving("a", cold), standby("a", cold), standby("a", warm))
    assert story.counts == (0, 0, 0)
    story.sees(serving("a", warm, promoted="Awake"))
    assert story.counts == (1, 0, 0)


def test_a_pod_that_is_promoted_before_it_is_warm_was_too_late(story: Story) -> None:
    story.sees(serving("a", cold), standby("a", cold), serving("a", cold), serving("a", warm))
    assert story.counts == (0, 0, 1)


def test_a_sleeping_pod_is_a_hit_when_it_takes_traffic(story: Story) -> None:
    story.sees(standby("a", asleep), serving("a", asleep, promoted="Sleeping"))
    assert story.counts == (0, 0, 0)
    story.sees(serving("a", waking, promoted="Sleeping"), serving("a", warm, promoted="Sleeping"))
    assert story.counts == (0, 1, 0)
    assert story.totals.seconds_saved == 60 - 2


def test_a_pod_that_was_woken_before_it_was_promoted_is_a_sleeping_hit(story: Story) -> None:
    story.sees(standby("a", asleep), standby("a", warm), serving("a", warm, promoted="Sleeping"))
    assert story.counts == (0, 1, 0)


def test_a_sleeping_pod_that_does_not_wake_is_no_hit(story: Story) -> None:
    story.sees(
        standby("a", asleep),
        serving("a", asleep, promoted="Sleeping"),
        standby("a", asleep),
        standby("a", warm),
    )
    assert story.counts == (0, 0, 0)


def test_waking_for_longer_than_a_start_saves_nothing(story: Story) -> None:
    story.sees(standby("a", asleep), serving("a", asleep, promoted="Sleeping"))
    story.sees(serving("a", warm, promoted="Sleeping"), after=100)
    assert story.counts == (0, 1, 0)
    assert story.totals.seconds_saved == 0


def test_nothing_is_saved_while_nobody_knows_what_a_start_takes() -> None:
    story = Story(start_seconds=None)
    story.sees(standby("a", warm), serving("a", warm, promoted="Awake"))
    assert story.counts == (1, 0, 0)
    assert story.totals.seconds_saved == 0


def test_each_promotion_counts_also_of_the_same_pod(story: Story) -> None:
    for _ in range(3):
        story.sees(standby("a", warm), serving("a", warm, promoted="Awake"))
    assert story.counts == (3, 0, 0)


def test_a_pod_that_comes_back_in_place_is_not_counted(story: Story) -> None:
    story.sees(serving("a", cold), serving("a", warm), serving("a", died), serving("a", warm))
    assert story.counts == (0, 0, 1)


def test_what_was_before_the_first_look_is_not_counted(story: Story) -> None:
    story.sees(serving("a", warm), serving("b", died), serving("b", warm))
    assert story.counts == (0, 0, 0)


def test_a_pod_that_is_deleted_before_it_is_warm_is_not_counted(story: Story) -> None:
    story.sees(serving("a", cold))
    story.ledger.lost(serving("a", cold), story.clock())
    story.sees(serving("a", warm))
    assert story.counts == (0, 0, 0)


def test_pods_of_a_rollout_replace_warm_ones_and_nobody_waits(story: Story) -> None:
    story.sees(serving("old", warm), serving("new", cold, revision="r2"))
    story.sees(standby("new", cold, revision="r2"), standby("new", warm, revision="r2"))
    story.sees(serving("new", warm, promoted="Awake", revision="r2"), standby("old", warm))
    assert story.counts == (0, 0, 0)


def test_a_new_revision_with_nothing_warm_beside_it_is_a_cold_start(story: Story) -> None:
    story.sees(serving("old", warm))
    story.ledger.lost(serving("old", warm), story.clock())
    story.sees(serving("new", cold, revision="r2"), serving("new", warm, revision="r2"))
    assert story.counts == (0, 0, 1)


# --- GPU seconds ----------------------------------------------------------------------------------


def test_gpu_seconds_are_of_pods_that_are_warm_and_do_not_serve(story: Story) -> None:
    story.ledger.price(Rate(2, Decimal("3.6")), story.clock())
    story.sees(standby("a", warm), serving("b", warm), standby("c", cold), after=0)
    story.clock.now += 100
    assert story.totals.awake_gpu_seconds == 200
    story.sees(standby("a", asleep), standby("c", waking), after=0)
    story.clock.now += 10
    assert story.totals.awake_gpu_seconds == 200
    assert story.totals.asleep_gpu_seconds == 40
    assert story.totals.cost == pytest.approx(240 / 3600 * 3.6)
    story.sees(serving("a", waking, promoted="Sleeping"), after=0)
    story.ledger.lost(standby("c", waking), story.clock())
    story.clock.now += 1000
    assert story.totals.gpu_seconds == 240


def test_what_waited_is_paid_at_the_price_of_its_time(story: Story) -> None:
    story.sees(standby("a", warm))
    story.clock.now += 3600
    story.ledger.price(Rate(1, Decimal(2)), story.clock())
    story.clock.now += 3600
    story.ledger.price(Rate(1, Decimal(5)), story.clock())
    story.clock.now += 3600
    assert story.totals.cost == pytest.approx(7)


def test_pods_that_end_wait_no_more(story: Story) -> None:
    story.ledger.price(Rate(1), story.clock())
    ending = standby("a", warm)
    story.sees(ending)
    assert story.ledger.is_accruing
    story.sees(replace(ending, meta=replace(ending.meta, deleting=True)))
    assert story.totals.gpu_seconds == 1
    assert not story.ledger.is_accruing
    story.sees(standby("b", warm), replace(standby("b", warm), phase="Failed"))
    assert not story.ledger.is_accruing
    assert +story.ledger.waiting == {}


def test_pods_are_told_by_what_they_do(story: Story) -> None:
    story.sees(standby("a", warm), standby("b", asleep), standby("c", cold), serving("d", warm))
    assert story.ledger.waiting == {Waiting.AWAKE: 1, Waiting.ASLEEP: 1, Waiting.STARTING: 1}
    assert not story.ledger.is_accruing  # on processors alone

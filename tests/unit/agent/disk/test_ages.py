"""How old refs are when clocks are set, nodes sleep, and file systems are another machine's."""

import pytest

from warmpod.agent.disk.ages import Ages

NOW = 1_800_000_000.0
UPTIME = 50_000.0


@pytest.fixture
def ages() -> Ages:
    ages = Ages()
    ages.look(NOW, UPTIME)
    return ages


def test_age_is_by_the_file_systems_clock(ages: Ages) -> None:
    assert ages.of(NOW - 900) == 900
    ages.look(NOW + 60, UPTIME + 60)
    assert ages.of(NOW - 900) == 960


def test_the_time_in_which_the_node_was_off_does_not_count() -> None:
    ages = Ages()
    ages.look(NOW, 30)
    assert ages.of(NOW - 4000) == 30


@pytest.mark.parametrize("step", [3600.0, -3600.0, 400_000_000.0, -400_000_000.0])
def test_setting_the_clock_makes_nothing_older(ages: Ages, step: float) -> None:
    """What was touched right before, by an agent that restarts."""
    ages.look(NOW + 60 + step, UPTIME + 60)
    assert ages.of(NOW + 59) == 0
    ages.look(NOW + 120 + step, UPTIME + 120)
    assert ages.of(NOW + 59) == 60


def test_after_a_clock_was_set_back_a_ref_still_gets_old(ages: Ages) -> None:
    for passed in range(0, 960, 60):
        ages.look(NOW - 1e8 + passed, UPTIME + passed)
    assert ages.of(NOW) == 900


def test_an_agent_that_starts_after_the_clock_was_set_back_counts_from_its_start() -> None:
    ages = Ages()
    ages.look(NOW, UPTIME)
    assert ages.of(NOW + 3000) == 0
    ages.look(NOW + 60, UPTIME + 60)
    assert ages.of(NOW + 3000) == 60


def test_a_clock_that_is_slewed_was_not_set(ages: Ages) -> None:
    """As NTP does, by 500 parts in a million; a little ahead is not the future."""
    for passed in range(0, 90_000, 60):
        ages.look(NOW + passed * 1.0005, UPTIME + passed)
    assert ages.of(NOW) > 80_000
    assert ages.of(NOW + 89_990) == 0


def test_a_node_that_slept_does_not_count_its_sleep(ages: Ages) -> None:
    """CLOCK_MONOTONIC stands still meanwhile."""
    ages.look(NOW + 7200, UPTIME + 10)
    assert ages.of(NOW) == 0

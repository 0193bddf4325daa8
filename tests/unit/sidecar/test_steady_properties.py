"""What holds for every series of latencies: ten thousand of them."""

import itertools
import random
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from support.generated import generated
from warmpod.sidecar.steady import (
    FIRST_TOKEN_FLOOR,
    INTER_TOKEN_FLOOR,
    WINDOW,
    Round,
    bucket_figures,
    judge,
)

TOLERANCES = st.integers(5, 200)

# Draws a whole history from one seed: as varied as drawn value by value, and thirty times faster.
SEEDS = st.integers(0, 2**63)


def latency(rng: random.Random) -> float:
    """Seconds, from a tenth of a millisecond to a minute."""
    return 10 ** rng.uniform(-4, 1.8)


def any_round(rng: random.Random, buckets: list[str]) -> Round:
    def values(share: float) -> dict[str, tuple[float, ...]]:
        return {
            bucket: tuple(latency(rng) for _ in range(rng.choice([0, 1, 1, 2, 4])))
            for bucket in buckets
            if rng.random() < share
        }

    return Round(
        values(0.95),
        values(0.7),
        ("500",) if rng.random() < 0.1 else (),
        rng.choice([0, 0, 0, 0, 1]),
        rng.choice([0, 0, 0, 0, 3]),
    )


def any_history(seed: int) -> list[Round]:
    """Mostly alike rounds, so that some settle, with every kind of trouble in between."""
    rng = random.Random(seed)
    buckets = [f"bucket{i}" for i in range(rng.choice([1, 1, 2, 4]))]
    usual = Round(
        {bucket: (latency(rng),) for bucket in buckets},
        {bucket: (latency(rng),) for bucket in buckets if rng.random() < 0.5},
    )
    return [
        usual if rng.random() < 0.7 else any_round(rng, buckets) for _ in range(rng.randint(0, 9))
    ]


def shuffled(each: Round, rng: random.Random) -> Round:
    def shuffle(values: dict[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
        items = [(name, tuple(rng.sample(some, len(some)))) for name, some in values.items()]
        rng.shuffle(items)
        return dict(items)

    return Round(
        shuffle(dict(each.first_token)),
        shuffle(dict(each.inter_token)),
        each.problems,
        each.late_compiles,
        each.cache_growth,
    )


@generated(5000)
@given(SEEDS, TOLERANCES)
def test_settles_on_no_bad_round_and_in_no_order(seed: int, tolerance: int) -> None:
    rounds = any_history(seed)
    judgement = judge(rounds, tolerance)
    if judgement.settled:
        assert len(rounds) >= WINDOW
        assert all(each.sound for each in rounds[-WINDOW:])
        assert not rounds[-1].late_compiles
        assert not rounds[-1].cache_growth
    other = [shuffled(each, random.Random(seed)) for each in rounds]
    assert judge(other, tolerance) == judgement
    assert bucket_figures(other) == bucket_figures(rounds)


def steady_round(
    rng: random.Random, paces: dict[str, float], above: float, extra: float = 0.0
) -> Round:
    """Each value up to `above` of its bucket's pace too slow, by `extra` seconds more."""

    def values(scale: float) -> dict[str, tuple[float, ...]]:
        return {
            name: tuple(
                pace * scale * (1 + rng.uniform(0, above)) + extra
                for _ in range(rng.choice([1, 3]))
            )
            for name, pace in paces.items()
        }

    return Round(values(1), values(0.2))


def any_paces(rng: random.Random) -> dict[str, float]:
    return {f"bucket{i}": latency(rng) for i in range(rng.choice([1, 1, 3, 9]))}


@generated(1000)
@given(SEEDS, TOLERANCES)
def test_noise_below_the_tolerance_settles_with_the_third_round(seed: int, tolerance: int) -> None:
    rng = random.Random(seed)
    paces = any_paces(rng)
    rounds = [steady_round(rng, paces, above=0.99 * tolerance / 100) for _ in range(WINDOW)]
    assert not judge(rounds[:-1], tolerance).settled
    assert judge(rounds, tolerance).settled


@generated(1000)
@given(SEEDS, TOLERANCES)
def test_noise_below_the_floor_settles_with_the_third_round(seed: int, tolerance: int) -> None:
    rng = random.Random(seed)
    paces = any_paces(rng)
    floor = 0.99 * min(FIRST_TOKEN_FLOOR, INTER_TOKEN_FLOOR)
    rounds = [
        steady_round(rng, paces, above=0.0, extra=rng.uniform(0, floor)) for _ in range(WINDOW)
    ]
    assert judge(rounds, tolerance).settled


def rounds_to_settle(rounds: Iterator[Round], tolerance: int, most: int) -> int:
    played: list[Round] = []
    for each in itertools.islice(rounds, most):
        played.append(each)
        if judge(played, tolerance).settled:
            return len(played)
    raise AssertionError(f"not settled in {most} rounds: {judge(played, tolerance).why}")


@generated(1000)
@given(SEEDS, TOLERANCES, st.integers(0, 25))
def test_cold_rounds_however_many_are_left_behind(seed: int, tolerance: int, cold: int) -> None:
    rng = random.Random(seed)
    paces = any_paces(rng)

    def rounds() -> Iterator[Round]:
        for left in range(cold, 0, -1):
            yield steady_round(rng, {name: pace * 4**left for name, pace in paces.items()}, 0.0)
        while True:
            yield steady_round(rng, paces, above=0.99 * tolerance / 100)

    assert rounds_to_settle(rounds(), tolerance, cold + WINDOW + 2) <= cold + WINDOW + 2


@generated(1000)
@given(SEEDS, st.integers(10, 200), st.floats(0.5, 20))
def test_noise_far_above_the_tolerance_ends_all_the_same(
    seed: int, tolerance: int, above: float
) -> None:
    """The best of a bucket cannot get better for ever, so the number of rounds is bounded."""
    rng = random.Random(seed)
    paces = any_paces(rng)

    def rounds() -> Iterator[Round]:
        while True:
            yield steady_round(rng, paces, above)

    rounds_to_settle(rounds(), tolerance, 100)


@generated(1000)
@given(SEEDS, st.integers(5, 90), st.booleans())
def test_not_settled_while_a_bucket_falls_with_every_round(
    seed: int, tolerance: int, between_tokens: bool
) -> None:
    rng = random.Random(seed)
    paces = any_paces(rng)
    falling = rng.choice(sorted(paces))
    factor = (1 - tolerance / 100) * rng.uniform(0.5, 0.99)
    # The last step is still above the floor.
    value = 2 * max(FIRST_TOKEN_FLOOR, INTER_TOKEN_FLOOR) / (1 - factor)
    series = [value / factor**left for left in range(rng.randint(3, 8))][::-1]
    rounds = []
    for value in series:
        steady = steady_round(rng, paces, 0.0)
        figure = dict(steady.inter_token if between_tokens else steady.first_token)
        figure[falling] = (value,)
        rounds.append(
            Round(steady.first_token, figure)
            if between_tokens
            else Round(figure, steady.inter_token)
        )
        assert not judge(rounds, tolerance).settled

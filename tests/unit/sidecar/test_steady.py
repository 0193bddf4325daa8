import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmpod.sidecar.steady import FLOOR, Round, judge, steady_first_token

MILLISECONDS = st.floats(0.1, 5000)


def rounds_of(series: dict[str, list[float]]) -> list[Round]:
    """One round an index; milliseconds."""
    count = len(next(iter(series.values())))
    return [
        Round({name: (values[i] / 1000,) for name, values in series.items()}) for i in range(count)
    ]


def many(count: int, values: list[float]) -> dict[str, list[float]]:
    return {f"steady{i}": values for i in range(count)}


@pytest.mark.parametrize(
    ("series", "settled"),
    [
        pytest.param({"a": [100, 100]}, False, id="two rounds are not enough"),
        pytest.param({"a": [100, 100, 100]}, True, id="three equal rounds"),
        pytest.param({"a": [900, 100, 100]}, False, id="cold first round in the window"),
        pytest.param({"a": [900, 100, 100, 101]}, True, id="cold first round left behind"),
        pytest.param({"a": [900, 800, 100, 100]}, False, id="two cold rounds"),
        pytest.param({"a": [900, 800, 100, 100, 100]}, True, id="two cold rounds left behind"),
        pytest.param({"a": [100, 124, 100]}, True, id="within the tolerance"),
        pytest.param({"a": [100, 130, 100]}, False, id="outside the tolerance"),
        pytest.param({"a": [124, 100, 80]}, False, id="still falling"),
        pytest.param({"a": [80, 100, 124]}, True, id="rising is not a matter of warmth"),
        pytest.param({"a": [2, 14, 5]}, True, id="differences below the floor"),
        pytest.param({"a": [100] * 3, "b": [900, 100, 100]}, False, id="one bucket of two"),
        pytest.param(
            many(20, [100] * 3) | {"b": [100, 500, 100]}, True, id="one outlier in sixty values"
        ),
        pytest.param(
            many(20, [100] * 3) | {"b": [100, 500, 200]}, False, id="two outliers in one bucket"
        ),
        pytest.param(
            many(5, [100] * 3) | {"b": [100, 500, 100]}, False, id="one outlier in a small plan"
        ),
        pytest.param(
            {"a": [100, 150, 100, 150, 100, 100]}, True, id="noisy, but not getting faster"
        ),
        pytest.param(
            {"a": [96, 41, 321, 29, 249, 36]},
            True,
            id="a neighbour on the same cores",
        ),
        pytest.param(
            {"a": [174, 329, 60, 209, 62, 624]}, True, id="a neighbour, but the same best"
        ),
        pytest.param({"a": [300, 250, 300, 150, 100, 150]}, False, id="noisy, and getting faster"),
        pytest.param({"a": [1000, 800, 640, 512, 410, 328]}, False, id="falling all the way"),
    ],
)
def test_settling(series: dict[str, list[float]], settled: bool) -> None:
    judgement = judge(rounds_of(series), tolerance_percent=25)
    assert judgement.settled is settled, judgement.why


STEADY = rounds_of({"a": [100, 100, 100]})


@pytest.mark.parametrize(
    ("last", "why"),
    [
        pytest.param(Round({"a": (0.1,)}, ("500",)), "failed: 500", id="a failed request"),
        pytest.param(Round({}), "measured nothing", id="an empty round"),
        pytest.param(Round({"a": ()}), "measured nothing", id="an empty bucket"),
        pytest.param(Round({"a": (0.1,)}, (), 1), "compiled", id="a late compilation"),
        pytest.param(Round({"a": (0.1,), "b": (0.1,)}), "1 of 3", id="another plan"),
    ],
)
def test_unsound_last_round_never_settles(last: Round, why: str) -> None:
    judgement = judge([*STEADY, last], 25)
    assert not judgement.settled
    assert why in judgement.why


def test_failed_round_starts_the_comparison_anew() -> None:
    broken = Round({"a": (0.1,)}, ("500",))
    assert not judge([*STEADY, broken, *STEADY[:2]], 25).settled
    assert judge([*STEADY, broken, *STEADY], 25).settled


def test_message_names_the_slowest_bucket_and_its_values() -> None:
    judgement = judge(rounds_of({"fast": [100, 100, 100], "slow": [900, 100, 100]}), 25)
    assert judgement.why == "slow has not settled: 900, 100, 100 ms in the last 3 rounds"


def test_steady_value_is_the_median_of_the_last_rounds() -> None:
    rounds = rounds_of({"a": [900, 100, 120, 110]})
    assert steady_first_token(rounds, "a") == pytest.approx(0.110)


@st.composite
def histories(draw: st.DrawFn) -> list[Round]:
    names = draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, unique=True))
    count = draw(st.integers(0, 9))
    rounds = []
    for _ in range(count):
        values = {
            name: tuple(
                value / 1000 for value in draw(st.lists(MILLISECONDS, min_size=0, max_size=4))
            )
            for name in names
        }
        problems = ("500",) if draw(st.integers(0, 5)) == 0 else ()
        rounds.append(Round(values, problems, draw(st.sampled_from([0, 0, 0, 1]))))
    return rounds


@given(histories(), st.integers(5, 200))
def test_never_settles_on_empty_failing_or_compiling_rounds(
    rounds: list[Round], tolerance: int
) -> None:
    if judge(rounds, tolerance).settled:
        tail = rounds[-3:]
        assert len(tail) == 3
        assert all(each.sound for each in tail)
        assert tail[-1].late_compiles == 0


@given(histories(), st.integers(5, 200), st.randoms())
def test_order_of_buckets_and_requests_does_not_matter(
    rounds: list[Round], tolerance: int, shuffler: random.Random
) -> None:
    def shuffled(each: Round) -> Round:
        items = [
            (name, tuple(shuffler.sample(values, len(values))))
            for name, values in each.first_token.items()
        ]
        shuffler.shuffle(items)
        return Round(dict(items), each.problems, each.late_compiles)

    assert judge(rounds, tolerance) == judge([shuffled(each) for each in rounds], tolerance)


@given(
    st.lists(st.floats(1, 2000), min_size=1, max_size=30),
    st.integers(5, 200),
    st.lists(st.floats(-1, 1), min_size=3, max_size=3),
)
def test_noise_below_the_floor_never_keeps_the_gate_closed(
    bases: list[float], tolerance: int, noise: list[float]
) -> None:
    half = FLOOR * 1000 / 2 * 0.99
    series = {f"b{i}": [base + half + n * half for n in noise] for i, base in enumerate(bases)}
    assert judge(rounds_of(series), tolerance).settled

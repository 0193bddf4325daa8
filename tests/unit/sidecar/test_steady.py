import pytest

from warmpod.sidecar.planning import Plan
from warmpod.sidecar.planning.model import Ask, bucket_of
from warmpod.sidecar.steady import BucketFigures, Round, bucket_figures, judge, within

Series = dict[str, list[float]]


def rounds_of(series: Series, between_tokens: Series | None = None) -> list[Round]:
    """One round an index; milliseconds."""

    def at(index: int, values: Series) -> dict[str, tuple[float, ...]]:
        return {name: (value[index] / 1000,) for name, value in values.items()}

    count = len(next(iter(series.values())))
    return [Round(at(i, series), at(i, between_tokens or {})) for i in range(count)]


def many(count: int, values: list[float]) -> Series:
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
            many(20, [100] * 3) | {"b": [800, 900, 100]}, False, id="fast in the last round only"
        ),
        pytest.param(
            many(40, [100] * 9) | {"b": [900, 800, 700, 600, 500, 400, 300, 200, 150]},
            False,
            id="one of many that falls all the way",
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
def test_settling(series: Series, settled: bool) -> None:
    judgement = judge(rounds_of(series), tolerance_percent=25)
    assert judgement.settled is settled, judgement.why


@pytest.mark.parametrize(
    ("between_tokens", "settled"),
    [
        pytest.param([20, 20, 20], True, id="three equal rounds"),
        pytest.param([90, 20, 20], False, id="slow decoding in the first round"),
        pytest.param([90, 20, 20, 20], True, id="slow decoding left behind"),
        pytest.param([40, 31, 24], False, id="still falling"),
        pytest.param([1, 5.9, 2], True, id="differences below the floor"),
        pytest.param([12, 6, 5.9], False, id="differences above the floor"),
        pytest.param([20, 40, 20, 45, 20, 60], True, id="noisy, but not getting faster"),
        pytest.param([90, 80, 90, 60, 40, 60], False, id="noisy, and getting faster"),
    ],
)
def test_settling_of_the_time_between_tokens(between_tokens: list[float], settled: bool) -> None:
    rounds = rounds_of({"a": [100.0] * len(between_tokens)}, {"a": between_tokens})
    judgement = judge(rounds, tolerance_percent=25)
    assert judgement.settled is settled, judgement.why


def test_an_answer_of_one_token_says_nothing_about_the_time_between_tokens() -> None:
    slow = rounds_of({"a": [100] * 2}, {"a": [90, 20]})
    short = rounds_of({"a": [100]})
    assert judge([*slow, *short], 25).settled
    assert judge([*short, *slow], 25).settled
    assert not judge([*short, *slow, *slow[1:]], 25).settled


STEADY = rounds_of({"a": [100, 100, 100]})


@pytest.mark.parametrize(
    ("last", "why"),
    [
        pytest.param(Round({"a": (0.1,)}, problems=("500",)), "failed: 500", id="a failed request"),
        pytest.param(Round({}), "measured nothing", id="an empty round"),
        pytest.param(Round({"a": ()}), "measured nothing", id="an empty bucket"),
        pytest.param(
            Round({"a": (0.1,)}, late_compiles=2),
            "2 kernels were compiled",
            id="a late compilation",
        ),
        pytest.param(
            Round({"a": (0.1,)}, cache_growth=7),
            "grew by 7 files",
            id="a compile cache that grows",
        ),
        pytest.param(Round({"a": (0.1,), "b": (0.1,)}), "1 of 3", id="another plan"),
    ],
)
def test_unsound_last_round_never_settles(last: Round, why: str) -> None:
    judgement = judge([*STEADY, last], 25)
    assert not judgement.settled
    assert why in judgement.why


def test_failed_round_starts_the_comparison_anew() -> None:
    broken = Round({"a": (0.1,)}, problems=("500",))
    assert not judge([*STEADY, broken, *STEADY[:2]], 25).settled
    assert judge([*STEADY, broken, *STEADY], 25).settled


def test_message_names_the_slowest_bucket_and_its_values() -> None:
    judgement = judge(rounds_of({"fast": [100, 100, 100], "slow": [900, 100, 100]}), 25)
    assert judgement.why == "slow has not settled: 900, 100, 100 ms in the last 3 rounds"


def test_message_names_the_time_between_tokens() -> None:
    judgement = judge(rounds_of({"a": [100] * 3}, {"a": [90, 20, 20]}), 25)
    assert judgement.why == ("a has not settled: 90, 20, 20 ms between tokens in the last 3 rounds")


def test_rounds_of_a_longer_plan_count_for_the_buckets_that_stayed() -> None:
    whole = rounds_of({"a": [900, 100], "b": [900, 800]})
    cut = rounds_of({"a": [100, 100]})
    assert not judge([*whole, *cut[:1]], 25).settled
    assert judge([*whole, *cut], 25).settled


@pytest.mark.parametrize(
    ("first_token", "first", "steady", "rounds"),
    [
        pytest.param([100], 100, 100, 1, id="one round"),
        pytest.param([110, 100, 90], 110, 100, 1, id="warm from the beginning"),
        pytest.param([900, 100, 120, 110], 900, 110, 2, id="one cold round"),
        pytest.param([900, 800, 100, 100, 100], 900, 100, 3, id="two cold rounds"),
        pytest.param([900, 100, 500, 100], 900, 100, 2, id="an outlier later on"),
    ],
)
def test_figures_of_a_bucket(
    first_token: list[float], first: float, steady: float, rounds: int
) -> None:
    figures = bucket_figures(rounds_of({"a": first_token}))["a"]
    assert figures.first == pytest.approx(first / 1000)
    assert figures.steady == pytest.approx(steady / 1000)
    assert figures.ratio == pytest.approx(first / steady)
    assert figures.rounds == rounds
    assert figures.inter_token is None
    assert figures.fastest == pytest.approx(min(first_token) / 1000)


def test_figures_cover_buckets_that_were_cut_and_rounds_that_failed() -> None:
    rounds = [
        Round({"a": (0.9,)}, problems=("b: 500",)),
        *rounds_of({"a": [100], "b": [300]}, {"b": [20]}),
        *rounds_of({"a": [100]}),
    ]
    assert bucket_figures(rounds) == {
        "a": BucketFigures(0.9, 0.1, 2, None, 0.1),
        "b": BucketFigures(0.3, 0.3, 1, 0.02, 0.3),
    }


PLAN = Plan(
    tuple(bucket_of(f"bucket{i}", "chat", [[Ask({})]]) for i in range(8)), notes=("a note",)
)
NAMES = [bucket.name for bucket in PLAN.buckets]


@pytest.mark.parametrize(
    ("seconds", "round_seconds", "kept"),
    [
        pytest.param([1.0] * 8, 8, 8, id="all fit"),
        pytest.param([1.0] * 8, 7.5, 7, id="the last does not fit"),
        pytest.param([1.0, 1.0, 9.0, 1.0], 5, 2, id="nothing after one that does not fit"),
        pytest.param([9.0], 5, 1, id="the first stays, whatever it takes"),
        pytest.param([], 5, 8, id="nothing was timed"),
    ],
)
def test_what_fits_into_a_round(seconds: list[float], round_seconds: float, kept: int) -> None:
    cut, notes = within(PLAN, dict(zip(NAMES, seconds, strict=False)), round_seconds)
    assert cut.buckets == PLAN.buckets[:kept]
    assert cut.notes == (*PLAN.notes, *notes)
    assert bool(notes) is (kept < len(PLAN.buckets))
    assert all(name in notes[0] for name in NAMES[kept:])

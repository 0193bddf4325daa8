"""When latency has settled, and what can be measured in a round. Pure.

Latency is judged bucket by bucket on two figures: the time to first token and, where answers were
streamed, the time between tokens. Two ways to be steady:

* the last three rounds agree: every value lies within the tolerance of its bucket's median;
* or, where the machine is noisy, nothing gets faster any more: the best of the last three rounds
  is no better than the best of all before, at least three. What a neighbour on the same cores
  takes only ever adds to a latency, as a cold kernel does, but the kernel does it once; so the best
  of some rounds tells the engine's own pace (measured on vLLM with four busy processes on two
  cores: 24 to 28 ms where the rounds themselves jumped between 24 and 329 ms).

A few values may lie above (a late garbage collection, a neighbour on the same cores), at most
one a bucket and figure. Differences below the floor never count: on a fast engine they are noise.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from warmpod.sidecar.planning import Plan

WINDOW = 3

# Seconds. A user does not notice it, and two busy cores make it out of nothing.
FIRST_TOKEN_FLOOR = 0.015
INTER_TOKEN_FLOOR = 0.005

# A round this near to the steady state was as fast for a user.
STEADY_PERCENT = 20

# One outlier is allowed for this many values.
VALUES_PER_OUTLIER = 20

Agreement = Callable[[float, float], bool]
Values = Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Round:
    """What one pass over the plan measured.

    `first_token` and `inter_token` hold seconds, per bucket name one value a request; a bucket
    whose answers show no time between tokens is not in `inter_token`. `problems` describes each
    request that failed, `late_compiles` counts kernels that the engine compiled meanwhile,
    `cache_growth` the files that its compile caches gained."""

    first_token: Values
    inter_token: Values = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    late_compiles: int = 0
    cache_growth: int = 0

    @property
    def sound(self) -> bool:
        return bool(self.first_token) and not self.problems and all(self.first_token.values())


@dataclass(frozen=True, slots=True)
class Judgement:
    settled: bool
    why: str


@dataclass(frozen=True, slots=True)
class BucketFigures:
    """Medians in seconds: of the first round and of the last ones, and the time between tokens
    of the last ones. `rounds` is the number of the first round that was as fast as the last,
    `fastest` the median of the best of all rounds."""

    first: float
    steady: float
    rounds: int
    inter_token: float | None
    fastest: float

    @property
    def ratio(self) -> float:
        return self.first / self.steady


@dataclass(frozen=True, slots=True)
class _Series:
    """One figure of one bucket, a value a round, oldest first. Seconds."""

    bucket: str
    figure: str
    values: tuple[float, ...]
    agree: Agreement

    @property
    def window(self) -> tuple[float, ...]:
        return self.values[-WINDOW:]

    @property
    def outside(self) -> tuple[float, ...]:
        return tuple(value for value in self.window if not self.agree(value, median(self.window)))

    @property
    def has_outlier(self) -> bool:
        """Whether all but one agree. One that is faster than the others is no outlier: nothing
        makes a warm engine faster, so the others were cold, or the machine is noisy."""
        return len(self.outside) == 1 and self.outside[0] > median(self.window)

    @property
    def falling(self) -> bool:
        """Every round faster than the one before, and altogether by more than the tolerance."""
        steps_down = all(later < earlier for earlier, later in itertools.pairwise(self.window))
        return steps_down and not self.agree(self.window[0], self.window[-1])

    @property
    def faster(self) -> bool:
        """Whether the window has a value better than all before, by more than the tolerance;
        with none before, better than its first."""
        earlier, later = min(self.values[:-WINDOW] or self.values[:1]), min(self.window)
        return later < earlier and not self.agree(later, earlier)

    def __str__(self) -> str:
        values = ", ".join(_milliseconds(value) for value in self.window)
        return (
            f"{self.bucket} has not settled: {values} ms{self.figure} in the last {WINDOW} rounds"
        )


def judge(rounds: Sequence[Round], tolerance_percent: int) -> Judgement:
    """Judge all rounds of a boot, oldest first."""
    if not rounds:
        return Judgement(False, "no round yet")
    if reason := _unfit(rounds[-1]):
        return Judgement(False, reason)
    comparable = _comparable(rounds)
    if len(comparable) < WINDOW:
        return Judgement(False, f"{len(comparable)} of {WINDOW} rounds to compare")
    return _judge_latency(_all_series(comparable, tolerance_percent), len(comparable))


def bucket_figures(rounds: Sequence[Round]) -> Mapping[str, BucketFigures]:
    """What the rounds of a boot, from the first on, show of each bucket that answered in any."""
    buckets = dict.fromkeys(bucket for each in rounds for bucket in each.first_token)
    figures = {}
    for bucket in buckets:
        if first_token := _medians([each.first_token for each in rounds], bucket):
            inter_token = _medians([each.inter_token for each in rounds], bucket)
            figures[bucket] = _figures(first_token, inter_token)
    return figures


def within(
    plan: Plan, seconds_by_bucket: Mapping[str, float], round_seconds: float
) -> tuple[Plan, tuple[str, ...]]:
    """Cut the end of a plan whose round takes longer than `round_seconds`, and say what was cut.

    The first bucket always stays. A bucket that was not timed counts as nothing."""
    ends = itertools.accumulate(seconds_by_bucket.get(each.name, 0.0) for each in plan.buckets)
    kept = max(1, sum(end <= round_seconds for end in ends))
    cut = [bucket.name for bucket in plan.buckets[kept:]]
    if not cut:
        return plan, ()
    whole = sum(seconds_by_bucket.get(each.name, 0.0) for each in plan.buckets)
    note = (
        f"{len(cut)} of {len(plan.buckets)} buckets are measured no further, because a round took "
        f"{whole:.1f} s and spec.warmup.roundSeconds is {round_seconds:g}: {', '.join(cut)}"
    )
    return replace(plan, buckets=plan.buckets[:kept], notes=(*plan.notes, note)), (note,)


def _figures(first_token: tuple[float, ...], inter_token: tuple[float, ...]) -> BucketFigures:
    agree = _agreement(STEADY_PERCENT, FIRST_TOKEN_FLOOR)
    steady = median(first_token[-WINDOW:])
    return BucketFigures(
        first=first_token[0],
        steady=steady,
        rounds=next(
            number
            for number, value in enumerate(first_token, start=1)
            if value <= steady or agree(value, steady)
        ),
        inter_token=median(inter_token[-WINDOW:]) if inter_token else None,
        fastest=min(first_token),
    )


def _unfit(last: Round) -> str:
    """Why a boot cannot have settled with this round, whatever it measured; empty if it can."""
    if last.problems:
        return f"a request failed: {last.problems[0]}"
    if not last.sound:
        return "the last round measured nothing"
    if last.late_compiles:
        return f"{last.late_compiles} kernels were compiled in the last round"
    if last.cache_growth:
        return f"the compile caches grew by {last.cache_growth} files in the last round"
    return ""


def _comparable(rounds: Sequence[Round]) -> list[Round]:
    """The sound rounds at the end that measured the buckets of the last; they may have measured
    more, before the plan was cut."""
    tail: list[Round] = []
    for earlier in reversed(rounds):
        if not earlier.sound or not rounds[-1].first_token.keys() <= earlier.first_token.keys():
            break
        tail.insert(0, earlier)
    return tail


def _all_series(rounds: Sequence[Round], tolerance_percent: int) -> list[_Series]:
    """Of the buckets of the last round. An answer of one token shows no time between tokens; that
    is judged only from where on every round has it."""
    first_floor = _agreement(tolerance_percent, FIRST_TOKEN_FLOOR)
    inter_floor = _agreement(tolerance_percent, INTER_TOKEN_FLOOR)
    series: list[_Series] = []
    for bucket in sorted(rounds[-1].first_token):
        first_token = _medians([each.first_token for each in rounds], bucket)
        series.append(_Series(bucket, "", first_token, first_floor))
        inter_token = _medians(_latest([each.inter_token for each in rounds], bucket), bucket)
        if len(inter_token) >= WINDOW:
            series.append(_Series(bucket, " between tokens", inter_token, inter_floor))
    return series


def _latest(rounds: Sequence[Values], bucket: str) -> Sequence[Values]:
    """The rounds at the end that all measured the bucket."""
    missing = [number for number, values in enumerate(rounds, start=1) if not values.get(bucket)]
    return rounds[missing[-1] :] if missing else rounds


def _medians(rounds: Sequence[Values], bucket: str) -> tuple[float, ...]:
    """One value for each round that measured the bucket."""
    return tuple(median(values[bucket]) for values in rounds if values.get(bucket))


def _agreement(tolerance_percent: int, floor: float) -> Agreement:
    def agree(value: float, middle: float) -> bool:
        return abs(value - middle) <= max(middle * tolerance_percent / 100, floor)

    return agree


def _judge_latency(series: Sequence[_Series], rounds: int) -> Judgement:
    off = _off_in_window(series)
    if off is None:
        return Judgement(True, f"the last {WINDOW} rounds agree")
    if rounds >= 2 * WINDOW and not _getting_faster(series):
        return Judgement(True, f"nothing got faster in the last {WINDOW} rounds")
    return Judgement(False, str(off))


def _off_in_window(series: Sequence[_Series]) -> _Series | None:
    """What keeps the window from being steady; None when it is steady."""
    outliers: list[_Series] = []
    for each in series:
        if each.falling or (each.outside and not each.has_outlier):
            return each
        if each.has_outlier:
            outliers.append(each)
    if len(outliers) > len(series) * WINDOW // VALUES_PER_OUTLIER:
        return max(outliers, key=lambda each: max(each.window))
    return None


def _getting_faster(series: Sequence[_Series]) -> bool:
    """One that falls with every round is no stroke of luck, so it is never allowed for."""
    faster = [each for each in series if each.faster]
    return len(faster) > len(series) // VALUES_PER_OUTLIER or any(each.falling for each in faster)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f}"

"""When latency has settled. Pure.

Two ways to be steady, both judged bucket by bucket on the time to first token:

* the last three rounds agree: every value lies within the tolerance of its bucket's median;
* or, where the machine is noisy, nothing gets faster any more: the best of the last three rounds
  is no better than the best of all before, at least three. What a neighbour on the same cores
  takes only ever adds to a latency, as a cold kernel does, but the kernel does it once; so the best
  of some rounds tells the engine's own pace (measured on vLLM with four busy processes on two
  cores: 24 to 28 ms where the rounds themselves jumped between 24 and 329 ms).

A few values may lie outside (a late garbage collection, a neighbour on the same cores), at most
one a bucket. Differences below the floor never count: on a fast engine they are noise.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

WINDOW = 3

# Seconds. A user does not notice it, and two busy cores make it out of nothing.
FLOOR = 0.015

# One outlier is allowed for this many values.
VALUES_PER_OUTLIER = 20

Agreement = Callable[[float, float], bool]


@dataclass(frozen=True, slots=True)
class Round:
    """What one pass over the plan measured.

    `first_token` holds seconds, per bucket name one value a request. `problems` describes each
    request that failed, `late_compiles` counts kernels that the engine compiled meanwhile."""

    first_token: Mapping[str, tuple[float, ...]]
    problems: tuple[str, ...] = ()
    late_compiles: int = 0

    @property
    def sound(self) -> bool:
        return bool(self.first_token) and not self.problems and all(self.first_token.values())

    def value(self, bucket: str) -> float:
        return median(self.first_token[bucket])


@dataclass(frozen=True, slots=True)
class Judgement:
    settled: bool
    why: str


def judge(rounds: Sequence[Round], tolerance_percent: int) -> Judgement:
    """Judge all rounds of a boot, oldest first."""
    if not rounds:
        return Judgement(False, "no round yet")
    last = rounds[-1]
    if last.problems:
        return Judgement(False, f"a request failed: {last.problems[0]}")
    if not last.sound:
        return Judgement(False, "the last round measured nothing")
    if last.late_compiles:
        return Judgement(False, f"{last.late_compiles} kernels were compiled in the last round")
    comparable = _comparable(rounds)
    if len(comparable) < WINDOW:
        return Judgement(False, f"{len(comparable)} of {WINDOW} rounds to compare")
    return _judge_latency(comparable, _agreement(tolerance_percent))


def steady_first_token(rounds: Sequence[Round], bucket: str) -> float:
    """Median over the last rounds, in seconds."""
    return median(_series(_comparable(rounds)[-WINDOW:], bucket))


def _comparable(rounds: Sequence[Round]) -> list[Round]:
    """The sound rounds at the end that measured the same buckets."""
    tail: list[Round] = []
    for earlier in reversed(rounds):
        if not earlier.sound or earlier.first_token.keys() != rounds[-1].first_token.keys():
            break
        tail.insert(0, earlier)
    return tail


def _agreement(tolerance_percent: int) -> Agreement:
    def agree(value: float, middle: float) -> bool:
        return abs(value - middle) <= max(middle * tolerance_percent / 100, FLOOR)

    return agree


def _judge_latency(rounds: Sequence[Round], agree: Agreement) -> Judgement:
    buckets = sorted(rounds[-1].first_token)
    off = _off_in_window(rounds[-WINDOW:], buckets, agree)
    if off is None:
        return Judgement(True, f"the last {WINDOW} rounds agree")
    if len(rounds) >= 2 * WINDOW and not _getting_faster(rounds, buckets, agree):
        return Judgement(True, f"nothing got faster in the last {WINDOW} rounds")
    return Judgement(False, _describe(off, rounds[-WINDOW:]))


def _off_in_window(window: Sequence[Round], buckets: Sequence[str], agree: Agreement) -> str | None:
    """The bucket that keeps the window from being steady; None when it is steady."""
    allowed = len(buckets) * len(window) // VALUES_PER_OUTLIER
    outliers: list[str] = []
    for bucket in buckets:
        series = _series(window, bucket)
        outside = sum(not agree(value, median(series)) for value in series)
        if outside > 1 or _falling(series, agree):
            return bucket
        if outside:
            outliers.append(bucket)
    if len(outliers) > allowed:
        return max(outliers, key=lambda bucket: max(_series(window, bucket)))
    return None


def _getting_faster(rounds: Sequence[Round], buckets: Sequence[str], agree: Agreement) -> bool:
    def faster(bucket: str) -> bool:
        earlier = min(_series(rounds[:-WINDOW], bucket))
        later = min(_series(rounds[-WINDOW:], bucket))
        return later < earlier and not agree(later, earlier)

    return sum(map(faster, buckets)) > len(buckets) // VALUES_PER_OUTLIER


def _falling(series: Sequence[float], agree: Agreement) -> bool:
    """Every round faster than the one before, and altogether by more than the tolerance."""
    steps_down = all(later < earlier for earlier, later in itertools.pairwise(series))
    return steps_down and not agree(series[0], series[-1])


def _series(rounds: Sequence[Round], bucket: str) -> list[float]:
    return [each.value(bucket) for each in rounds]


def _describe(bucket: str, window: Sequence[Round]) -> str:
    values = ", ".join(f"{value * 1000:.0f}" for value in _series(window, bucket))
    return f"{bucket} has not settled: {values} ms in the last {len(window)} rounds"

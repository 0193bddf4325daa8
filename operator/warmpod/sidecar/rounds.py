"""Plays the plan once."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from warmpod.sidecar.engine import EngineError, EngineTimeoutError, Reply
from warmpod.sidecar.planning import Bucket, Endpoint, Plan, waves_for
from warmpod.sidecar.steady import Round

Ask = Callable[[Endpoint, Mapping[str, Any]], Awaitable[Reply]]

# An engine that refuses everything is not asked for everything.
FAILED_BUCKETS_AT_THE_START = 3


@dataclass(frozen=True, slots=True)
class Problem:
    bucket: str
    text: str
    answered: bool  # the engine said no, rather than nothing
    refused: bool = False  # and will say it to users, too


@dataclass(frozen=True, slots=True)
class PlayedRound:
    """`seconds` is the wall time that each bucket took, with all its waves."""

    round: Round
    problems: tuple[Problem, ...]
    seconds: Mapping[str, float]

    @property
    def refused(self) -> Mapping[str, str]:
        """The buckets that the engine does not do, with its words."""
        failed = {problem.bucket for problem in self.problems if not problem.refused}
        return {each.bucket: each.text for each in self.problems if each.bucket not in failed}


@dataclass(frozen=True, slots=True)
class _PlayedBucket:
    """`replies` are those of the last wave that was sent; `errors` end a bucket."""

    replies: Sequence[Reply]
    errors: Sequence[EngineError]
    seconds: float

    @property
    def timed_out(self) -> bool:
        return any(isinstance(error, EngineTimeoutError) for error in self.errors)


@dataclass(slots=True)
class _Results:
    """What a round has gathered so far, by bucket name."""

    first_token: dict[str, tuple[float, ...]] = field(default_factory=dict)
    inter_token: dict[str, tuple[float, ...]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    with_text: set[Endpoint] = field(default_factory=set)
    replies: int = 0
    failed_buckets: int = 0

    @property
    def hopeless(self) -> bool:
        return not self.replies and self.failed_buckets >= FAILED_BUCKETS_AT_THE_START

    def add(self, bucket: Bucket, played: _PlayedBucket) -> None:
        self.seconds[bucket.name] = played.seconds
        self.replies += len(played.replies)
        if any(reply.answer.has_text for reply in played.replies):
            self.with_text.add(bucket.endpoint)
        if played.errors:
            self.failed_buckets += 1
            self.problems += [_problem(bucket, error) for error in played.errors]
        else:
            self._measure(bucket, played.replies)

    def _measure(self, bucket: Bucket, replies: Sequence[Reply]) -> None:
        self.first_token[bucket.name] = tuple(reply.first_token for reply in replies)
        gaps = [reply.inter_token for reply in replies if reply.inter_token is not None]
        if gaps:
            self.inter_token[bucket.name] = tuple(gaps)


async def play_round(
    plan: Plan, ask: Ask, playing: Callable[[str], None] = lambda name: None
) -> PlayedRound:
    """Send every bucket's waves; what is measured is the last wave of each. `playing` is told the
    name of each bucket before it is played.

    A request that fails is a problem of the round; no EngineError comes out of here."""
    results = _Results()
    for bucket in plan.buckets:
        playing(bucket.name)
        played = await _play(bucket, waves_for(bucket), ask)
        results.add(bucket, played)
        if played.timed_out or results.hopeless:
            break
    if not results.problems:
        results.problems += _empty_endpoints(plan, results.with_text)
    texts = tuple(problem.text for problem in results.problems)
    measured = Round(results.first_token, results.inter_token, texts)
    return PlayedRound(measured, tuple(results.problems), results.seconds)


async def _play(
    bucket: Bucket, waves: Sequence[Sequence[Mapping[str, Any]]], ask: Ask
) -> _PlayedBucket:
    started = time.perf_counter()
    replies: list[Reply] = []
    errors: list[EngineError] = []
    for wave in waves:
        results = await asyncio.gather(
            *(ask(bucket.endpoint, body) for body in wave), return_exceptions=True
        )
        replies = [result for result in results if isinstance(result, Reply)]
        errors = [_engine_error(result) for result in results if isinstance(result, BaseException)]
        if errors:
            break
    return _PlayedBucket(replies, errors, time.perf_counter() - started)


def _problem(bucket: Bucket, error: EngineError) -> Problem:
    answered = error.status is not None
    return Problem(bucket.name, f"{bucket.name}: {error}", answered, error.refused)


def _engine_error(error: BaseException) -> EngineError:
    if not isinstance(error, EngineError):
        raise error
    return error


def _empty_endpoints(plan: Plan, with_text: set[Endpoint]) -> list[Problem]:
    """One answer may decode to no text; all answers of an endpoint may not."""
    endpoints = sorted({bucket.endpoint for bucket in plan.buckets})
    return [
        Problem("", f"{endpoint}: every answer of the round was empty", answered=True)
        for endpoint in endpoints
        if endpoint not in with_text
    ]

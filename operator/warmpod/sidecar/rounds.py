"""Plays the plan once."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from warmpod.sidecar.engine import EngineError, EngineTimeoutError, Reply
from warmpod.sidecar.planning import Bucket, Endpoint, Plan, waves_for
from warmpod.sidecar.steady import Round

Ask = Callable[[Endpoint, Mapping[str, Any]], Awaitable[Reply]]

# An engine that refuses everything is not asked for everything.
FAILED_BUCKETS_AT_THE_START = 3


@dataclass(frozen=True, slots=True)
class Problem:
    text: str
    answered: bool  # the engine said no, rather than nothing


@dataclass(frozen=True, slots=True)
class PlayedRound:
    round: Round
    problems: tuple[Problem, ...]


async def play_round(plan: Plan, ask: Ask) -> PlayedRound:
    first_token: dict[str, tuple[float, ...]] = {}
    problems: list[Problem] = []
    with_text: set[str] = set()
    failed_buckets = 0
    for bucket in plan.buckets:
        errors: list[BaseException] = []
        for wave in waves_for(bucket):
            results = await asyncio.gather(
                *(ask(bucket.endpoint, body) for body in wave), return_exceptions=True
            )
            replies = [result for result in results if isinstance(result, Reply)]
            errors += [result for result in results if isinstance(result, BaseException)]
        if replies:
            first_token[bucket.name] = tuple(reply.first_token for reply in replies)
        if any(reply.answer.has_text for reply in replies):
            with_text.add(bucket.endpoint)
        problems += [_problem(bucket, error) for error in errors]
        failed_buckets += bool(errors)
        if _hopeless(errors, failed_buckets, len(first_token)):
            break
    if not problems:
        problems += _empty_endpoints(plan, with_text)
    played = Round(first_token, tuple(problem.text for problem in problems))
    return PlayedRound(played, tuple(problems))


def _problem(bucket: Bucket, error: BaseException) -> Problem:
    if not isinstance(error, EngineError):
        raise error
    return Problem(f"{bucket.name}: {error}", answered=error.status is not None)


def _hopeless(errors: list[BaseException], failed_buckets: int, measured_buckets: int) -> bool:
    if any(isinstance(error, EngineTimeoutError) for error in errors):
        return True
    return measured_buckets == 0 and failed_buckets >= FAILED_BUCKETS_AT_THE_START


def _empty_endpoints(plan: Plan, with_text: set[str]) -> list[Problem]:
    """One answer may decode to no text; all answers of an endpoint may not."""
    endpoints = sorted({bucket.endpoint for bucket in plan.buckets})
    return [
        Problem(f"{endpoint}: every answer of the round was empty", answered=True)
        for endpoint in endpoints
        if endpoint not in with_text
    ]

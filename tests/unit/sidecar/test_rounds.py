"""One pass over a plan."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from unit.sidecar.harness import WARMUP
from warmpod.sidecar.answers import Answer
from warmpod.sidecar.engine import EngineError, EngineTimeoutError, Reply
from warmpod.sidecar.plan import Bucket, Endpoint, Plan, Served, TokenCost, make_plan
from warmpod.sidecar.rounds import PlayedRound, play_round

PLAN = make_plan(
    Served("tiny", 2048, {"chat": TokenCost(1.0), "completion": TokenCost(1.0)}), WARMUP
)
TALK = Reply(0.1, 0.2, Answer(True, 5), 0.02)
ONE_TOKEN = Reply(0.1, 0.1, Answer(True, 5))
SILENCE = Reply(0.1, 0.2, Answer(False, 5))
REFUSED = EngineError("400 no", 400)

Body = Mapping[str, Any]


async def play(
    plan: Plan,
    answer: Callable[[Body], Reply | Exception],
    waves: tuple[int, ...] = (1,),
) -> tuple[PlayedRound, list[Body]]:
    """Play waves of so many requests a bucket; a body tells its bucket, wave and number."""
    asked: list[Body] = []

    def waves_for(bucket: Bucket) -> list[list[dict[str, Any]]]:
        return [
            [{"bucket": bucket, "wave": wave, "number": number} for number in range(requests)]
            for wave, requests in enumerate(waves)
        ]

    async def ask(endpoint: Endpoint, body: Body) -> Reply:
        assert endpoint == body["bucket"].endpoint
        asked.append(body)
        await asyncio.sleep(0)
        outcome = answer(body)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return await play_round(plan, waves_for, ask), asked


async def test_every_request_of_the_last_wave_is_measured() -> None:
    played, asked = await play(PLAN, lambda body: TALK, waves=(2, 3))
    assert len(asked) == len(PLAN.buckets) * 5
    assert played.problems == ()
    names = {bucket.name for bucket in PLAN.buckets}
    assert played.round.first_token == dict.fromkeys(names, (0.1, 0.1, 0.1))
    assert played.round.inter_token == dict.fromkeys(names, (0.02, 0.02, 0.02))
    assert played.seconds.keys() == names
    assert all(seconds > 0 for seconds in played.seconds.values())


async def test_waves_follow_one_another_and_the_requests_of_a_wave_are_sent_at_once() -> None:
    at_once: list[int] = []
    running = 0

    async def ask(endpoint: Endpoint, body: Body) -> Reply:
        nonlocal running
        running += 1
        await asyncio.sleep(0)
        at_once.append(running)
        await asyncio.sleep(0)
        running -= 1
        return TALK

    plan = Plan(PLAN.buckets[:1])
    await play_round(plan, lambda _: [[{}], [{}, {}, {}], [{}]], ask)
    assert at_once == [1, 3, 3, 3, 1]


async def test_an_answer_of_one_token_has_no_time_between_tokens() -> None:
    played, _ = await play(PLAN, lambda body: TALK if body["bucket"].stream else ONE_TOKEN)
    streamed = {bucket.name for bucket in PLAN.buckets if bucket.stream}
    assert played.round.inter_token.keys() == streamed
    assert played.round.first_token.keys() > streamed


async def test_an_engine_that_refuses_everything_is_not_asked_for_everything() -> None:
    played, asked = await play(PLAN, lambda _: REFUSED)
    assert len(asked) == 3
    assert played.round.problems[0] == "chat/stream/sampled/p16/c1: 400 no"
    assert not played.round.sound


async def test_one_bucket_that_fails_does_not_hide_another() -> None:
    failing = {bucket.name for bucket in PLAN.buckets if bucket.sampling == "greedy"}
    played, _ = await play(PLAN, lambda body: REFUSED if body["bucket"].name in failing else TALK)
    assert {problem.text for problem in played.problems} == {f"{name}: 400 no" for name in failing}
    assert failing.isdisjoint(played.round.first_token)
    assert not played.round.sound


async def test_buckets_that_fail_in_part_do_not_end_the_round() -> None:
    played, asked = await play(PLAN, lambda body: TALK if body["number"] else REFUSED, waves=(2,))
    assert len(asked) == 2 * len(PLAN.buckets)
    assert len(played.problems) == len(PLAN.buckets)


async def test_a_wave_that_fails_ends_its_bucket() -> None:
    played, asked = await play(
        PLAN, lambda body: TALK if body["wave"] == 0 else REFUSED, waves=(1, 1, 1)
    )
    assert {body["wave"] for body in asked} == {0, 1}
    assert played.round.first_token == {}


async def test_a_time_out_ends_the_round() -> None:
    slow = EngineTimeoutError("no answer in 600 s")
    played, asked = await play(PLAN, lambda body: slow if body["number"] else TALK, waves=(2,))
    assert len(asked) == 2
    assert [problem.answered for problem in played.problems] == [False]


async def test_a_bug_is_no_problem_of_the_engine() -> None:
    with pytest.raises(KeyError):
        await play(PLAN, lambda body: KeyError("x"))


async def test_an_answer_may_be_empty_but_not_all_of_an_endpoint() -> None:
    played, _ = await play(
        PLAN, lambda body: SILENCE if body["bucket"].endpoint == "chat" else TALK
    )
    assert played.round.problems == ("chat: every answer of the round was empty",)
    played, _ = await play(
        PLAN, lambda body: SILENCE if body["bucket"].sampling == "greedy" else TALK
    )
    assert played.problems == ()

"""One pass over a plan."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from warmpod.sidecar.answers import Answer
from warmpod.sidecar.engine import EngineError, EngineTimeoutError, Reply
from warmpod.sidecar.planning import Endpoint, Plan
from warmpod.sidecar.planning.model import Ask, Bucket, bucket_of
from warmpod.sidecar.rounds import PlayedRound, play_round

TALK = Reply(0.1, 0.2, Answer(True, 5), 0.02)
ONE_TOKEN = Reply(0.1, 0.1, Answer(True, 5))
SILENCE = Reply(0.1, 0.2, Answer(False, 5))
REFUSED = EngineError("400 no", 400)

Body = Mapping[str, Any]


def plan_of(*waves: int) -> Plan:
    """Eight buckets of waves with so many requests; a body tells bucket, wave and number."""

    def bucket(endpoint: Endpoint, number: int) -> Bucket:
        name = f"{endpoint}/{number}"
        return bucket_of(
            name,
            endpoint,
            [
                [Ask({"bucket": name, "wave": wave, "number": each}) for each in range(requests)]
                for wave, requests in enumerate(waves)
            ],
        )

    endpoints: tuple[Endpoint, ...] = ("chat", "completion")
    return Plan(tuple(bucket(endpoint, i) for endpoint in endpoints for i in range(4)))


PLAN = plan_of(1)
NAMES = {bucket.name for bucket in PLAN.buckets}


async def play(
    plan: Plan, answer: Callable[[Body], Reply | Exception]
) -> tuple[PlayedRound, list[Body]]:
    asked: list[Body] = []

    async def ask(endpoint: Endpoint, body: Body) -> Reply:
        assert body["bucket"].startswith(f"{endpoint}/")
        asked.append(body)
        await asyncio.sleep(0)
        outcome = answer(body)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return await play_round(plan, ask), asked


async def test_every_request_of_the_last_wave_is_measured() -> None:
    played, asked = await play(plan_of(2, 3), lambda body: TALK)
    assert len(asked) == len(PLAN.buckets) * 5
    assert played.problems == ()
    assert played.round.first_token == dict.fromkeys(NAMES, (0.1, 0.1, 0.1))
    assert played.round.inter_token == dict.fromkeys(NAMES, (0.02, 0.02, 0.02))
    assert played.seconds.keys() == NAMES
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

    await play_round(Plan(plan_of(1, 3, 1).buckets[:1]), ask)
    assert at_once == [1, 3, 3, 3, 1]


async def test_an_answer_of_one_token_has_no_time_between_tokens() -> None:
    played, _ = await play(PLAN, lambda body: TALK if body["bucket"].endswith("/0") else ONE_TOKEN)
    assert played.round.inter_token.keys() == {"chat/0", "completion/0"}
    assert played.round.first_token.keys() == NAMES


async def test_an_engine_that_refuses_everything_is_not_asked_for_everything() -> None:
    played, asked = await play(PLAN, lambda _: REFUSED)
    assert len(asked) == 3
    assert played.round.problems[0] == "chat/0: 400 no"
    assert not played.round.sound


async def test_one_bucket_that_fails_does_not_hide_another() -> None:
    failing = {"chat/1", "completion/3"}
    played, _ = await play(PLAN, lambda body: REFUSED if body["bucket"] in failing else TALK)
    assert {problem.text for problem in played.problems} == {f"{name}: 400 no" for name in failing}
    assert failing.isdisjoint(played.round.first_token)
    assert not played.round.sound


async def test_buckets_that_fail_in_part_do_not_end_the_round() -> None:
    played, asked = await play(plan_of(2), lambda body: TALK if body["number"] else REFUSED)
    assert len(asked) == 2 * len(PLAN.buckets)
    assert len(played.problems) == len(PLAN.buckets)


async def test_a_wave_that_fails_ends_its_bucket() -> None:
    played, asked = await play(
        plan_of(1, 1, 1), lambda body: TALK if body["wave"] == 0 else REFUSED
    )
    assert {body["wave"] for body in asked} == {0, 1}
    assert played.round.first_token == {}


async def test_a_time_out_ends_the_round() -> None:
    slow = EngineTimeoutError("no answer in 600 s")
    played, asked = await play(plan_of(2), lambda body: slow if body["number"] else TALK)
    assert len(asked) == 2
    assert [problem.answered for problem in played.problems] == [False]


async def test_a_bug_is_no_problem_of_the_engine() -> None:
    with pytest.raises(KeyError):
        await play(PLAN, lambda body: KeyError("x"))


async def test_an_answer_may_be_empty_but_not_all_of_an_endpoint() -> None:
    played, _ = await play(
        PLAN, lambda body: SILENCE if body["bucket"].startswith("chat/") else TALK
    )
    assert played.round.problems == ("chat: every answer of the round was empty",)
    played, _ = await play(PLAN, lambda body: SILENCE if body["bucket"].endswith("/0") else TALK)
    assert played.problems == ()

"""Warm-up that is played again."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any

import pytest

from unit.controller.builders import NAME, NAMESPACE, engine, warm_model
from warmpod.controller.apiserver.kinds import WARM_MODEL
from warmpod.controller.clients.sidecars import SidecarError
from warmpod.controller.objects.views import ModelView, PodView, project
from warmpod.controller.triggers import Triggers, identity
from warmpod.protocol import WARM_NOW_ANNOTATION

KEY = (NAMESPACE, NAME)
PODS = (engine("llama-0").warm().view(), engine("llama-1").warm().view())


class Refused(SidecarError):
    pass


class Sidecars:
    def __init__(self) -> None:
        self.told: list[str] = []
        self.refuses: dict[str, int] = {}
        """By pod: how many attempts fail."""

    async def warm(self, pod: PodView) -> None:
        if self.refuses.get(pod.meta.name, 0) > 0:
            self.refuses[pod.meta.name] -= 1
            raise Refused("no answer")
        self.told.append(pod.meta.name)


class Operator:
    """Reconciles as often as it is told that something changed."""

    def __init__(self, sidecars: Sidecars) -> None:
        self.changes: asyncio.Queue[object] = asyncio.Queue()
        self.triggers = Triggers(sidecars, self.changes.put_nowait, pause=0)
        self.body = warm_model(status={})
        self.events: list[str] = []

    def annotate(self, text: str) -> None:
        self.body["metadata"]["annotations"] = {WARM_NOW_ANNOTATION: text}

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.body["status"].get("warmNow") or {}
        return found

    def reconcile(self, pods: tuple[PodView, ...] = PODS) -> None:
        view = project(WARM_MODEL, deepcopy(self.body))
        assert isinstance(view, ModelView)
        outcome = self.triggers.look(view, self.status, pods)
        if outcome is not None:
            self.body["status"]["warmNow"] = outcome.status()
            self.events.append(outcome.event().reason)

    async def settle(self) -> None:
        """Until nothing more is to be done."""
        self.reconcile()
        async with asyncio.timeout(5):
            while self.triggers._runs or not self.changes.empty():
                await self.changes.get()
                self.reconcile()


@pytest.fixture
def sidecars() -> Sidecars:
    return Sidecars()


@pytest.fixture
def operator(sidecars: Sidecars) -> Operator:
    return Operator(sidecars)


async def test_nothing_is_done_unasked(operator: Operator, sidecars: Sidecars) -> None:
    await operator.settle()
    assert (sidecars.told, operator.status) == ([], {})


async def test_each_new_text_is_told_once(operator: Operator, sidecars: Sidecars) -> None:
    operator.annotate("commit-1")
    await operator.settle()
    await operator.settle()
    assert sidecars.told == ["llama-0", "llama-1"]
    assert (operator.status["id"], operator.status["pods"]) == ("commit-1", 2)
    assert operator.events == ["WarmedAgain"]
    operator.annotate("commit-2")
    await operator.settle()
    assert len(sidecars.told) == 4


async def test_another_operator_does_not_repeat_it(operator: Operator, sidecars: Sidecars) -> None:
    operator.annotate("commit-1")
    await operator.settle()
    successor = Operator(sidecars)
    successor.body = operator.body
    await successor.settle()
    assert len(sidecars.told) == 2


async def test_one_that_died_before_it_told_is_succeeded(sidecars: Sidecars) -> None:
    operator = Operator(sidecars)
    operator.annotate("commit-1")
    operator.reconcile()
    await operator.triggers.close()
    successor = Operator(sidecars)
    successor.body = operator.body
    await successor.settle()
    assert set(sidecars.told) == {"llama-0", "llama-1"}
    assert successor.status["id"] == "commit-1"


async def test_posted_and_annotated_do_not_bring_each_other_back(
    operator: Operator, sidecars: Sidecars
) -> None:
    operator.annotate("commit-1")
    await operator.settle()
    operator.triggers.post(KEY, "posted")
    await operator.settle()
    assert len(sidecars.told) == 4
    assert (operator.status["id"], operator.status["annotation"]) == ("posted", "commit-1")
    operator.triggers.post(KEY, "posted")  # again, because the answer got lost
    await operator.settle()
    assert len(sidecars.told) == 4


async def test_what_is_asked_meanwhile_comes_after(operator: Operator, sidecars: Sidecars) -> None:
    operator.annotate("commit-1")
    operator.reconcile()
    operator.annotate("commit-2")
    operator.triggers.post(KEY, "posted")
    await operator.settle()
    assert sidecars.told.count("llama-0") == 3
    assert (operator.status["id"], operator.status["annotation"]) == ("posted", "commit-2")


async def test_a_pod_that_comes_back_is_told(operator: Operator, sidecars: Sidecars) -> None:
    sidecars.refuses["llama-1"] = 2
    operator.annotate("commit-1")
    await operator.settle()
    assert (operator.status["pods"], operator.status["failed"]) == (2, 0)


async def test_a_pod_that_never_answers_is_named(operator: Operator, sidecars: Sidecars) -> None:
    sidecars.refuses["llama-1"] = 99
    operator.annotate("commit-1")
    await operator.settle()
    assert (operator.status["pods"], operator.status["failed"]) == (1, 1)
    assert operator.events == ["WarmAgainFailed"]


async def test_without_warm_pods_it_is_done_at_once(operator: Operator) -> None:
    operator.annotate("commit-1")
    operator.reconcile(())
    await operator.settle()
    assert operator.status["id"] == "commit-1"


def test_long_texts_are_told_apart() -> None:
    assert identity("a" * 128) == "a" * 128
    assert identity("a" * 129) != identity("a" * 130)
    assert len(identity("a" * 10_000)) <= 128

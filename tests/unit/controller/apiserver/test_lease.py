"""Who may run: the Lease under a fake clock."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from unit.controller.fake_kube import FakeKube
from warmpod.controller.apiserver import lease as leases
from warmpod.controller.apiserver.kinds import LEASE
from warmpod.controller.apiserver.kube import ApiError, Unreachable
from warmpod.controller.apiserver.lease import DURATION, NAME, RENEW_DEADLINE, Lease, LeaseLost

NAMESPACE = "warmpod-system"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Sleeping takes no time, but the clock moves."""
    found = Clock()
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        found.now += seconds
        await real(0)

    monkeypatch.setattr(leases.asyncio, "sleep", sleep)
    return found


def lease(kube: FakeKube, clock: Clock, identity: str = "me") -> Lease:
    return Lease(kube, NAMESPACE, identity, clock=clock)  # type: ignore[arg-type]


def spec(kube: FakeKube) -> dict[str, Any]:
    found = kube.find(LEASE, NAME, NAMESPACE)
    assert found is not None
    held: dict[str, Any] = found["spec"]
    return held


def held_by(kube: FakeKube, holder: str, renew: str = "2030-01-01T00:00:00.000000Z") -> None:
    kube.put(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": DURATION,
                "renewTime": renew,
                "leaseTransitions": 3,
            },
        }
    )


async def test_a_free_lease_is_taken_at_once(clock: Clock) -> None:
    kube = FakeKube()
    await lease(kube, clock).acquire()
    assert spec(kube)["holderIdentity"] == "me"
    assert spec(kube)["leaseDurationSeconds"] == DURATION
    assert clock.now == 1000


async def test_a_lease_that_was_given_back_is_taken_at_once(clock: Clock) -> None:
    kube = FakeKube()
    held_by(kube, "")
    await lease(kube, clock).acquire()
    assert spec(kube)["holderIdentity"] == "me"
    assert clock.now == 1000


async def test_a_silent_holder_is_respected_for_its_time(clock: Clock) -> None:
    kube = FakeKube()
    held_by(kube, "other")
    await lease(kube, clock).acquire()
    assert DURATION < clock.now - 1000 < DURATION + 5
    assert spec(kube)["leaseTransitions"] == 4


async def test_a_holder_that_renews_is_never_pushed_out(clock: Clock) -> None:
    kube = FakeKube()
    held_by(kube, "other")
    mine = lease(kube, clock)
    for second in range(60):
        held_by(kube, "other", f"2030-01-01T00:00:{second:02}.000000Z")
        assert not await mine._attempt()
        clock.now += 2
    assert spec(kube)["holderIdentity"] == "other"


async def test_a_restart_takes_its_own_lease_back(clock: Clock) -> None:
    kube = FakeKube()
    held_by(kube, "me")
    await lease(kube, clock).acquire()
    assert clock.now == 1000
    assert spec(kube)["leaseTransitions"] == 3


async def test_two_that_come_together(clock: Clock) -> None:
    kube = FakeKube()
    held_by(kube, "")
    first, second = lease(kube, clock, "a"), lease(kube, clock, "b")
    found = await asyncio.gather(first._attempt(), second._attempt())
    assert sorted(found) == [False, True]


async def test_trouble_that_passes_loses_nothing(clock: Clock) -> None:
    kube = FakeKube()
    mine = lease(kube, clock)
    await mine.acquire()
    kube.fail("get", "Lease", Unreachable("down"), ApiError(500, "x", "x"))
    await asyncio.sleep(5)
    await mine._renew()
    assert mine.renewed_at == clock.now


async def test_a_lease_that_cannot_be_renewed_is_lost_before_anybody_may_take_it(
    clock: Clock,
) -> None:
    kube = FakeKube()
    mine = lease(kube, clock)
    await mine.acquire()
    kube.fail("get", "Lease", *[Unreachable("down")] * 100)
    with pytest.raises(LeaseLost):
        await mine.keep()
    assert RENEW_DEADLINE <= clock.now - 1000 < DURATION


async def test_a_lease_that_somebody_took_is_lost(clock: Clock) -> None:
    kube = FakeKube()
    mine = lease(kube, clock)
    await mine.acquire()
    held_by(kube, "thief")
    with pytest.raises(LeaseLost):
        await mine.keep()


async def test_release_lets_the_successor_start(clock: Clock) -> None:
    kube = FakeKube()
    mine = lease(kube, clock)
    await mine.acquire()
    await mine.release()
    before = clock.now
    await lease(kube, clock, "successor").acquire()
    assert clock.now == before


async def test_release_leaves_the_lease_of_another_alone(clock: Clock) -> None:
    kube = FakeKube()
    held_by(kube, "other")
    await lease(kube, clock).release()
    assert spec(kube)["holderIdentity"] == "other"


async def test_release_without_an_api_server_is_no_error(clock: Clock) -> None:
    kube = FakeKube()
    kube.fail("get", "Lease", Unreachable("down"))
    await lease(kube, clock).release()

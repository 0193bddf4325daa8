"""Alive means that watch events arrive."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry, Counter

from warmpod.controller.runtime.health import DEAF_SECONDS, RECENT_SECONDS, Health, application

START = 5000.0


class Life:
    def __init__(self) -> None:
        self.now = START
        self.renewed: float | None = START
        self.health = Health(clock=lambda: self.now)
        self.health.renewed_at = lambda: self.renewed
        self.health.lease_held_at = START
        self.health.listed = True

    def pass_time(self, seconds: float, *, renewals: bool, events: bool) -> None:
        self.now += seconds
        if renewals:
            self.renewed = self.now
        if events:
            self.health.heartbeat()


def deaf(life: Life) -> None:
    life.pass_time(DEAF_SECONDS + 1, renewals=True, events=False)


@pytest.mark.parametrize(
    ("happens", "alive"),
    [
        (lambda life: None, True),
        (lambda life: life.pass_time(3600, renewals=True, events=True), True),
        (lambda life: life.pass_time(DEAF_SECONDS - 1, renewals=True, events=False), True),
        (deaf, False),
        # The API server is down: a restart would help nobody.
        (lambda life: life.pass_time(3600, renewals=False, events=False), True),
        (lambda life: (deaf(life), life.health.heartbeat()), True),
        (
            lambda life: (
                deaf(life),
                life.pass_time(RECENT_SECONDS + 1, renewals=False, events=False),
            ),
            True,
        ),
        # Nothing can be proven where the own namespace is not watched.
        (lambda life: (setattr(life.health, "heartbeat_watched", False), deaf(life)), True),
        # Before the Lease is held nothing is watched.
        (lambda life: (setattr(life.health, "lease_held_at", None), deaf(life)), True),
    ],
)
async def test_healthz(happens: Callable[[Life], object], alive: bool) -> None:
    life = Life()
    happens(life)
    async with TestClient(TestServer(application(life.health, CollectorRegistry()))) as client:
        assert (await client.get("/healthz")).status == (200 if alive else 503)


@pytest.mark.parametrize(
    ("held", "listed", "status"),
    [(None, False, 503), (START, False, 503), (START, True, 200)],
)
async def test_readyz(held: float | None, listed: bool, status: int) -> None:
    life = Life()
    life.health.lease_held_at, life.health.listed = held, listed
    async with TestClient(TestServer(application(life.health, CollectorRegistry()))) as client:
        assert (await client.get("/readyz")).status == status


async def test_metrics() -> None:
    registry = CollectorRegistry()
    Counter("things", "Things.", registry=registry).inc()
    async with TestClient(TestServer(application(Health(), registry))) as client:
        answer = await client.get("/metrics")
        assert answer.content_type == "text/plain"
        assert "things_total 1.0" in await answer.text()

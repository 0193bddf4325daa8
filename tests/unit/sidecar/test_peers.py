import asyncio
from pathlib import Path

import pytest

from support.pod_api import FakeApi, fake_api
from support.until import until
from warmpod.sidecar import peers
from warmpod.sidecar.peers import Peers

OWN = "tiny-0"


@pytest.mark.parametrize(
    ("serving", "expected"),
    [([], False), ([OWN], False), ([OWN, "tiny-1"], True), (["tiny-1"], True), (["a", OWN], True)],
)
async def test_one_pod_always_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serving: list[str], expected: bool
) -> None:
    monkeypatch.setattr(peers, "TURN_SECONDS", 0.01)
    async with fake_api() as api:
        api.serving = set(serving)
        found = await _peers(api, tmp_path).would_serve_without_us()
    assert found is expected


async def test_api_server_that_does_not_tell_keeps_the_pod(tmp_path: Path) -> None:
    async with fake_api() as api:
        api.serving = {OWN, "tiny-1"}
        api.failing = True
        assert not await _peers(api, tmp_path).would_serve_without_us()


async def test_pod_that_was_left_alone_while_it_waited_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "TURN_SECONDS", 0.2)
    async with fake_api() as api:
        api.serving = {OWN, "earlier"}
        asking = asyncio.create_task(_peers(api, tmp_path).would_serve_without_us())
        await until(lambda: api.endpoint_reads > 0)
        api.serving = {OWN}
        assert not await asking


@pytest.mark.parametrize("count", [2, 5])
async def test_pods_that_all_time_out_at_once_leave_exactly_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(peers, "TURN_SECONDS", 0.2)
    names = [f"tiny-{number}" for number in range(count)]
    async with fake_api() as api:
        api.serving = set(names)
        await asyncio.gather(*(_leave(api, tmp_path, name) for name in names))
        assert len(api.serving) == 1


async def _leave(api: FakeApi, folder: Path, name: str) -> None:
    if await _peers(api, folder, name).would_serve_without_us():
        api.serving.discard(name)


def _peers(api: FakeApi, folder: Path, name: str = OWN) -> Peers:
    return Peers(api.own_pod(folder / name, name), "tiny")

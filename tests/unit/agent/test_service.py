"""The whole agent in one event loop, against a small stand-in for the API server."""

import asyncio
import contextlib
import fcntl
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import unused_port

from unit.agent.users import used
from unit.weights.models import (
    SHARDS,
    as_of_an_earlier_version,
    make_model,
    rewrite_in_time,
    spoil_unseen,
)
from warmpod import reasons
from warmpod.agent import farewell
from warmpod.agent import service as service_module
from warmpod.agent.config import AgentConfig, Medium, WeightSet
from warmpod.agent.copies import filling
from warmpod.agent.copies.nodecopy import NodeCopies
from warmpod.agent.keeper import Keeper
from warmpod.agent.residency.holder import Holder, Measurement
from warmpod.agent.service import Service
from warmpod.agent.sources.lookup import Lookup, SourceReplaced
from warmpod.agent.sources.origin import Kind, Origin
from warmpod.agent.staging import SourceError
from warmpod.podstatus import ConditionReporter, OwnPod
from warmpod.podstatus.own_pod import PodIdentity
from warmpod.protocol import RECEIPT_NAME, USERS_LOCK
from warmpod.weights import manifest, verify
from warmpod.weights.receipt import Receipt


class Api:
    """Remembers the conditions it was sent, and answers for one WarmModel."""

    def __init__(self) -> None:
        self.conditions: list[tuple[str, str, str]] = []
        self.warm_model_status = 200
        self.warm_model_uid = "u-1"
        self.patch_status = 200
        self.url = ""

    async def patch(self, request: web.Request) -> web.Response:
        assert request.query["fieldManager"] == "warmpod-agent"
        if self.patch_status != 200:
            return web.Response(status=self.patch_status)
        (condition,) = (await request.json())["status"]["conditions"]
        assert condition["type"] == "warmpod.io/Resident"
        self.conditions.append((condition["status"], condition["reason"], condition["message"]))
        return web.json_response({})

    async def get(self, _: web.Request) -> web.Response:
        return web.json_response(
            {"metadata": {"uid": self.warm_model_uid}}, status=self.warm_model_status
        )

    @property
    def reasons(self) -> list[str]:
        return [reason for _, reason, _ in self.conditions]


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    api = Api()
    application = web.Application()
    application.router.add_patch("/api/v1/namespaces/ns/pods/pod/status", api.patch)
    application.router.add_get("/apis/warmpod.io/v1alpha1/namespaces/ns/warmmodels/tiny", api.get)
    application.router.add_get("/api/v1/namespaces/ns", api.get)
    runner = web.AppRunner(application)
    await runner.setup()
    port = unused_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    api.url = f"http://127.0.0.1:{port}"
    yield api
    await runner.cleanup()


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warmpod.agent.keeper.SHOWN_SECONDS", 0.0)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = make_model(tmp_path / "source")
    manifest.write(directory, manifest.from_directory(directory))
    return directory


@pytest.fixture
def config(tmp_path: Path, source: Path) -> AgentConfig:
    for name in ("state", "node", "staged"):
        (tmp_path / name).mkdir()
    return AgentConfig(
        model="tiny",
        model_uid="u-1",
        medium=Medium.IMAGE,
        sets=(WeightSet("tiny", source, key="abc"),),
        node_root=tmp_path / "node",
        stage_root=tmp_path / "staged",
        state_dir=tmp_path / "state",
        port=unused_port(),
        look_seconds=0.05,
    )


@contextlib.contextmanager
def held(directory: Path) -> Iterator[Path]:
    """As a container has it: this one, whatever becomes of its name."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    yield Path(f"/proc/self/fd/{descriptor}")
    os.close(descriptor)


async def until(condition: Callable[[], Awaitable[bool] | bool]) -> None:
    async with asyncio.timeout(20):
        while True:
            result = condition()
            if result if isinstance(result, bool) else await result:
                return
            await asyncio.sleep(0.01)


class Agent:
    def __init__(self, config: AgentConfig, service: Service) -> None:
        self._url = f"http://127.0.0.1:{config.port}"
        self.service = service

    async def get(self, path: str) -> tuple[int, str]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(self._url + path) as answer,
        ):
            return answer.status, await answer.text()

    async def ready(self) -> bool:
        try:
            return (await self.get("/readyz"))[0] == 200
        except aiohttp.ClientConnectionError:
            return False

    async def says(self, reason: str) -> bool:
        try:
            status, text = await self.get("/readyz")
        except aiohttp.ClientConnectionError:
            return False
        return status == 503 and text.startswith(f"{reason}:")


def make_service(config: AgentConfig, api: Api, tmp_path: Path) -> Service:
    account = tmp_path / "account"
    account.mkdir(exist_ok=True)
    (account / "token").write_text("t")
    pod = OwnPod(PodIdentity("ns", "pod", "uid"), api.url, account, "warmpod-agent")
    return Service(config, pod)


@asynccontextmanager
async def running(config: AgentConfig, api: Api, tmp_path: Path) -> AsyncIterator[Agent]:
    service = make_service(config, api, tmp_path)
    task = asyncio.create_task(service.run())
    try:
        yield Agent(config, service)
    finally:
        service.stop()
        async with asyncio.timeout(20):
            await task


async def test_image_weights_become_resident(config, api, tmp_path) -> None:
    async with running(config, api, tmp_path) as agent:
        await until(agent.ready)
        await until(lambda: reasons.RESIDENT in api.reasons)
        status, _, message = api.conditions[-1]
        assert status == "True"
        assert message.startswith("5 files, 17.")
        _, metrics = await agent.get("/metrics")
        labels = 'medium="Image",model="tiny",set="tiny"'
        assert f"warmpod_weights_ready{{{labels}}} 1.0" in metrics
        _, document = await agent.get("/status")
        assert '"reason": "Resident"' in document
    assert (config.state_dir / "receipt-tiny.json").exists()


async def test_pod_memory_only_verifies(config, api, tmp_path) -> None:
    async with running(replace(config, medium=Medium.POD_MEMORY), api, tmp_path) as agent:
        await until(agent.ready)
        await until(lambda: ("True", reasons.VERIFIED) in [c[:2] for c in api.conditions])


async def test_without_a_state_directory_it_works_too(config, api, tmp_path) -> None:
    config.state_dir.rmdir()
    async with running(config, api, tmp_path) as agent:
        await until(agent.ready)


def truncate(source: Path) -> str:
    os.truncate(source / SHARDS[0], 10)
    return reasons.SIZE_MISMATCH


def flip(source: Path) -> str:
    (source / SHARDS[0]).write_bytes(b"\x09" * 9000)
    return reasons.DIGEST_MISMATCH


def remove(source: Path) -> str:
    (source / SHARDS[0]).unlink()
    return reasons.WEIGHTS_MISSING


def close(source: Path) -> str:
    (source / SHARDS[0]).chmod(0o600)
    return reasons.WEIGHTS_NOT_READABLE


@pytest.mark.parametrize("medium", list(Medium))
@pytest.mark.parametrize("spoil", [truncate, flip, remove, close])
async def test_bad_weights_are_never_resident(config, source, api, tmp_path, spoil, medium) -> None:
    reason = spoil(source)
    async with running(replace(config, medium=medium), api, tmp_path):
        await until(lambda: reason in api.reasons)
    assert {status for status, _, _ in api.conditions} == {"False"}
    assert SHARDS[0] in api.conditions[-1][2]
    assert not (config.node_root / "abc" / RECEIPT_NAME).exists()


async def test_files_that_change_under_a_ready_agent(config, source, api, tmp_path) -> None:
    good = (source / SHARDS[0]).read_bytes()
    async with running(config, api, tmp_path) as agent:
        await until(agent.ready)
        flip(source)
        await until(lambda: agent.says(reasons.DIGEST_MISMATCH))
        (source / SHARDS[0]).write_bytes(good)
        await until(agent.ready)


@pytest.mark.parametrize("medium", list(Medium))
async def test_a_replaced_source_is_told_and_ends_the_agent(
    config, source, api, tmp_path, medium
) -> None:
    """Only a new container has what is at the path now; the next agent reads all of it."""
    shutil.copytree(source, tmp_path / "next")
    with held(source) as directory:
        weights = replace(config.sets[0], source=directory, lookup=Lookup(tmp_path, "source"))
        config = replace(config, medium=medium, sets=(weights,))
        service = make_service(config, api, tmp_path)
        task = asyncio.create_task(service.run())
        await until(Agent(config, service).ready)
        source.rename(tmp_path / "old")
        await until(lambda: ("False", reasons.PATH_MISMATCH) in [c[:2] for c in api.conditions])
        (tmp_path / "next").rename(source)
        async with asyncio.timeout(20):
            with pytest.raises(SourceReplaced):
                await task
    assert api.conditions[-1][:2] == ("False", reasons.SOURCE_REPLACED)
    assert "another directory is at" in api.conditions[-1][2]
    assert list(config.state_dir.iterdir()) == []
    assert not (config.node_root / "abc" / RECEIPT_NAME).exists()


@pytest.mark.parametrize("medium", [Medium.IMAGE, Medium.POD_MEMORY])
async def test_files_that_are_rewritten_with_their_time_set_back(
    config, source, api, tmp_path, medium
) -> None:
    async with running(replace(config, medium=medium), api, tmp_path) as agent:
        await until(agent.ready)
        rewrite_in_time(source / SHARDS[0])
        await until(lambda: agent.says(reasons.DIGEST_MISMATCH))
        rewrite_in_time(source / SHARDS[0])  # which is the content of before
        await until(agent.ready)


async def test_the_receipt_of_an_agent_before_this_version_is_made_anew(
    config, api, tmp_path, monkeypatch
) -> None:
    receipt = config.state_dir / "receipt-tiny.json"
    async with running(config, api, tmp_path) as agent:
        await until(agent.ready)
    as_of_an_earlier_version(receipt)
    hashed: list[str] = []
    plain = verify.sha256_of_open

    def noted(file, *arguments, **options) -> str:
        hashed.append(Path(file.name).name)
        return plain(file, *arguments, **options)

    monkeypatch.setattr(verify, "sha256_of_open", noted)
    for read in (5, 0):
        async with running(config, api, tmp_path) as agent:
            await until(agent.ready)
        assert len(hashed) == read
        hashed.clear()


async def test_dropped_pages_are_told_and_read_again(config, api, tmp_path, monkeypatch) -> None:
    async with running(config, api, tmp_path) as agent:
        await until(agent.ready)
        measure, load = Holder.measure, Holder.load
        dropped = True

        def measure_dropped(holder: Holder) -> Measurement:
            found = measure(holder)
            return replace(found, resident=0) if dropped else found

        def load_again(holder: Holder, watch) -> None:
            nonlocal dropped
            if reasons.NOT_RESIDENT in api.reasons:
                dropped = False
            load(holder, watch)

        monkeypatch.setattr(Holder, "measure", measure_dropped)
        monkeypatch.setattr(Holder, "load", load_again)
        await until(lambda: reasons.NOT_RESIDENT in api.reasons)
        await until(agent.ready)
        assert agent.service._keepers["tiny"].reloads == 1


async def test_memory_that_is_too_small_is_told_before_locking(
    config, api, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("warmpod.agent.residency.memory._available", lambda: 1)
    # Only what is not in memory yet counts, and the files were just written.
    monkeypatch.setattr(
        Holder, "measure", lambda _: Measurement(0, 18_000, locked=False, trusted=True)
    )
    async with running(config, api, tmp_path) as agent:
        await until(lambda: reasons.MEMORY_TOO_SMALL in api.reasons)
        assert not await agent.ready()


@pytest.fixture
def on_node(config: AgentConfig) -> AgentConfig:
    return replace(config, medium=Medium.NODE_MEMORY)


async def test_node_memory_is_filled_and_kept_for_the_next_agent(on_node, api, tmp_path) -> None:
    receipt = on_node.node_root / "abc" / RECEIPT_NAME
    async with running(on_node, api, tmp_path) as agent:
        await until(agent.ready)
        written = receipt.stat().st_mtime_ns
    assert receipt.exists()
    async with running(on_node, api, tmp_path) as agent:
        await until(agent.ready)
    assert receipt.stat().st_mtime_ns == written


async def test_a_file_that_is_deleted_from_node_memory_comes_back(on_node, api, tmp_path) -> None:
    shard = on_node.node_root / "abc" / SHARDS[1]
    lock = on_node.node_root / "abc" / USERS_LOCK
    async with running(on_node, api, tmp_path) as agent:
        await until(agent.ready)
        locked = lock.stat().st_ino
        shard.unlink()
        await until(shard.exists)
        await until(agent.ready)
    assert lock.stat().st_ino == locked
    assert USERS_LOCK not in (on_node.node_root / "abc" / RECEIPT_NAME).read_text()


async def test_a_copy_that_is_rewritten_with_its_time_set_back_is_made_again(
    on_node, api, tmp_path
) -> None:
    shard = on_node.node_root / "abc" / SHARDS[0]
    async with running(on_node, api, tmp_path) as agent:
        await until(agent.ready)
        good = shard.read_bytes()
        rewrite_in_time(shard)
        await until(lambda: shard.read_bytes() == good)
        await until(agent.ready)


async def test_a_bad_image_is_not_copied_again_at_each_look(
    on_node, source, api, tmp_path, monkeypatch
) -> None:
    flip(source)
    copied = 0
    copy = filling._copy_content

    def counting(*arguments) -> str:
        nonlocal copied
        copied += arguments[0].name == SHARDS[0]
        return copy(*arguments)

    monkeypatch.setattr(filling, "_copy_content", counting)
    looks = looked(monkeypatch)
    async with running(on_node, api, tmp_path) as agent:
        await until(lambda: reasons.DIGEST_MISMATCH in api.reasons)
        looks.clear()
        await until(lambda: len(looks) > 3)
        assert copied == 1
        (source / SHARDS[0]).write_bytes(b"\x01" * 9000)
        await until(agent.ready)


def looked(monkeypatch: pytest.MonkeyPatch) -> list[Keeper]:
    """Grows with each look that ends."""
    looks: list[Keeper] = []
    look = Keeper.look

    def counting(keeper: Keeper) -> None:
        look(keeper)
        looks.append(keeper)

    monkeypatch.setattr(Keeper, "look", counting)
    return looks


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_node_memory_is_freed_when_the_warm_model_is_gone(
    on_node, api, tmp_path, status
) -> None:
    async with running(on_node, api, tmp_path) as agent:
        await until(agent.ready)
        api.warm_model_status = status
    assert not (on_node.node_root / "abc").exists()


async def test_node_memory_is_freed_when_another_warm_model_has_the_name(
    on_node, api, tmp_path
) -> None:
    """As after it was deleted and made again with another medium, which cannot be changed."""
    async with running(on_node, api, tmp_path) as agent:
        await until(agent.ready)
        api.warm_model_uid = "u-2"
    assert not (on_node.node_root / "abc").exists()


async def test_what_engines_use_stays_when_another_warm_model_has_the_name(
    on_node, api, tmp_path, monkeypatch
) -> None:
    """It may have adopted them: `kubectl delete --cascade=orphan`."""
    monkeypatch.setattr(farewell, "ENGINES_SECONDS", 0.05)
    monkeypatch.setattr(farewell, "RETRY_SECONDS", 0.01)
    with contextlib.ExitStack() as engine:
        async with running(on_node, api, tmp_path) as agent:
            await until(agent.ready)
            engine.enter_context(used(on_node.node_root / "abc"))
            api.warm_model_uid = "u-2"
        assert (on_node.node_root / "abc" / RECEIPT_NAME).exists()
    assert not (on_node.node_root / ".refs" / "abc" / "u-1").exists()


async def test_node_memory_stays_when_nobody_can_tell(on_node, api, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(farewell, "ASK_SECONDS", 0.05)
    monkeypatch.setattr(farewell, "RETRY_SECONDS", 0.01)
    async with running(on_node, api, tmp_path) as agent:
        await until(agent.ready)
        api.warm_model_status = 500
    assert (on_node.node_root / "abc" / RECEIPT_NAME).exists()


async def test_two_models_share_one_copy(on_node, api, tmp_path) -> None:
    other = replace(on_node, model_uid="u-2", port=unused_port())
    async with running(on_node, api, tmp_path) as first:
        await until(first.ready)
        async with running(other, api, tmp_path) as second:
            await until(second.ready)
            api.warm_model_status = 404
        assert (on_node.node_root / "abc" / RECEIPT_NAME).exists()
        await until(first.ready)
    assert not (on_node.node_root / "abc").exists()


async def test_superseded_copies_go(on_node, api, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(service_module, "SUPERSEDED_SECONDS", 0.1)
    dropped: list[NodeCopies] = []
    drop = NodeCopies.drop_superseded

    def counting(copies: NodeCopies) -> None:
        drop(copies)
        dropped.append(copies)

    monkeypatch.setattr(NodeCopies, "drop_superseded", counting)
    next_set = replace(on_node.sets[0], key="next")
    following = replace(on_node, sets=(next_set,), port=unused_port())
    async with running(on_node, api, tmp_path) as old:
        await until(old.ready)
        async with running(following, api, tmp_path) as new:
            await until(new.ready)
            await until(lambda: len(dropped) > 2)
            assert (on_node.node_root / "abc" / RECEIPT_NAME).exists()
    async with running(following, api, tmp_path) as new:
        await until(lambda: not (on_node.node_root / "abc").exists())
    assert (on_node.node_root / "next" / RECEIPT_NAME).exists()


async def test_engines_that_still_end_are_waited_for(on_node, api, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(farewell, "RETRY_SECONDS", 0.01)
    copy = on_node.node_root / "abc"
    service = make_service(on_node, api, tmp_path)
    task = asyncio.create_task(service.run())
    await until(Agent(on_node, service).ready)
    api.warm_model_status = 404
    with used(copy):
        service.stop()
        await until(lambda: not list((on_node.node_root / ".refs" / "abc").iterdir()))
        assert (copy / RECEIPT_NAME).exists()
    async with asyncio.timeout(20):
        await task
    assert not copy.exists()


async def test_an_engine_that_does_not_end_keeps_only_what_it_has_open(
    on_node, api, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(farewell, "ENGINES_SECONDS", 0.0)
    monkeypatch.setattr(farewell, "RETRY_SECONDS", 0.01)
    copy = on_node.node_root / "abc"
    async with running(on_node, api, tmp_path) as agent:
        await until(agent.ready)
        api.warm_model_status = 404
        descriptor = os.open(copy, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    os.close(descriptor)
    assert [path.name for path in copy.iterdir()] == [USERS_LOCK]


# --- A loss is told before it is repaired ---------------------------------------------------------


def transitions(api: Api) -> list[tuple[str, str]]:
    """Status and reason, each change once."""
    found: list[tuple[str, str]] = []
    for status, reason, _ in api.conditions:
        if found[-1:] != [(status, reason)]:
            found.append((status, reason))
    return found


def unlink(path: Path) -> str:
    path.unlink()
    return reasons.WEIGHTS_MISSING


def alter(path: Path) -> str:
    path.chmod(0o644)
    path.write_bytes(b"\x09" * 9000)
    return reasons.NOT_RESIDENT


@pytest.mark.parametrize("spoil", [unlink, alter])
async def test_a_repair_within_milliseconds_is_seen_by_the_api_server(
    on_node, api, tmp_path, spoil
) -> None:
    shard = on_node.node_root / "abc" / SHARDS[0]
    async with running(on_node, api, tmp_path) as agent:
        await until(agent.ready)
        await until(lambda: reasons.RESIDENT in api.reasons)
        api.conditions.clear()
        reason = spoil(shard)
        await until(lambda: reasons.RESIDENT in api.reasons)
    assert transitions(api)[0] == ("False", reason)
    assert SHARDS[0] in api.conditions[0][2]
    assert shard.read_bytes() == b"\x01" * 9000


async def test_a_loss_is_repaired_also_when_the_api_server_is_away(
    on_node, api, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(service_module, "TELL_SECONDS", 0.05)
    shard = on_node.node_root / "abc" / SHARDS[0]
    async with running(on_node, api, tmp_path) as agent:
        await until(agent.ready)
        await until(lambda: reasons.RESIDENT in api.reasons)
        api.patch_status = 500
        shard.unlink()
        await until(shard.exists)
        await until(agent.ready)
        api.patch_status = 200


async def test_a_scrub_finds_what_no_look_can_see(on_node, api, tmp_path, monkeypatch) -> None:
    shard = on_node.node_root / "abc" / SHARDS[0]
    async with running(replace(on_node, scrub_seconds=0.2), api, tmp_path) as agent:
        await until(agent.ready)
        await until(lambda: reasons.RESIDENT in api.reasons)
        api.conditions.clear()
        spoil_unseen(shard, monkeypatch)
        await until(lambda: reasons.RESIDENT in api.reasons)
    assert transitions(api)[0] == ("False", reasons.DIGEST_MISMATCH)
    assert shard.read_bytes() == b"\x01" * 9000


async def test_an_image_that_went_bad_is_told_with_what_to_do(
    config, source, api, tmp_path, monkeypatch
) -> None:
    image = replace(config.sets[0], origin=Origin(Kind.IMAGE, "registry/tiny@sha256:1"))
    scrubbed = replace(config, sets=(image,), scrub_seconds=0.1)
    async with running(scrubbed, api, tmp_path) as agent:
        await until(agent.ready)
        spoil_unseen(source / SHARDS[0], monkeypatch)
        await until(lambda: agent.says(reasons.DIGEST_MISMATCH))
        await until(lambda: "crictl rmi registry/tiny@sha256:1" in api.conditions[-1][2])
        assert not await agent.ready()


# --- Several sets, and remote ones ----------------------------------------------------------------


@pytest.fixture
def with_draft(config: AgentConfig, tmp_path: Path) -> AgentConfig:
    draft = make_model(tmp_path / "draft")
    return replace(config, sets=(*config.sets, WeightSet("draft", draft, key="def")))


async def test_not_ready_until_every_set_is(with_draft, api, tmp_path) -> None:
    draft = with_draft.sets[1].source
    content = (draft / SHARDS[0]).read_bytes()
    (draft / SHARDS[0]).unlink()
    async with running(with_draft, api, tmp_path) as agent:
        await until(lambda: agent.says(reasons.WEIGHTS_MISSING))
        _, text = await agent.get("/readyz")
        assert text.startswith(f"WeightsMissing: draft: {SHARDS[0]}: ")
        (draft / SHARDS[0]).write_bytes(content)
        await until(agent.ready)
        _, text = await agent.get("/readyz")
        assert text.startswith("Resident: tiny: 5 files")
        assert "; draft: 5 files" in text
        _, metrics = await agent.get("/metrics")
        for name in ("tiny", "draft"):
            assert f'_ready{{medium="Image",model="tiny",set="{name}"}} 1.0' in metrics


@pytest.mark.parametrize("medium", list(Medium))
async def test_remote_weights_are_staged_and_then_like_any_other(
    config, source, api, tmp_path, monkeypatch, medium
) -> None:
    refusal: list[SourceError] = [SourceError(reasons.SOURCE_UNAUTHORIZED, "401: no token", 0.1)]

    def stage(remote, credentials, directory: Path, watch, begin) -> Receipt:
        assert remote == {"http": {"url": "http://x/"}}
        if refusal:
            raise refusal[0]
        begin(1)
        shutil.copytree(source, directory, dirs_exist_ok=True)
        return Receipt()

    monkeypatch.setattr("warmpod.agent.staging.stage", stage)
    remote = WeightSet(
        "tiny", config.stage_root / "k", key="k", remote={"http": {"url": "http://x/"}}
    )
    staged = replace(config, medium=medium, sets=(remote,))
    async with running(staged, api, tmp_path) as agent:
        await until(lambda: agent.says(reasons.SOURCE_UNAUTHORIZED))
        _, text = await agent.get("/readyz")
        assert text == "SourceUnauthorized: 401: no token\n"
        refusal.clear()
        await until(agent.ready)
        _, metrics = await agent.get("/metrics")
        assert f'warmpod_weights_staged_bytes{{medium="{medium}",model="tiny",set="tiny"}} 1' in (
            metrics
        )
        api.warm_model_status = 404
    assert not (config.stage_root / "k").exists()


async def test_ends_when_it_cannot_report_any_more(config, api, tmp_path, monkeypatch) -> None:
    async def broken(_: ConditionReporter) -> None:
        raise RuntimeError("no more reports")

    monkeypatch.setattr(ConditionReporter, "run", broken)
    with pytest.raises(ExceptionGroup) as ended:
        async with asyncio.timeout(20):
            await make_service(config, api, tmp_path).run()
    assert ended.group_contains(RuntimeError, match="no more reports")


async def test_stops_in_the_middle_of_reading(on_node, api, tmp_path, monkeypatch) -> None:
    reading = asyncio.Event()
    loop = asyncio.get_running_loop()

    def endless(source: Path, target: Path, expected, watch, doubted, begin) -> None:
        begin(1)
        loop.call_soon_threadsafe(reading.set)
        while True:
            watch(0)

    monkeypatch.setattr("warmpod.agent.places.nodememory.fill", endless)
    async with running(on_node, api, tmp_path) as agent:
        async with asyncio.timeout(10):
            await reading.wait()
        assert await agent.says(reasons.VERIFYING)

"""kopf brings events and does nothing else; what it brings finds its way to the queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import kopf
import pytest
from kubernetes.aio.client import Configuration

from unit.controller.builders import (
    NAME,
    NAMESPACE,
    Object,
    engine,
    node,
    prefetch,
    warm_model,
)
from unit.controller.fake_kube import FakeKube
from warmpod.controller import main
from warmpod.controller.apiserver import events
from warmpod.controller.apiserver.kinds import AUTOSCALER, CACHED, LEASE, NODE, POD, WARM_MODEL
from warmpod.controller.apiserver.kube import ApiError, Unreachable
from warmpod.controller.main import Operator
from warmpod.controller.objects import sweep
from warmpod.controller.objects.cache import Cache
from warmpod.controller.objects.sweep import Sweeper
from warmpod.controller.settings import OperatorSettings

KEY = (NAMESPACE, NAME)


async def no_login() -> dict[str, Any]:
    return {"server": "https://example.com"}


def test_only_handlers_that_keep_no_state_are_registered() -> None:
    """Any other kind of handler makes kopf write annotations or finalizers."""
    found = events.registry(lambda *_: None, no_login)
    assert len(found._watching.get_all_handlers()) == len(CACHED) + 1
    for stateful in (found._changing, found._spawning, found._indexing, found._webhooks):
        assert stateful.get_all_handlers() == []


def test_objects_are_selected_by_the_api_server() -> None:
    chosen = events.settings().watching
    for kind in (*CACHED, LEASE):
        resource = kopf.Resource(kind.group, kind.version, kind.plural, kind=kind.kind)
        labels, fields = chosen.label_selectors, chosen.field_selectors
        of_us = [] if kind in (WARM_MODEL, LEASE) else ["app.kubernetes.io/managed-by=warmpod"]
        assert labels.collect(resource) == of_us
        own = ["metadata.name=warmpod-operator"] if kind is LEASE else []
        assert fields.collect(resource) == own


def test_settings_that_keep_it_from_going_silent_or_asking_for_rights() -> None:
    chosen = events.settings()
    assert chosen.peering.standalone
    assert chosen.scanning.disabled
    assert not chosen.posting.enabled
    assert chosen.watching.server_timeout
    assert chosen.watching.client_timeout
    assert chosen.watching.client_timeout > chosen.watching.server_timeout
    assert chosen.watching.inactivity_timeout == 70
    assert chosen.networking.enforce_retry_after


@pytest.fixture
async def operator() -> AsyncIterator[Operator]:
    settings = OperatorSettings("image", "system", (), 0, "me")
    configuration = Configuration(host="https://api:6443")
    kube: Any = FakeKube()
    async with aiohttp.ClientSession() as session:
        found = Operator(settings, kube, session, configuration)
        yield found
        await found.disks.close()
        for task in found.sweeper._due.values():
            task.cancel()


async def test_an_event_of_a_child_is_work_for_its_model(operator: Operator) -> None:
    operator.receive(POD, "ADDED", engine().body())
    assert await asyncio.wait_for(operator.queue.get(), 1) == KEY


async def test_nodes_are_watched_with_the_right_to(operator: Operator) -> None:
    await operator.find_optional()
    assert operator.fleet.watched
    assert NODE in operator.sweeper.kinds
    found = events.registry(operator.receive, no_login, operator.sweeper.kinds)
    assert len(found._watching.get_all_handlers()) == len(CACHED) + 3


async def test_without_it_they_are_not(operator: Operator) -> None:
    kube: Any = operator.kube
    kube.fail("request", "/api/v1/nodes", ApiError(403, "Forbidden", "nodes is forbidden"))
    await operator.find_optional()
    assert not operator.fleet.watched
    assert operator.sweeper.kinds == (AUTOSCALER, *CACHED)


async def test_without_the_right_to_autoscalers_they_are_not_watched(operator: Operator) -> None:
    kube: Any = operator.kube
    path = "/apis/autoscaling/v2/horizontalpodautoscalers"
    kube.fail("request", path, ApiError(403, "Forbidden", "no"))
    await operator.find_optional()
    assert operator.sweeper.kinds == (NODE, *CACHED)


async def test_a_node_that_cannot_be_listed_now_is_tried_again(operator: Operator) -> None:
    kube: Any = operator.kube
    kube.fail("request", "/api/v1/nodes", Unreachable("down"))
    with pytest.raises(Unreachable):
        await operator.find_optional()


async def test_an_event_of_a_node_is_work_for_models_that_it_concerns(operator: Operator) -> None:
    operator.receive(POD, "ADDED", prefetch().on("node-1").body())
    await operator.queue.get()
    operator.queue.done(KEY)
    operator.receive(NODE, "ADDED", node("node-1"))
    assert await asyncio.wait_for(operator.queue.get(), 1) == KEY
    operator.queue.done(KEY)
    operator.receive(NODE, "MODIFIED", node("node-1", version=8))
    operator.receive(NODE, "MODIFIED", node("node-2"))
    assert len(operator.queue) == 0


async def test_a_burst_is_one_piece_of_work(operator: Operator) -> None:
    operator.receive(WARM_MODEL, "ADDED", warm_model())
    for version in range(30, 40):
        body = engine().body()
        body["metadata"]["resourceVersion"] = str(version)
        operator.receive(POD, "MODIFIED", body)
    assert len(operator.queue) == 1


async def test_old_news_are_no_work(operator: Operator) -> None:
    operator.receive(POD, "ADDED", engine().body())
    await operator.queue.get()
    operator.queue.done(KEY)
    body = engine().body()
    body["metadata"]["resourceVersion"] = "1"
    operator.receive(POD, "MODIFIED", body)
    assert len(operator.queue) == 0


async def test_a_deletion_is_work(operator: Operator) -> None:
    operator.receive(WARM_MODEL, "ADDED", warm_model())
    await operator.queue.get()
    operator.receive(WARM_MODEL, "DELETED", warm_model())
    operator.queue.done(KEY)
    assert await asyncio.wait_for(operator.queue.get(), 1) == KEY
    assert operator.cache.model(KEY) is None


def lease(namespace: str) -> Object:
    return {"metadata": {"name": "warmpod-operator", "namespace": namespace}}


async def test_only_the_own_lease_is_the_heartbeat(operator: Operator) -> None:
    operator.receive(LEASE, "MODIFIED", lease("elsewhere"))
    assert operator.health.heartbeat_at is None
    operator.receive(LEASE, "MODIFIED", lease("system"))
    assert operator.health.heartbeat_at is not None
    assert len(operator.queue) == 0


async def test_kopf_gets_the_same_credentials() -> None:
    configuration = Configuration(host="https://api:6443", ssl_ca_cert="/ca.crt")
    configuration.api_key["BearerToken"] = "bearer secret\n"
    found = await main._credentials(configuration)
    assert (found["scheme"], found["token"]) == ("Bearer", "secret")
    assert (found["server"], found["ca_path"]) == ("https://api:6443", "/ca.crt")
    assert found["insecure"] is False


async def test_credentials_without_a_token() -> None:
    configuration = Configuration(host="https://api:6443", cert_file="/c", key_file="/k")
    found = await main._credentials(configuration)
    assert (found["scheme"], found["token"]) == (None, None)
    assert (found["certificate_path"], found["private_key_path"]) == ("/c", "/k")


# --- Sweeps ---------------------------------------------------------------------------------------


async def test_a_sweep_finds_what_the_watch_missed() -> None:
    kube, cache, added = FakeKube(), Cache(), []
    sweeper = Sweeper(kube, cache, (), added.append)  # type: ignore[arg-type]
    kube.put(warm_model())
    kube.put(engine("a").body())
    await sweeper.everything()
    assert added == [KEY]
    assert [view.meta.name for view in cache.owned(POD, KEY)] == ["a"]

    del kube.objects[(POD, NAMESPACE, "a")]
    kube.put(engine("b").body())
    added.clear()
    await sweeper.sweep(POD)
    assert added == [KEY]
    assert [view.meta.name for view in cache.owned(POD, KEY)] == ["b"]


async def test_a_sweep_of_single_namespaces_lists_only_those() -> None:
    kube, cache = FakeKube(), Cache()
    sweeper = Sweeper(kube, cache, ("elsewhere",), lambda _: None)  # type: ignore[arg-type]
    kube.put(warm_model())
    await sweeper.everything()
    assert cache.models() == []


async def test_initial_lists_are_tried_until_they_succeed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "RETRY_DELAY", 0)
    kube, cache = FakeKube(), Cache()
    kube.put(warm_model())
    kube.fail("list", "WarmModel", Unreachable("down"), Unreachable("down"))
    rounds = []

    async def before() -> None:
        rounds.append("before")

    await Sweeper(kube, cache, (), lambda _: None).initially(before)  # type: ignore[arg-type]
    assert len(cache.models()) == 1
    assert len(rounds) == 3


async def test_many_relists_are_one_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "RELIST_DELAY", 0)
    kube = FakeKube()
    sweeper = Sweeper(kube, Cache(), (), lambda _: None)  # type: ignore[arg-type]
    for _ in range(10):
        sweeper.relisted(POD)
    await asyncio.gather(*sweeper._due.values())
    assert kube.calls == [("list", "Pod", "app.kubernetes.io/managed-by=warmpod")]
    assert sweeper._due == {}

"""The plan as tables: from what there is to what is done about it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from unit.controller.builders import (
    ENGINE_DIGEST,
    ENGINE_IMAGE,
    MODEL_DIGEST,
    MODEL_IMAGE,
    NOW,
    SETTINGS,
    World,
    ago,
    applied,
    daemon_set,
    engine,
    prefetch,
    warm_model,
)
from warmpod.controller import plan as planning
from warmpod.controller.clients.resolver import NotFound, Resolved, Unresolved
from warmpod.controller.facts import MIN_READY
from warmpod.resources import revision
from warmpod.resources.names import PREFETCH_LABEL, REVISION_LABEL
from warmpod.resources.revision import Digests
from warmpod.resources.settings import Settings

BASE = ["ServiceAccount", "Role", "RoleBinding", "Service", "PodDisruptionBudget"]


def kinds(plan: planning.Plan) -> list[str]:
    return [obj["kind"] for obj in plan.apply]


def template_of(obj: dict[str, Any] | None, label: str = REVISION_LABEL) -> str:
    assert obj is not None
    value: str = obj["spec"]["template"]["metadata"]["labels"][label]
    return value


# --- The steps of a new WarmModel -----------------------------------------------------------------


def test_while_the_registry_is_asked_only_what_needs_no_images_is_applied() -> None:
    world = World(resolutions={ENGINE_IMAGE: None, MODEL_IMAGE: None})
    assert kinds(world.plan()) == BASE


def test_known_digests_become_a_revision_and_nothing_runs_before_it_is_stored() -> None:
    plan = World().plan()
    assert kinds(plan) == [*BASE, "ControllerRevision"]
    stored = applied(plan, "ControllerRevision")
    assert stored is not None
    assert stored["data"]["digests"] == {"engine": ENGINE_DIGEST, "model": MODEL_DIGEST}
    assert [event.reason for event in plan.events] == ["RevisionCreated"]


@pytest.mark.parametrize("answer", [Unresolved("no answer"), NotFound("not there")])
def test_an_unknown_digest_leaves_the_tag(answer: Unresolved | NotFound) -> None:
    world = World()
    world = replace(world, resolutions={**world.resolutions, MODEL_IMAGE: answer})
    stored = applied(world.plan(), "ControllerRevision")
    assert stored is not None
    assert stored["data"]["digests"] == {"engine": ENGINE_DIGEST, "model": None}
    assert MODEL_IMAGE in str(stored["data"]["engineTemplate"])


def test_a_tag_that_stays_is_told() -> None:
    world = World()
    world = replace(world, resolutions={**world.resolutions, MODEL_IMAGE: Unresolved("no answer")})
    reasons = [event.reason for event in world.plan().events]
    assert reasons == ["RevisionCreated", "DigestUnresolved"]


def test_an_argument_that_no_vllm_has_is_told_once_a_revision() -> None:
    world = World(warm_model(engine={"args": ["--preload-model"]}))
    first = world.plan()
    assert [event.reason for event in first.events] == ["RevisionCreated", "UnknownArgument"]
    assert world.store().plan().events == ()


def test_a_loader_that_an_argument_overrides_is_told_once_a_revision() -> None:
    engine = {"args": ["--load-format=safetensors"]}
    world = World(warm_model(engine=engine, weights={"loader": "Multithread"}))
    (_, event) = world.plan().events
    assert (event.type, event.reason) == ("Warning", "LoaderIgnored")
    assert "--load-format in spec.engine.args wins" in event.message


def test_so_is_a_profile_that_adds_nothing_to_the_engine() -> None:
    world = World(warm_model(engine={"command": ["serve"]}, profile="CostSaving"))
    (_, event) = world.plan().events
    assert (event.type, event.reason) == ("Warning", "ProfileIgnored")


def test_a_stored_revision_is_prefetched_first() -> None:
    assert kinds(World().store().plan()) == [*BASE, "DaemonSet"]


# --- No engine starts on weights that nobody has verified -----------------------------------------


@pytest.mark.parametrize(
    ("world", "starts"),
    [
        (World().store(), False),
        (World().store().prefetching(1), False),
        (World().store().prefetching(1, prefetch()), False),
        (World().store().prefetching(1, prefetch().running()), False),
        (World().store().prefetching(1, prefetch().not_resident("Verifying")), False),
        (World().store().prefetching(1, prefetch().not_resident("DigestMismatch")), False),
        (World().store().prefetching(1, prefetch().not_resident("Loading")), True),
        (World().store().prefetching(1, prefetch().not_resident("NotResident")), True),
        (World().store().prefetching(1, prefetch().resident()), True),
        (World().store().prefetching(1, prefetch().resident("Verified")), True),
        (World().store().prefetching(9, prefetch("one").resident()), True),
        (World().store().prefetching(1, prefetch().resident().gone()), False),
        (World().store().prefetching(1, prefetch().resident().of("0123456789")), False),
        (World().store().prefetching(0), True),
        (World().store().prefetching(0, of="0123456789"), False),
    ],
)
def test_hold(world: World, starts: bool) -> None:
    assert ("Deployment" in kinds(world.plan())) == starts


def test_no_eligible_node_counts_only_when_the_daemonset_controller_has_looked() -> None:
    world = World().store()
    world = replace(world, daemon_sets=(daemon_set(world.identity, 0, observed=0),))
    assert "Deployment" not in kinds(world.plan())


def test_what_was_started_is_not_taken_back() -> None:
    """All prefetch pods are away, for instance because the node was drained."""
    world = World().store().prefetching(1).deployed(engine().warm())
    assert template_of(applied(world.plan(), "Deployment")) == world.hash


def test_the_previous_revision_stays_and_is_scaled_until_the_new_weights_are_there() -> None:
    before = World().store().prefetching(1, prefetch().resident()).deployed(engine().warm())
    after = before.change(weights={"size": "1Gi"}, replicas=3).store(number=2)
    assert after.hash != before.hash
    plan = after.plan()
    live = applied(plan, "Deployment")
    assert template_of(live) == before.hash
    assert live is not None
    assert live["spec"]["replicas"] == 3
    assert template_of(applied(plan, "DaemonSet"), PREFETCH_LABEL) == after.identity

    verified = after.prefetching(1, prefetch().resident())
    assert template_of(applied(verified.plan(), "Deployment")) == after.hash


def test_a_change_of_the_engine_alone_leaves_the_prefetch_pods_and_starts_at_once() -> None:
    before = World().store().prefetching(1, prefetch().resident()).deployed(engine().warm())
    after = before.change(engine={"args": ["--new"]}).store(number=2)
    plan = after.plan()
    assert applied(plan, "DaemonSet") == applied(before.plan(), "DaemonSet")
    assert template_of(applied(plan, "Deployment")) == after.hash


def test_without_the_previous_template_the_deployment_is_left_alone() -> None:
    before = World().deployed(engine().warm(), of="0123456789")
    plan = before.store().plan()
    assert "Deployment" not in kinds(plan)


# --- Revisions ------------------------------------------------------------------------------------


def test_the_stored_template_is_used_byte_for_byte() -> None:
    """Another operator image renders differently, but a revision that exists is not rendered."""
    world = World().store().prefetching(1, prefetch().resident())
    observed = replace(world.observed(), settings=Settings(operator_image="operator:v2"))
    plan = planning.make(observed, NOW)
    assert SETTINGS.operator_image in str(applied(plan, "DaemonSet"))
    assert "operator:v2" not in str(plan.apply)
    deployment = applied(plan, "Deployment")
    assert deployment is not None
    assert deployment["spec"]["template"] == world.stored[0].engine_template


def test_replicas_make_no_revision() -> None:
    world = World().store().prefetching(1, prefetch().resident())
    scaled = world.change(replicas=7)
    plan = scaled.plan()
    assert "ControllerRevision" not in kinds(plan)
    deployment = applied(plan, "Deployment")
    assert deployment is not None
    assert deployment["spec"]["replicas"] == 7


def test_going_back_uses_the_old_revision() -> None:
    first = World().store()
    back = first.change(engine={"args": ["--x"]}).store(number=2).change(engine={"args": []})
    assert back.hash == first.hash
    assert "ControllerRevision" not in kinds(back.plan())


def test_five_spare_revisions_are_kept_and_live_ones_always() -> None:
    world = World(warm_model(engine={"args": ["--number=0"]})).store(number=1)
    oldest = world.hash
    world = world.deployed(engine().warm(), of=oldest)
    for number in range(1, 9):
        world = world.change(engine={"args": [f"--number={number}"]}).store(number=number + 1)
    plan = world.plan()
    deleted = {deletion.meta.name for deletion in plan.delete}
    # Nine revisions: the target (9), the live one (1), five spare (4 to 8): two are too many.
    assert deleted == {found.name for found in world.stored if found.number in (2, 3)}


def test_a_revision_that_cannot_be_read_is_deleted() -> None:
    plan = World(unreadable=("llama-broken",)).plan()
    assert [deletion.meta.name for deletion in plan.delete] == ["llama-broken"]
    assert "ControllerRevision" not in kinds(plan), "it may have the same name"


def test_numbers_go_up() -> None:
    world = World().store(number=7).change(engine={"args": ["--x"]})
    stored = applied(world.plan(), "ControllerRevision")
    assert stored is not None
    assert stored["revision"] == 8


# --- What is not touched --------------------------------------------------------------------------


def test_nothing_is_done_for_a_model_that_is_being_deleted() -> None:
    model = warm_model()
    model["metadata"]["deletionTimestamp"] = ago(seconds=1)
    plan = World(model).plan()
    assert (plan.apply, plan.delete, plan.status) == ((), (), None)


def test_an_invalid_spec_touches_nothing_and_says_why() -> None:
    previous = {"replicas": 3, "readyReplicas": 3}
    plan = World(warm_model(status=previous, engine={"image": 7})).plan()
    assert (plan.apply, plan.delete) == ((), ())
    assert plan.status is not None
    assert plan.status["replicas"] == 3
    assert plan.status["selector"]
    ready = next(c for c in plan.status["conditions"] if c["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "InvalidSpec")
    assert "spec.engine.image" in ready["message"]


def test_a_namespace_that_would_refuse_the_pods_gets_no_revision() -> None:
    model = warm_model(weights={"medium": "NodeMemory", "size": "1Gi"})
    plan = World(model, pod_security="restricted").plan()
    assert kinds(plan) == BASE
    assert plan.requeue_after == planning.RECHECK


def test_a_warmup_that_no_container_could_be_started_with_gets_no_revision() -> None:
    prompts = [{"name": f"p{i}", "text": "x" * 8000} for i in range(13)]
    plan = World(warm_model(warmup={"prompts": prompts})).plan()
    assert kinds(plan) == BASE
    ready = next(c for c in plan.status["conditions"] if c["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "WarmupTooLarge")
    assert "spec.warmup.promptsFrom" in ready["message"]
    assert next(c for c in plan.status["conditions"] if c["type"] == "Stalled")["status"] == "True"


def test_a_service_account_of_the_user_is_not_made() -> None:
    plan = World(warm_model(pod={"serviceAccountName": "own-warmpod"})).plan()
    assert "ServiceAccount" not in kinds(plan)


# --- When to look again ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("world", "seconds"),
    [
        (World().store().prefetching(1, prefetch().resident()), None),
        (World().store().prefetching(2, prefetch().resident()), planning.MISSING),
        (World().store().prefetching(1, prefetch().scheduled(since=ago(seconds=50))), 10.0),
        (
            World()
            .store()
            .prefetching(1, prefetch().resident())
            .deployed(engine().unschedulable("0/1 nodes", since=ago(minutes=9))),
            60.0,
        ),
        (
            World()
            .store()
            .prefetching(1, prefetch().resident())
            .deployed(engine().unschedulable("0/1 nodes", since=ago(minutes=11))),
            None,
        ),
        (
            World()
            .store()
            .prefetching(1, prefetch().resident())
            .deployed(engine().crash_looping("engine")),
            planning.RECHECK,
        ),
        (
            World()
            .store()
            .prefetching(1, prefetch().resident())
            .deployed(engine().warm().condition("Ready", "True", since=ago(seconds=1))),
            MIN_READY.total_seconds(),
        ),
    ],
)
def test_requeue(world: World, seconds: float | None) -> None:
    assert world.plan().requeue_after == seconds


# --- Sources that are no images -------------------------------------------------------------------

DRAFT_IMAGE = "models/draft:1"
HUB = {"huggingFace": {"repository": "org/llama"}}


def with_source(source: dict[str, Any], **spec: Any) -> World:
    model = warm_model(**spec)
    model["spec"]["model"] = source
    return World(model=model)


def test_what_is_no_image_is_not_asked_for() -> None:
    world = replace(with_source(HUB), resolutions={ENGINE_IMAGE: Resolved(ENGINE_DIGEST)})
    plan = world.plan()
    stored = applied(plan, "ControllerRevision")
    assert stored is not None
    assert stored["data"]["digests"] == {"engine": ENGINE_DIGEST, "model": None}
    assert "model https://huggingface.co/org/llama@main" in plan.events[0].message
    status = world.store(digests=Digests(ENGINE_DIGEST, None)).plan().status
    assert status is not None
    assert status["model"] == {"source": "https://huggingface.co/org/llama@main"}


@pytest.mark.parametrize("answer", [None, Resolved("sha256:" + "d" * 64)])
def test_images_of_additional_models_are_resolved_too(answer: Resolved | None) -> None:
    world = with_source(HUB, additionalModels=[{"name": "draft", "image": DRAFT_IMAGE}])
    answers = {ENGINE_IMAGE: Resolved(ENGINE_DIGEST), DRAFT_IMAGE: answer}
    stored = applied(replace(world, resolutions=answers).plan(), "ControllerRevision")
    if answer is None:
        assert stored is None
    else:
        assert stored is not None
        assert stored["data"]["digests"]["additional"] == {"draft": answer.digest}


@pytest.mark.parametrize("answer", [None, Resolved("sha256:" + "c" * 64)])
def test_the_image_of_a_compile_cache_is_resolved_too(answer: Resolved | None) -> None:
    image = "registry.example.com/caches/llama:1"
    body = warm_model()
    body["spec"]["compileCache"] = {"store": "Image", "image": image}
    world = World(body)
    answers = {**world.resolutions, image: answer}
    stored = applied(replace(world, resolutions=answers).plan(), "ControllerRevision")
    if answer is None:
        assert stored is None
    else:
        assert stored is not None
        assert stored["data"]["digests"]["cache"] == answer.digest


# --- The plan is a pure function ------------------------------------------------------------------


def test_the_same_observation_gives_the_same_plan() -> None:
    world = World().store().prefetching(1, prefetch().resident()).deployed(engine().warm())
    assert world.plan() == world.plan()


def test_time_alone_changes_no_status() -> None:
    """Else every resync would be a write."""
    world = World().store().prefetching(1, prefetch().resident()).deployed(engine().warm())
    first = world.plan().status
    again = replace(world, model=warm_model(status=first))
    assert again.plan(NOW + timedelta(hours=1)).status == first


def test_digests_unknown_when_stored_stay_unknown() -> None:
    world = World().store(digests=Digests(None, None))
    plan = world.plan()
    assert "ControllerRevision" not in kinds(plan)
    assert plan.status is not None
    assert plan.status["model"] == {"source": MODEL_IMAGE}


def test_revision_hash_is_what_the_status_names() -> None:
    world = World().store()
    status = world.plan().status
    assert status is not None
    assert status["revision"] == revision.compute_hash(world.parsed.spec)
    assert status["model"] == {"source": MODEL_IMAGE, "digest": MODEL_DIGEST}

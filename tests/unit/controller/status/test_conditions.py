"""The conditions as tables: one row a thing that can be the matter with a WarmModel."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from unit.controller.builders import (
    ENGINE_IMAGE,
    MODEL_IMAGE,
    NOW,
    Object,
    World,
    ago,
    applied,
    engine,
    prefetch,
    warm_model,
)
from warmpod import reasons
from warmpod.api import WarmModelStatus
from warmpod.controller.clients.resolver import NotFound
from warmpod.controller.diagnosis import problems
from warmpod.controller.diagnosis.refused import Failure, Refusal
from warmpod.controller.status import conditions
from warmpod.controller.status.transitions import transitions

STORED = World().store()
PREFETCHED = STORED.prefetching(1, prefetch().resident())
SERVING = PREFETCHED.deployed(engine().warm())
REFUSED = 'pods "llama-x" is forbidden: violates PodSecurity "restricted:latest": hostPath'


def summary(world: World, condition: str) -> tuple[str, str]:
    found = world.conditions()[condition]
    return found["status"], found["reason"]


def prefetched_by(*pods: object, nodes: int = 1) -> World:
    return STORED.prefetching(nodes, *pods)  # type: ignore[arg-type]


def with_engine(*pods: object, replicas: int = 1) -> World:
    return replace(PREFETCHED, model=warm_model(replicas=replicas)).deployed(*pods)  # type: ignore[arg-type]


# --- Ready ----------------------------------------------------------------------------------------

PULL = "failed to pull and unpack image: failed to resolve image: "
READY = {
    "nothing known": (
        World(resolutions={ENGINE_IMAGE: None, MODEL_IMAGE: None}),
        "Unknown",
        "ResolvingImages",
    ),
    "nothing created": (STORED, "Unknown", "Creating"),
    "no pod yet": (STORED.prefetching(1), "False", "WaitingForWeights"),
    "pulling": (prefetched_by(prefetch()), "False", "WaitingForWeights"),
    "verifying": (
        prefetched_by(prefetch().not_resident("Verifying")),
        "False",
        "WaitingForWeights",
    ),
    "verified": (PREFETCHED, "False", "WaitingForPods"),
    "engine starts": (with_engine(engine().not_warm("EngineStarting")), "False", "EngineStarting"),
    "warming": (with_engine(engine().not_warm("WarmingUp")), "False", "WarmingUp"),
    "the slowest counts": (
        with_engine(
            engine("a").not_warm("WarmingUp"), engine("b").not_warm("EngineStarting"), replicas=2
        ),
        "False",
        "EngineStarting",
    ),
    "warm": (SERVING, "True", "AllWarm"),
    "a reason that the API would refuse": (
        with_engine(engine().not_warm("not a word!")),
        "False",
        "WaitingForWarmPods",
    ),
    "warm, but not yet known to every node": (
        with_engine(engine().warm().condition("Ready", "True", since=ago(seconds=2))),
        "False",
        "WaitingForEndpoints",
    ),
    "warm but not ready": (
        with_engine(engine().warm().condition("Ready", "False")),
        "False",
        "WaitingForWarmPods",
    ),
    "warm but going": (with_engine(engine().warm().gone()), "False", "WaitingForPods"),
    "warm of another revision": (
        with_engine(engine().warm().of("0123456789")),
        "False",
        "WaitingForPods",
    ),
    "one of two": (with_engine(engine("a").warm(), replicas=2), "False", "WaitingForWarmPods"),
    "scaled to zero": (with_engine(replicas=0), "True", "ScaledToZero"),
    "opened unproven": (
        with_engine(
            engine().running().condition("warmpod.io/Warm", "True", "OpenedUnproven").ready()
        ),
        "True",
        "OpenedUnproven",
    ),
    "no token": (with_engine(engine().not_warm("NoTokenYet", "no token")), "False", "NoTokenYet"),
    "out of memory": (with_engine(engine().not_warm("OutOfMemory")), "False", "OutOfMemory"),
    "a reason from a newer sidecar": (
        with_engine(engine().not_warm("SomethingNew")),
        "False",
        "SomethingNew",
    ),
    "engine died once": (with_engine(engine().not_warm("EngineDied")), "False", "EngineDied"),
    "engine died again after its container was restarted": (
        with_engine(
            engine()
            .not_warm("EngineDied")
            .container(
                "engine",
                restartCount=1,
                lastState={"terminated": {"exitCode": 0, "finishedAt": ago(minutes=1)}},
            )
        ),
        "False",
        "EngineCrashLooping",
    ),
    "engine died long after its container was restarted": (
        with_engine(
            engine()
            .not_warm("EngineDied")
            .container(
                "engine",
                restartCount=1,
                lastState={"terminated": {"exitCode": 1, "finishedAt": ago(hours=5)}},
            )
        ),
        "False",
        "EngineDied",
    ),
    "a new spec while the old one serves": (
        replace(
            SERVING.change(engine={"args": ["--new"]}),
            resolutions={ENGINE_IMAGE: None, MODEL_IMAGE: None},
        ),
        "True",
        "PreviousRevisionServes",
    ),
    "an earlier model of that name is going": (
        replace(STORED, failures=(Failure(reasons.WAITING_FOR_DELETION, "Service x", "going"),)),
        "False",
        "WaitingForDeletion",
    ),
    "engine gave up": (
        with_engine(engine().not_warm("EngineGaveUp")),
        "False",
        "EngineCrashLooping",
    ),
    "crash looping": (with_engine(engine().crash_looping("engine")), "False", "EngineCrashLooping"),
    "between two crashes": (
        with_engine(
            engine().container(
                "engine",
                restartCount=1,
                state={"running": {"startedAt": ago(seconds=5)}},
                lastState={"terminated": {"exitCode": 1, "finishedAt": ago(seconds=6)}},
            )
        ),
        "False",
        "EngineCrashLooping",
    ),
    "lost with the container runtime": (
        with_engine(
            engine().container(
                "engine",
                restartCount=1,
                state={"running": {"startedAt": ago(seconds=5)}},
                lastState={
                    "terminated": {
                        "exitCode": 255,
                        "reason": "Unknown",
                        "finishedAt": ago(seconds=6),
                    }
                },
            )
        ),
        "False",
        "WaitingForWarmPods",
    ),
    "long after a crash": (
        with_engine(
            engine().container(
                "engine",
                restartCount=1,
                state={"running": {"startedAt": ago(minutes=20)}},
                lastState={"terminated": {"exitCode": 1, "finishedAt": ago(minutes=20)}},
            )
        ),
        "False",
        "WaitingForWarmPods",
    ),
    "crash with a known cause": (
        with_engine(engine().not_warm("OutOfMemory").crash_looping("engine")),
        "False",
        "OutOfMemory",
    ),
    "sidecar crashes": (
        with_engine(engine().crash_looping("warmup", init=True)),
        "False",
        "ContainerCrashLooping",
    ),
    "unschedulable": (with_engine(engine().unschedulable("0/1 nodes")), "False", "Unschedulable"),
    "secret missing": (
        with_engine(engine().waiting("engine", "CreateContainerConfigError", "secret x")),
        "False",
        "ContainerConfigError",
    ),
    "cannot start": (
        with_engine(engine().waiting("engine", "RunContainerError", "python3: not found")),
        "False",
        "ContainerStartFailed",
    ),
    "cannot start, in back-off": (
        with_engine(engine().crash_looping("engine", 128, "python3: not found", "StartError")),
        "False",
        "ContainerStartFailed",
    ),
    "wrong architecture at start": (
        with_engine(engine().waiting("engine", "RunContainerError", "exec format error")),
        "False",
        "ArchMismatch",
    ),
    "wrong architecture in back-off": (
        with_engine(engine().crash_looping("engine", 128, "exec format error", "StartError")),
        "False",
        "ArchMismatch",
    ),
    "wrong architecture in the engine's last line": (
        with_engine(
            engine().crash_looping(
                "engine", 1, "exec /usr/bin/python3: exec format error\n", "Error"
            )
        ),
        "False",
        "ArchMismatch",
    ),
    "wrong architecture at pull": (
        prefetched_by(
            prefetch().waiting("agent", "ErrImagePull", "no match for platform in manifest")
        ),
        "False",
        "ArchMismatch",
    ),
    "image missing": (
        prefetched_by(prefetch().waiting("agent", "ErrImagePull", PULL + "x: not found")),
        "False",
        "ImageNotFound",
    ),
    "image missing, in back-off": (
        prefetched_by(
            prefetch().waiting(
                "agent", "ImagePullBackOff", f"Back-off pulling: ErrImagePull: {PULL}x: not found"
            )
        ),
        "False",
        "ImageNotFound",
    ),
    "engine image missing": (
        with_engine(engine().waiting("engine", "ErrImagePull", PULL + "x: not found")),
        "False",
        "ImageNotFound",
    ),
    "no credentials": (
        prefetched_by(prefetch().waiting("agent", "ErrImagePull", PULL + "401 Unauthorized")),
        "False",
        "ImagePullAuth",
    ),
    "registry hides what may not be seen": (
        prefetched_by(
            prefetch().waiting(
                "agent", "ErrImagePull", "pull access denied, repository does not exist"
            )
        ),
        "False",
        "ImagePullAuth",
    ),
    "registry down": (
        prefetched_by(prefetch().waiting("agent", "ErrImagePull", "connection refused")),
        "False",
        "ImagePullFailed",
    ),
    "node's disk full": (
        prefetched_by(
            prefetch().waiting("agent", "ErrImagePull", "write /x: no space left on device")
        ),
        "False",
        "DiskFull",
    ),
    "kubelet does nothing": (
        prefetched_by(prefetch().scheduled(since=ago(minutes=7))),
        "False",
        "NodeNotResponding",
    ),
    "kubelet has only just got the pod": (
        prefetched_by(prefetch().scheduled(since=ago(seconds=30))),
        "False",
        "WaitingForWeights",
    ),
    "bad reference": (
        prefetched_by(prefetch().waiting("agent", "InvalidImageName", "couldn't parse")),
        "False",
        "InvalidImageName",
    ),
    "registry says no before the kubelet does": (
        replace(STORED, resolutions={MODEL_IMAGE: NotFound("x: not there")}),
        "False",
        "ImageNotFound",
    ),
    "registry says no but the node has it": (
        replace(PREFETCHED, resolutions={MODEL_IMAGE: NotFound("x: not there")}),
        "False",
        "WaitingForPods",
    ),
    "weights file missing": (
        prefetched_by(prefetch().not_resident("WeightsMissing", "a.safetensors")),
        "False",
        "WeightsMissing",
    ),
    "init container fails": (
        with_engine(engine().terminated("weights", 1, message="DigestMismatch: a", init=True)),
        "False",
        "WeightsInitFailed",
    ),
    "init container succeeded in the end": (
        with_engine(
            engine()
            .terminated("weights", 0, init=True, ready=True, restartCount=1)
            .not_warm("WarmingUp")
        ),
        "False",
        "WarmingUp",
    ),
    "evicted": (with_engine(engine().failed("Evicted", "low on memory")), "False", "PodFailed"),
    "evicted long ago": (
        with_engine(engine().failed("Evicted", created=ago(hours=1))),
        "False",
        "WaitingForWarmPods",
    ),
    "quota": (
        replace(PREFETCHED, refusals=(Refusal("DaemonSet llama-prefetch", "quota", None),)),
        "False",
        "PodCreationFailed",
    ),
    "pod security": (
        replace(STORED, refusals=(Refusal("DaemonSet llama-prefetch", REFUSED, None),)),
        "False",
        "PodSecurityViolation",
    ),
    "pod security for the engine": (
        PREFETCHED.deployed(
            conditions=[
                {
                    "type": "ReplicaFailure",
                    "status": "True",
                    "reason": "FailedCreate",
                    "message": REFUSED,
                }
            ]
        ),
        "False",
        "PodSecurityViolation",
    ),
    "medium forbidden": (
        World(warm_model(weights={"medium": "NodeMemory", "size": "1Gi"}), pod_security="baseline"),
        "False",
        "PodSecurityViolation",
    ),
    "name taken, though warm": (
        replace(SERVING, failures=(Failure(reasons.NAME_CONFLICT, "Service models/llama", "x"),)),
        "False",
        "NameConflict",
    ),
    "rejected": (
        replace(STORED, failures=(Failure(reasons.CHILD_REJECTED, "DaemonSet x", "bad"),)),
        "False",
        "ChildRejected",
    ),
    "an unknown argument does no harm by itself": (
        World(warm_model(engine={"args": ["--preload-model"]}))
        .store()
        .prefetching(1, prefetch().resident())
        .deployed(engine().warm()),
        "True",
        "AllWarm",
    ),
}


@pytest.mark.parametrize("case", READY)
def test_ready(case: str) -> None:
    world, status, reason = READY[case]
    assert summary(world, "Ready") == (status, reason)


@pytest.mark.parametrize("case", READY)
def test_every_status_fits_the_resource(case: str) -> None:
    """As the API server would check it, and with reasons that are documented."""
    status = READY[case][0].plan().status
    WarmModelStatus.model_validate_json(__import__("json").dumps(status))
    assert status is not None
    assert [c["type"] for c in status["conditions"]] == list(conditions.TYPES)
    for condition in status["conditions"]:
        assert condition["observedGeneration"] == READY[case][0].model["metadata"]["generation"]
        assert condition["reason"] in reasons.ALL or condition["reason"] == "SomethingNew"
        assert condition["message"]


@pytest.mark.parametrize("case", READY)
def test_reconciling_and_stalled_are_never_both_true(case: str) -> None:
    found = READY[case][0].conditions()
    ready, reconciling, stalled = (
        found[name]["status"] for name in ("Ready", "Reconciling", "Stalled")
    )
    assert not (reconciling == "True" and stalled == "True")
    if found["Ready"]["reason"] == "PreviousRevisionServes":
        assert reconciling != stalled
    else:
        assert (ready == "True") == (reconciling == "False" and stalled == "False")


# --- Prefetched and WeightsResident ---------------------------------------------------------------

NODES = {
    "unknown": (STORED, ("Unknown", "Creating"), ("Unknown", "Creating")),
    "none eligible": (
        STORED.prefetching(0),
        ("False", "NoEligibleNodes"),
        ("False", "NoEligibleNodes"),
    ),
    "pulling": (prefetched_by(prefetch()), ("False", "Prefetching"), ("False", "Prefetching")),
    "verifying": (
        prefetched_by(prefetch().not_resident("Verifying")),
        ("True", "Prefetched"),
        ("False", "Verifying"),
    ),
    "resident": (PREFETCHED, ("True", "Prefetched"), ("True", "Resident")),
    "one of two": (
        prefetched_by(prefetch("a").resident(), prefetch("b"), nodes=2),
        ("False", "Prefetching"),
        ("False", "Prefetching"),
    ),
    "one of two is broken": (
        prefetched_by(
            prefetch("a").resident(), prefetch("b").not_resident("DigestMismatch"), nodes=2
        ),
        ("True", "Prefetched"),
        ("False", "DigestMismatch"),
    ),
    "a copy in each pod": (
        prefetched_by(prefetch().resident("Verified")),
        ("True", "Prefetched"),
        ("True", "Verified"),
    ),
    "dropped": (
        prefetched_by(prefetch().not_resident("NotResident")),
        ("True", "Prefetched"),
        ("False", "NotResident"),
    ),
    "agent restarts": (
        prefetched_by(prefetch().crash_looping("agent")),
        ("True", "Prefetched"),
        ("False", "Verifying"),
    ),
}


@pytest.mark.parametrize("case", NODES)
def test_nodes(case: str) -> None:
    world, prefetched, resident = NODES[case]
    assert summary(world, "Prefetched") == prefetched
    assert summary(world, "WeightsResident") == resident


def test_failed_nodes_are_named_and_bounded() -> None:
    pods = [
        prefetch(f"pod-{n}").on(f"node-{n}").not_resident("DigestMismatch", f"file {n}")
        for n in range(8)
    ]
    status = prefetched_by(*pods, nodes=8).plan().status
    assert status is not None
    assert status["nodes"]["eligible"] == 8
    assert status["nodes"]["prefetched"] == 8
    assert status["nodes"]["resident"] == 0
    assert [f["node"] for f in status["nodes"]["failed"]] == [f"node-{n}" for n in range(5)]
    assert "file 0" in status["nodes"]["failed"][0]["message"]


def test_a_bad_node_does_not_stall_a_model_that_serves() -> None:
    world = prefetched_by(
        prefetch("a").resident(), prefetch("b").on("node-2").not_resident("DigestMismatch"), nodes=2
    ).deployed(engine().warm())
    assert summary(world, "Ready") == ("True", "AllWarm")
    assert summary(world, "Stalled") == ("False", "NothingWrong")
    assert summary(world, "WeightsResident") == ("False", "DigestMismatch")


# --- What a person must mend ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("world", "after", "stalled"),
    [
        (READY["unschedulable"][0], timedelta(0), False),
        (READY["unschedulable"][0], timedelta(minutes=9), True),
        (READY["registry down"][0], timedelta(0), False),
        (READY["registry down"][0], timedelta(minutes=5), True),
        (READY["image missing"][0], timedelta(0), True),
        (READY["engine died once"][0], timedelta(hours=1), False),
        (READY["crash looping"][0], timedelta(0), True),
        (READY["warming"][0], timedelta(hours=1), False),
        (READY["an earlier model of that name is going"][0], timedelta(hours=1), False),
        (READY["quota"][0], timedelta(hours=1), False),
        (READY["kubelet does nothing"][0], timedelta(minutes=-2), False),
        (READY["kubelet does nothing"][0], timedelta(0), True),
        (READY["node's disk full"][0], timedelta(0), True),
    ],
)
def test_stalled(world: World, after: timedelta, stalled: bool) -> None:
    found = world.conditions(NOW + after)["Stalled"]
    assert found["status"] == ("True" if stalled else "False")


# --- While the new weights are on their way -------------------------------------------------------

CHANGED = SERVING.change_weights()
BROKEN = prefetch("new").not_resident("DigestMismatch")


@pytest.mark.parametrize(
    ("world", "ready", "resident", "reconciling", "stalled"),
    [
        pytest.param(
            CHANGED,
            ("True", "PreviousRevisionServes"),
            ("Unknown", "Creating"),
            ("True", "Progressing"),
            ("False", "NothingWrong"),
            id="nothing there yet",
        ),
        pytest.param(
            CHANGED.prefetching(1, prefetch("new").not_resident("Verifying")),
            ("True", "PreviousRevisionServes"),
            ("False", "Verifying"),
            ("True", "Progressing"),
            ("False", "NothingWrong"),
            id="verifying",
        ),
        pytest.param(
            CHANGED.prefetching(2, BROKEN, prefetch("b").on("node-2")),
            ("True", "PreviousRevisionServes"),
            ("False", "DigestMismatch"),
            ("True", "Progressing"),
            ("False", "NothingWrong"),
            id="broken on one node, on the way to another",
        ),
        pytest.param(
            CHANGED.prefetching(1, BROKEN),
            ("True", "PreviousRevisionServes"),
            ("False", "DigestMismatch"),
            ("False", "DigestMismatch"),
            ("True", "DigestMismatch"),
            id="broken everywhere",
        ),
        pytest.param(
            replace(CHANGED, resolutions={MODEL_IMAGE: NotFound("x: not there")}),
            ("True", "PreviousRevisionServes"),
            ("Unknown", "Creating"),
            ("False", "ImageNotFound"),
            ("True", "ImageNotFound"),
            id="the registry does not have the image",
        ),
        pytest.param(
            CHANGED.deployed(engine().of(SERVING.hash), of=SERVING.hash),
            ("False", "Creating"),
            ("Unknown", "Creating"),
            ("True", "Progressing"),
            ("False", "NothingWrong"),
            id="the previous one does not serve either",
        ),
        pytest.param(
            CHANGED.change(replicas=2),
            ("False", "Creating"),
            ("Unknown", "Creating"),
            ("True", "Progressing"),
            ("False", "NothingWrong"),
            id="the previous one does not serve as much as is asked for",
        ),
        pytest.param(
            CHANGED.prefetching(1, prefetch("new").resident()).deployed(
                engine().of(SERVING.hash).warm(), engine("new"), of=CHANGED.hash
            ),
            ("False", "WaitingForWarmPods"),
            ("True", "Resident"),
            ("True", "Progressing"),
            ("False", "NothingWrong"),
            id="the weights are there, and the engines change",
        ),
    ],
)
def test_a_new_revision_that_waits_for_its_weights(
    world: World,
    ready: tuple[str, str],
    resident: tuple[str, str],
    reconciling: tuple[str, str],
    stalled: tuple[str, str],
) -> None:
    assert summary(world, "Ready") == ready
    assert summary(world, "WeightsResident") == resident
    assert summary(world, "Reconciling") == reconciling
    assert summary(world, "Stalled") == stalled


# --- Messages -------------------------------------------------------------------------------------


def test_a_message_names_object_cause_and_remedy() -> None:
    message = READY["image missing"][0].conditions()["Ready"]["message"]
    assert "pod llama-prefetch-0 on node node-1, container agent" in message
    assert "not found" in message
    assert "spec.model" in message


def test_the_kubelets_changing_words_change_no_message() -> None:
    one = READY["image missing"][0].conditions()["Ready"]
    two = READY["image missing, in back-off"][0].conditions()["Ready"]
    assert one["message"] == two["message"]


def test_boot_identities_change_no_message() -> None:
    words = "boot {} (number {}) ended: exit code 1"
    found = {
        with_engine(engine().not_warm("EngineGaveUp", words.format(boot, number))).conditions()[
            "Ready"
        ]["message"]
        for boot, number in (("0123456789ab", 1), ("ba9876543210", 2))
    }
    assert len(found) == 1


def test_the_end_of_a_log_is_quoted() -> None:
    log = "Traceback\n" + "x" * 2000 + "\nValueError: the cause"
    message = with_engine(engine().crash_looping("engine", message=log)).conditions()["Ready"][
        "message"
    ]
    assert "ValueError: the cause" in message
    assert len(message) < 1000


def test_a_refused_pods_name_is_left_out() -> None:
    assert "llama-x" not in READY["pod security"][0].conditions()["Ready"]["message"]


def test_two_kinds_of_trouble_are_both_told() -> None:
    world = prefetched_by(
        prefetch("a").resident(), prefetch("b").not_resident("DigestMismatch", "shard"), nodes=2
    ).deployed(engine().not_warm("NoTokenYet", "no token"))
    message = world.conditions()["Ready"]["message"]
    assert "shard" in message
    assert "no token" in message


def test_unknown_arguments_are_named_even_when_all_is_well() -> None:
    world = READY["an unknown argument does no harm by itself"][0]
    assert "--preload-model" in world.conditions()["Ready"]["message"]


def test_a_loader_that_an_argument_overrides_is_named_even_when_all_is_well() -> None:
    command = {"command": ["serve.sh"]}
    world = (
        World(warm_model(engine=command, weights={"loader": "Multithread"}))
        .store()
        .prefetching(1, prefetch().resident())
        .deployed(engine().warm())
    )
    ready = world.conditions()["Ready"]
    assert (ready["status"], ready["reason"]) == ("True", "AllWarm")
    assert "nothing is added to spec.engine.command" in ready["message"]


def test_who_serves_meanwhile_is_told() -> None:
    world = SERVING.change(weights={"size": "1Gi"}).store(number=2).prefetching(1, prefetch())
    message = world.conditions()["Ready"]["message"]
    assert "previous revision serve" in message


# --- Times and transitions ------------------------------------------------------------------------


def test_the_transition_time_moves_only_with_the_status() -> None:
    status = SERVING.plan().status
    assert status is not None
    later = NOW + timedelta(hours=1)
    same = replace(SERVING, model=warm_model(status=status)).conditions(later)["Ready"]
    assert same["lastTransitionTime"] == "2030-01-01T12:00:00Z"
    changed = replace(READY["no token"][0], model=warm_model(status=status)).conditions(later)[
        "Ready"
    ]
    assert changed["lastTransitionTime"] == "2030-01-01T13:00:00Z"


def status_of(world: World) -> Object:
    status = world.plan().status
    assert status is not None
    return status


@pytest.mark.parametrize(
    ("before", "after", "events"),
    [
        (None, STORED, []),
        (None, SERVING, ["AllWarm", "Prefetched", "Resident"]),
        (SERVING, SERVING, []),
        (SERVING, READY["no token"][0], ["NoTokenYet"]),
        (READY["warming"][0], READY["engine starts"][0], []),
        (READY["no token"][0], SERVING, ["AllWarm"]),
    ],
)
def test_events_on_transitions_only(before: World | None, after: World, events: list[str]) -> None:
    previous = {} if before is None else status_of(before)
    assert [t.reason for t in transitions(previous, status_of(after))] == events


def test_warnings_are_warnings() -> None:
    (event,) = transitions(status_of(SERVING), status_of(READY["no token"][0]))
    assert event.type == "Warning"


# --- The vocabulary -------------------------------------------------------------------------------


def test_every_reason_says_what_it_means_and_what_to_do() -> None:
    for name, reason in reasons.ALL.items():
        assert reason.meaning.endswith("."), name
        assert reason.remedy.endswith("."), name


def test_every_reason_of_a_problem_has_a_rank() -> None:
    """A new reason falls between a broken start and slow progress, which is right for an engine's
    own words; this keeps the list from naming what no longer exists."""
    assert set(problems._SEVERITY) <= set(reasons.ALL)


def test_the_base_objects_are_applied_whatever_is_wrong() -> None:
    for world, *_ in READY.values():
        assert applied(world.plan(), "Service") is not None

"""Who serves, who is held back, who sleeps: the rules, one by one."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import pytest

from unit.controller.builders import NOW, PodWrapper, ago, engine
from warmpod.controller.demand import Demand
from warmpod.controller.objects.meta import DELETION_COST
from warmpod.controller.objects.views import PodView
from warmpod.controller.pool import PoolPlan, Situation, decide
from warmpod.controller.pool.members import OPENING_PATIENCE, WAKE_PATIENCE

CURRENT, OLD = "current000", "old0000000"
GRACE = timedelta(seconds=90)
LONG_AGO = NOW - timedelta(minutes=10)


def situation(
    pods: Iterable[PodWrapper],
    serving: int = 1,
    standby: int = 0,
    *,
    sleeping: bool = False,
    unaccepted: Iterable[str] = (),
    idle: Iterable[str] = (),
    desired: int | None = None,
    rolled_out: bool = True,
    now: datetime = NOW,
) -> Situation:
    """`idle`: names of pods that have had no request for long."""
    views = tuple((pod if pod.template else pod.of(CURRENT)).view() for pod in pods)
    return Situation(
        pods=views,
        demand=Demand(serving, standby, serving),
        current=CURRENT,
        sleeping=sleeping,
        unaccepted=frozenset(unaccepted),
        idle={f"uid-{name}": LONG_AGO for name in idle},
        grace=GRACE,
        desired=desired,
        rolled_out=rolled_out,
        now=now,
    )


def changes(plan: PoolPlan) -> dict[str, str]:
    return {change.pod.meta.name: change.role for change in plan.changes}


def names(pods: Iterable[PodView]) -> set[str]:
    return {pod.meta.name for pod in pods}


def warm(name: str) -> PodWrapper:
    return engine(name).warm()


def cold(name: str) -> PodWrapper:
    return engine(name).running()


def warm_since(name: str, since: str) -> PodWrapper:
    return warm(name).condition("warmpod.io/Warm", "True", "Warm", since=since)


@pytest.mark.parametrize(
    ("pods", "serving", "expected"),
    [
        pytest.param([], 2, {}, id="no pods"),
        pytest.param([warm("a")], 1, {}, id="as asked"),
        pytest.param([cold("a")], 3, {}, id="fewer than asked"),
        pytest.param([warm("a"), cold("b")], 1, {"b": "standby"}, id="a new one is held back"),
        pytest.param([warm("a"), warm("b")], 1, {"b": "standby"}, id="scale-in"),
        pytest.param([warm("a"), warm("b").standby()], 2, {"b": "serving"}, id="scale-out"),
        pytest.param([cold("a"), cold("b").standby()], 2, {"b": "serving"}, id="ahead of warmth"),
        pytest.param([warm("a"), warm("b")], 0, {"a": "standby", "b": "standby"}, id="to zero"),
        pytest.param([warm("a").standby()], 1, {"a": "serving"}, id="from zero"),
        pytest.param(
            [engine("a").not_warm("EngineDied"), warm("b").standby()],
            1,
            {"b": "serving", "a": "standby"},
            id="an engine that died",
        ),
        pytest.param(
            [warm("a").condition("Ready", "False"), warm("b").standby()],
            1,
            {"b": "serving", "a": "standby"},
            id="a node that was lost",
        ),
        pytest.param(
            [warm("a").gone(), warm("b").standby()], 1, {"b": "serving"}, id="one being deleted"
        ),
        pytest.param(
            [warm("a").failed("Evicted"), warm("b").standby()],
            1,
            {"b": "serving"},
            id="one that was evicted",
        ),
        pytest.param(
            [engine("a").not_warm("CanaryFailed"), cold("b").standby()],
            1,
            {},
            id="nothing better, so nothing changes",
        ),
    ],
)
def test_roles(pods: list[PodWrapper], serving: int, expected: dict[str, str]) -> None:
    assert changes(decide(situation(pods, serving))) == expected


def test_promotions_come_first() -> None:
    found = decide(situation([engine("a").not_warm("EngineDied"), warm("b").standby()]))
    assert [change.promotes for change in found.changes] == [True, False]


@pytest.mark.parametrize(
    ("pods", "promoted"),
    [
        pytest.param([cold("a"), warm("b")], "b", id="warm first"),
        pytest.param([warm("a").of(OLD), warm("b")], "b", id="current revision first"),
        pytest.param(
            [warm_since("a", ago(hours=9)), warm_since("b", ago(minutes=5))],
            "b",
            id="old evidence last",
        ),
        pytest.param(
            [warm_since("a", ago(minutes=9)), warm_since("b", ago(minutes=5))],
            "a",
            id="evidence of about the same age",
        ),
        pytest.param([warm("b"), warm("a")], "a", id="by name"),
        pytest.param([warm("a").on("node-1"), warm("b").on("node-2")], "b", id="where fewer serve"),
    ],
)
def test_choice(pods: list[PodWrapper], promoted: str) -> None:
    serves = warm("z").on("node-1")
    found = decide(situation([serves, *(pod.standby() for pod in pods)], 2))
    assert changes(found) == {promoted: "serving"}


def test_scale_in_keeps_pods_on_many_nodes() -> None:
    pods = [warm("a").on("node-1"), warm("b").on("node-1"), warm("c").on("node-2")]
    assert changes(decide(situation(pods, 2))) == {"b": "standby"}


def test_a_role_is_not_changed_for_a_little_better_pod() -> None:
    pods = [warm_since("b", ago(hours=30)), warm_since("a", ago(minutes=5)).standby()]
    assert changes(decide(situation(pods))) == {}


def test_what_is_written_on_promotion_and_demotion() -> None:
    pods = [engine("a").not_warm("EngineDied"), warm("b").standby(demoted_at=ago(seconds=9))]
    promotion, demotion = decide(situation(pods)).changes
    time = "2030-01-01T12:00:00Z"
    assert promotion.annotations == {
        DELETION_COST: "1",
        "warmpod.io/promoted-from": "Awake",
        "warmpod.io/promoted-at": time,
        "warmpod.io/demoted-at": None,
    }
    assert demotion.annotations == {
        DELETION_COST: "-1",
        "warmpod.io/promoted-from": None,
        "warmpod.io/promoted-at": None,
    }
    (scale_in,) = decide(situation([warm("a")], 0)).changes
    assert scale_in.annotations["warmpod.io/demoted-at"] == time


# --- rollouts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pods", "unaccepted", "expected"),
    [
        pytest.param([warm("a").of(OLD), cold("b")], [], {"b": "standby"}, id="not warm yet"),
        pytest.param(
            [warm("a").of(OLD), warm("b").standby()],
            [CURRENT],
            {},
            id="warm, not judged yet",
        ),
        pytest.param(
            [warm("a").of(OLD), warm("b").standby()],
            [],
            {"a": "standby", "b": "serving"},
            id="warm and accepted",
        ),
        pytest.param(
            [warm("a").of(OLD).gone(), warm("b").standby()],
            [CURRENT],
            {"b": "serving"},
            id="nothing else is warm",
        ),
        pytest.param(
            [engine("a").of(OLD).not_warm("EngineDied"), warm("b").standby()],
            [CURRENT],
            {"a": "standby", "b": "serving"},
            id="nothing else is warm any more",
        ),
    ],
)
def test_rollout(pods: list[PodWrapper], unaccepted: list[str], expected: dict[str, str]) -> None:
    assert changes(decide(situation(pods, unaccepted=unaccepted))) == expected


def test_an_unjudged_revision_does_not_fill_up() -> None:
    pods = [warm("a").of(OLD), warm("b")]
    assert changes(decide(situation(pods, 2, unaccepted=[CURRENT]))) == {"b": "standby"}


# --- the Deployment's replicas --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pods", "idle", "desired", "replicas"),
    [
        pytest.param([], [], None, 1, id="no Deployment yet"),
        pytest.param([], [], 0, 1, id="rises at once"),
        pytest.param([warm("a"), warm("b")], [], 2, 2, id="about to be demoted"),
        pytest.param(
            [warm("a"), warm("b").standby(demoted_at=ago(seconds=9))], [], 2, 2, id="drains"
        ),
        pytest.param(
            [warm("a"), warm("b").standby(demoted_at=ago(seconds=9))], ["b"], 2, 1, id="idle"
        ),
        pytest.param(
            [warm("a"), warm("b").standby(demoted_at=ago(seconds=1))],
            ["b"],
            2,
            2,
            id="some nodes may not know yet",
        ),
        pytest.param(
            [warm("a"), warm("b").standby(demoted_at=ago(seconds=91))],
            [],
            2,
            1,
            id="after its grace period",
        ),
        pytest.param([warm("a"), cold("b")], [], 2, 1, id="never took traffic"),
        pytest.param(
            [warm("a"), warm("b").standby(demoted_at=ago(seconds=9)), cold("c").standby()],
            [],
            3,
            2,
            id="drains, beside one that goes first",
        ),
        pytest.param(
            [warm("a"), warm("b").standby(demoted_at=ago(seconds=9)), warm("c").standby()],
            [],
            3,
            3,
            id="drains, and might be chosen",
        ),
        pytest.param(
            [warm("a"), warm("b").standby(demoted_at=ago(seconds=9))], [], 1, 1, id="never rises"
        ),
        pytest.param([warm("a")], [], 7, 1, id="somebody else's number"),
    ],
)
def test_replicas(
    pods: list[PodWrapper], idle: list[str], desired: int | None, replicas: int
) -> None:
    assert decide(situation(pods, idle=idle, desired=desired)).replicas == replicas


def test_standby_pods_are_part_of_the_replicas() -> None:
    assert decide(situation([], 2, 3)).replicas == 5


def test_drained_pods_are_asked_until_they_may_go() -> None:
    drains = warm("b").standby(demoted_at=ago(seconds=9))
    found = decide(situation([warm("a"), drains], desired=2))
    assert names(found.ask) == {"b"}
    assert found.again is not None
    assert found.due == NOW + GRACE - timedelta(seconds=9)
    refilled = decide(situation([warm("a"), drains], 1, 1, desired=2))
    assert not refilled.ask, "nobody is to go"


# --- sleep ----------------------------------------------------------------------------------------


def test_a_standby_pod_falls_asleep_when_it_is_idle() -> None:
    pods = [warm("a"), warm("b").standby()]
    busy = decide(situation(pods, 1, 1, sleeping=True, desired=2))
    assert (names(busy.sleep), names(busy.ask)) == (set(), {"b"})
    idle = decide(situation(pods, 1, 1, sleeping=True, idle=["b"], desired=2))
    assert names(idle.sleep) == {"b"}


@pytest.mark.parametrize(
    ("serving", "standby", "options"),
    [
        pytest.param(1, 1, {"sleeping": False}, id="the pool is awake"),
        pytest.param(1, 1, {"rolled_out": False}, id="the Deployment waits for ready pods"),
        pytest.param(1, 0, {}, id="it is about to be deleted"),
        pytest.param(2, 0, {}, id="it is about to serve"),
    ],
)
def test_a_standby_pod_stays_awake(serving: int, standby: int, options: dict[str, bool]) -> None:
    pods = [warm("a"), warm("b").standby()]
    found = decide(
        situation(pods, serving, standby, idle=["b"], desired=2, **{"sleeping": True, **options})
    )
    assert not found.sleep


def test_a_sleeping_pod_is_promoted_and_woken() -> None:
    found = decide(situation([warm("a"), engine("b").asleep().standby()], 2, sleeping=True))
    (promotion,) = found.changes
    assert (promotion.role, names(found.wake)) == ("serving", {"b"})
    assert promotion.annotations["warmpod.io/promoted-from"] == "Sleeping"
    assert found.again is not None


@pytest.mark.parametrize("reason", ["Asleep", "Waking"])
def test_a_pod_is_woken_until_it_is_warm(reason: str) -> None:
    pod = engine("a").not_warm(reason).annotated(promoted_at=ago(seconds=5))
    found = decide(situation([pod], sleeping=True))
    assert (names(found.wake), changes(found)) == ({"a"}, {})
    assert found.due == NOW - timedelta(seconds=5) + WAKE_PATIENCE


def test_a_warm_pod_is_preferred_to_a_sleeping_one_and_that_to_a_cold_one() -> None:
    pods = [cold("a").standby(), engine("b").asleep().standby(), warm("c").standby()]
    assert changes(decide(situation(pods, 1, 2, sleeping=True))) == {"c": "serving"}
    assert changes(decide(situation(pods[:2], 1, 1, sleeping=True))) == {"b": "serving"}


def test_a_pod_that_does_not_wake_up_is_not_waited_for() -> None:
    hangs = engine("a").asleep().annotated(promoted_at=ago(seconds=16))
    found = decide(situation([hangs, engine("b").asleep().standby()], 1, 1, sleeping=True))
    assert changes(found) == {"a": "standby", "b": "serving"}
    assert names(found.wake) == {"b"}
    demotion = found.changes[-1]
    assert demotion.annotations["warmpod.io/wake-failed-at"] == "2030-01-01T12:00:00Z"


def test_a_pod_that_did_not_wake_up_is_the_last_choice_and_fills_nothing() -> None:
    failed = engine("a").asleep().standby(wake_failed_at=ago(minutes=1))
    found = decide(situation([failed, cold("b").standby()], 1, 1, sleeping=True))
    assert (changes(found), found.filled) == ({"b": "serving"}, 0)
    alone = decide(situation([failed], 1, 1, sleeping=True))
    assert (changes(alone), names(alone.wake)) == ({"a": "serving"}, {"a"})


def test_a_pod_whose_answers_changed_does_not_count() -> None:
    changed = engine("a").not_warm("AnswerChanged").standby()
    found = decide(situation([changed, warm("b").standby()], 1, 1, sleeping=True))
    assert (changes(found), found.filled) == ({"b": "serving"}, 0)


def test_sleep_by_somebody_else_is_not_ours_to_end() -> None:
    found = decide(situation([engine("a").asleep(), warm("b").standby()], 1, 1))
    assert changes(found) == {"a": "standby", "b": "serving"}
    assert not found.wake


# --- counts ---------------------------------------------------------------------------------------


def test_what_fills_the_pool() -> None:
    pods = [
        warm("a"),
        warm("b").standby(),
        engine("c").asleep().standby(),
        cold("d").standby(),
        warm("e").of("rejected").standby(),
    ]
    found = decide(situation(pods, 1, 4, sleeping=True, unaccepted=["rejected"]))
    assert (found.standby, found.filled) == (4, 2)


@pytest.mark.parametrize(
    "text", ["", "soon", "2030-01-01T12:00:00", "9" * 40, "9999-12-31T23:59:59Z"]
)
def test_times_that_somebody_else_wrote_do_not_matter(text: str) -> None:
    pods = [
        engine("a").asleep().annotated(promoted_at=text),
        warm("b").standby(demoted_at=text),
    ]
    decide(situation(pods, 1, 1, sleeping=True, desired=3))


def test_a_time_to_come_is_not_waited_for() -> None:
    """One that another operator has written is at most as far off as its clock."""
    soon, late = ago(minutes=-1), ago(days=-400)
    for text, replicas in ((soon, 2), (late, 1)):
        pods = [warm("a"), warm("b").standby(demoted_at=text)]
        assert decide(situation(pods, 1, 0, desired=2)).replicas == replicas
    called = engine("a").asleep().annotated(promoted_at=late)
    assert decide(situation([called], 1, sleeping=True)).due is None


def opening(name: str, opened: str, ready_since: str = ago(minutes=1)) -> PodWrapper:
    """Its gate is open, and the kubelet does not say so (any more)."""
    pod = warm_since(name, opened)
    return pod.condition("Ready", "False", since=ready_since)


@pytest.mark.parametrize(
    ("woken", "expected"),
    [
        pytest.param(opening("z", ago(seconds=1)), {"a": "standby"}, id="woken a moment ago"),
        pytest.param(opening("z", ago(seconds=8)), {"z": "standby"}, id="never Ready"),
        pytest.param(
            opening("z", ago(seconds=4), ago(seconds=1)), {"z": "standby"}, id="Ready no more"
        ),
    ],
)
def test_a_pod_that_has_just_been_woken_keeps_its_role(
    woken: PodWrapper, expected: dict[str, str]
) -> None:
    """The kubelet takes a second to say that it is Ready; a new pod comes at the same time."""
    found = decide(situation([cold("a"), woken, warm("b")], 2, 1, sleeping=True))
    assert changes(found) == expected


def test_a_pod_whose_gate_is_open_is_looked_at_again_if_it_does_not_become_ready() -> None:
    found = decide(situation([opening("a", ago(seconds=1))], sleeping=True))
    assert found.due == NOW - timedelta(seconds=1) + OPENING_PATIENCE

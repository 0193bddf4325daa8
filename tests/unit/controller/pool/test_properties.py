"""What holds of every decision, whatever the pods are, and of every course of events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from support.generated import generated
from unit.controller.builders import NOW, PodWrapper, ago, engine
from unit.controller.pool.simulation import Cluster
from unit.controller.pool.test_decision import CURRENT, OLD, situation
from warmpod.controller.demand import Demand
from warmpod.controller.objects.engine_pods import is_serving, is_warm
from warmpod.controller.objects.views import PodView
from warmpod.controller.pool import PoolPlan, Situation, decide
from warmpod.resources.names import REVISION_LABEL, ROLE_LABEL

# Anybody who may change pods can write any of these.
TIMES = st.sampled_from(
    [
        *("", "nonsense", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59Z"),
        *(ago(seconds=1), ago(seconds=20), ago(hours=5), ago(seconds=-5), ago(days=-400)),
    ]
)
KEYS = ["promoted_at", "promoted_from", "demoted_at", "wake_failed_at"]
STATES: list[Callable[[PodWrapper], PodWrapper]] = [
    lambda pod: pod,
    lambda pod: pod.warm(),
    lambda pod: pod.warm().gone(),
    lambda pod: pod.warm().condition("Ready", "False"),
    lambda pod: pod.warm().condition("warmpod.io/Warm", "True", "Warm", since=ago(hours=7)),
    *(
        lambda pod, since=since: pod.condition("warmpod.io/Warm", "True", "Warm", since=since)
        for since in (ago(seconds=1), "9999-12-31T23:59:59Z")
    ),
    lambda pod: pod.failed("Evicted"),
    lambda pod: pod.asleep(),
    lambda pod: pod.not_warm("Waking"),
    lambda pod: pod.not_warm("AnswerChanged"),
    lambda pod: pod.not_warm("EngineDied").ready(),
]


@st.composite
def pods(draw: st.DrawFn) -> list[PodWrapper]:
    found = []
    for number in range(draw(st.integers(0, 7))):
        pod = engine(f"pod-{number}").of(draw(st.sampled_from([CURRENT, OLD, "other"])))
        pod = pod.on(draw(st.sampled_from(["", "node-1", "node-2"])))
        pod = draw(st.sampled_from(STATES))(pod)
        annotations = draw(st.dictionaries(st.sampled_from(KEYS), TIMES, max_size=3))
        role = draw(st.sampled_from(["serving", "standby", "whatever"]))
        found.append(replace(pod.annotated(**annotations), role=role))
    return found


situations = st.builds(
    situation,
    pods(),
    st.integers(0, 8),
    st.integers(0, 4),
    sleeping=st.booleans(),
    unaccepted=st.sets(st.sampled_from([CURRENT, OLD]), max_size=2),
    idle=st.sets(st.sampled_from([f"pod-{number}" for number in range(7)]), max_size=4),
    desired=st.one_of(st.none(), st.integers(0, 12)),
    rolled_out=st.booleans(),
)


@generated(400)
@given(situations)
def test_never_fewer_warm_pods_serve_than_can(found: Situation) -> None:
    after = applied(found, decide(found))
    usable = [pod for pod in after.pods if pod.alive and not pod.meta.deleting and is_warm(pod)]
    accepted = [p for p in usable if p.meta.labels[REVISION_LABEL] not in found.unaccepted]
    can = accepted or usable
    assert sum(map(is_serving, usable)) == min(found.demand.serving, len(can))


@generated(400)
@given(situations)
def test_deciding_again_changes_nothing(found: Situation) -> None:
    plan = decide(found)
    again = decide(applied(found, plan))
    assert not again.changes
    assert again.replicas == plan.replicas
    assert (again.standby, again.filled) == (plan.standby, plan.filled)


@generated(400)
@given(situations)
def test_only_as_many_serve_as_asked_for(found: Situation) -> None:
    after = applied(found, decide(found))
    usable = [pod for pod in after.pods if pod.alive and not pod.meta.deleting]
    assert sum(map(is_serving, usable)) <= found.demand.serving


@generated(400)
@given(situations)
def test_bounds(found: Situation) -> None:
    plan = decide(found)
    assert plan.replicas >= found.demand.pods
    if found.desired is not None:
        assert plan.replicas <= max(found.desired, found.demand.pods)
    serving = {pod.meta.uid for pod in applied(found, plan).pods if is_serving(pod)}
    assert not {pod.meta.uid for pod in plan.sleep} & serving
    assert {pod.meta.uid for pod in plan.wake} <= serving
    gone = {pod.meta.uid for pod in found.pods if pod.meta.deleting or not pod.alive}
    assert not {change.pod.meta.uid for change in plan.changes} & gone
    assert plan.due is None or plan.due > found.now


@generated(400)
@given(situations, st.randoms())
def test_the_order_of_pods_does_not_matter(found: Situation, random: Random) -> None:
    shuffled = list(found.pods)
    random.shuffle(shuffled)
    again = decide(replace(found, pods=tuple(shuffled)))
    assert roles(again) == roles(decide(found))


def roles(plan: PoolPlan) -> dict[str, str]:
    return {change.pod.meta.uid: change.role for change in plan.changes}


def applied(found: Situation, plan: PoolPlan) -> Situation:
    """With the changes carried out, and the Deployment told."""
    changes = {change.pod.meta.uid: change for change in plan.changes}

    def after(pod: PodView) -> PodView:
        change = changes.get(pod.meta.uid)
        if change is None:
            return pod
        texts = {**pod.meta.annotations, **change.annotations}
        labels = {**pod.meta.labels, ROLE_LABEL: change.role}
        annotations = {name: text for name, text in texts.items() if text is not None}
        return replace(pod, meta=replace(pod.meta, labels=labels, annotations=annotations))

    desired = plan.replicas if found.desired is not None else None
    return replace(found, pods=tuple(map(after, found.pods)), desired=desired)


# --- courses of events ----------------------------------------------------------------------------

#: What happens before a reconcile, and after how many writes the operator dies in it.
steps = st.tuples(
    st.sampled_from(["nothing", "demand", "engine dies", "wake-up hangs", "pod is deleted"]),
    st.integers(0, 5),
    st.integers(0, 3),
    st.integers(0, 20),
    st.one_of(st.none(), st.integers(0, 6)),
    st.integers(0, 6),
)


@generated(600)
@given(st.booleans(), st.lists(steps, max_size=8))
def test_an_operator_that_dies_anywhere_leaves_what_the_next_one_finishes(
    sleeping: bool, course: list[tuple[str, int, int, int, int | None, int]]
) -> None:
    cluster = Cluster(sleeping=sleeping)
    for what, serving, standby, which, writes, seconds in course:
        happen(cluster, what, serving, standby, which)
        cluster.reconcile(writes)
        for _ in range(seconds):
            cluster.tick()
            before = cluster.warm
            cluster.reconcile()
            assert cluster.warm_serving >= min(cluster.demand.serving, before, cluster.warm)
    settle(cluster)
    assert finished(cluster), [vars(pod) for pod in cluster.pods.values()]
    assert not cluster.cut


def happen(cluster: Cluster, what: str, serving: int, standby: int, which: int) -> None:
    if what == "demand":
        cluster.demand = Demand(serving, standby, serving)
    if what == "nothing" or not cluster.pods:
        return
    pod = cluster.pods[sorted(cluster.pods)[which % len(cluster.pods)]]
    if what == "engine dies" and pod.state == "warm":
        pod.become("cold")
        pod.requests = 0
    elif what == "wake-up hangs" and pod.state == "asleep":
        pod.become("hung")
    elif what == "pod is deleted":
        del cluster.pods[pod.name]


def settle(cluster: Cluster) -> None:
    """At most as long as hung pods take to be given up, one after another."""
    end = cluster.now + timedelta(seconds=120)
    while cluster.now < end and not finished(cluster):
        cluster.tick()
        cluster.reconcile()


def finished(cluster: Cluster) -> bool:
    """As asked for, apart from pods that hang: those are there, and nobody waits for them."""
    hung = sum(pod.state == "hung" for pod in cluster.pods.values())
    asked = cluster.demand
    serving = cluster.warm_serving >= min(asked.serving, asked.pods - hung)
    resting = not cluster.sleeping or all(
        pod.state in ("asleep", "hung") for pod in cluster.pods.values() if pod.role == "standby"
    )
    return serving and resting and len(cluster.pods) == asked.pods == cluster.desired


def test_a_course_to_zero_and_back() -> None:
    for sleeping in (False, True):
        cluster = Cluster(sleeping=sleeping)
        for serving in (1, 3, 0, 2):
            cluster.demand = Demand(serving, 1, serving)
            settle(cluster)
            assert cluster.now > NOW
            assert finished(cluster)
            assert len(cluster.pods) == serving + 1
        assert not cluster.cut

"""What becomes of prefetch pods that exist, and what is said of them."""

from __future__ import annotations

from unit.controller.builders import NOW, PodWrapper, prefetch
from warmpod import reasons
from warmpod.controller.nodes.pods import changes, is_pulling, label, problems
from warmpod.controller.nodes.preflight import Refusal
from warmpod.controller.nodes.seen import NodesSeen
from warmpod.controller.objects.views import PodView

SEEN = NodesSeen(limit=5, eligible=frozenset({"n1", "n2", "n3"}))


def names(pods: tuple[PodView, ...]) -> list[str]:
    return [pod.meta.name for pod in pods]


def views(*pods: PodWrapper) -> tuple[PodView, ...]:
    return tuple(pod.view() for pod in pods)


# --- Gates ----------------------------------------------------------------------------------------


def test_those_whose_turn_it_is_may_go() -> None:
    pods = views(prefetch("a").waits("n1"), prefetch("b").waits("n2"), prefetch("c").running())
    seen = NodesSeen(5, SEEN.eligible, turn=frozenset({"uid-a", "uid-c"}))
    assert names(changes(pods, seen, NOW).release) == ["a"]


def test_where_nodes_are_not_watched_all_may_go() -> None:
    pods = views(prefetch("a").waits("n1"), prefetch("b").waits("n2").gone(), prefetch("c"))
    assert names(changes(pods, None, NOW).release) == ["a"]


def test_what_pulls() -> None:
    assert is_pulling(prefetch().on("n1").view())
    assert is_pulling(prefetch().on("").view()), "the scheduler has not got to it yet"
    assert is_pulling(prefetch().waiting("agent", "ContainerCreating").view())
    assert not is_pulling(prefetch().waits("n1").view())
    assert not is_pulling(prefetch().running().view())
    assert not is_pulling(prefetch().gone().view())
    assert not is_pulling(prefetch().failed("Evicted").view())
    assert not is_pulling(prefetch().waiting("agent", "ImagePullBackOff").view())
    assert not is_pulling(prefetch().unschedulable("Insufficient memory").view())


# --- Images that were taken -----------------------------------------------------------------------


def lost(*pods: str) -> NodesSeen:
    return NodesSeen(5, SEEN.eligible, removed={f"uid-{pod}": ("img:1",) for pod in pods})


def resident(name: str, node: str) -> PodWrapper:
    return prefetch(name).on(node).resident()


def test_a_pod_whose_image_was_taken_is_replaced() -> None:
    pods = views(resident("a", "n1"), resident("b", "n2"))
    assert names(changes(pods, lost("b"), NOW).evict) == ["b"]
    assert changes(pods, SEEN, NOW).evict == ()
    assert changes(pods, None, NOW).evict == ()


def test_one_at_a_time() -> None:
    pods = [resident("a", "n1"), resident("b", "n2"), resident("c", "n3")]
    seen = lost("a", "b")
    assert names(changes(views(*pods), seen, NOW).evict) == ["a"]
    assert changes(views(pods[0].gone(), *pods[1:]), seen, NOW).evict == ()
    successor = prefetch("a2").waits("n1")
    waiting = NodesSeen(5, SEEN.eligible, waiting={"uid-a2": frozenset()}, removed=seen.removed)
    assert changes(views(successor, *pods[1:]), waiting, NOW).evict == ()
    assert changes(views(prefetch("a2").on("n1"), *pods[1:]), seen, NOW).evict == ()
    assert names(changes(views(resident("a2", "n1"), *pods[1:]), seen, NOW).evict) == ["b"]


def test_one_that_cannot_pull_does_not_hold_up_the_next() -> None:
    stuck = prefetch("a2").on("n1").waiting("agent", "ImagePullBackOff")
    assert names(changes(views(stuck, resident("b", "n2")), lost("b"), NOW).evict) == ["b"]


def test_one_that_waits_for_a_volume_does_not_hold_up_the_next() -> None:
    stuck = prefetch("a2").on("n1").scheduled()
    assert names(changes(views(stuck, resident("b", "n2")), lost("b"), NOW).evict) == ["b"]


def test_on_nodes_that_do_not_count_nothing_is_replaced() -> None:
    assert changes(views(resident("a", "elsewhere")), lost("a"), NOW).evict == ()


def test_what_is_said_of_it() -> None:
    (found,) = problems(views(resident("a", "n1")), lost("a"))
    assert (found.reason, found.node) == (reasons.IMAGE_REMOVED, "n1")
    assert "node n1: the node does not have img:1 any more" in found.message
    assert not found.needs_person(NOW)


def test_a_refusal_needs_a_person() -> None:
    refusal = Refusal("n1", reasons.DISK_FULL, "node n1: full")
    seen = NodesSeen(5, SEEN.eligible, refused={"uid-a": refusal})
    (found,) = problems(views(prefetch("a").waits("n1")), seen)
    assert (found.reason, found.message, found.node) == (reasons.DISK_FULL, "node n1: full", "n1")
    assert found.needs_person(NOW)


# --- The label of residency -----------------------------------------------------------------------


def test_resident_pods_are_labelled_once() -> None:
    new, old = resident("a", "n1"), resident("b", "n2").labelled()
    pods = views(new, old, prefetch("c").running())
    assert names(changes(pods, SEEN, NOW).relabel) == ["a"]
    assert label(pods[0]) == "true"


def test_the_label_goes_with_the_residency() -> None:
    gone = prefetch("a").on("n1").labelled().not_resident("NotResident")
    taken = resident("b", "n2").labelled()
    pods = views(gone, taken)
    assert names(changes(pods, lost("b"), NOW).relabel) == ["a", "b"]
    assert label(pods[0]) is None


def test_the_label_needs_no_nodes() -> None:
    assert names(changes(views(resident("a", "n1")), None, NOW).relabel) == ["a"]


def test_nothing_to_do_is_false() -> None:
    assert not changes(views(resident("a", "n1").labelled()), SEEN, NOW)
    assert changes(views(resident("a", "n1")), SEEN, NOW)

"""What to do about prefetch pods that exist: let them go, replace them, label them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from warmpod import reasons
from warmpod.controller.diagnosis import mounts
from warmpod.controller.diagnosis.problems import Area, Problem
from warmpod.controller.nodes.seen import NodesSeen
from warmpod.controller.objects.views import PodView
from warmpod.protocol import RESIDENT_CONDITION
from warmpod.resources.names import AGENT_CONTAINER, RESIDENT_LABEL

_TRUE = "true"
_ENDED = ("Failed", "Succeeded")
#: Why a container waits while all goes well.
_ON_THE_WAY = ("", "ContainerCreating", "PodInitializing")


@dataclass(frozen=True)
class PodChanges:
    release: tuple[PodView, ...] = ()
    """Their scheduling gate goes."""
    evict: tuple[PodView, ...] = ()
    """They are deleted, so that the DaemonSet makes new ones, which pull again."""
    relabel: tuple[PodView, ...] = ()
    """Their label of residency is set or taken off, whichever it is not now."""

    def __bool__(self) -> bool:
        return bool(self.release or self.evict or self.relabel)


def changes(pods: tuple[PodView, ...], nodes: NodesSeen | None, now: datetime) -> PodChanges:
    """`pods`: all prefetch pods of a WarmModel; `nodes`: None where nodes are not watched."""
    staying = tuple(pod for pod in pods if not pod.meta.deleting)
    return PodChanges(
        release=tuple(pod for pod in staying if _may_go(pod, nodes)),
        evict=tuple(_evictions(pods, nodes, now)),
        relabel=tuple(pod for pod in staying if is_labelled(pod) != is_resident(pod, nodes)),
    )


def holds_images(pod: PodView) -> bool:
    """The agent mounts every image, so that it runs means that all are unpacked here."""
    agent = pod.container(AGENT_CONTAINER)
    return agent is not None and (agent.running_since is not None or agent.restarts > 0)


def is_pulling(pod: PodView) -> bool:
    """Whether it was let go and has not got its images yet; not one that fails to."""
    return (
        not is_gated(pod)
        and not pod.meta.deleting
        and pod.phase not in _ENDED
        and not holds_images(pod)
        and not _fails(pod)
    )


def takes_place(pod: PodView, now: datetime) -> bool:
    """Whether it pulls, as far as anybody can tell. Volumes come before images, so one that waits
    for a volume does not, and may wait for ever."""
    hanging_from = mounts.hanging_from(pod)
    return is_pulling(pod) and (hanging_from is None or now < hanging_from)


def _fails(pod: PodView) -> bool:
    scheduled = pod.conditions.get("PodScheduled")
    if scheduled is not None and scheduled.reason == "Unschedulable":
        return True
    return any(container.waiting_reason not in _ON_THE_WAY for container in pod.containers)


def is_gated(pod: PodView) -> bool:
    return pod.pull is not None and pod.pull.gated


def is_labelled(pod: PodView) -> bool:
    return pod.meta.labels.get(RESIDENT_LABEL) == _TRUE


def is_resident(pod: PodView, nodes: NodesSeen | None) -> bool:
    lost = nodes is not None and pod.meta.uid in nodes.removed
    return pod.is_true(RESIDENT_CONDITION) and not lost


def label(pod: PodView) -> str | None:
    """What the label of residency becomes when it changes; None to take it off."""
    return None if is_labelled(pod) else _TRUE


def problems(pods: tuple[PodView, ...], nodes: NodesSeen | None) -> Iterator[Problem]:
    """What keeps images from nodes, of those that the operator itself sees."""
    if nodes is None:
        return
    for pod in pods:
        refusal = nodes.refused.get(pod.meta.uid)
        if refusal is not None:
            yield Problem(
                refusal.reason, refusal.message, Area.IMAGES, refusal.node, pod.meta.created
            )
        images = nodes.removed.get(pod.meta.uid)
        if images is not None:
            message = removal(pod, images)
            yield Problem(reasons.IMAGE_REMOVED, message, Area.IMAGES, pod.node, pod.meta.created)


def removal(pod: PodView, images: tuple[str, ...]) -> str:
    """What is said of a pod whose images were taken from its node."""
    return (
        f"pod {pod.meta.name} on node {pod.node}: the node does not have {', '.join(images)} any "
        f"more — {reasons.IMAGE_REMOVED.remedy}"
    )


def _may_go(pod: PodView, nodes: NodesSeen | None) -> bool:
    return is_gated(pod) and (nodes is None or pod.meta.uid in nodes.turn)


def _evictions(
    pods: tuple[PodView, ...], nodes: NodesSeen | None, now: datetime
) -> Iterator[PodView]:
    """One at a time: the next when the last one's successor holds its images."""
    if nodes is None or any(pod.meta.deleting or _comes(pod, nodes, now) for pod in pods):
        return
    lost = [pod for pod in pods if pod.meta.uid in nodes.removed and pod.node in nodes.eligible]
    yield from sorted(lost, key=lambda pod: pod.meta.name)[:1]


def _comes(pod: PodView, nodes: NodesSeen, now: datetime) -> bool:
    """Whether the pod's images are on their way, or will be."""
    if pod.meta.uid in nodes.waiting or pod.meta.uid in nodes.turn:
        return True
    return takes_place(pod, now)

"""Volumes that a node cannot give to a pod, which then waits without a word in its status: the
kubelet tells in events alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from warmpod import reasons
from warmpod.api import WarmModel
from warmpod.api.sources import ModelSource
from warmpod.controller.diagnosis import problems
from warmpod.controller.diagnosis.problems import Area, Problem
from warmpod.controller.objects.meta import Object, event_time, parse_time
from warmpod.controller.objects.views import ContainerView, PodView
from warmpod.resources.weights_volume import volume_names

#: A kubelet that can mount the volumes has done so by then.
GRACE = timedelta(seconds=20)
#: The kubelet tries again at least every 122 s, and says so: what is older went away.
EVENT_AGE = timedelta(minutes=3)
#: Of a pod that has failed for longer it tells only once in five minutes, or at the next try then.
RARE_EVENT_AGE = timedelta(minutes=8)
REASONS = ("FailedMount", "FailedAttachVolume")

_NOT_BEGUN = frozenset({"", "ContainerCreating", "PodInitializing"})
#: The kubelet's cache of Secrets and ConfigMaps fills while a pod starts: that passes by itself.
_PASSING = re.compile(r"failed to sync (secret|configmap) cache|not registered")
#: Names what is waited for, but not what it fails at.
_VAGUE = "Unable to attach or mount volumes"
_VOLUME = re.compile(r'for volume "(?P<volume>[^"]+)"\s*:?\s*(?P<why>.+)', re.S)
_TYPE_CHECK = "hostPath type check failed"


def hanging_from(pod: PodView) -> datetime | None:
    """When it becomes doubtful whether a pod's volumes will be mounted; None where they are."""
    scheduled = pod.conditions.get("PodScheduled")
    if scheduled is None or scheduled.status != "True" or scheduled.since is None:
        return None
    if pod.phase != "Pending" or pod.meta.deleting or pod.is_true("PodReadyToStartContainers"):
        return None
    return scheduled.since + GRACE if all(map(_not_begun, pod.containers)) else None


def hanging(pods: Iterable[PodView], now: datetime) -> Iterator[PodView]:
    for pod in pods:
        since = hanging_from(pod)
        if since is not None and now >= since:
            yield pod


def failures(events: Iterable[Object], now: datetime) -> dict[str, str]:
    """What the kubelets said last, and best, about pods that lack a volume, by the pod's uid."""
    best: dict[str, tuple[bool, datetime, str]] = {}
    for event in events:
        uid, message = event["involvedObject"].get("uid") or "", event.get("message") or ""
        when = event_time(event)
        if now - when > _age(event, when) or _PASSING.search(message):
            continue
        said = (not message.startswith(_VAGUE), when, message)
        best[uid] = max(best.get(uid, said), said)
    return {uid: message for uid, (_, _, message) in best.items()}


def _age(event: Object, last: datetime) -> timedelta:
    first = parse_time(event.get("firstTimestamp") or event.get("eventTime"))
    return EVENT_AGE if first is None or last - first < EVENT_AGE else RARE_EVENT_AGE


def of_pods(
    pods: Iterable[PodView],
    area: Area,
    unmounted: Mapping[str, str],
    model: WarmModel,
    now: datetime,
) -> Iterator[Problem]:
    """`unmounted`: what kubelets say about volumes that pods lack, by the pod's uid."""
    pods = tuple(pods)
    for pod in hanging(pods, now):
        message = unmounted.get(pod.meta.uid)
        if message is not None:
            yield _unmounted(pod, message, area, model)
    for pod in pods:
        for container in pod.containers:
            volume = problems.volume_without_path(container)
            if volume is not None:
                yield _without_path(pod, volume, container.waiting_message, area, model)


def _not_begun(container: ContainerView) -> bool:
    return (
        container.running_since is None
        and container.terminated is None
        and container.last is None
        and container.waiting_reason in _NOT_BEGUN
    )


def _unmounted(pod: PodView, message: str, area: Area, model: WarmModel) -> Problem:
    found = _VOLUME.search(message)
    since = hanging_from(pod)
    if found is None:
        return problems.about(pod, reasons.VOLUME_MOUNT_FAILED, _see(pod, message), area, since)
    volume, why = found["volume"], found["why"]
    field, source = _source(volume, model)
    if source is not None and source.node_path is not None and _TYPE_CHECK in why:
        path = source.node_path.path
        # The same volume may be a directory of ours, which the kubelet makes.
        if path.rstrip("/") in why:
            words = f"{field}.nodePath.path: {path} is not a directory there"
            return problems.about(pod, reasons.PATH_MISMATCH, words, area, since)
    words = _see(pod, f"volume {volume}: {why}")
    return problems.about(pod, reasons.VOLUME_MOUNT_FAILED, words, area, since)


def _without_path(pod: PodView, volume: str, message: str, area: Area, model: WarmModel) -> Problem:
    field, source = _source(volume, model)
    claim = source.persistent_volume_claim if source is not None else None
    if claim is None:
        words = _see(pod, f"volume {volume}: {message}")
        return problems.about(pod, reasons.VOLUME_MOUNT_FAILED, words, area, pod.meta.created)
    words = f"{field}.persistentVolumeClaim.path: {claim.path} is not in claim {claim.claim_name}"
    return problems.about(pod, reasons.PATH_MISMATCH, words, area, pod.meta.created)


def _source(volume: str, model: WarmModel) -> tuple[str, ModelSource | None]:
    """The field of the spec whose files a volume of ours is for."""
    if volume in volume_names(""):
        return "spec.model", model.spec.model
    for number, item in enumerate(model.spec.additional_models):
        if volume in volume_names(f"-{item.name}"):
            return f"spec.additionalModels[{number}]", item
    return "", None


def _see(pod: PodView, words: str) -> str:
    return f"{words}; see: kubectl -n {pod.meta.namespace} describe pod {pod.meta.name}"

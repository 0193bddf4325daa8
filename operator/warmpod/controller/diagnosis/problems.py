"""What is wrong, as facts about pods: each function looks at one thing and names it.

A message names the object, what was found there and the remedy. It is free of counters and of the
kubelet's changing words (`back-off 20s restarting …`), because each new wording would be a status
write and an event.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum

from warmpod import reasons
from warmpod.controller.diagnosis.refused import Failure, Refusal
from warmpod.controller.objects.views import ContainerView, PodView, Terminated
from warmpod.protocol import REMEDY, RESIDENT_CONDITION, WARM_CONDITION
from warmpod.reasons import Reason

#: A container that ended with an error this short a time ago is crash looping, even while its next
#: life is still running: the condition would flap with each restart.
RECENT_CRASH = timedelta(minutes=10)
#: A kubelet that works names the containers of a new pod within a second or two.
SILENCE = timedelta(minutes=1)
#: Characters of a runtime's or an engine's own words in a message.
QUOTE = 500
#: Characters of the agent's words, which have the remedy in them, at the end.
TOLD = 1500
#: Characters of the end of a log.
TAIL = 250
IMAGE_DISK_REMEDY = (
    "On that node, remove images that no WarmModel uses (crictl rmi IMAGE) and what else fills its "
    "disk, or choose nodes with a larger one in spec.pod.nodeSelector."
)

_IMAGE_WAITS = {
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "RegistryUnavailable",
    "SignatureValidationFailed",
    "InvalidImageName",
}
_CONFIG_WAITS = {"CreateContainerConfigError"}
_START_WAITS = {
    "CreateContainerError",
    "RunContainerError",
    "PostStartHookError",
    "PreStartHookError",
}
_START_ENDS = {"StartError", "ContainerCannotRun"}
# containerd's and the kubelet's words for a container whose end nobody saw.
_UNSEEN_ENDS = {"Unknown", "ContainerStatusUnknown"}
_NO_PLATFORM = re.compile(r"no match for platform|exec format error", re.I)
_NO_ACCESS = re.compile(r"unauthorized|authentication required|denied|forbidden|\b40[13]\b", re.I)
_NO_SPACE = re.compile(r"no space left on device|disk quota exceeded", re.I)
_NO_IMAGE = re.compile(r"not found|manifest unknown|name unknown|does not exist|\b404\b", re.I)
#: The kubelet's words when a volume of ours has no directory of the name that is to be mounted.
_NO_SUB_PATH = re.compile(r'subPath .*for volumeMount "(warmpod-[^"]+)"', re.I)
#: The scheduler of a claim that does not exist: `persistentvolumeclaim "x" not found. not found`.
_ECHO = re.compile(r"\b(not found)\. not found\b")
#: The identity of a boot, as launcher and sidecar write it; each boot has another.
_BOOT = re.compile(r"boot [0-9a-f]{12}( \(number \d+\))?")

#: Since when a problem needs a person that needs one at once.
_LONG_AGO = datetime.min.replace(tzinfo=UTC)

#: Reasons of pod conditions that tell of progress, not of trouble.
ENGINE_PROGRESS = (
    reasons.SIDECAR_STARTING,
    reasons.ENGINE_STARTING,
    reasons.WARMING_UP,
    reasons.STOPPING,
)
WEIGHTS_PROGRESS = (reasons.STAGING, reasons.VERIFYING, reasons.LOADING)

#: What is said beside everything else and blocks nothing.
NOTICES = (
    reasons.CHILD_EDITED,
    reasons.AUTOSCALER_SCALES_DEPLOYMENT,
    reasons.UNKNOWN_ARGUMENT,
    reasons.LOADER_IGNORED,
    reasons.PROFILE_IGNORED,
    reasons.AUTOSCALER_TOO_FAST,
)
#: Those that come and go without a change of the spec.
ADVICE = (
    reasons.CHILD_EDITED,
    reasons.AUTOSCALER_SCALES_DEPLOYMENT,
    reasons.AUTOSCALER_TOO_FAST,
)


class Area(Enum):
    """What a problem stands in the way of."""

    SPEC = "spec"
    IMAGES = "images"
    WEIGHTS = "weights"
    ENGINE = "engine"


#: What keeps the weights from a node.
NODE_AREAS = (Area.IMAGES, Area.WEIGHTS)


@dataclass(frozen=True)
class Problem:
    reason: str
    message: str
    area: Area
    node: str = ""
    since: datetime | None = None

    @property
    def patience(self) -> timedelta | None:
        return _PATIENCE.get(self.reason, timedelta(0))

    def needs_person(self, now: datetime) -> bool:
        """Whether it will not go away by itself."""
        due = self.due()
        return due is not None and now >= due

    def due(self) -> datetime | None:
        """When it starts to need a person; None for never."""
        patience = self.patience
        if patience is None:
            return None
        if not patience:
            return _LONG_AGO
        return None if self.since is None else self.since + patience

    @property
    def rank(self) -> tuple[int, str, str]:
        """Worst first; what is not listed lies between a broken start and slow progress."""
        return (_SEVERITY.get(self.reason, _UNLISTED), self.reason, self.message)


_ORDER = (
    reasons.INVALID_SPEC,
    reasons.WARMUP_TOO_LARGE,
    reasons.NAME_CONFLICT,
    reasons.CHILD_REJECTED,
    reasons.POD_SECURITY_VIOLATION,
    reasons.POD_CREATION_FAILED,
    reasons.WAITING_FOR_DELETION,
    reasons.ROLLOUT_REJECTED,
    reasons.INVALID_IMAGE_NAME,
    reasons.ARCH_MISMATCH,
    reasons.IMAGE_NOT_FOUND,
    reasons.IMAGE_PULL_AUTH,
    reasons.DISK_FULL,
    reasons.IMAGE_PULL_FAILED,
    reasons.SOURCE_UNAUTHORIZED,
    reasons.SOURCE_FORBIDDEN,
    reasons.SOURCE_NOT_FOUND,
    reasons.PATH_MISMATCH,
    reasons.WEIGHTS_MISSING,
    reasons.SIZE_MISMATCH,
    reasons.DIGEST_MISMATCH,
    reasons.SIGNATURE_MISSING,
    reasons.SIGNATURE_INVALID,
    reasons.WEIGHTS_NOT_READABLE,
    reasons.MEMORY_TOO_SMALL,
    reasons.SOURCE_UNREACHABLE,
    reasons.SIGNATURE_UNCHECKED,
    reasons.WEIGHTS_INIT_FAILED,
    reasons.VOLUME_MOUNT_FAILED,
    reasons.CONTAINER_CONFIG_ERROR,
    reasons.CONTAINER_START_FAILED,
    reasons.NO_ROOM_FOR_BOTH,
    reasons.UNSCHEDULABLE,
    # Here stand the engine's own reasons (OutOfMemory, UnsupportedArgument, …): they say more than
    # that it crashes.
    None,
    reasons.ENGINE_CRASH_LOOPING,
    reasons.CONTAINER_CRASH_LOOPING,
    reasons.WARMUP_FAILED,
    reasons.WARMUP_STALLED,
    reasons.NO_TOKEN_YET,
    reasons.CANARY_FAILED,
    reasons.ENGINE_DIED,
    reasons.POD_FAILED,
    reasons.NODE_NOT_RESPONDING,
    reasons.IMAGE_REMOVED,
    reasons.RESIDENCY_NOT_MEASURABLE,
    reasons.SOURCE_REPLACED,
    reasons.NOT_RESIDENT,
    *NOTICES,
)
_SEVERITY: dict[str, int] = {
    reason: rank for rank, reason in enumerate(_ORDER) if reason is not None
}
_UNLISTED = _ORDER.index(None)

#: How long a problem may go away by itself before it needs a person; None: for ever. What is not
#: listed needs one at once.
_PATIENCE: dict[str, timedelta | None] = {
    reasons.WAITING_FOR_DELETION: None,
    reasons.POD_CREATION_FAILED: timedelta(minutes=1),
    reasons.IMAGE_PULL_FAILED: timedelta(minutes=5),
    reasons.CONTAINER_CONFIG_ERROR: timedelta(minutes=1),
    # The kubelet's own tries are up to two minutes apart.
    reasons.VOLUME_MOUNT_FAILED: timedelta(minutes=3),
    reasons.SOURCE_UNREACHABLE: timedelta(minutes=10),
    reasons.SIGNATURE_UNCHECKED: timedelta(minutes=10),
    # A cluster autoscaler may be on its way with a node.
    reasons.UNSCHEDULABLE: timedelta(minutes=10),
    reasons.NODE_NOT_RESPONDING: timedelta(minutes=5),
    reasons.NO_TOKEN_YET: timedelta(minutes=5),
    reasons.ENGINE_DIED: None,
    reasons.CANARY_FAILED: None,
    reasons.POD_FAILED: None,
    reasons.IMAGE_REMOVED: None,
    reasons.RESIDENCY_NOT_MEASURABLE: None,
    # The agent brings them back in the time that a disk takes, unless something takes them again.
    reasons.NOT_RESIDENT: timedelta(minutes=30),
    # The kubelet's back-off between two starts of a container is five minutes at most.
    reasons.SOURCE_REPLACED: timedelta(minutes=10),
    **dict.fromkeys(NOTICES),
}


def once_each(found: Iterable[Problem]) -> tuple[Problem, ...]:
    """One problem a reason and area: what a hundred pods share is said once."""
    first: dict[tuple[str, Area], Problem] = {}
    for problem in found:
        first.setdefault((problem.reason, problem.area), problem)
    return tuple(first.values())


def of_failures(failures: Iterable[Failure]) -> Iterator[Problem]:
    for failure in failures:
        yield Problem(
            failure.reason,
            _sentence(failure.object, failure.message, failure.reason),
            # What blocks nothing must not stand in the way of what it comes with.
            Area.ENGINE if failure.reason in NOTICES else Area.SPEC,
        )


def of_refusal(refusal: Refusal) -> Problem:
    reason = (
        reasons.POD_SECURITY_VIOLATION
        if "violates PodSecurity" in refusal.message
        else reasons.POD_CREATION_FAILED
    )
    message = _sentence(refusal.workload, _without_pod(refusal.message), reason)
    return Problem(reason, message, Area.SPEC, since=refusal.since)


def of_prefetch_pod(pod: PodView, now: datetime) -> Iterator[Problem]:
    yield from _of_pod(pod, Area.IMAGES, now)
    resident = pod.conditions.get(RESIDENT_CONDITION)
    if resident and resident.status == "False" and resident.reason not in WEIGHTS_PROGRESS:
        reason = resident.reason or reasons.NOT_RESIDENT
        message = _told(_place(pod), resident.message, reasons.ALL.get(reason))
        yield Problem(reason, message, Area.WEIGHTS, pod.node, resident.since)


def of_engine_pod(pod: PodView, now: datetime) -> Iterator[Problem]:
    yield from _of_pod(pod, Area.ENGINE, now)
    warm = pod.conditions.get(WARM_CONDITION)
    if warm is None or warm.status == "True" or warm.reason in ("", *ENGINE_PROGRESS):
        return
    reason = warm.reason
    if reason == reasons.ENGINE_GAVE_UP or (
        reason == reasons.ENGINE_DIED and _restarted(pod.container("engine"), now)
    ):
        reason = reasons.ENGINE_CRASH_LOOPING
    message = _sentence(_place(pod), warm.message, reasons.ALL.get(reason))
    yield Problem(reason, message, Area.ENGINE, pod.node, warm.since)


def about(pod: PodView, reason: Reason, words: str, area: Area, since: datetime | None) -> Problem:
    return Problem(reason, _sentence(_place(pod), words, reason), area, pod.node, since)


def volume_without_path(container: ContainerView) -> str | None:
    """The volume of ours that lacks the path which a container mounts."""
    if container.waiting_reason not in _CONFIG_WAITS:
        return None
    found = _NO_SUB_PATH.search(container.waiting_message)
    return found[1] if found else None


def silent_from(pod: PodView) -> datetime | None:
    """When it becomes a problem that a kubelet has not taken up a pod; None where it has."""
    scheduled = pod.conditions.get("PodScheduled")
    if scheduled is None or scheduled.status != "True" or scheduled.since is None:
        return None
    return None if pod.containers or pod.phase != "Pending" else scheduled.since + SILENCE


def _restarted(container: ContainerView | None, now: datetime) -> bool:
    """Whether the whole container was restarted of late, beyond what the launcher does in place."""
    return (
        container is not None
        and container.last is not None
        and _recent(container.last.finished, now)
    )


def _of_pod(pod: PodView, area: Area, now: datetime) -> Iterator[Problem]:
    scheduled = pod.conditions.get("PodScheduled")
    if scheduled and scheduled.status == "False" and scheduled.reason == "Unschedulable":
        words = _ECHO.sub(r"\1", scheduled.message)
        message = _sentence(_place(pod), words, reasons.UNSCHEDULABLE)
        yield Problem(reasons.UNSCHEDULABLE, message, area, pod.meant_for, scheduled.since)
    silent_at = silent_from(pod)
    if silent_at is not None and now >= silent_at:
        message = _sentence(_place(pod), "not taken up by the kubelet", reasons.NODE_NOT_RESPONDING)
        yield Problem(reasons.NODE_NOT_RESPONDING, message, area, pod.node, silent_at)
    if pod.phase == "Failed" and _recent(pod.meta.created, now):
        words = f"{pod.reason or 'Failed'}: {pod.message}".rstrip(": ")
        message = _sentence(_place(pod), words, reasons.POD_FAILED)
        yield Problem(reasons.POD_FAILED, message, area, pod.node, pod.meta.created)
    for container in pod.containers:
        found = _of_container(pod, container, now)
        if found is not None:
            reason, words = found
            where = f"{_place(pod)}, container {container.name}"
            message = _about_container(where, container, words, reason)
            yield Problem(reason, message, area, pod.node, pod.meta.created)


def _of_container(
    pod: PodView, container: ContainerView, now: datetime
) -> tuple[Reason, str] | None:
    waiting = container.waiting_reason
    if waiting in _IMAGE_WAITS:
        words = _without_back_off(container.waiting_message) or container.image
        return _image_reason(waiting, words), words
    if volume_without_path(container) is not None:
        return None  # the field that is wrong is known where the spec is: see mounts.py
    if waiting in _CONFIG_WAITS:
        return reasons.CONTAINER_CONFIG_ERROR, container.waiting_message
    if waiting in _START_WAITS:
        return _start_reason(container.waiting_message), container.waiting_message
    return _crash(pod, container, now)


def _crash(pod: PodView, container: ContainerView, now: datetime) -> tuple[Reason, str] | None:
    ended = container.terminated or container.last
    if ended is None or ended.exit_code == 0 or pod.is_true("Ready"):
        return None
    if container.init and container.ready:
        return None  # an init container that succeeded in the end
    if ended.reason in _UNSEEN_ENDS and container.waiting_reason != "CrashLoopBackOff":
        return None  # it went with the node or its container runtime
    if container.waiting_reason != "CrashLoopBackOff" and not _recent(ended.finished, now):
        return None
    # Some runtimes report a program of another architecture as one that ran and failed.
    if ended.reason in _START_ENDS or _NO_PLATFORM.search(ended.message):
        return _start_reason(ended.message), ended.message
    return _crash_reason(container.name), _last_words(ended)


def _crash_reason(container: str) -> Reason:
    if container == "engine":
        return reasons.ENGINE_CRASH_LOOPING
    if container == "weights":
        return reasons.WEIGHTS_INIT_FAILED
    return reasons.CONTAINER_CRASH_LOOPING


def _last_words(ended: Terminated) -> str:
    why = ended.reason if ended.reason not in ("", "Error") else "ended"
    words = f"{why} with exit code {ended.exit_code}"
    if not ended.message:
        return words
    # The end of a traceback or a log says more than its beginning.
    limit = TOLD if REMEDY in ended.message else TAIL
    tail = " ".join(ended.message.split())[-limit:]
    return f"{words}: …{tail}" if len(tail) == limit else f"{words}: {tail}"


def _image_reason(waiting: str, message: str) -> Reason:
    if waiting == "InvalidImageName":
        return reasons.INVALID_IMAGE_NAME
    return classify_pull(message)


def classify_pull(message: str) -> Reason:
    """By the container runtime's words; there is no code in a container's status to go by."""
    if _NO_SPACE.search(message):
        return reasons.DISK_FULL
    if _NO_PLATFORM.search(message):
        return reasons.ARCH_MISMATCH
    # Before "not found": a registry that hides what one may not see says both.
    if _NO_ACCESS.search(message):
        return reasons.IMAGE_PULL_AUTH
    if _NO_IMAGE.search(message):
        return reasons.IMAGE_NOT_FOUND
    return reasons.IMAGE_PULL_FAILED


def _start_reason(message: str) -> Reason:
    if _NO_PLATFORM.search(message):
        return reasons.ARCH_MISMATCH
    if _NO_SPACE.search(message):
        return reasons.DISK_FULL
    return reasons.CONTAINER_START_FAILED


def _without_back_off(message: str) -> str:
    """The cause alone: the kubelet's words alternate between the failure and the waiting."""
    return message.rpartition("ErrImagePull: ")[2]


def _without_pod(message: str) -> str:
    """Without the name of the pod that was to be: it is another one at each try."""
    return re.sub(r'pods "[^"]*"', "pods", message)


def _recent(when: datetime | None, now: datetime) -> bool:
    return when is not None and now - when < RECENT_CRASH


def _place(pod: PodView) -> str:
    if pod.node:
        return f"pod {pod.meta.name} on node {pod.node}"
    return f"pod {pod.meta.name}" + (f" for node {pod.meant_for}" if pod.meant_for else "")


def _about_container(where: str, container: ContainerView, words: str, reason: Reason) -> str:
    if reason == reasons.WEIGHTS_INIT_FAILED:
        return _told(where, words, reason)
    if reason == reasons.DISK_FULL:
        # The runtime's own disk, whichever container it is.
        return f"{where}: {_quoted(words, QUOTE)}{REMEDY}{IMAGE_DISK_REMEDY}"
    return _sentence(where, words, reason)


def _told(where: str, words: str, reason: Reason | None) -> str:
    """What the agent says; it knows the source, so its own remedy is better than the reason's."""
    if REMEDY in words:
        return f"{where}: {_quoted(words, TOLD)}"
    return _sentence(where, words, reason)


def _sentence(where: str, words: str, reason: Reason | None) -> str:
    remedy = f"{REMEDY}{reason.remedy}" if reason is not None else ""
    return f"{where}: {_quoted(words, QUOTE) or 'no message'}{remedy}"


def _quoted(words: str, limit: int) -> str:
    quoted = _BOOT.sub("boot", " ".join(words.split()))
    return quoted if len(quoted) <= limit else quoted[: limit - 1] + "…"

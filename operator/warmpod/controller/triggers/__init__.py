"""Warm-up that is played again because somebody asked for it, for example after a deploy.

A request is a text. The annotation `warmpod.io/warm-now` carries one through the API server, and
the HTTP endpoint (see `http.py`) takes one directly. Each warm pod's sidecar is told once for each
text; the status remembers the last one. An operator that dies before it has written that is
succeeded by one that tells all pods again: a second warm-up costs less than a missing one.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from warmpod import reasons
from warmpod.api.warm_now import MAX_ID
from warmpod.controller.clients.sidecars import SidecarError
from warmpod.controller.objects.meta import time_text
from warmpod.controller.objects.views import Key, ModelView, PodView
from warmpod.controller.telling.transition import Transition
from warmpod.protocol import WARM_NOW_ANNOTATION

logger = logging.getLogger(__name__)

#: A sidecar that restarts is back within seconds.
ATTEMPTS = 3
PAUSE = 5.0
#: Pods that an event names.
NAMED = 3


class Rewarming(Protocol):
    async def warm(self, pod: PodView) -> None:
        """Tells a sidecar to play its warm-up once more, beside what the engine serves; returns
        as soon as it has taken that. Raises SidecarError."""


@dataclass(frozen=True)
class Outcome:
    id: str
    annotation: str
    """The text of the annotation that this takes up; the last one where it was another way."""
    time: datetime
    pods: int
    failures: Mapping[str, str] = field(default_factory=dict)
    """What went wrong, by the pod's name."""

    def status(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "annotation": self.annotation,
            "time": time_text(self.time),
            "pods": self.pods,
            "failed": len(self.failures),
        }

    def event(self) -> Transition:
        told = f"request {self.id}: {self.pods} of {self.pods + len(self.failures)} pods were told"
        if not self.failures:
            return Transition("Normal", reasons.WARMED_AGAIN, told)
        named = [f"{pod}: {why}" for pod, why in sorted(self.failures.items())[:NAMED]]
        message = f"{told}. {'; '.join(named)}"
        return Transition("Warning", reasons.WARM_AGAIN_FAILED, message)


def identity(text: str) -> str:
    """The text itself, or its hash where it is too long for a status."""
    if len(text) <= MAX_ID:
        return text
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


@dataclass
class _Run:
    id: str
    annotation: str
    task: asyncio.Task[Outcome]


class Triggers:
    def __init__(
        self,
        sidecars: Rewarming,
        changed: Callable[[Key], None],
        *,
        pause: float = PAUSE,
    ) -> None:
        """`changed` is told when something is to be reported of a WarmModel."""
        self._sidecars = sidecars
        self._changed = changed
        self._pause = pause
        self._posted: dict[Key, str] = {}
        self._runs: dict[Key, _Run] = {}

    def post(self, key: Key, request: str) -> None:
        """Asked for by HTTP. A newer request takes the place of one that has not begun."""
        self._posted[key] = identity(request)
        self._changed(key)

    def look(
        self, view: ModelView, previous: Mapping[str, Any], pods: Iterable[PodView]
    ) -> Outcome | None:
        """Begins what is asked for, and returns what has ended and is not in the status yet.

        `previous`: status.warmNow; `pods`: those that are warm."""
        key = view.meta.key
        run = self._runs.get(key)
        if run is not None and not run.task.done():
            return None
        if run is not None and not _is_told(run, previous):
            # What was asked for meanwhile waits for this to be in the status.
            self._changed(key)
            return run.task.result()
        self._runs.pop(key, None)
        self._begin(key, view.meta.annotations.get(WARM_NOW_ANNOTATION, ""), previous, pods)
        return None

    def forget(self, key: Key) -> None:
        self._posted.pop(key, None)
        run = self._runs.pop(key, None)
        if run is not None:
            run.task.cancel()

    async def close(self) -> None:
        for key in list(self._runs):
            self.forget(key)

    def _begin(
        self, key: Key, annotation: str, previous: Mapping[str, Any], pods: Iterable[PodView]
    ) -> None:
        seen = str(previous.get("annotation", ""))
        wanted = identity(annotation)
        if wanted in ("", seen):
            posted = self._posted.pop(key, "")
            wanted = "" if posted == previous.get("id") else posted
        else:
            seen = wanted
        if not wanted:
            return
        task = asyncio.create_task(self._tell(key, wanted, seen, tuple(pods)))
        task.add_done_callback(lambda _: self._changed(key))
        self._runs[key] = _Run(wanted, seen, task)

    async def _tell(
        self, key: Key, request: str, annotation: str, pods: tuple[PodView, ...]
    ) -> Outcome:
        answers = await asyncio.gather(*(self._tell_one(pod) for pod in pods))
        failures = {pod.meta.name: why for pod, why in zip(pods, answers, strict=True) if why}
        for name, why in failures.items():
            logger.warning("%s/%s: pod %s could not be told to warm up: %s", *key, name, why)
        told = len(pods) - len(failures)
        return Outcome(request, annotation, datetime.now(UTC), told, failures)

    async def _tell_one(self, pod: PodView) -> str:
        """Why it could not be told; empty when it was."""
        why = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(self._pause)
            try:
                await self._sidecars.warm(pod)
            except SidecarError as error:
                why = str(error)
            else:
                return ""
        return why


def _is_told(run: _Run, previous: Mapping[str, Any]) -> bool:
    return (previous.get("id"), previous.get("annotation", "")) == (run.id, run.annotation)

"""Engine pods in roles, and a clock."""

from __future__ import annotations

from collections.abc import Callable

from unit.controller.builders import PodWrapper, engine
from warmpod.controller.apiserver.kinds import POD
from warmpod.controller.objects.views import PodView, project
from warmpod.resources.names import PROMOTED_FROM, ROLE_LABEL

Change = Callable[[PodWrapper], PodWrapper]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def warm(pod: PodWrapper) -> PodWrapper:
    return pod.warm()


def cold(pod: PodWrapper) -> PodWrapper:
    return pod.running()


def asleep(pod: PodWrapper) -> PodWrapper:
    return pod.not_warm("Asleep")


def waking(pod: PodWrapper) -> PodWrapper:
    return pod.not_warm("Waking")


def died(pod: PodWrapper) -> PodWrapper:
    return pod.not_warm("EngineDied").timeline(boot="b", cause="pod-start", gate=1.0)


def serving(name: str, state: Change, *, promoted: str = "", revision: str = "r1") -> PodView:
    return _pod(name, state, "serving", promoted, revision)


def standby(name: str, state: Change, *, revision: str = "r1") -> PodView:
    return _pod(name, state, "standby", "", revision)


def _pod(name: str, state: Change, role: str, promoted: str, revision: str) -> PodView:
    body = state(engine(name).of(revision)).body()
    body["metadata"]["labels"][ROLE_LABEL] = role
    if promoted:
        body["metadata"]["annotations"] = {PROMOTED_FROM: promoted}
    view = project(POD, body)
    assert isinstance(view, PodView)
    return view

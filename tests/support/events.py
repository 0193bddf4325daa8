"""Events about a WarmModel."""

from __future__ import annotations

from collections.abc import Iterable

from support.api import JsonObject
from support.models import ModelView
from support.waiting import wait_until


def events_of(view: ModelView) -> list[JsonObject]:
    return [
        event
        for event in view.api.list("Event", view.namespace)
        if event["involvedObject"]["kind"] == "WarmModel"
        and event["involvedObject"]["name"] == view.name
    ]


def times_told(view: ModelView, reasons: Iterable[str]) -> int:
    """How often an event had one of the reasons, or named it in its message."""
    wanted = tuple(reasons)
    return sum(
        event.get("count") or 1
        for event in events_of(view)
        if event["reason"] in wanted or any(reason in event["message"] for reason in wanted)
    )


def wait_event(view: ModelView, *reasons: str, before: int = 0, timeout_s: float = 60) -> None:
    """Waits until one of the reasons was told more often than `before` (see `times_told`)."""
    wait_until(
        f"an event {' or '.join(reasons)} about {view.name}",
        lambda: times_told(view, reasons) > before,
        timeout_s=timeout_s,
        describe=lambda: [(event["reason"], event["message"]) for event in events_of(view)],
    )

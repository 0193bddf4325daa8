"""Events about a WarmModel."""

from __future__ import annotations

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


def counts(view: ModelView) -> dict[str, int]:
    """How often each reason was told."""
    found: dict[str, int] = {}
    for event in events_of(view):
        found[event["reason"]] = found.get(event["reason"], 0) + (event.get("count") or 1)
    return found


def wait_event(
    view: ModelView, *reasons: str, before: dict[str, int] | None = None, timeout_s: float = 60
) -> None:
    """Waits until one of the reasons was told, or once more than `before` (see `counts`)."""
    known = before or {}
    wait_until(
        f"an event {' or '.join(reasons)} about {view.name}",
        lambda: any(counts(view).get(reason, 0) > known.get(reason, 0) for reason in reasons),
        timeout_s=timeout_s,
        describe=lambda: counts(view),
    )

"""What a WarmModel's status tells of its start-ups, each once."""

from __future__ import annotations

from support.api import JsonObject
from support.models import ModelView
from support.waiting import wait_until


class Startups:
    """The status keeps five: more must not end between two calls."""

    def __init__(self, view: ModelView) -> None:
        self._view = view
        self._known: set[str] = set()

    def next(self, pods: int = 1, timeout_s: float = 120) -> list[JsonObject]:
        """First boots of so many pods of which nothing was returned before."""

        def recorded() -> list[JsonObject] | None:
            found = self._view.get().get("status", {}).get("lastStartups", [])
            new = [each for each in found if each["pod"] not in self._known]
            return new if len(new) >= pods else None

        new = wait_until(
            f"{pods} start-ups are told",
            recorded,
            timeout_s=timeout_s,
            describe=self._view.conditions,
        )
        assert new is not None
        self._known |= {each["pod"] for each in new}
        return new

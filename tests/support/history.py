"""What a condition said over time, as the API server told it: nothing in between is missed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from support.api import Api, JsonObject
from support.models import ModelView, condition_of

GONE = "Gone"
LIMIT_S = 900  # the API server ends a watch after this


@dataclass(frozen=True)
class Said:
    """One state of the condition; `status` is "" before there is one and GONE after its object."""

    moment: float
    uid: str
    status: str
    reason: str
    message: str


class ConditionHistory:
    """Every change of a condition's status or reason, on all objects that `select` picks.

    A mark is a place in the history: `mark()` before a fault, and what is waited for or looked up
    after the mark is what followed the fault.
    """

    def __init__(
        self,
        api: Api,
        kind: str,
        namespace: str,
        type_: str,
        select: Callable[[JsonObject], bool] = lambda _: True,
    ) -> None:
        self._type = type_
        self._select = select
        self._said: list[Said] = []
        self._last: dict[str, Said] = {}
        self._changed = threading.Condition()
        events = api.watch(kind, namespace, LIMIT_S)
        threading.Thread(target=self._run, args=(events,), daemon=True).start()

    def mark(self) -> int:
        with self._changed:
            return len(self._said)

    def since(self, mark: int) -> list[Said]:
        with self._changed:
            return self._said[mark:]

    def last(self) -> list[Said]:
        """What it says now, one for each object that is there."""
        with self._changed:
            return [said for said in self._last.values() if said.status != GONE]

    def wait_for(
        self, status: str, *, after: int, timeout_s: float, reasons: Iterable[str] = ()
    ) -> int:
        """Waits until it has said so after a mark; gives the mark behind that."""
        wanted = set(reasons)

        def found() -> int | None:
            for place, said in enumerate(self._said[after:], start=after):
                if said.status == status and (not wanted or said.reason in wanted):
                    return place + 1
            return None

        with self._changed:
            place = self._changed.wait_for(found, timeout=timeout_s)
            assert place is not None, (
                f"{self._type} is not {status} {sorted(wanted) or ''} within {timeout_s:.0f} s; "
                f"it said {[(said.status, said.reason) for said in self._said[after:]]}"
            )
            return place

    def _run(self, events: Iterable[JsonObject]) -> None:
        for event in events:
            if event["type"] != "BOOKMARK" and self._select(event["object"]):
                self._note(event["type"], event["object"])

    def _note(self, kind: str, found: JsonObject) -> None:
        condition = condition_of(found, self._type)
        uid = found["metadata"]["uid"]
        said = Said(
            time.monotonic(),
            uid,
            GONE if kind == "DELETED" else condition.get("status", ""),
            condition.get("reason", ""),
            condition.get("message", ""),
        )
        with self._changed:
            before = self._last.get(uid)
            if before is None or (before.status, before.reason) != (said.status, said.reason):
                self._said.append(said)
                self._changed.notify_all()
            self._last[uid] = said


def of_model(view: ModelView, type_: str = "WeightsResident") -> ConditionHistory:
    """Of a condition of the WarmModel."""
    return ConditionHistory(
        view.api,
        "WarmModel",
        view.namespace,
        type_,
        lambda model: model["metadata"]["name"] == view.name,
    )


def of_agents(view: ModelView, type_: str = "warmpod.io/Resident") -> ConditionHistory:
    """Of a condition of the model's prefetch pods."""
    wanted = {"warmpod.io/model": view.name, "warmpod.io/component": "prefetch"}
    return ConditionHistory(
        view.api,
        "Pod",
        view.namespace,
        type_,
        lambda pod: wanted.items() <= pod["metadata"].get("labels", {}).items(),
    )

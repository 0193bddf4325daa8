"""What happened in a namespace and when, as the API server's watches told it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from support.api import Api, JsonObject

Predicate = Callable[[JsonObject], bool]


class Recorder:
    """Watches kinds of objects in one namespace; times are seconds since its start.

    Timestamps in objects have a resolution of one second; the arrival of an
    event tells the moment better, to some milliseconds.
    """

    def __init__(self, api: Api, namespace: str, kinds: tuple[str, ...], timeout_s: int) -> None:
        self.started = time.monotonic()
        self._seen: list[tuple[float, JsonObject]] = []
        self._lock = threading.Lock()
        for kind in kinds:
            arguments = (api.watch(kind, namespace, timeout_s), kind)
            threading.Thread(target=self._run, args=arguments, daemon=True).start()

    def _run(self, events: object, kind: str) -> None:
        for event in events:  # type: ignore[attr-defined]
            body: JsonObject = event["object"] | {"kind": kind, "event": event["type"]}
            with self._lock:
                self._seen.append((time.monotonic() - self.started, body))

    def first(self, kind: str, holds: Predicate) -> float:
        """When an object of that kind first was in that state; an error if never."""
        with self._lock:
            found = [at for at, body in self._seen if body["kind"] == kind and holds(body)]
        if not found:
            raise LookupError(f"no {kind} came to be in that state")
        return min(found)

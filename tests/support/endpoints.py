"""When a pod was a ready endpoint of its Service, as the API server told it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Self

from support.api import Api, JsonObject
from support.background import Background
from support.models import ModelView, gate_is_open
from support.waiting import wait_until


@dataclass
class GateSampler(Background):
    """Notes, ten times a second, pods that became ready endpoints with their gate closed.

    The endpoints are read first: a gate that was closed when they were read and
    opened in between cannot be taken for a violation. A pod that was an endpoint
    already and whose gate has just closed is on its way out; how long that takes
    is for the tests of kills.
    """

    view: ModelView
    violations: list[str] = field(default_factory=list)
    samples: int = 0
    _ready: set[str] = field(default_factory=set)

    def __enter__(self) -> Self:
        self._ready = self.view.ready_addresses()
        return super().__enter__()

    def step(self) -> None:
        ready = self.view.ready_addresses()
        new, self._ready = ready - self._ready, ready
        for pod in self.view.engine_pods() if new else ():
            if pod.get("status", {}).get("podIP") in new and not gate_is_open(pod):
                self.violations.append(f"{time.time():.3f}: {pod['metadata']['name']}")
        self.samples += 1


class EndpointWatch:
    """Notes the moment of every change of a model's set of ready addresses."""

    def __init__(self, api: Api, view: ModelView, timeout_s: int = 600) -> None:
        self._service = view.name
        self._slices: dict[str, set[str]] = {}
        self._changes: list[tuple[float, frozenset[str]]] = []
        self._changed = threading.Condition()
        events = api.watch("EndpointSlice", view.namespace, timeout_s)
        self._thread = threading.Thread(target=self._run, args=(events,), daemon=True)
        self._thread.start()

    def _run(self, events: object) -> None:
        for event in events:  # type: ignore[attr-defined]
            found: JsonObject = event["object"]
            labels = found["metadata"].get("labels", {})
            if labels.get("kubernetes.io/service-name") == self._service:
                self._note(event["type"], found)

    def _note(self, kind: str, found: JsonObject) -> None:
        ready = {
            address
            for endpoint in found.get("endpoints") or []
            if endpoint.get("conditions", {}).get("ready")
            for address in endpoint["addresses"]
        }
        with self._changed:
            self._slices[found["metadata"]["name"]] = set() if kind == "DELETED" else ready
            everything = frozenset().union(*self._slices.values())
            if not self._changes or self._changes[-1][1] != everything:
                self._changes.append((time.monotonic(), everything))
                self._changed.notify_all()

    def wait_for(self, address: str, *, ready: bool, timeout_s: float) -> float:
        """The moment (monotonic) when the address last came to be in that state."""
        with self._changed:
            holds = self._changed.wait_for(
                lambda: bool(self._changes) and (address in self._changes[-1][1]) == ready,
                timeout=timeout_s,
            )
            assert holds, f"{address} is not {_named(ready)} within {timeout_s:.0f} s"
            return self._since(address, ready)

    def wait_for_lasting(self, address: str, *, seconds: float, timeout_s: float) -> None:
        """Waits until the address has been a ready endpoint for some seconds without a break.

        A kubelet that has just looked after a pod looks again only after it has listed all
        containers anew, which it does once a second. A pod that took traffic for a while is
        not in that state.
        """

        def lasting() -> bool:
            with self._changed:
                if not self._changes or address not in self._changes[-1][1]:
                    return False
                return time.monotonic() - self._since(address, True) >= seconds

        wait_until(f"{address} stays a ready endpoint", lasting, timeout_s=timeout_s)

    def _since(self, address: str, ready: bool) -> float:
        moment = self._changes[-1][0]
        for since, addresses in reversed(self._changes):
            if (address in addresses) != ready:
                break
            moment = since
        return moment


def _named(ready: bool) -> str:
    return "a ready endpoint" if ready else "out of the endpoints"

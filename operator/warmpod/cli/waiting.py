"""Waiting for what a command has asked the cluster for, which can take longer than an API server
is up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from warmpod.cli.cluster import Cluster, ClusterError, Document

#: Seconds between two looks.
LOOK_SECONDS = 5.0

#: Looks that may fail in a row.
ATTEMPTS = 24

Tell = Callable[[str], object]
"""Takes a line for the one who waits."""
_Seen = TypeVar("_Seen")


@dataclass(frozen=True)
class Waiting:
    """`sleep` takes seconds."""

    cluster: Cluster
    tell: Tell
    sleep: Callable[[float], object] = time.sleep

    def until(self, namespace: str, name: str, counted: str) -> str:
        """Look at a WarmModel until that field of its status counts a pod; then the result is
        empty, else why it never will. Raises ClusterError."""
        told = ""
        while True:
            found = self.patiently(lambda: self.cluster.snapshot(namespace, name))
            status = found.warm_model.get("status") or {}
            if status.get(counted):
                return ""
            if stalled := message_of(status, "Stalled", "True"):
                return stalled
            now = message_of(status, "Ready", "False") or "waiting for the operator"
            if now != told:
                self.tell(now)
                told = now
            self.pause()

    def patiently(self, look: Callable[[], _Seen]) -> _Seen:
        """Raises ClusterError."""
        for _ in range(ATTEMPTS - 1):
            try:
                return look()
            except ClusterError as error:
                self.tell(f"{error}; looking again")
                self.pause()
        return look()

    def looks(self, seconds: float) -> Iterator[None]:
        """As many as there are in that time, with a pause after each."""
        for _ in range(int(seconds / LOOK_SECONDS)):
            yield
            self.pause()

    def pause(self) -> None:
        self.sleep(LOOK_SECONDS)


def message_of(status: Document, kind: str, value: str) -> str:
    """Reason and message of a condition that has this value; else empty."""
    for condition in status.get("conditions") or []:
        if condition.get("type") == kind and condition.get("status") == value:
            return f"{condition.get('reason', '')}: {condition.get('message', '')}"
    return ""

"""Knows from the engine's metrics when its last request is done."""

from __future__ import annotations

import http.client
import re
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable

READ_TIMEOUT_SECONDS = 1.0
READ_PERIOD_SECONDS = 0.2
# Metrics that stay unreadable for this long will not tell when the engine is idle.
UNREADABLE_SECONDS = 2.0
# A request that was just accepted shows in the metrics only after the engine's next step.
IDLE_READINGS = 2

# A server that speaks something else than HTTP raises an error that is no OSError.
_UNREADABLE = (OSError, ValueError, http.client.HTTPException)
_IN_FLIGHT = re.compile(
    r"^vllm:num_requests_(?:running|waiting)(?:\{[^}]*\})?\s+(?P<value>[-+.\dEe]+)", re.MULTILINE
)


def in_flight(metrics: str) -> int | None:
    """How many requests the engine has, over all of its ranks; None when it does not say."""
    values = [float(found["value"]) for found in _IN_FLIGHT.finditer(metrics)]
    return round(sum(values)) if values else None


class EngineClient:
    """Talks to the engine on the loopback interface."""

    def __init__(self, scheme: str, port: int) -> None:
        self._url = f"{scheme}://127.0.0.1:{port}"
        # The certificate is the user's, for the name that clients use; this never leaves the pod.
        self._tls = ssl._create_unverified_context() if scheme == "https" else None  # noqa: S323

    def answers(self) -> bool:
        """Whether anything answers HTTP, whatever the status."""
        try:
            self._read("/health")
        except urllib.error.HTTPError:
            return True
        except _UNREADABLE:
            return False
        return True

    def in_flight(self) -> int | None:
        """How many requests the engine has; None when it cannot be read."""
        try:
            return in_flight(self._read("/metrics"))
        except _UNREADABLE:
            return None

    def _read(self, path: str) -> str:
        # The scheme is http or https: the command line allows no other.
        with urllib.request.urlopen(  # noqa: S310
            self._url + path, timeout=READ_TIMEOUT_SECONDS, context=self._tls
        ) as answer:
            return str(answer.read().decode("utf-8", "replace"))


class IdleWatch(threading.Thread):
    """Reads the metrics until the engine is idle, or until they cannot be read any more.

    A thread, because the main thread must notice signals and deaths meanwhile.
    """

    def __init__(self, client: EngineClient, wake: Callable[[], None]) -> None:
        super().__init__(name="idle-watch", daemon=True)
        self._client = client
        self._wake = wake
        self._cancelled = threading.Event()
        self.result: str | None = None  # "idle" or "unreadable", once it is known

    def run(self) -> None:
        """Watch; wakes the main thread with the result."""
        idle_readings = 0
        readable_at = time.monotonic()
        while self.result is None and not self._cancelled.wait(READ_PERIOD_SECONDS):
            requests = self._client.in_flight()
            now = time.monotonic()
            if requests is not None:
                readable_at = now
            idle_readings = idle_readings + 1 if requests == 0 else 0
            if idle_readings >= IDLE_READINGS:
                self.result = "idle"
            elif now - readable_at >= UNREADABLE_SECONDS:
                self.result = "unreadable"
        self._wake()

    def cancel(self) -> None:
        """Stop watching."""
        self._cancelled.set()

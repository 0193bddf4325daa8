"""How long ago files were touched, by the clock of the file system that they are on."""

from __future__ import annotations

# A clock was set, or the node slept, if the file system's moved by so much more or less than the
# node's monotonic one from one look to the next.
SET_SECONDS = 10.0


class Ages:
    """Never too high because a clock was set while this looked on, nor by the time in which the
    node was off or slept. Times and ages in seconds.

    The file system's clock is the node's own, or that of the server it is on: NFS clients have the
    server set the time where utimensat(2) is given none (RFC 8881, SET_TO_SERVER_TIME4).
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._booted: float | None = None
        self._counted_from = 0.0
        self._steady_since = 0.0

    def look(self, now: float, uptime: float) -> None:
        """`now` by the file system's clock, `uptime` by the node's monotonic one."""
        booted = now - uptime
        if self._booted is None:
            self._counted_from, self._steady_since = booted, now
        elif abs(booted - self._booted) > SET_SECONDS:
            self._counted_from = self._steady_since = now
        self._now, self._booted = now, booted

    def of(self, touched: float) -> float:
        """At the last look; 0 at least."""
        # In the future: before the clock was set back, nobody knows how long.
        ahead = touched > self._now + SET_SECONDS
        since = self._steady_since if ahead else max(touched, self._counted_from)
        return max(0.0, self._now - since)

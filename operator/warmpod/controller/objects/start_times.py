"""What pods of a WarmModel take to become warm, as its status remembers it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping


def of_pods(startups: Iterable[Mapping[str, object]]) -> Iterator[float]:
    """Seconds from the creation of a pod to the open gate. `startups`: as in `status.lastStartups`;
    those of engines that were started anew in their pod do not count."""
    for startup in startups:
        seconds = startup.get("startSeconds")
        if startup.get("cause", "pod-start") == "pod-start" and isinstance(seconds, int | float):
            yield float(seconds)

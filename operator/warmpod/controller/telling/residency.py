"""Nodes that lost the weights and that have them again, as events.

A WarmModel's conditions may be False for another node already, so they do not show every loss.
Told once, by the operator that saw it, and not node by node: what befalls many nodes at once (a
registry, a kernel, a switch) is one event a reason.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from warmpod import reasons
from warmpod.controller.apiserver.kinds import POD
from warmpod.controller.objects.views import Key, PodView, View, owner_key
from warmpod.controller.telling.transition import Transition, named
from warmpod.protocol import RESIDENT_CONDITION
from warmpod.resources.names import COMPONENT_LABEL

#: Seconds between two tellings about one WarmModel; the first change is told at once.
PAUSE = 20.0


@dataclass
class _News:
    lost: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By node, what it lost the weights for and has not been told yet: reason and message."""
    restored: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    """Nodes that lost them and do not have them again."""
    told_at: float | None = None


class Residency:
    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._news: defaultdict[Key, _News] = defaultdict(_News)

    def changed(self, before: View | None, after: View | None) -> None:
        """To be told of every object that the cache takes in."""
        if not isinstance(after, PodView) or after.meta.deleting:
            return
        owner = owner_key(POD, after.meta)
        if owner is None or after.meta.labels.get(COMPONENT_LABEL) != "prefetch":
            return
        had = (
            isinstance(before, PodView)
            and before.meta.uid == after.meta.uid
            and before.is_true(RESIDENT_CONDITION)
        )
        condition = after.conditions.get(RESIDENT_CONDITION)
        if after.is_true(RESIDENT_CONDITION):
            if not had:  # one that had it before may not know of its loss, such as of an image
                self._has(owner, after.meant_for)
        elif had and condition is not None:
            self.lost(owner, after.meant_for, condition.reason, condition.message)

    def lost(self, owner: Key, node: str, reason: str, message: str) -> None:
        """For a loss that no pod reports, such as that of an image."""
        news = self._news[owner]
        news.missing.add(node)
        news.lost[node] = (reason, message)

    def _has(self, owner: Key, node: str) -> None:
        news = self._news.get(owner)
        if news is not None and node in news.missing:
            news.missing.discard(node)
            news.restored.add(node)

    def take(self, key: Key) -> list[Transition]:
        """What has not been told yet, losses first; nothing before `due`."""
        if self.due(key) != 0:
            return []
        news = self._news[key]
        found = [*_losses(news.lost), *_restorations(news.restored)]
        news.lost, news.restored, news.told_at = {}, set(), self._clock()
        return found

    def due(self, key: Key) -> float | None:
        """Seconds until there is something to tell; None for nothing."""
        news = self._news.get(key)
        if news is None or not (news.lost or news.restored):
            return None
        if news.told_at is None:
            return 0
        return max(0, news.told_at + PAUSE - self._clock())

    def forget(self, key: Key) -> None:
        self._news.pop(key, None)


def _losses(lost: dict[str, tuple[str, str]]) -> Iterator[Transition]:
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for node, (reason, _) in lost.items():
        by_reason[reason].append(node)
    for reason, nodes in sorted(by_reason.items()):
        example = lost[nodes[0]][1]
        message = f"{named(tuple(nodes))}: {reason}: {example}"
        yield Transition("Warning", reasons.RESIDENCY_LOST, message)


def _restorations(restored: set[str]) -> Iterator[Transition]:
    if restored:
        nodes = tuple(sorted(restored))
        message = f"{named(nodes)}: the weights are resident again"
        yield Transition("Normal", reasons.RESIDENCY_RESTORED, message)

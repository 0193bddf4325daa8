"""All nodes, and the prefetch pods that are on them or meant for them, over all WarmModels.

Fed by the cache with every change, and asked at each look at a WarmModel. Whatever changes, only
the WarmModels that it can concern are looked at.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from warmpod import reasons
from warmpod.controller.apiserver.kinds import POD
from warmpod.controller.nodes import images
from warmpod.controller.nodes.checks import Checks
from warmpod.controller.nodes.hosts import Hosts
from warmpod.controller.nodes.losses import Losses
from warmpod.controller.nodes.placement import Placement
from warmpod.controller.nodes.pods import is_gated, is_pulling, removal
from warmpod.controller.nodes.queue import PullQueue
from warmpod.controller.nodes.seen import NodesSeen
from warmpod.controller.objects.node_view import NodeView
from warmpod.controller.objects.views import Key, PodView, View, owner_key

#: Seconds after which turns are looked at again without any news: a disk may have been emptied.
DECISION_SECONDS = 5.0


class Fleet:
    def __init__(
        self,
        limit: int,
        checks: Checks,
        add: Callable[[Key], None],
        lost: Callable[[Key, str, str, str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`limit`: nodes that may pull from one registry at a time. `add`: has a WarmModel looked
        at. `lost`: is told of images that are gone, with the WarmModel, the node, a reason and a
        message."""
        self.watched = False
        """Whether the operator sees nodes at all."""
        self.hosts = Hosts()
        self.queue = PullQueue(limit, self.hosts, checks)
        self.losses = Losses()
        self._add = add
        self._lost = lost
        self._clock = clock
        self._now = now
        self._pods: defaultdict[str, dict[Key, PodView]] = defaultdict(dict)
        """Prefetch pods by node."""
        self._coming: dict[Key, PodView] = {}
        """Prefetch pods that wait for their turn, or pull."""
        self._seen: set[Key] = set()
        """WarmModels that were looked at since the operator started."""
        self._decided: float | None = None
        """When turns were looked at; None after news."""

    def changed(self, before: View | None, after: View | None) -> None:
        """As the cache tells it: None for an object that was not there, or is not any more."""
        if isinstance(after, NodeView):
            self._node_is(after)
        elif isinstance(before, NodeView):
            self._node_gone(before)
        else:
            self._pod_changed(_prefetch(before), _prefetch(after))

    def answered(self, key: Key) -> None:
        """A registry or a kubelet has told what was asked for that WarmModel."""
        self._decided = None
        self._add(key)

    def look(
        self, key: Key, placement: Placement | None, pods: tuple[PodView, ...]
    ) -> NodesSeen | None:
        """What a WarmModel must know for its prefetch pods; None where nodes are not watched.

        `placement`: of its engines; None while no revision says it.
        """
        if not self.watched:
            return None
        self._seen.add(key)
        if placement is not None and self.hosts.place(key, placement):
            self._decided = None
        self._decide(key)
        mine = {pod.meta.uid for pod in pods}
        eligible = self.hosts.eligible(key)
        return NodesSeen(
            limit=self.queue.limit,
            eligible=eligible,
            unfit={} if eligible else self.hosts.unfit(key),
            returning=not eligible and self.hosts.may_return(key),
            turn=self.queue.turn & mine,
            waiting={uid: self.queue.waiting[uid] for uid in mine & self.queue.waiting.keys()},
            refused={uid: self.queue.refused[uid] for uid in mine & self.queue.refused.keys()},
            removed={uid: lost for uid in mine if (lost := self.losses.of(uid))},
        )

    def forget(self, key: Key) -> None:
        """The WarmModel is gone."""
        self.hosts.forget(key)
        self._seen.discard(key)

    def has_seen(self, key: Key) -> bool:
        return key in self._seen

    def pods_on(self, node: str, key: Key) -> list[PodView]:
        """The prefetch pods of a WarmModel that are on a node or meant for it."""
        return [pod for pod in self._on(node) if owner_key(POD, pod.meta) == key]

    def _on(self, node: str) -> Iterable[PodView]:
        return self._pods.get(node, {}).values()

    def _node_is(self, told: NodeView) -> None:
        before = self.hosts.get(told.meta.name)
        if before is not None and before.meta.uid != told.meta.uid:
            before = None  # another one of the same name
        after = told if before is None else images.with_known(before, told)
        if before is not None and not _differ(before, after):
            return
        self.hosts.put(after)
        there = list(self._on(after.meta.name))
        if before is not None:
            self._tell(self.losses.compare(before, after, there))
        self._decided = None
        self._wake(there if before is None else _concerned(before, after, there))

    def _tell(self, pods: Iterable[PodView]) -> None:
        for pod in pods:
            if (key := owner_key(POD, pod.meta)) is not None:
                message = removal(pod, self.losses.of(pod.meta.uid))
                self._lost(key, pod.node, reasons.IMAGE_REMOVED, message)

    def _node_gone(self, node: NodeView) -> None:
        self.hosts.drop(node.meta.name)
        self._decided = None
        self._wake(self._on(node.meta.name))

    def _pod_changed(self, before: PodView | None, after: PodView | None) -> None:
        if before is not None:
            self._take_out(before)
            if after is None or after.meta.uid != before.meta.uid:
                self.losses.forget(before.meta.uid)
        if after is not None:
            self._pods[after.meant_for][after.meta.key] = after
            if is_gated(after) or is_pulling(after):
                self._coming[after.meta.key] = after
        if before is None and after is None:
            return
        if before is not None and before.meta.key not in self._coming:
            self.queue.forget(before.meta.uid)
        self._decided = None
        if before is not None and is_pulling(before) and not (after and is_pulling(after)):
            self._wake(filter(is_gated, self._coming.values()))  # a place is free

    def _take_out(self, pod: PodView) -> None:
        self._coming.pop(pod.meta.key, None)
        there = self._pods[pod.meant_for]
        there.pop(pod.meta.key, None)
        if not there:
            del self._pods[pod.meant_for]

    def _decide(self, key: Key) -> None:
        """For all WarmModels; those other than `key` are told of their turn."""
        now = self._clock()
        if self._decided is not None and now - self._decided < DECISION_SECONDS:
            return
        self._decided = now
        new = self.queue.decide(self._coming.values(), self._now())
        self._wake(pod for pod in new if owner_key(POD, pod.meta) != key)

    def _wake(self, pods: Iterable[PodView]) -> None:
        for key in {owner_key(POD, pod.meta) for pod in pods}:
            if key is not None:
                self._add(key)


def _concerned(before: NodeView, after: NodeView, pods: list[PodView]) -> list[PodView]:
    """Images come and go on a node, and most of them are nobody's business here."""
    if images.differ_elsewhere(before, after):
        return pods
    news = frozenset(before.images) ^ frozenset(after.images)
    return [
        pod
        for pod in pods
        if pod.pull and any(images.listed_name(i) in news for i in pod.pull.images)
    ]


def _differ(before: NodeView, after: NodeView) -> bool:
    """In anything that is decided on; a node's status is written all the time."""
    return before.images != after.images or images.differ_elsewhere(before, after)


def _prefetch(view: View | None) -> PodView | None:
    return view if isinstance(view, PodView) and view.pull is not None else None

"""The one queue of prefetch pods that want to pull, over all WarmModels.

A pod that was given its turn keeps it until its gate is gone, so that two WarmModels that look at
the same time are never given the same place.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from warmpod.controller.apiserver.kinds import POD
from warmpod.controller.nodes import images, turns
from warmpod.controller.nodes.checks import Checks
from warmpod.controller.nodes.hosts import Hosts
from warmpod.controller.nodes.pods import is_gated, takes_place
from warmpod.controller.nodes.preflight import Refusal
from warmpod.controller.nodes.turns import Pull
from warmpod.controller.objects.node_view import NodeView
from warmpod.controller.objects.views import PodView, owner_key

#: How long a turn keeps its place without being taken: the gate of a WarmModel that cannot be
#: reconciled, or of a pod that may not be written, must not keep others from pulling.
TURN = timedelta(seconds=60)


class PullQueue:
    def __init__(self, limit: int, hosts: Hosts, checks: Checks) -> None:
        """`limit`: nodes that may pull from one registry at a time."""
        self.limit = limit
        self.turn: frozenset[str] = frozenset()
        """Pods that may go, by uid."""
        self.waiting: dict[str, frozenset[str]] = {}
        """Those whose turn will come, with the registries that they wait for."""
        self.refused: dict[str, Refusal] = {}
        """Those that do not fit onto their nodes."""
        self._given: dict[str, datetime] = {}
        """When pods got their turn, by uid."""
        self._pulls: dict[str, tuple[tuple[str, ...] | None, Pull]] = {}
        """By uid, with the node's images that it was made from: thousands of pods may wait."""
        self._hosts = hosts
        self._checks = checks

    def decide(self, pods: Iterable[PodView], now: datetime) -> list[PodView]:
        """`pods`: all that are gated or pull. Returns those whose turn has come just now."""
        every = list(pods)
        refused_before, self.refused = self.refused, {}
        fit = {
            pod.meta.uid: (pod, node)
            for pod in every
            if is_gated(pod) and (node := self._home(pod, refused_before)) is not None
        }
        pulls = {uid: self._pull(pod, node) for uid, (pod, node) in fit.items()}
        kept = self.turn & fit.keys()
        running = [pulls[uid] for uid in kept if now - self._given[uid] < TURN]
        running += [
            self._pull(pod, self._hosts.get(pod.meant_for))
            for pod in every
            if takes_place(pod, now) and not self._is_stuck(pod)
        ]
        waiting = [pull for uid, pull in pulls.items() if uid not in kept]
        new = turns.next_ones(
            waiting, running, self.limit, lambda pull: self._passes(*fit[pull.pod])
        )
        self.turn = kept | new
        self._given = {uid: self._given.get(uid, now) for uid in self.turn}
        self.waiting = {
            pull.pod: pull.registries
            for pull in waiting
            if pull.pod not in new and pull.pod not in self.refused
        }
        return [fit[uid][0] for uid in new]

    def _home(self, pod: PodView, refused: dict[str, Refusal]) -> NodeView | None:
        """The node that the pod is meant for, if it may go there as far as that is known."""
        node, key = self._hosts.get(pod.meant_for), owner_key(POD, pod.meta)
        if node is None or key is None or not self._hosts.could_host(key, node.meta.name):
            return None
        refusal = self._checks.memory(pod, node)
        if refusal is None and (before := refused.get(pod.meta.uid)) is not None:
            # Looked at again also when it is not its turn: its reason would come and go.
            answer = self._checks.disk(pod, node)
            refusal = answer if isinstance(answer, Refusal) else None if answer else before
        if refusal is not None:
            self.refused[pod.meta.uid] = refusal
            return None
        return node

    def _is_stuck(self, pod: PodView) -> bool:
        """On a node that is not eligible any more, such as one that does not answer: it may never
        get its images, and must not keep the place of one that can."""
        key = owner_key(POD, pod.meta)
        if key is None or not self._hosts.knows(key):
            return False
        return not self._hosts.could_host(key, pod.meant_for)

    def _passes(self, pod: PodView, node: NodeView) -> bool | None:
        answer = self._checks.disk(pod, node)
        if isinstance(answer, Refusal):
            self.refused[pod.meta.uid] = answer
            return False
        return answer

    def _pull(self, pod: PodView, node: NodeView | None) -> Pull:
        listed = None if node is None else node.images
        known = self._pulls.get(pod.meta.uid)
        if known is not None and known[0] is listed:
            return known[1]
        wanted = pod.pull.images if pod.pull else ()
        lacking = wanted if node is None else images.missing(wanted, node)
        found = Pull(
            pod=pod.meta.uid,
            name="/".join(pod.meta.key),
            created=pod.meta.created,
            registries=frozenset(map(images.registry_of, lacking)),
        )
        self._pulls[pod.meta.uid] = (listed, found)
        return found

    def forget(self, uid: str) -> None:
        """The pod is gone, or has its images."""
        self._pulls.pop(uid, None)

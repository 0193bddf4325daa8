"""Which pods serve: pure, total, and the same whoever asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

from warmpod.controller.pool.members import Member, State


def choose(
    members: Sequence[Member], count: int, current: str, unaccepted: frozenset[str]
) -> frozenset[str]:
    """The uids of up to `count` pods that are to serve.

    `current`: the revision that the spec asks for. A revision that is not accepted serves only
    where nothing else is warm: slow answers are better than none.
    """
    accepted = [member for member in members if member.revision not in unaccepted]
    if any(member.state is State.WARM for member in accepted):
        members = accepted
    return frozenset(member.uid for member in in_order(members, current)[:count])


def in_order(members: Iterable[Member], current: str) -> list[Member]:
    """The best for serving first: warm ones, of the current revision, that serve already (a label
    that need not change does not), with evidence that is not old, on nodes with few of them, by
    name."""

    def tier(member: Member) -> tuple[int, bool, bool, int]:
        return (
            member.state,
            member.revision != current,
            not member.serving,
            member.evidence,
        )

    ordered: list[Member] = []
    nodes: Counter[str] = Counter()
    by_tier = sorted(members, key=lambda member: (*tier(member), member.pod.meta.key))
    for _, group in groupby(by_tier, key=tier):
        ordered += _spread(list(group), nodes)
    return ordered


def _spread(group: list[Member], nodes: Counter[str]) -> list[Member]:
    """One by one, always from a node that has the fewest so far. `nodes` is brought up to date."""
    turns: list[tuple[int, int]] = []
    for place, member in enumerate(group):
        turns.append((nodes[member.pod.node], place))
        nodes[member.pod.node] += 1
    return [group[place] for _, place in sorted(turns)]

"""Who may pull now: at most so many nodes at a time from one registry, over all WarmModels.

First come, first served, so that the first nodes have the images early and a mirror between nodes
has something to give to the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

#: Before every pod, for one without a time of creation.
_ANCIENT = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Pull:
    """What a prefetch pod will pull, or pulls."""

    pod: str
    """uid."""
    name: str
    """Namespace and name, to tell pods of the same second apart."""
    created: datetime | None
    registries: frozenset[str]
    """Hosts of the images that are not on the node yet."""


#: Whether a pull can succeed: False when not, None while that is not known yet.
Fits = Callable[[Pull], bool | None]


def next_ones(
    waiting: Iterable[Pull], pulling: Iterable[Pull], limit: int, fits: Fits
) -> frozenset[str]:
    """The pods whose turn it is, by uid.

    One that needs a place at two registries and has only one of them keeps that one: otherwise
    later ones that need only one would always go first. One that does not fit keeps none.
    """
    taken = Counter(host for pull in pulling for host in pull.registries)
    turn = set()
    for pull in sorted(waiting, key=lambda p: (p.created or _ANCIENT, p.name)):
        free = all(taken[host] < limit for host in pull.registries)
        answer = fits(pull) if free else None
        if answer is False:
            continue
        for host in pull.registries:
            taken[host] += 1
        if answer:
            turn.add(pull.pod)
    return frozenset(turn)

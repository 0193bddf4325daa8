"""What is told of roles that changed: one event a reconcile and kind, however many pods it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warmpod import reasons
from warmpod.controller.objects.views import PodView
from warmpod.controller.pool.decision import RoleChange
from warmpod.controller.pool.members import State
from warmpod.controller.telling.transition import Transition
from warmpod.protocol import WARM_CONDITION

#: Pods that a message names.
NAMED = 3


def events(changes: Sequence[RoleChange], serving: int) -> Iterator[Transition]:
    """`serving`: pods that are asked for. Nothing is told of pods that take no traffic before and
    after: new ones that are held back from their beginning."""
    promoted = [c.pod for c in changes if c.promotes and c.state is not State.COLD]
    demoted = [c.pod for c in changes if not c.promotes and c.state is State.WARM]
    lost = [c.pod for c in changes if not c.promotes and c.state is not State.WARM]
    if promoted:
        message = f"{_named(promoted)} serve{'s' * (len(promoted) == 1)} now; {_asked(serving)}"
        if lost:
            message += f". Not warm: {_named(lost)}{_why(lost[0])}"
        yield Transition("Normal", reasons.PROMOTED, message)
    if demoted:
        verb = "is" if len(demoted) == 1 else "are"
        message = f"{_named(demoted)} {verb} held back now; {_asked(serving)}"
        yield Transition("Normal", reasons.DEMOTED, message)


def _asked(serving: int) -> str:
    return f"{serving} asked for"


def _named(pods: Sequence[PodView]) -> str:
    names = ", ".join(pod.meta.name for pod in pods[:NAMED])
    more = len(pods) - NAMED
    word = "pod" if len(pods) == 1 else "pods"
    return f"{word} {names}" + (f" and {more} more" if more > 0 else "")


def _why(pod: PodView) -> str:
    warm = pod.conditions.get(WARM_CONDITION)
    return f" ({warm.reason})" if warm is not None and warm.status != "True" else ""

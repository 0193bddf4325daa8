"""Gates of pods that closed, as events: edges, which no state that can be read later shows.

Told once, by the operator that saw it. Another one that starts, or a watch that begins anew, shows
a pod as it is and not what it was, so nothing is told twice."""

from __future__ import annotations

from collections import defaultdict, deque

from warmpod import reasons
from warmpod.controller.apiserver.kinds import POD
from warmpod.controller.objects.engine_pods import is_serving
from warmpod.controller.objects.views import Key, PodView, View, owner_key
from warmpod.controller.telling.transition import Transition
from warmpod.protocol import WARM_CONDITION

#: Of one WarmModel between two reconciles; when there are more, the last ones say enough.
MOST_NEWS = 20


class Gates:
    def __init__(self) -> None:
        self._news: defaultdict[Key, deque[Transition]] = defaultdict(
            lambda: deque(maxlen=MOST_NEWS)
        )

    def changed(self, before: View | None, after: View | None) -> None:
        if not isinstance(before, PodView) or not isinstance(after, PodView):
            return
        owner = owner_key(POD, after.meta)
        if owner is None or before.meta.uid != after.meta.uid:
            return
        closing = _closing(before, after)
        if closing is not None:
            self._news[owner].append(closing)

    def take(self, key: Key) -> list[Transition]:
        """What has not been told yet of a WarmModel's pods, oldest first."""
        return list(self._news.pop(key, ()))


def _closing(before: PodView, after: PodView) -> Transition | None:
    """None also for a pod that is being stopped, or becomes a sleeping standby: its gate closes
    because somebody wants it to."""
    condition = after.conditions.get(WARM_CONDITION)
    if condition is None or condition.status != "False" or not before.is_true(WARM_CONDITION):
        return None
    if after.meta.deleting or condition.reason in (reasons.STOPPING, reasons.FALLING_ASLEEP):
        return None
    if condition.reason == reasons.ASLEEP and not is_serving(after):
        return None
    message = f"pod {after.meta.name} takes no traffic: {condition.reason}: {condition.message}"
    return Transition("Warning", reasons.GATE_CLOSED, message)

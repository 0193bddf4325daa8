"""What an engine pod's labels and conditions say of it, in the words of this operator."""

from __future__ import annotations

from warmpod import reasons
from warmpod.controller.objects.views import PodView
from warmpod.protocol import WARM_CONDITION
from warmpod.resources.names import ROLE_LABEL, SERVING

_SLEEP = (reasons.ASLEEP, reasons.WAKING)


def is_serving(pod: PodView) -> bool:
    """As the Service sees it."""
    return pod.meta.labels.get(ROLE_LABEL) == SERVING


def is_warm(pod: PodView) -> bool:
    return pod.is_true(WARM_CONDITION) and pod.is_true("Ready")


def sleeps(pod: PodView) -> bool:
    """Or is waking up."""
    warm = pod.conditions.get(WARM_CONDITION)
    return warm is not None and warm.reason in _SLEEP

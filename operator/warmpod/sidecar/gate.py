"""The two locks of the pod's gate: our own readiness probe, and the pod condition."""

import logging
from collections.abc import Callable

from warmpod.podstatus import ConditionReporter, Wish
from warmpod.sidecar.lifecycle import Verdict

log = logging.getLogger(__name__)


class Gate:
    """Closed until told otherwise. The probe closes first: it needs nobody but the kubelet."""

    def __init__(self, condition: ConditionReporter, on_change: Callable[[Verdict], None]) -> None:
        self._condition = condition
        self._on_change = on_change
        self.verdict: Verdict | None = None

    @property
    def is_open(self) -> bool:
        return self.verdict is not None and self.verdict.open

    def apply(self, verdict: Verdict) -> None:
        if verdict == self.verdict:
            return
        changed = self.verdict is None or verdict.open != self.verdict.open
        self.verdict = verdict
        if changed:
            log.info("gate %s: %s: %s", self._word(), verdict.reason, verdict.message)
            self._on_change(verdict)
        self._condition.want(
            Wish("True" if verdict.open else "False", verdict.reason, verdict.message)
        )

    def _word(self) -> str:
        return "open" if self.is_open else "closed"

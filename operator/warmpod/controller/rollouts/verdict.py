"""Which revisions were accepted, which were taken back, and what is concluded from their pods.

Pure. A conclusion is written down as annotations of the ControllerRevision, and only what is
written down has consequences, so an operator may die between any two writes.
docs/decisions/0021 has the reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from warmpod import reasons
from warmpod.api import WarmModel
from warmpod.controller.diagnosis.problems import Area, Problem
from warmpod.controller.objects.views import PodView
from warmpod.controller.observed import Observed, StoredRevision
from warmpod.controller.rollouts import baseline, failures, marking
from warmpod.controller.rollouts.baseline import Baseline
from warmpod.controller.rollouts.marking import Marks, Rejection
from warmpod.protocol import WARM_CONDITION
from warmpod.reasons import Reason
from warmpod.resources.names import REVISION_LABEL

#: How long a warm pod's figures are waited for: its sidecar sends them right after it has opened
#: the gate, in a request of their own.
FIGURES_DELAY = timedelta(seconds=10)


@dataclass(frozen=True)
class Verdicts:
    rejected: frozenset[str] = frozenset()
    """Revisions that must not run, by hash."""
    unjudged: frozenset[str] = frozenset()
    """Revisions whose first pod has to be warm and good before another one follows, and before it
    takes traffic that an older one can take."""
    fallback: StoredRevision | None = None
    """What runs in place of the revision that the spec asks for, where that is rejected."""
    kept: frozenset[str] = frozenset()
    """Revisions that may be gone back to: they and their weights are kept."""

    @property
    def unaccepted(self) -> frozenset[str]:
        return self.rejected | self.unjudged

    def accepted(self, revision_hash: str) -> bool:
        return revision_hash not in self.unaccepted


@dataclass(frozen=True)
class Conclusion:
    """What is to be written down about a revision."""

    stored: StoredRevision
    marks: Marks
    reason: Reason | None = None
    """Of an event; None for nothing that people want to be told, or are told by the status."""
    message: str = ""


def of(observed: Observed, model: WarmModel) -> Verdicts:
    """Everything is accepted that has nothing before it to go back to."""
    if model.spec.rollout.on_regression == "Proceed":
        return Verdicts()
    return _History(observed, model.spec.rollout.tolerance_percent).verdicts()


class _History:
    """The stored revisions and their marks."""

    def __init__(self, observed: Observed, tolerance: int) -> None:
        self._observed = observed
        self._marks = {s.revision.hash: marking.of(s) for s in observed.revisions}
        self._bad = {
            name
            for name, marks in self._marks.items()
            if marks.rejection is not None and marks.rejection.holds(tolerance)
        }
        self._live = observed.deployment.template if observed.deployment else ""

    def verdicts(self) -> Verdicts:
        rejected = frozenset(name for name in self._bad if self._in_place_of(name))
        unjudged = frozenset(name for name in self._marks if self._is_unjudged(name))
        target = self._observed.target
        fallback = self._in_place_of(target) if target in rejected else None
        return Verdicts(rejected, unjudged, fallback, frozenset(self._kept()))

    def last_accepted(self) -> str:
        """What a new revision is compared with, and gone back to; empty for none."""
        for name in self._back_from(self._live):
            if self._runs(name) and self._marks[name].baseline is not None:
                return name
        return ""

    def _kept(self) -> Iterator[str]:
        for start in (self._observed.target, self._live):
            for name in self._back_from(start):
                if name != start:
                    yield name
                if self._marks[name].baseline is not None and name not in self._bad:
                    break

    def _back_from(self, name: str) -> Iterator[str]:
        """That revision, the one before it, and so on, as far as they are stored."""
        passed = set()
        while name in self._marks and name not in passed:
            yield name
            passed.add(name)
            name = self._marks[name].previous

    def _is_unjudged(self, name: str) -> bool:
        marks = self._marks[name]
        if marks.baseline is not None or name in self._bad:
            return False
        before = self._marks.get(marks.previous)
        return before is not None and before.baseline is not None and self._runs(marks.previous)

    def _in_place_of(self, name: str) -> StoredRevision | None:
        """The nearest one before it that could run."""
        start = self._live if self._live in self._marks else name
        found = (each for each in self._back_from(start) if each != name and self._runs(each))
        return self._observed.stored(next(found, ""))

    def _runs(self, name: str) -> bool:
        """Whether it could: what was deleted to make room for the new weights does not come back
        while they are there."""
        found = self._observed.stored(name)
        if found is None or name in self._bad:
            return False
        weights = found.revision.prefetch_hash
        return weights == self._observed.weights or any(
            workload.template == weights and not workload.meta.deleting
            for workload in self._observed.daemon_sets
        )


def beginning(observed: Observed) -> Conclusion | None:
    """To be written down before the Deployment gets the present revision: what was there before.
    None where that is done."""
    found = observed.present
    if found is None or observed.deployment is None:
        return None
    marks = marking.of(found)
    if observed.deployment.template == observed.target or marks.baseline is not None:
        return None
    before = _History(observed, 0).last_accepted()
    if before == marks.previous:
        return None
    return Conclusion(found, replace(marks, previous=before))


def conclusions(
    observed: Observed, model: WarmModel, verdicts: Verdicts, now: datetime
) -> Iterator[Conclusion]:
    """What the pods of all revisions show that were not judged yet."""
    for stored in observed.revisions:
        name, marks = stored.revision.hash, marking.of(stored)
        if marks.baseline is not None or name in verdicts.rejected:
            continue
        pods = _pods(observed, name)
        measured = _measured(observed, pods, now)
        if measured is not None:
            yield _judge(observed, model, stored, verdicts, measured)
        elif name in verdicts.unjudged and not any(map(_is_warm, pods)):
            why = _fails_for_good(observed, pods, now)
            if why is not None:
                yield _rejected(stored, Rejection(why))


def problem(observed: Observed, verdicts: Verdicts) -> Problem | None:
    """That the revision that the spec asks for was taken back."""
    found = observed.present
    if found is None or observed.target not in verdicts.rejected or verdicts.fallback is None:
        return None
    rejection = marking.of(found).rejection
    why = rejection.why if rejection else ""
    message = (
        f"Revision {observed.target} was taken back, and {verdicts.fallback.revision.hash} is "
        f"there in its place: {why.rstrip('.')} — {reasons.ROLLOUT_REJECTED.remedy} To try the "
        f"same once more: kubectl -n {observed.view.meta.namespace} annotate controllerrevision "
        f"{found.revision.name} "
        f"{marking.REJECTED_ANNOTATION}-"
    )
    return Problem(reasons.ROLLOUT_REJECTED, message, Area.ENGINE)


def due(observed: Observed, verdicts: Verdicts, now: datetime) -> datetime | None:
    """When time alone leads to the next conclusion."""
    failing = observed.failing.values() if verdicts.unjudged else ()
    dates = [since + failures.PERSISTS for since in failing]
    for pod in observed.engine_pods:
        since = pod.conditions[WARM_CONDITION].since if _is_warm(pod) else None
        if since is not None:
            dates.append(since + FIGURES_DELAY)
    return min((date for date in dates if date > now), default=None)


def _judge(
    observed: Observed,
    model: WarmModel,
    stored: StoredRevision,
    verdicts: Verdicts,
    measured: Baseline,
) -> Conclusion:
    marks = marking.of(stored)
    accepted = Conclusion(stored, Marks(marks.previous, measured))
    if stored.revision.hash not in verdicts.unjudged:
        return accepted
    earlier = observed.stored(marks.previous)
    before = marking.of(earlier).baseline if earlier else None
    found = baseline.compare(before, measured) if before else None
    against = f"pod {measured.pod} compared with {before.pod if before else 'nothing'}"
    if found is None:
        words = f"{against} of revision {marks.previous}: no figures in common"
    elif found.percent > model.spec.rollout.tolerance_percent:
        limit = f"spec.rollout.tolerancePercent: {model.spec.rollout.tolerance_percent}"
        words = f"{against} of revision {marks.previous}: {found}; {limit}"
        return _rejected(stored, Rejection(words, found.percent))
    else:
        words = f"{against} of revision {marks.previous}: {found}"
    message = f"revision {stored.revision.hash}: {words}"
    return replace(accepted, reason=reasons.ROLLOUT_ACCEPTED, message=message)


def _rejected(stored: StoredRevision, rejection: Rejection) -> Conclusion:
    """Without an event: Stalled has one, with what to do, also after an operator died here."""
    return Conclusion(stored, replace(marking.of(stored), rejection=rejection))


def _pods(observed: Observed, name: str) -> tuple[PodView, ...]:
    return tuple(
        pod
        for pod in observed.engine_pods
        if pod.meta.labels.get(REVISION_LABEL) == name and pod.alive and not pod.meta.deleting
    )


def _is_warm(pod: PodView) -> bool:
    return pod.is_true(WARM_CONDITION)


def _measured(observed: Observed, pods: tuple[PodView, ...], now: datetime) -> Baseline | None:
    """Of the first pod that was warm; without figures where it opened unproven, or never told."""
    warm = [(pod.conditions[WARM_CONDITION].since or now, pod) for pod in pods if _is_warm(pod)]
    for since, pod in sorted(warm, key=lambda item: (item[0], item[1].meta.name)):
        hardware = observed.hardware.get(pod.node, "")
        if pod.conditions[WARM_CONDITION].reason == reasons.OPENED_UNPROVEN:
            return Baseline(pod.meta.name, hardware)
        found = baseline.of_pod(pod, hardware)
        if found is not None:
            return found
        if now - since >= FIGURES_DELAY:
            return Baseline(pod.meta.name, hardware)
    return None


def _fails_for_good(observed: Observed, pods: tuple[PodView, ...], now: datetime) -> str | None:
    """Why none of them will be warm; None while one may be."""
    if not pods or not all(_persists(observed.failing, pod, now) for pod in pods):
        return None
    found = next((p for p in (failures.of_pod(pod, now) for pod in pods) if p), None)
    if found is None:
        return None
    return f"it did not become warm: {found.reason}: {found.message}"


def _persists(failing: Mapping[str, datetime], pod: PodView, now: datetime) -> bool:
    since = failing.get(pod.meta.uid)
    return since is not None and now - since >= failures.PERSISTS

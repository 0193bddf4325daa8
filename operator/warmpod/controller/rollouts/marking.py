"""What is kept of a revision's first rollout, as annotations of its ControllerRevision: there an
operator that starts anew finds it again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from warmpod.controller.observed import StoredRevision
from warmpod.controller.rollouts import baseline
from warmpod.controller.rollouts.baseline import Baseline
from warmpod.protocol import GROUP
from warmpod.startup import record

#: Hash of the revision that was there before, and is gone back to.
PREVIOUS_ANNOTATION = f"{GROUP}/previous"
#: The pace of its first warm pod: it is accepted.
BASELINE_ANNOTATION = f"{GROUP}/baseline"
#: Why it was taken back.
REJECTED_ANNOTATION = f"{GROUP}/rejected"
OURS = (PREVIOUS_ANNOTATION, BASELINE_ANNOTATION, REJECTED_ANNOTATION)

LONGEST_WHY = 1500


@dataclass(frozen=True)
class Rejection:
    why: str
    slower: int | None = None
    """Percent by which it is slower; None where it was rejected for something else."""

    def holds(self, tolerance_percent: int) -> bool:
        """A tolerance that was raised since lets it pass."""
        return self.slower is None or self.slower > tolerance_percent

    def text(self) -> str:
        slower = {} if self.slower is None else {"slower": self.slower}
        return json.dumps({"why": self.why[:LONGEST_WHY], **slower}, ensure_ascii=False)


@dataclass(frozen=True)
class Marks:
    previous: str = ""
    """Empty where there was none that had been accepted."""
    baseline: Baseline | None = None
    rejection: Rejection | None = None

    def annotations(self) -> dict[str, str]:
        found = {}
        if self.previous:
            found[PREVIOUS_ANNOTATION] = self.previous
        if self.baseline is not None:
            found[BASELINE_ANNOTATION] = self.baseline.text()
        if self.rejection is not None:
            found[REJECTED_ANNOTATION] = self.rejection.text()
        return found


def of(stored: StoredRevision) -> Marks:
    annotations = stored.view.meta.annotations
    return Marks(
        previous=annotations.get(PREVIOUS_ANNOTATION, ""),
        baseline=baseline.read(annotations.get(BASELINE_ANNOTATION, "")),
        rejection=_rejection(annotations),
    )


def _rejection(annotations: Mapping[str, str]) -> Rejection | None:
    """One that a person wrote by hand holds, too, whatever it says."""
    text = annotations.get(REJECTED_ANNOTATION)
    if text is None:
        return None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        return Rejection(text[:LONGEST_WHY])
    slower = record.number(content.get("slower"))
    why = record.text(content.get("why"), LONGEST_WHY)
    return Rejection(why, None if slower is None else round(slower))

"""How a new revision takes the place of the one before: not a part of what a pod is, so that a
change here makes no new revision."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from warmpod.api.base import StrictBase


class Rollout(StrictBase):
    on_regression: Literal["Rollback", "Proceed"] = Field(
        default="Rollback",
        description="What becomes of a revision whose first pod is slower than the one before, "
        "answers otherwise than golden outputs say, or does not become warm. Rollback: the pods go "
        "back to the revision before. Proceed: it is rolled out all the same.",
    )
    tolerance_percent: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=50,
        description="By how much the time to first token may be longer than that of the revision "
        "before, in the median over the kinds of requests that both were warmed up with.",
    )

"""One condition of a WarmModel, before it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["True", "False", "Unknown"]

STANDBY_READY = "StandbyReady"

#: The API's bound is 4096; three problems of this length fit.
MESSAGE = 1200


@dataclass(frozen=True)
class Condition:
    status: Status
    reason: str
    message: str


def short(text: str) -> str:
    return text if len(text) <= MESSAGE else text[: MESSAGE - 1] + "…"

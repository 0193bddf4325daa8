"""What a condition should say."""

from dataclasses import dataclass
from typing import Literal

ConditionStatus = Literal["True", "False", "Unknown"]


@dataclass(frozen=True, slots=True)
class Wish:
    status: ConditionStatus
    reason: str
    message: str

"""What the status remembers of requests to play warm-up again."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from warmpod.api.base import StrictBase
from warmpod.api.scalars import Count, Time

MAX_ID = 128


class WarmNowStatus(StrictBase):
    id: Annotated[str, Field(max_length=MAX_ID)] = Field(description="The last request.")
    annotation: Annotated[str, Field(max_length=MAX_ID)] = Field(
        default="", description="The last text of the annotation that was taken up."
    )
    time: Time = Field(description="When all pods had been told.")
    pods: Count = Field(default=0, description="Pods that were told.")
    failed: Count = Field(default=0, description="Pods that could not be told.")

"""`spec.standby`: the pool of warm pods behind the serving ones."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from warmpod.api.base import StrictBase


class Standby(StrictBase):
    replicas: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=0,
        description="Warm pods that are held back for the next scale-out, beside spec.replicas. "
        "Default: what the profile says, else 0.",
    )
    state: Literal["Awake", "Sleeping"] = Field(
        default="Awake",
        description="Awake: ready at once, with the weights on the GPU. Sleeping: with the weights "
        "in host memory, which leaves most of the GPU's memory to others and costs a wake-up of "
        "seconds. Default: what the profile says, else Awake.",
    )
    max_unfilled_seconds: Annotated[int, Field(ge=1, le=7 * 24 * 3600)] | None = Field(
        default=None,
        description="For how long pods may be missing in the pool before that is a problem "
        "(reason StandbyUnfilled, and a Warning event). Default: never.",
    )

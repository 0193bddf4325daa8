"""`spec.cost`: what a GPU costs, so that waiting pods have a price."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from warmpod.api.base import Form, StrictBase

DECIMAL_PATTERN = r"^[0-9]{1,6}(\.[0-9]{1,6})?$"
_PRICE = Form(
    DECIMAL_PATTERN,
    "cost.perGpuHour is not a price: use digits and a point, at most six before it and after it, "
    'without a currency, for example "2.50"',
)


class Cost(StrictBase):
    per_gpu_hour: Annotated[str, Field(max_length=13), _PRICE] | None = Field(
        default=None,
        description='Price of one GPU for one hour, as text such as "2.50", in whatever currency '
        "you reckon. Default: the operator's WARMPOD_GPU_HOUR_PRICE.",
    )

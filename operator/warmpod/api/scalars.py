"""Numbers and times of the status, for the modules that make it up."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, WithJsonSchema

MAX_COUNT = 1_000_000

Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Time = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time", "maxLength": 64})]

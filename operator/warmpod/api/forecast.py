"""`spec.forecast`: pods for load that has not come yet."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from warmpod.api.base import StrictBase, rule, rules
from warmpod.api.scalars import Count, Time

MAX_LOAD = 1_000_000_000


class Forecast(StrictBase):
    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.mode == 'Off' || has(self.requestsPerPod)",
                "forecast.requestsPerPod is needed to tell pods from load: set it to the number of "
                "requests at a time with which a pod is as busy as you want it",
                reason="FieldValueRequired",
            ),
            rule(
                "self.mode != 'Scale' || has(self.maxReplicas)",
                "forecast.maxReplicas is needed with mode Scale: set it to the most serving pods "
                "that a forecast may ask for",
                reason="FieldValueRequired",
            ),
        )
    )

    mode: Literal["Off", "Observe", "Scale"] = Field(
        default="Off",
        description="Observe: load is recorded and forecast, and the status says what would be "
        "done. Scale: serving pods are started for it before it comes.",
    )
    requests_per_pod: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=None, description="Requests at a time, running and waiting, that one pod is for."
    )
    max_replicas: Annotated[int, Field(ge=1, le=10000)] | None = Field(
        default=None, description="Most serving pods that a forecast asks for."
    )
    season: Literal["Day", "Week"] = Field(
        default="Day",
        description="The cycle in which load repeats itself: told apart in steps of 5 minutes "
        "with Day, of 30 minutes with Week.",
    )


class ForecastStatus(StrictBase):
    time: Time = Field(description="When it was made.")
    load: Annotated[int, Field(ge=0, le=MAX_LOAD)] | None = Field(
        default=None, description="Requests at a time, running and waiting, in the last step."
    )
    expected_load: Annotated[int, Field(ge=0, le=MAX_LOAD)] | None = Field(
        default=None, description="The most that is expected until pods that start now are warm."
    )
    pods: Count | None = Field(default=None, description="Serving pods that it needs.")
    followed: bool = Field(default=False, description="Whether it was good enough to be followed.")
    samples: Count = Field(default=0, description="Forecasts that were compared with what came.")
    error_pods: Annotated[str, Field(max_length=16)] | None = Field(
        default=None, description="By how many pods they were wrong on average."
    )
    schedule_error_pods: Annotated[str, Field(max_length=16)] | None = Field(
        default=None, description="The same of spec.replicas and spec.schedule."
    )
    naive_error_pods: Annotated[str, Field(max_length=16)] | None = Field(
        default=None, description="The same of the load one season before."
    )

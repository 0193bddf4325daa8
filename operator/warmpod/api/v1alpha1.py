"""`warmpod.io/v1alpha1`: the fields of a WarmModel.

The CRD is generated from these models. Rules for change:

* A default, once released, stays: it is part of what revisions are computed from.
* A new field needs a default or must be optional; revisions leave out what equals its default, so
  that a new field restarts no engine.
* Every string, list, map and number has a bound: the API server needs them to accept the CEL rules.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from warmpod.api.base import (
    Form,
    ItemName,
    StrictBase,
    keyed,
    rule,
    rules,
)
from warmpod.api.compile_cache import CompileCache
from warmpod.api.cost import Cost
from warmpod.api.engine import Engine
from warmpod.api.forecast import Forecast
from warmpod.api.pod import Pod
from warmpod.api.rollout import Rollout
from warmpod.api.schedule import MAX_ENTRIES, ScheduleEntry
from warmpod.api.sources import ModelSource
from warmpod.api.standby import Standby
from warmpod.api.warmup import Warmup
from warmpod.api.weights import Weights

MAX_NAME_LENGTH = 50
"""Leaves room below 63 for what is added to it in the names of children and in labels."""

SERVICE_NAME_PATTERN = "^[a-z]([-a-z0-9]*[a-z0-9])?$"


class Model(ModelSource):
    served_name: (
        Annotated[
            str,
            Field(min_length=1, max_length=128),
            Form(
                r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*$",
                "model.servedName has letters, digits and . _ - between its slashes, and begins "
                "with a letter or digit, also after a slash: use for example "
                "meta-llama/Llama-3.1-8B",
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="Name under which clients ask for the model, and the last part of its path, "
        "/models/<servedName>. Default: the name of the WarmModel.",
    )


class AdditionalModel(ModelSource):
    """What the engine reads beside the model: a draft model, an adapter, a tokenizer."""

    name: ItemName = Field(
        description="Last part of its path, /models/<name>, which engine.args may name."
    )


ProfileName = Literal["HighThroughput", "MultiModel", "Serverless", "CostSaving"]


def _is_remote(model: str) -> str:
    return "(" + " || ".join(f"has({model}.{kind})" for kind in ("huggingFace", "s3", "http")) + ")"


class WarmModelSpec(StrictBase):
    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.engine.volumeMounts) || self.engine.volumeMounts.all(m, "
                "has(self.pod.volumes) && self.pod.volumes.exists(v, v.name == m.name))",
                "engine.volumeMounts: each name must be the name of a volume of pod.volumes",
            ),
            rule(
                f"!has(self.weights.staging) || {_is_remote('self.model')} || "
                "(has(self.additionalModels) && self.additionalModels.exists(m, "
                f"{_is_remote('m')}))",
                "weights.staging is for downloads: leave it out where no model has the source "
                "huggingFace, s3 or http",
            ),
        )
    )

    replicas: Annotated[int, Field(ge=0, le=10000)] = Field(
        default=1,
        description="Serving pods. Leave it out where an autoscaler sets it.",
    )
    profile: ProfileName | None = Field(
        default=None,
        description="What the model is for, as a set of defaults for the engine, standby and "
        "compileCache; what is stated wins. HighThroughput: many requests at once. MultiModel: "
        "several models or adapters that share GPUs. Serverless: load that comes and goes. "
        "CostSaving: as few GPUs as possible. Default: none.",
    )
    model: Model = Field(description="The model to serve.")
    additional_models: Annotated[tuple[AdditionalModel, ...], Field(max_length=16)] = Field(
        default=(),
        description="What the engine reads beside the model, each at /models/<name>: a draft "
        "model, adapters, a tokenizer.",
        json_schema_extra=keyed("name"),
    )
    weights: Weights = Field(default=Weights(), description="How the weights are kept in memory.")
    engine: Engine = Field(description="The inference engine.")
    warmup: Warmup = Field(
        default=Warmup(), description="How an engine is exercised before it takes traffic."
    )
    compile_cache: CompileCache = Field(
        default=CompileCache(), description="Where compiled kernels are kept."
    )
    standby: Standby = Field(
        default=Standby(), description="Warm pods that are held back for the next scale-out."
    )
    schedule: Annotated[tuple[ScheduleEntry, ...], Field(max_length=MAX_ENTRIES)] = Field(
        default=(),
        description="When more pods are kept than replicas and standby ask for.",
        json_schema_extra=keyed("name"),
    )
    forecast: Forecast = Field(
        default=Forecast(), description="Pods for load that has not come yet."
    )
    rollout: Rollout = Field(
        default=Rollout(), description="How a new revision takes the place of the one before."
    )
    cost: Cost = Field(default=Cost(), description="What a GPU costs.")
    pod: Pod = Field(
        default=Pod(), description="Scheduling, volumes and security, as in a PodSpec."
    )

    @property
    def models(self) -> tuple[ModelSource, ...]:
        """The model first."""
        return (self.model, *self.additional_models)

    @property
    def has_downloads(self) -> bool:
        return any(model.remote is not None for model in self.models)

    @property
    def staging_claim(self) -> str | None:
        """The claim that downloads are put into; None: there are none, or they are put on the
        node's disk."""
        staging = self.weights.staging
        if staging is None or not self.has_downloads:
            return None
        return staging.persistent_volume_claim.claim_name

"""`spec.weights`: how the weights are kept in memory."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from warmpod.api.base import (
    Quantity,
    StrictBase,
    rule,
    rules,
)
from warmpod.api.sources import Claim
from warmpod.quantity import to_bytes


class Staging(StrictBase):
    persistent_volume_claim: Claim = Field(
        description="A volume that all nodes can mount and write (ReadWriteMany): downloads are "
        "then made once a cluster."
    )


Loader = Literal[
    "Auto", "Multithread", "RunaiStreamer", "FastSafetensors", "ShardedState", "Tensorizer"
]


class Weights(StrictBase):
    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.medium == 'Image' || has(self.size)",
                "weights.size is needed for the media NodeMemory and PodMemory: set it to the "
                "size of all weight files, for example 17Gi",
                reason="FieldValueRequired",
            )
        )
    )

    medium: Literal["Image", "NodeMemory", "PodMemory"] = Field(
        default="Image",
        description="Where engines read the weights from. Image: the files where they lie on "
        "disk, held in the page cache. NodeMemory: one copy a node in a tmpfs that its engines "
        "share (needs hostPath). PodMemory: one copy a pod in a memory volume.",
        json_schema_extra=rules(
            rule(
                "self == oldSelf",
                "weights.medium cannot be changed: make a new WarmModel with the other medium "
                "and delete this one",
            )
        ),
    )
    size: Quantity | None = Field(
        default=None,
        description="Size of the weight files of all models together, as a quantity such as 17Gi. "
        "It is the memory that is reserved for them. Needed for NodeMemory and PodMemory; with "
        "Image it makes the reservation exact.",
        json_schema_extra=rules(
            rule(
                "!isQuantity(string(self)) || quantity(string(self)).isGreaterThan(quantity('0'))",
                "weights.size must be more than 0: set it to the size of all weight files, for "
                "example 17Gi",
            ),
        ),
    )
    staging: Staging | None = Field(
        default=None,
        description="Where downloads of huggingFace, s3 and http are put. Default: the node's "
        "disk, /var/lib/warmpod/weights (needs hostPath).",
    )
    scrub_seconds: Annotated[int, Field(ge=600, le=31536000)] | None = Field(
        default=None,
        description="Read all files again and compare them with their digests, once in so many "
        "seconds. Default: never; files that change are noticed all the same.",
    )
    loader: Loader = Field(
        default="Auto",
        description="How vLLM reads the weights. Auto: as it does by itself. The others are given "
        "to it as --load-format or --model-loader-extra-config where the engine image has what "
        "they need; else the engine starts as with Auto, and the start-up timeline says why. An "
        "argument of engine.args about loading wins.",
    )

    @model_validator(mode="after")
    def _size_is_usable(self) -> Self:
        """The same as the CEL rules: the builders compute with the size."""
        if self.medium != "Image" and self.size is None:
            raise ValueError(f"size is needed for the medium {self.medium}")
        if self.size is not None and to_bytes(self.size) <= 0:
            raise ValueError("size must be more than 0")
        return self

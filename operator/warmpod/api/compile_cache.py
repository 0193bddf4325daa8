"""Where what engines compile is kept."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import ConfigDict, Field, model_validator

from warmpod.api.base import ImageReference, Quantity, StrictBase, rule, rules
from warmpod.quantity import to_bytes

DEFAULT_SIZE = "20Gi"
"""A compiled model takes from tens of MB to a few GB, and each change of a setting adds one."""


class CompileCache(StrictBase):
    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "(has(self.store) && self.store == 'Image') || !has(self.image)",
                "compileCache.image is for the store Image: set compileCache.store to Image, or "
                "leave compileCache.image out",
            ),
            rule(
                "!has(self.store) || self.store != 'Image' || has(self.image)",
                "compileCache.image is needed for the store Image: set it to an image that "
                "`kubectl warm cache push` made",
                reason="FieldValueRequired",
            ),
            rule(
                "(has(self.store) && self.store == 'Node') || !has(self.size)",
                "compileCache.size is for the store Node: set compileCache.store to Node, or leave "
                "compileCache.size out",
            ),
        )
    )

    store: Literal["None", "Pod", "Node", "Image"] = Field(
        default="Pod",
        description="Where compiled kernels are kept. None: where the engine puts them. Pod: in "
        "a volume of the pod, so that they survive the engine's death. Node: on the node's disk "
        "too, so that the next pod of this WarmModel there finds them (needs hostPath). Image: "
        "pods start with what an image brings.",
    )
    size: Quantity | None = Field(
        default=None,
        description="Most that a node's store may hold, as a quantity such as 20Gi, the default. "
        "What was used least recently is removed first.",
        json_schema_extra=rules(
            rule(
                "!isQuantity(string(self)) || quantity(string(self)).isGreaterThan(quantity('0'))",
                "compileCache.size must be more than 0: set it to a quantity such as 20Gi",
            ),
        ),
    )
    image: ImageReference | None = Field(
        default=None,
        description="Image with compiled kernels, as `kubectl warm cache push` makes it. A tag is "
        "resolved once a revision; it is prefetched like all images.",
    )

    @property
    def most_bytes(self) -> int:
        """Most that a node's store may hold."""
        return to_bytes(self.size if self.size is not None else DEFAULT_SIZE)

    @model_validator(mode="after")
    def _fits_the_store(self) -> Self:
        """The same as the CEL rules: the builders rely on it."""
        if (self.store == "Image") != (self.image is not None):
            raise ValueError("image is needed for the store Image, and for no other")
        if self.size is not None and (self.store != "Node" or to_bytes(self.size) <= 0):
            raise ValueError("size must be more than 0, and is for the store Node only")
        return self

"""What all models of the resource share, and the marks that the CRD generator understands.

The models are validated strictly and from JSON: what the API server accepted is taken as it is,
nothing is coerced.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, core_schema


class StrictBase(BaseModel):
    """Unknown fields are errors: a misspelt field must never be ignored in silence."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        alias_generator=to_camel,
        populate_by_name=True,
        ser_json_inf_nan="null",
    )


def rules(*validations: dict[str, str]) -> dict[str, Any]:
    """Schema marks for CEL rules, each made by `rule`."""
    return {"x-kubernetes-validations": list(validations)}


def rule(expression: str, message: str, *, reason: str = "FieldValueInvalid") -> dict[str, str]:
    """One CEL rule; the message names the field and the remedy."""
    return {"rule": expression, "message": message, "reason": reason}


@dataclass(frozen=True)
class Form:
    """How a text must look, and what is said of one that does not: field and remedy.

    A rule in place of a pattern: the API server would answer with the pattern, and nothing else.
    """

    pattern: str
    message: str
    also: tuple[dict[str, str], ...] = field(default=(), hash=False)
    """Further rules of the field; those of `json_schema_extra` would take the place of this one."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        own = rule(f"self.matches(r'{self.pattern}')", self.message)
        return handler(schema) | rules(own, *self.also)

    def _checked(self, text: str) -> str:
        if re.fullmatch(self.pattern, text) is None:
            raise ValueError(self.message)
        return text


ATOMIC: dict[str, Any] = {"x-kubernetes-list-type": "atomic"}
"""A list that one owner writes as a whole; order matters."""


def keyed(*keys: str) -> dict[str, Any]:
    """A list whose items are told apart by these fields; duplicates are refused."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


SubdomainName = Annotated[
    str,
    Field(min_length=1, max_length=253),
    Form(
        r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
        "names of objects have lower case letters, digits, dashes and dots, and begin and end with "
        "a letter or digit: use the name as `kubectl get` shows it",
    ),
]
NAME = Form(
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    "names here have lower case letters, digits and dashes, and begin and end with a letter or "
    "digit: use for example day-1",
)
ItemName = Annotated[str, Field(min_length=1, max_length=40), NAME]
"""Of an item of a list whose items are told apart by it."""
_QUANTITY_LENGTH = 32
# Kubernetes reckons in 64 bits and does not notice an overflow: one pod with a memory limit of 1e99
# left a whole node with less than nothing to give (measured). So the magnitude is bounded here, to
# about a petabyte: fewer digits before larger units.
_MAGNITUDES = {15: "[num]?", 12: "k|Ki", 9: "M|Mi", 6: "G|Gi", 3: "T|Ti", 1: "P|Pi"}
_WITH_UNIT = "|".join(
    rf"([0-9]{{1,{digits}}}(\.[0-9]{{0,9}})?|\.[0-9]{{1,9}})({units})"
    for digits, units in _MAGNITUDES.items()
)
_WITH_EXPONENT = r"[0-9]{1,3}(\.[0-9]{0,9})?[eE]([+]?(1[0-2]|[0-9])|-[0-9])"
QUANTITY_PATTERN = rf"^({_WITH_UNIT}|{_WITH_EXPONENT})$"

ImageReference = Annotated[
    str,
    Field(min_length=1, max_length=512),
    Form(
        r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$",
        "image references have letters, digits and . _ : / @ -, and begin with a letter or digit: "
        "use for example registry.example.com/models/llama:1",
    ),
]
"""The form only keeps out spaces and control characters; the registry judges the rest."""


# No Form, because it may be a number too.
_IS_QUANTITY = rule(
    f"string(self).matches(r'{QUANTITY_PATTERN}')",
    "quantities are not negative, below 10P, and have one of the units m, k, M, G, T, P, Ki, Mi, "
    "Gi, Ti, Pi, or none: use 16Mi or 16M for 16MB, and 500m for half a processor",
)


def _checked_quantity(value: object) -> object:
    """One check for both types, so that an error names the field and not a branch of a union."""
    known = isinstance(value, int | str) and not isinstance(value, bool)
    text = str(value) if known else ""
    if len(text) <= _QUANTITY_LENGTH and re.fullmatch(QUANTITY_PATTERN, text):
        return value
    raise ValueError("not a quantity such as 2, 500m or 17Gi")


Quantity = Annotated[
    int | str,
    BeforeValidator(_checked_quantity),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "maxLength": _QUANTITY_LENGTH,
            **rules(_IS_QUANTITY),
        }
    ),
]

Opaque = Annotated[
    dict[str, Any],
    WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
]
"""A Kubernetes structure that is copied into the pod unread; the API server judges it there."""

LabelMap = Annotated[
    dict[str, Annotated[str, Field(max_length=63)]],
    Field(max_length=64),
]
ResourceMap = Annotated[dict[str, Quantity], Field(max_length=32)]

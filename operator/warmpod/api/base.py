"""What all models of the resource share, and the marks that the CRD generator understands.

The models are validated strictly and from JSON: what the API server accepted is taken as it is,
nothing is coerced.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel


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


ATOMIC: dict[str, Any] = {"x-kubernetes-list-type": "atomic"}
"""A list that one owner writes as a whole; order matters."""


def keyed(*keys: str) -> dict[str, Any]:
    """A list whose items are told apart by these fields; duplicates are refused."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


SubdomainName = Annotated[
    str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
]
NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
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
    str, Field(min_length=1, max_length=512, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$")
]
"""The pattern only keeps out spaces and control characters; the registry judges the rest."""


# A rule in place of a pattern: the API server would answer with the pattern, and nothing else.
IS_QUANTITY = rule(
    f"type(self) == int || string(self).matches(r'{QUANTITY_PATTERN}')",
    "quantities are below 10P and have one of the units m, k, M, G, T, P, Ki, Mi, Gi, Ti, Pi, "
    "or none: use 16Mi or 16M for 16MB, and 500m for half a processor",
)


def _checked_quantity(value: object) -> object:
    """One check for both types, so that an error names the field and not a branch of a union."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    text = isinstance(value, str) and len(value) <= _QUANTITY_LENGTH
    if whole or (text and re.fullmatch(QUANTITY_PATTERN, str(value))):
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
            **rules(IS_QUANTITY),
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

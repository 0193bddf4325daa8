"""A WarmModel as the operator sees it: identity and spec, read tolerantly."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from warmpod.api.profiles import expanded
from warmpod.api.v1alpha1 import MAX_NAME_LENGTH, SERVICE_NAME_PATTERN, WarmModelSpec


class InvalidSpec(ValueError):
    """The object cannot be used; `path` is the field, `message` what is wrong and the remedy.

    The API server refuses nearly all such objects. What remains are objects of another version of
    the CRD and objects stored before a rule existed.
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message


@dataclass(frozen=True)
class WarmModel:
    name: str
    namespace: str
    uid: str
    generation: int
    deleting: bool
    spec: WarmModelSpec
    """With what its profile fills in."""

    @property
    def served_name(self) -> str:
        """What clients call the model, and where it is mounted below /models."""
        return self.spec.model.served_name or self.name

    @classmethod
    def parse(cls, obj: Mapping[str, Any]) -> WarmModel:
        """Read an object of the API server; raises InvalidSpec and nothing else."""
        metadata = obj.get("metadata")
        if not isinstance(metadata, Mapping):
            raise InvalidSpec("metadata", "is missing: apply the object again")
        generation = metadata.get("generation", 0)
        return cls(
            name=_name(metadata),
            namespace=_identity(metadata, "namespace"),
            uid=_identity(metadata, "uid"),
            generation=generation if isinstance(generation, int) else 0,
            deleting=bool(metadata.get("deletionTimestamp")),
            spec=expanded(_parse_spec(obj.get("spec"))),
        )


def _identity(metadata: Mapping[str, Any], field: str) -> str:
    value = metadata.get(field)
    if not isinstance(value, str) or not value:
        raise InvalidSpec(f"metadata.{field}", "is missing: apply the object again")
    return value


def _name(metadata: Mapping[str, Any]) -> str:
    name = _identity(metadata, "name")
    if len(name) > MAX_NAME_LENGTH or not re.fullmatch(SERVICE_NAME_PATTERN, name):
        raise InvalidSpec(
            "metadata.name",
            f"cannot be the name of a Service: make a new WarmModel whose name has at most "
            f"{MAX_NAME_LENGTH} lower case letters, digits and dashes and starts with a letter",
        )
    return name


def _parse_spec(spec: object) -> WarmModelSpec:
    if not isinstance(spec, Mapping):
        raise InvalidSpec("spec", "is missing: set spec.model and spec.engine")
    try:
        # From JSON, because strict validation of Python objects wants tuples, not lists.
        return WarmModelSpec.model_validate_json(json.dumps(spec, allow_nan=False))
    except ValidationError as error:
        raise _invalid_spec(error) from error
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidSpec("spec", f"is not valid JSON ({error}): apply it again") from error


def _invalid_spec(error: ValidationError) -> InvalidSpec:
    first = error.errors(include_url=False, include_input=False)[0]
    path = "spec" + "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]
    )
    if first["type"] == "extra_forbidden":
        return InvalidSpec(
            path,
            "is not known to this version of the operator: remove the field or upgrade the "
            "operator to the version of the installed CRD",
        )
    if first["type"] == "missing":
        return InvalidSpec(path, "is missing: set it")
    more = error.error_count() - 1
    rest = f" ({more} more after it)" if more else ""
    problem = first["msg"].removeprefix("Value error, ")
    return InvalidSpec(path, f"{problem}: correct the field{rest}")

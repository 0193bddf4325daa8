"""Structured outputs: what a request constrains its answer to, and an answer that fits."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine_sim.errors import bad, invalid
from engine_sim.patterns import matching
from engine_sim.words import Draws

KINDS = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")
# How deep made-up JSON goes before optional parts are left out.
DEPTH = 6


@dataclass(frozen=True)
class Constraint:
    """One constraint; `text` is its canonical form, by which grammars are told apart."""

    kind: str
    text: str

    def fitting(self, draws: Draws) -> str:
        """An answer that fits."""
        if self.kind == "json_object":
            return json.dumps({"answer": " ".join(draws.words(5))})
        if self.kind == "json":
            return json.dumps(instance(json.loads(self.text), draws))
        if self.kind == "choice":
            return str(draws.choose(json.loads(self.text)))
        if self.kind == "regex":
            return matching(self.text, draws)
        return _first_literal(self.text)


def of_request(body: Mapping[str, Any]) -> Constraint | None:
    """The constraint of a request; raises RequestError for more than one, or for a broken one."""
    wanted = body.get("structured_outputs") or {}
    kinds = [kind for kind in KINDS if wanted.get(kind) is not None]
    if len(kinds) > 1:
        raise invalid(
            "You can only use one kind of constraints for structured outputs "
            "('json', 'regex' or 'choice').",
            "structured_outputs",
        )
    found = _of_structured(wanted, kinds[0]) if kinds else _of_format(body.get("response_format"))
    if found is not None:
        _check(found)
    return found


def _of_structured(wanted: Mapping[str, Any], kind: str) -> Constraint | None:
    value = wanted[kind]
    if kind == "json_object":
        return Constraint(kind, "") if value else None
    if kind == "json" and isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as broken:
            raise bad(f"Invalid JSON schema: {broken}") from broken
    return Constraint(kind, value if kind in ("regex", "grammar") else _canonical(value))


def _of_format(wanted: Mapping[str, Any] | None) -> Constraint | None:
    if wanted is None or wanted.get("type") == "text":
        return None
    if wanted.get("type") == "json_object":
        return Constraint("json_object", "")
    if wanted.get("type") == "json_schema":
        schema = (wanted.get("json_schema") or {}).get("schema")
        if schema is None:
            raise invalid(
                "When response_format type is 'json_schema', the 'json_schema' field must be "
                "provided.",
                "response_format",
            )
        return Constraint("json", _canonical(schema))
    return Constraint("structural_tag", _canonical(wanted))


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _check(constraint: Constraint) -> None:
    """vLLM compiles the grammar before it takes the request."""
    try:
        constraint.fitting(Draws(""))
    except (ValueError, TypeError, LookupError, AttributeError) as broken:
        raise bad(f"Failed to convert the grammar from {constraint.kind}: {broken}") from broken


def instance(schema: Any, draws: Draws, root: Any = None, depth: int = 0) -> Any:
    """A value that fits a JSON schema, as far as its usual keywords go."""
    root = schema if root is None else root
    if not isinstance(schema, dict):
        return "value"
    if "$ref" in schema:
        return instance(_resolve(schema["$ref"], root), draws, root, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draws.choose(schema["enum"])
    for keyword in ("anyOf", "oneOf", "allOf"):
        if keyword in schema:
            return instance(schema[keyword][0], draws, root, depth + 1)
    return _of_type(schema, draws, root, depth)


def _of_type(schema: Mapping[str, Any], draws: Draws, root: Any, depth: int) -> Any:
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return _object(schema, draws, root, depth)
    if kind == "array":
        count = max(schema.get("minItems", 0), min(1, schema.get("maxItems", 1)))
        items = schema.get("items", {"type": "string"})
        return [instance(items, draws, root, depth + 1) for _ in range(count)]
    if kind in ("integer", "number"):
        low = schema.get("minimum", 0)
        high = schema.get("maximum", low + 100)
        return low + draws.below(max(1, int(high - low) + 1))
    if kind == "boolean":
        return draws.below(2) == 1
    return None if kind == "null" else _string(schema, draws)


def _object(schema: Mapping[str, Any], draws: Draws, root: Any, depth: int) -> Any:
    properties = schema.get("properties") or {}
    names = schema.get("required", []) if depth > DEPTH else properties
    return {name: instance(properties.get(name, {}), draws, root, depth + 1) for name in names}


def _string(schema: Mapping[str, Any], draws: Draws) -> str:
    if "pattern" in schema:
        return matching(schema["pattern"], draws)
    made = " ".join(draws.words(2))
    made = made.ljust(schema.get("minLength", 0), ".")
    return made[: schema.get("maxLength", len(made))]


def _resolve(reference: str, root: Any) -> Any:
    found = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        found = found[step] if step else found
    return found


def _first_literal(grammar: str) -> str:
    """The first quoted text of a grammar; which rules lead to it is not looked at."""
    found = re.search(r'"([^"]+)"', grammar)
    return found.group(1) if found else "text"

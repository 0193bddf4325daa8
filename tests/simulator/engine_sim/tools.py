"""Tool calls: which function a request makes the model call, if any."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine_sim.arguments import Arguments
from engine_sim.constraints import instance
from engine_sim.errors import bad, invalid
from engine_sim.words import Draws


@dataclass(frozen=True)
class ToolCall:
    """A call that the answer consists of. `named`: the client asked for this very function."""

    name: str
    schema: Mapping[str, Any]
    named: bool

    def arguments(self, draws: Draws) -> str:
        """Its arguments as JSON."""
        return json.dumps(instance(self.schema, draws))


def wanted_call(body: Mapping[str, Any], prompt: str, arguments: Arguments) -> ToolCall | None:
    """The call of a request's answer; raises RequestError.

    With `auto` the simulated model calls a function whose name is in the prompt."""
    tools = {tool["function"]["name"]: tool["function"] for tool in body.get("tools") or []}
    choice = body.get("tool_choice") or ("auto" if tools else "none")
    if body.get("tools") == []:
        raise invalid(
            "`tools` must not be an empty array. Either provide at least one tool or omit the "
            "field entirely.",
            "tools",
        )
    if choice == "none":
        return None
    if not tools:
        raise invalid("When using `tool_choice`, `tools` must be set.", "tool_choice")
    _check_parser(choice, arguments)
    if isinstance(choice, dict):
        return _call(tools, choice["function"]["name"], named=True)
    if choice == "required":
        return _call(tools, next(iter(tools)), named=False)
    spoken = next((name for name in tools if name in prompt), None)
    return _call(tools, spoken, named=False) if spoken else None


def _check_parser(choice: object, arguments: Arguments) -> None:
    if choice == "auto" and not arguments.auto_tools:
        raise bad(
            '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
        )
    if arguments.tool_parser is None:
        name = choice["function"]["name"] if isinstance(choice, dict) else None
        described = f'function "{name}"' if name else f'"{choice}"'
        raise bad(f"tool_choice={described} requires --tool-call-parser to be set")


def _call(tools: Mapping[str, Any], name: str, named: bool) -> ToolCall:
    if name not in tools:
        raise invalid(
            "The tool specified in `tool_choice` does not match any of the specified `tools`",
            "tool_choice",
        )
    schema = tools[name].get("parameters") or {"type": "object", "properties": {}}
    return ToolCall(name, schema, named)

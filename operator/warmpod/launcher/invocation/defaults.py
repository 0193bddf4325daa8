"""What a profile adds to the engine, where its vLLM has it and the image does not say otherwise.

Which arguments and variables, the operator has decided; it cannot see into the image.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from warmpod.launcher.console import say
from warmpod.launcher.invocation.command import Command, with_options
from warmpod.launcher.invocation.installed import installed

# Where vLLM defines its options, and the variables that it reads: 0.26 to 0.33.
_SOURCES = ("engine/arg_utils.py", "envs.py")


@dataclass(frozen=True)
class Defaults:
    """Each argument with its values as words of their own; variables by name."""

    arguments: Sequence[Sequence[str]]
    environment: Mapping[str, str]


def read_defaults(text: str) -> Defaults:
    """Raises ValueError."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")
    arguments, environment = found.get("arguments", []), found.get("environment", {})
    if not isinstance(arguments, list) or not all(map(_is_argument, arguments)):
        raise ValueError("arguments is not a list of lists of texts")
    if not isinstance(environment, dict) or not all(map(_is_text, environment.values())):
        raise ValueError("environment is not an object of texts")
    return Defaults(arguments, environment)


def with_defaults(command: Command, defaults: Defaults) -> Command:
    """Arguments go before the user's own, which win. Says what is left out, and why."""
    engine = installed(_SOURCES)
    left_out: dict[str, str] = {}
    words: list[str] = []
    for argument in defaults.arguments:
        option = argument[0].partition("=")[0]
        if lack := engine.lack(_quoted(option)):
            left_out[option] = lack
        else:
            words += argument
    variables: dict[str, str] = {}
    for name, value in defaults.environment.items():
        if name in command.environment:
            left_out[name] = f"the engine image sets it to {command.environment[name]!r}"
        elif lack := engine.lack(_quoted(name)):
            left_out[name] = lack
        else:
            variables[name] = value
    for name, why in left_out.items():
        say(f"{name} of spec.profile is left out: {why}")
    added = [*words, *(f"{name}={value}" for name, value in variables.items())]
    return replace(
        command,
        argv=with_options(command.argv, *words),
        environment={**command.environment, **variables},
        facts={"defaults": {"added": added, "left_out": left_out}},
    )


def _quoted(name: str) -> str:
    """As vLLM's source has it: a name may be the beginning of another one."""
    return f'"{name}"'


def _is_argument(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_text, value))


def _is_text(value: object) -> bool:
    return isinstance(value, str)

"""A tolerant reader of engine arguments.

The arguments stay what they are: an ordered list of raw strings that is passed on untouched. This
reader only looks for the few things that the operator must know. It never raises, whatever the
strings are; what it cannot read stays at its default, and an explicit field of the spec says it.

What only a config file says (`--config`) is not seen, nor is what a script computes.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from warmpod.api.engine import EnvVar
from warmpod.engine.nonexistent import UnknownArgument, find_unknown
from warmpod.engine.options import (
    DATA,
    LOADING,
    PIPELINE,
    SPECULATIVE,
    TENSOR,
    Option,
    json_of,
    known_options,
    normalised,
    pairs,
)
from warmpod.engine.traits import EngineTraits, read_traits

#: $(NAME), as the kubelet expands it in commands, arguments and values of variables.
REFERENCE = re.compile(r"\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")
_SCRIPT = re.compile(r"\bvllm\s+serve\b|\bvllm\.entrypoints\.")
_SHELL_OPERATORS = frozenset({"&&", "||", ";", "|", "&"})


@dataclass(frozen=True)
class EngineFacts:
    """What the arguments say; a value that they do not state is None, or 1 for the sizes."""

    port: int | None = None
    served_names: tuple[str, ...] = ()
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    api_key_set: bool = False
    api_key_argument: str | None = field(default=None, repr=False)
    tls: bool = False
    draft_model: str | None = None
    config_file: str | None = None
    uds: str | None = None
    loading: str | None = None
    """The first option that says how weights are loaded."""
    unknown: tuple[UnknownArgument, ...] = ()
    traits: EngineTraits = field(default_factory=EngineTraits)


def read(command: Sequence[str], args: Sequence[str], env: Sequence[EnvVar]) -> EngineFacts:
    """What the engine's arguments and environment say about it."""
    variables = {variable.name: variable.value for variable in env}
    words = _read_words(command, args, variables)
    options = list(known_options(words))
    last = {option.name: option.values for option in options if not option.entry and option.values}
    first_values = {name: values[0] for name, values in last.items()}
    return EngineFacts(
        port=_integer(first_values.get("--port"), 65535),
        served_names=tuple(name for name in last.get("--served-model-name", ()) if name),
        tensor_parallel=_integer(first_values.get(TENSOR)) or 1,
        pipeline_parallel=_integer(first_values.get(PIPELINE)) or 1,
        data_parallel=_integer(first_values.get(DATA)) or 1,
        api_key_set="--api-key" in last or _is_set("VLLM_API_KEY", variables),
        api_key_argument=first_values.get("--api-key"),
        tls="--ssl-certfile" in last or "--ssl-keyfile" in last,
        draft_model=_draft_model(options),
        config_file=first_values.get("--config"),
        uds=first_values.get("--uds"),
        loading=next((option.name for option in options if option.name in LOADING), None),
        unknown=find_unknown((normalised(word), value) for word, value in pairs(words)),
        traits=read_traits(options),
    )


def options_of(args: Sequence[str], env: Sequence[EnvVar]) -> list[Option]:
    """The options among the arguments of `vllm serve` that something here reads."""
    return list(known_options(_read_words((), args, {each.name: each.value for each in env})))


def _read_words(
    command: Sequence[str], args: Sequence[str], variables: Mapping[str, str | None]
) -> list[str]:
    return [_expanded(word, variables) for word in _engine_words(command, args, variables)]


def _is_set(name: str, variables: Mapping[str, str | None]) -> bool:
    """A variable without a literal value comes from a Secret or the like, so it counts as set."""
    return name in variables and variables[name] != ""


def _engine_words(
    command: Sequence[str], args: Sequence[str], variables: Mapping[str, str | None]
) -> list[str]:
    words: list[str] = []
    for word in (*command, *args):
        words.extend(_script_words(word) if _SCRIPT.search(word) else [word])
    additional = variables.get("VLLM_ADDITIONAL_ARGS")
    if command and additional:
        # vLLM does not read it, but start scripts of several serving stacks put it in front.
        return _split(additional) + words
    return words


def _script_words(script: str) -> list[str]:
    """The words of the vLLM command line in a shell script."""
    match = _SCRIPT.search(script)
    line = script[match.end() :] if match else script
    words: list[str] = []
    for word in _split(line):
        if word in _SHELL_OPERATORS:
            break
        words.append(word)
    return words


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # unbalanced quotes: better read roughly than not at all
        return line.split()


def _expanded(word: str, variables: Mapping[str, str | None]) -> str:
    """Expand $(NAME) as the kubelet does, where the value is known here."""

    def value(match: re.Match[str]) -> str:
        known = variables.get(match.group(1))
        return match.group(0) if known is None else known

    return REFERENCE.sub(value, word)


def _integer(text: str | None, maximum: int = 2**20) -> int | None:
    try:
        value = int(text or "")
    except ValueError:
        return None
    return value if 1 <= value <= maximum else None


def _draft_model(options: Sequence[Option]) -> str | None:
    """The last word on the draft model: a JSON value, an entry of it, or an option of its own."""
    model: str | None = None
    for option in options:
        if option.name in ("--speculative-model", "--spec-model") and option.value:
            model = option.value
        elif option.name == SPECULATIVE and option.entry == "model":
            model = option.value or model
        elif option.name == SPECULATIVE and not option.entry:
            model = _model_of_json(option.value) or model
    return model


def _model_of_json(text: str) -> str | None:
    value = json_of(text)
    model = value.get("model") if isinstance(value, dict) else None
    return model if isinstance(model, str) and model else None

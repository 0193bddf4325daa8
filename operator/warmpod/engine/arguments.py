"""A tolerant reader of engine arguments.

The arguments stay what they are: an ordered list of raw strings that is passed on untouched. This
reader only looks for the few things that the operator must know. It never raises, whatever the
strings are; what it cannot read stays at its default, and an explicit field of the spec says it.

It follows vLLM's own parser: underscores count as dashes, an option may be shortened to any prefix
that fits one option only, and `--speculative-config.model x` is one entry of the JSON value.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from warmpod.api.v1alpha1 import EnvVar
from warmpod.engine.nonexistent import UnknownArgument, find_unknown

_TENSOR = "--tensor-parallel-size"
_PIPELINE = "--pipeline-parallel-size"
_DATA = "--data-parallel-size"
_SPECULATIVE = "--speculative-config"
_READ = frozenset(
    {
        _TENSOR,
        _PIPELINE,
        _DATA,
        _SPECULATIVE,
        "--api-key",
        "--config",
        "--port",
        "--runner",
        "--served-model-name",
        "--speculative-model",
        "--ssl-certfile",
        "--ssl-keyfile",
        "--task",
        "--uds",
    }
)
_NEIGHBOURS = frozenset(
    {
        "--allow-credentials",
        "--api-server-count",
        "--calculate-kv-scales",
        "--chat-template",
        "--code-revision",
        "--collect-detailed-traces",
        "--compilation-config",
        "--config-format",
        "--convert",
        "--cpu-offload-gb",
        "--data-parallel-address",
        "--data-parallel-backend",
        "--data-parallel-external-lb",
        "--data-parallel-hybrid-lb",
        "--data-parallel-multi-port-external-lb",
        "--data-parallel-rank",
        "--data-parallel-rpc-port",
        "--data-parallel-size-local",
        "--data-parallel-start-rank",
        "--data-parallel-supervisor-port",
        "--disable-log-stats",
        "--download-dir",
        "--dtype",
        "--pooler-config",
        "--prefix-caching-hash-algo",
        "--reasoning-parser",
        "--response-role",
        "--revision",
        "--root-path",
        "--safetensors-load-strategy",
        "--scheduler-cls",
        "--scheduler-reserve-full-isl",
        "--scheduling-policy",
        "--seed",
        "--ssl-ca-certs",
        "--ssl-cert-reqs",
        "--ssl-ciphers",
        "--ssl-keyfile-password",
        "--tokenizer",
        "--tokenizer-mode",
        "--tokenizer-revision",
        "--tool-call-parser",
        "--trust-remote-code",
        "--uvicorn-log-level",
    }
)
"""vLLM's options that begin like one of ours, so that a prefix of both is not taken for ours."""

_ALIASES = {"-tp": _TENSOR, "-pp": _PIPELINE, "-dp": _DATA, "-sc": _SPECULATIVE}
_NEGATIVE_NUMBER = re.compile(r"^-\d+(\.\d*)?$")
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
    task: str | None = None
    draft_model: str | None = None
    config_file: str | None = None
    uds: str | None = None
    unknown: tuple[UnknownArgument, ...] = ()


@dataclass(frozen=True)
class _Option:
    name: str
    entry: str  # what follows the dot in --speculative-config.model, else ""
    values: tuple[str, ...]


def read(command: Sequence[str], args: Sequence[str], env: Sequence[EnvVar]) -> EngineFacts:
    """What the engine's arguments and environment say about it."""
    variables = {variable.name: variable.value for variable in env}
    words = [_expanded(word, variables) for word in _engine_words(command, args, variables)]
    options = list(_options(words))
    last = {option.name: option.values for option in options if not option.entry and option.values}
    first_values = {name: values[0] for name, values in last.items()}
    return EngineFacts(
        port=_integer(first_values.get("--port"), 65535),
        served_names=tuple(name for name in last.get("--served-model-name", ()) if name),
        tensor_parallel=_integer(first_values.get(_TENSOR)) or 1,
        pipeline_parallel=_integer(first_values.get(_PIPELINE)) or 1,
        data_parallel=_integer(first_values.get(_DATA)) or 1,
        api_key_set="--api-key" in last or _is_set("VLLM_API_KEY", variables),
        api_key_argument=first_values.get("--api-key"),
        tls="--ssl-certfile" in last or "--ssl-keyfile" in last,
        task=first_values.get("--task") or first_values.get("--runner"),
        draft_model=_draft_model(options),
        config_file=first_values.get("--config"),
        uds=first_values.get("--uds"),
        unknown=find_unknown((_normalised(word), value) for word, value in _pairs(words)),
    )


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


def _is_option(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and not _NEGATIVE_NUMBER.match(word)


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each option as written, with the values that follow it or stand behind its `=`."""
    for index, word in enumerate(words):
        if word == "--":
            return
        if not _is_option(word):
            continue
        name, equals, value = word.partition("=")
        yield name, (value,) if equals else tuple(_until_option(words[index + 1 :]))


def _until_option(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        if _is_option(word):
            return
        yield word


def _options(words: Sequence[str]) -> Iterator[_Option]:
    for written, values in _pairs(words):
        head, _, entry = written.partition(".")
        name = _resolve(_normalised(head))
        if name:
            yield _Option(name, entry, values)


def _normalised(written: str) -> str:
    head, dot, entry = written.partition(".")
    return (head.replace("_", "-") if head.startswith("--") else head) + dot + entry


def _resolve(name: str) -> str | None:
    """The option that argparse would take a name for, if it is one that we read."""
    if name in _ALIASES:
        return _ALIASES[name]
    if name in _READ:
        return name
    if not name.startswith("--") or name in _NEIGHBOURS:
        return None
    fitting = [option for option in _READ | _NEIGHBOURS if option.startswith(name)]
    return fitting[0] if len(fitting) == 1 and fitting[0] in _READ else None


def _integer(text: str | None, maximum: int = 2**20) -> int | None:
    try:
        value = int(text or "")
    except ValueError:
        return None
    return value if 1 <= value <= maximum else None


def _draft_model(options: Sequence[_Option]) -> str | None:
    """The last word on the draft model: a JSON value, an entry of it, or the old option."""
    model: str | None = None
    for option in options:
        value = option.values[0] if option.values else ""
        if option.name == "--speculative-model" and value:
            model = value
        elif option.name == _SPECULATIVE and option.entry == "model":
            model = value or model
        elif option.name == _SPECULATIVE and not option.entry:
            model = _model_of_json(value) or model
    return model


def _model_of_json(text: str) -> str | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    model = value.get("model") if isinstance(value, dict) else None
    return model if isinstance(model, str) and model else None

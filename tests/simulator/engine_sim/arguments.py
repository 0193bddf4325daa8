"""The arguments of `vllm serve` that change what a client sees; others are ignored."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class LoraModule:
    """An adapter that is loaded before the server answers."""

    name: str
    path: str


@dataclass(frozen=True)
class Arguments:
    """What a simulated engine is told on its command line."""

    model: str
    served_names: tuple[str, ...]
    host: str = "0.0.0.0"
    port: int = 8000
    api_keys: tuple[str, ...] = ()
    ssl_keyfile: str | None = None
    ssl_certfile: str | None = None
    shutdown_timeout: float = 0  # seconds
    middleware: tuple[str, ...] = ()
    runner: str = "auto"
    convert: str = "auto"
    task: str = "auto"
    chat_template: str | None = None
    max_model_len: int = 2048
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    max_logprobs: int = 20
    prefix_caching: bool = True
    prompt_tokens_details: bool = False
    scheduling_policy: str = "fcfs"
    enforce_eager: bool = False
    sleep_mode: bool = False
    load_tracking: bool = False
    auto_tools: bool = False
    tool_parser: str | None = None
    reasoning_parser: str | None = None
    enable_lora: bool = False
    max_loras: int = 1
    lora_modules: tuple[LoraModule, ...] = ()
    generation_config: dict[str, Any] = field(default_factory=dict)


def parse_arguments(argv: Sequence[str], environment_key: str = "") -> Arguments:
    """Read the arguments after `serve`; unknown flags and their values are ignored.

    `environment_key` is VLLM_API_KEY, which an argument overrides."""
    parser = _parser()
    found, _ignored = parser.parse_known_args([_dashes(argument) for argument in argv])
    given = vars(found)
    model = given.pop("model_tag") or given.pop("model", None)
    given.pop("model", None)
    if model is None:
        parser.error("the model is missing: vllm serve MODEL [options]")
    if given.get("auto_tools") and not given.get("tool_parser"):
        raise TypeError("Error: --enable-auto-tool-choice requires --tool-call-parser")
    names = tuple(given.pop("served_names", None) or [model])
    given["api_keys"] = tuple(given.get("api_keys") or filter(None, [environment_key]))
    given["middleware"] = tuple(given.get("middleware", ()))
    given["lora_modules"] = tuple(map(_lora_module, given.get("lora_modules", ())))
    return Arguments(model=model, served_names=names, **given)


def _parser() -> argparse.ArgumentParser:
    """Flags that are not given are left out of the result, so that the class holds the defaults."""
    parser = argparse.ArgumentParser(
        prog="vllm serve", allow_abbrev=False, argument_default=argparse.SUPPRESS
    )
    parser.add_argument("model_tag", nargs="?", default=None)
    parser.add_argument("--model")
    _add_serving(parser)
    _add_engine(parser)
    return parser


def _add_serving(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--served-model-name", nargs="+", dest="served_names")
    add("--host")
    add("--port", type=int)
    add("--api-key", nargs="+", dest="api_keys")
    add("--ssl-keyfile")
    add("--ssl-certfile")
    add("--shutdown-timeout", type=float)
    add("--middleware", action="append")
    add("--chat-template")
    add("--enable-prompt-tokens-details", dest="prompt_tokens_details", action="store_true")
    add("--enable-server-load-tracking", dest="load_tracking", action="store_true")
    add("--enable-auto-tool-choice", dest="auto_tools", action="store_true")
    add("--tool-call-parser", dest="tool_parser")
    add("--lora-modules", nargs="+")


def _add_engine(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--runner", choices=["auto", "generate", "pooling", "draft"])
    add("--convert", choices=["auto", "none", "embed", "classify"])
    add("--task")
    add("--max-model-len", type=int)
    add("--max-num-seqs", type=int)
    add("--max-num-batched-tokens", type=int)
    add("--max-logprobs", type=int)
    add("--enable-prefix-caching", dest="prefix_caching", action=argparse.BooleanOptionalAction)
    add("--scheduling-policy", choices=["fcfs", "priority"])
    add("--enforce-eager", action="store_true")
    add("--enable-sleep-mode", dest="sleep_mode", action="store_true")
    add("--reasoning-parser")
    add("--enable-lora", action="store_true")
    add("--max-loras", type=int)
    add("--override-generation-config", dest="generation_config", type=json.loads)


def _lora_module(text: str) -> LoraModule:
    """`name=path`, or JSON with these two keys."""
    if text.startswith("{"):
        given = json.loads(text)
        return LoraModule(given["name"], given["path"])
    name, equals, path = text.partition("=")
    if not equals:
        raise ValueError(f"Invalid fields for --lora-modules: {text}")
    return LoraModule(name, path)


def _dashes(argument: str) -> str:
    """vLLM accepts underscores in the name of a flag (`--max_model_len`)."""
    if not argument.startswith("--"):
        return argument
    name, equals, value = argument.partition("=")
    return name.replace("_", "-") + equals + value

"""What a simulated engine is told: vLLM's arguments, and the knobs that only a simulator has."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine_sim.faults import NO_FAULT, Fault, parse_fault

VERSION = "0.32.0"


@dataclass(frozen=True)
class Arguments:
    """The arguments of `vllm serve` that change what a client sees; others are ignored."""

    model: str
    served_names: tuple[str, ...]
    host: str = "0.0.0.0"
    port: int = 8000
    api_key: str | None = None
    max_model_len: int = 2048
    max_num_seqs: int = 256
    ssl_keyfile: str | None = None
    ssl_certfile: str | None = None


@dataclass(frozen=True)
class Knobs:
    """How the simulated hardware behaves. Times are seconds."""

    load_seconds: float = 1.0
    first_seconds: float = 0.3
    token_seconds: float = 0.005
    cold_requests: int = 1
    fault: Fault = NO_FAULT


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """Read the arguments after `serve`; unknown flags and their values are ignored."""
    parser = argparse.ArgumentParser(prog="vllm serve", allow_abbrev=False)
    parser.add_argument("model_tag", nargs="?")
    parser.add_argument("--model")
    parser.add_argument("--served-model-name", nargs="+")
    parser.add_argument("--host", default=Arguments.host)
    parser.add_argument("--port", type=int, default=Arguments.port)
    parser.add_argument("--api-key")
    parser.add_argument("--max-model-len", type=int, default=Arguments.max_model_len)
    parser.add_argument("--max-num-seqs", type=int, default=Arguments.max_num_seqs)
    parser.add_argument("--ssl-keyfile")
    parser.add_argument("--ssl-certfile")
    found, _ignored = parser.parse_known_args([_dashes(argument) for argument in argv])
    model = found.model_tag or found.model
    if model is None:
        parser.error("the model is missing: vllm serve MODEL [options]")
    return Arguments(
        model=model,
        served_names=tuple(found.served_model_name or [model]),
        host=found.host,
        port=found.port,
        api_key=found.api_key,
        max_model_len=found.max_model_len,
        max_num_seqs=found.max_num_seqs,
        ssl_keyfile=found.ssl_keyfile,
        ssl_certfile=found.ssl_certfile,
    )


def _dashes(argument: str) -> str:
    """vLLM accepts underscores in the name of a flag (`--max_model_len`)."""
    if not argument.startswith("--"):
        return argument
    name, equals, value = argument.partition("=")
    return name.replace("_", "-") + equals + value


def read_knobs(environment: Mapping[str, str]) -> Knobs:
    """Read the SIM_* variables; what is not set keeps its default."""
    return Knobs(
        load_seconds=float(environment.get("SIM_LOAD_SECONDS", Knobs.load_seconds)),
        first_seconds=float(environment.get("SIM_FIRST_SECONDS", Knobs.first_seconds)),
        token_seconds=float(environment.get("SIM_TOKEN_SECONDS", Knobs.token_seconds)),
        cold_requests=int(environment.get("SIM_COLD_REQUESTS", Knobs.cold_requests)),
        fault=parse_fault(environment.get("SIM_FAULT", "none")),
    )

"""What a request asks of the sampler: checked as vLLM does, and what is slow about it at first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine_sim.arguments import Arguments
from engine_sim.errors import bad, invalid, malformed

MAX_COUNT = 16384


@dataclass(frozen=True)
class Sampling:
    """The parameters that change an answer."""

    temperature: float
    seed: int | None
    min_tokens: int
    ignore_eos: bool
    stop: tuple[str, ...]
    include_stop: bool
    # None: no logprobs; a number: so many alternatives for each token.
    logprobs: int | None
    prompt_logprobs: int | None
    count: int


def read_sampling(chat: bool, body: Mapping[str, Any], arguments: Arguments) -> Sampling:
    """Read and check; raises RequestError."""
    _check_numbers(body)
    stop = body.get("stop") or []
    sampling = Sampling(
        temperature=float(_or(body.get("temperature"), 1.0)),
        seed=body.get("seed"),
        min_tokens=body.get("min_tokens") or 0,
        ignore_eos=bool(body.get("ignore_eos")),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        include_stop=bool(body.get("include_stop_str_in_output")),
        logprobs=_chat_logprobs(body) if chat else body.get("logprobs"),
        prompt_logprobs=body.get("prompt_logprobs"),
        count=_or(body.get("n"), 1),
    )
    _check_choice(sampling, body)
    for kind, asked in (("sample", sampling.logprobs), ("prompt", sampling.prompt_logprobs)):
        if asked is not None and asked > arguments.max_logprobs:
            raise bad(
                f"Requested {kind} logprobs of {asked}, which is greater than max allowed: "
                f"{arguments.max_logprobs}"
            )
    return sampling


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _chat_logprobs(body: Mapping[str, Any]) -> int | None:
    top = body.get("top_logprobs") or 0
    if top and not body.get("logprobs"):
        raise invalid("when using `top_logprobs`, `logprobs` must be set to true.", "top_logprobs")
    return top if body.get("logprobs") else None


def _check_numbers(body: Mapping[str, Any]) -> None:
    """The ranges of vLLM's sampling parameters, with its messages."""
    for name in ("temperature", "top_p", "presence_penalty", "frequency_penalty", "min_p"):
        value = body.get(name)
        if value is not None and not isinstance(value, (int, float)):
            raise malformed("float_parsing", name, "Input should be a valid number", value)
    temperature = _or(body.get("temperature"), 1.0)
    if not math.isfinite(temperature) or temperature < 0:
        raise bad(f"temperature must be non-negative, got {float(temperature)}.", "temperature")
    if temperature > 2:
        raise bad(f"temperature must be in [0, 2], got {float(temperature)}.", "temperature")
    for name in ("presence_penalty", "frequency_penalty"):
        value = _or(body.get(name), 0.0)
        if not -2 <= value <= 2:
            raise bad(f"{name} must be in [-2, 2], got {float(value)}.")
    top_p = _or(body.get("top_p"), 1.0)
    if not 0 < top_p <= 1:
        raise bad(f"top_p must be in (0, 1], got {float(top_p)}.", "top_p")
    if not 0 <= _or(body.get("min_p"), 0.0) <= 1:
        raise bad(f"min_p must be in [0, 1], got {float(body['min_p'])}.")


def _check_choice(sampling: Sampling, body: Mapping[str, Any]) -> None:
    if not 1 <= sampling.count <= MAX_COUNT:
        raise bad(f"n must be at least 1, got {sampling.count}.")
    if sampling.count > 1 and sampling.temperature == 0:
        raise bad(f"n must be 1 when using greedy sampling, got {sampling.count}.")
    if any(not stop for stop in sampling.stop):
        raise bad("stop cannot contain an empty string.")
    if body.get("stream_options") and not body.get("stream"):
        raise invalid("Stream options can only be defined when `stream=True`.", "stream_options")
    if sampling.prompt_logprobs is not None and body.get("stream"):
        raise invalid("`prompt_logprobs` are not available when `stream=True`.", "prompt_logprobs")


def features(sampling: Sampling, body: Mapping[str, Any]) -> set[str]:
    """The sampler's families, each of which has kernels of its own."""
    checks = {
        "sampling": sampling.temperature > 0,
        "penalties": any(body.get(name) for name in ("presence_penalty", "frequency_penalty"))
        or _or(body.get("repetition_penalty"), 1.0) != 1.0,
        "logprobs": sampling.logprobs is not None,
    }
    return {name for name, used in checks.items() if used}


def fine_features(sampling: Sampling, body: Mapping[str, Any]) -> set[str]:
    """The families that only SIM_KERNEL_CLASSES=fine tells apart."""
    checks = {
        "top-k-top-p": bool(body.get("top_k")) or _or(body.get("top_p"), 1.0) < 1.0,
        "min-p": bool(body.get("min_p")),
        "seed": sampling.seed is not None,
        "bias": bool(body.get("logit_bias")),
        "min-tokens": sampling.min_tokens > 0,
        "prompt-logprobs": sampling.prompt_logprobs is not None,
        "parallel": sampling.count > 1,
    }
    return {name for name, used in checks.items() if used}

"""Arguments that people pass although no vLLM has them, and what does the job instead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class UnknownArgument:
    argument: str
    remedy: str

    def __str__(self) -> str:
        return f"spec.engine.args: {self.argument}: {self.remedy}"


_REMEDIES = {
    "--disable-flashinfer-autotune": "vLLM's log names it, but no vLLM has it: use "
    "--no-enable-flashinfer-autotune",
    "--enable-warmup-isolation": "no vLLM has it: remove it; warmpod warms every engine before it "
    "takes traffic",
    "--load-balancing-strategy": "no vLLM has it: remove it; the Service spreads requests, and a "
    "router in front of it can do more",
    "--preload-mode": "no vLLM has it: remove it; weights.medium keeps the weights in memory, and "
    "--safetensors-load-strategy=prefetch makes vLLM read ahead",
    "--preload-model": "no vLLM has it: remove it; a server has one base model, so make one "
    "WarmModel for each",
    "--scheduler": "no vLLM has it: use --scheduling-policy=fcfs or priority, or --scheduler-cls",
    "--warmup": "no vLLM has it: remove it; warmpod warms every engine as spec.warmup says",
    "--warmup-peer-connection": "no vLLM has it: remove it; peers connect at start-up or at the "
    "first transfer, which warm-up requests cause",
    "--warmup-rounds": "vllm serve does not have it: remove it; spec.warmup.maxRounds bounds the "
    "rounds of warm-up",
}
_UNKNOWN_VALUES = {
    ("--load-format", "sharded"): "is accepted by vLLM and fails when the weights are loaded: use "
    "sharded_state or runai_streamer_sharded",
}


def find_unknown(options: Iterable[tuple[str, tuple[str, ...]]]) -> tuple[UnknownArgument, ...]:
    """The options that no vLLM has, each once, in the order of their first use."""
    found: dict[str, str] = {}
    for name, values in options:
        if name in _REMEDIES:
            found.setdefault(name, _REMEDIES[name])
        elif values and (name, values[0]) in _UNKNOWN_VALUES:
            found.setdefault(f"{name}={values[0]}", _UNKNOWN_VALUES[name, values[0]])
    return tuple(UnknownArgument(argument, remedy) for argument, remedy in found.items())

"""The words of a command line as options, spelled in any way that vLLM's own parser takes.

Underscores count as dashes, an option may be shortened to any prefix that fits one option only, and
`--speculative-config.model x` is one entry of the JSON value. Nothing here raises.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from warmpod.commandline import cut

TENSOR = "--tensor-parallel-size"
PIPELINE = "--pipeline-parallel-size"
DATA = "--data-parallel-size"
SPECULATIVE = "--speculative-config"
COMPILATION = "--compilation-config"
CAPTURE_SIZES = "--cudagraph-capture-sizes"
MAX_CAPTURE_SIZE = "--max-cudagraph-capture-size"
PERFORMANCE_MODE = "--performance-mode"
MAX_LORAS = "--max-loras"
MAX_CPU_LORAS = "--max-cpu-loras"
MAX_NUM_SEQS = "--max-num-seqs"
GPU_MEMORY = ("--gpu-memory-utilization", "--device-memory-utilization")
"""The second is the same from vLLM 0.32 on."""
LOADING = ("--load-format", "--model-loader-extra-config", "--safetensors-load-strategy")

_READ = frozenset(
    {
        TENSOR,
        PIPELINE,
        DATA,
        SPECULATIVE,
        COMPILATION,
        CAPTURE_SIZES,
        MAX_CAPTURE_SIZE,
        PERFORMANCE_MODE,
        MAX_LORAS,
        MAX_CPU_LORAS,
        MAX_NUM_SEQS,
        *GPU_MEMORY,
        *LOADING,
        "--api-key",
        "--config",
        "--convert",
        "--enable-auto-tool-choice",
        "--enable-lora",
        "--enforce-eager",
        "--limit-mm-per-prompt",
        "--lora-modules",
        "--max-model-len",
        "--max-num-batched-tokens",
        "--max-logprobs",
        "--port",
        "--reasoning-parser",
        "--runner",
        "--scheduling-policy",
        "--served-model-name",
        "--spec-method",
        "--spec-model",
        "--spec-tokens",
        "--speculative-model",
        "--ssl-certfile",
        "--ssl-keyfile",
        "--task",
        "--tool-call-parser",
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
        "--config-format",
        "--cpu-offload-gb",
        "--cudagraph-metrics",
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
        "--device-ids",
        "--disable-log-stats",
        "--download-dir",
        "--dtype",
        "--enable-log-requests",
        "--enable-trace-replay",
        "--generation-config",
        "--linear-backend",
        "--lora-target-modules",
        "--max-lora-rank",
        "--max-num-scheduled-tokens",
        "--model",
        "--model-impl",
        "--pooler-config",
        "--prefix-caching-hash-algo",
        "--reasoning-parser-plugin",
        "--response-role",
        "--revision",
        "--root-path",
        "--safetensors-prefetch-num-threads",
        "--scheduler-cls",
        "--scheduler-reserve-full-isl",
        "--seed",
        "--ssl-ca-certs",
        "--ssl-cert-reqs",
        "--ssl-ciphers",
        "--ssl-keyfile-password",
        "--tokenizer",
        "--tokenizer-mode",
        "--tokenizer-revision",
        "--tool-strict-level",
        "--trust-remote-code",
        "--uvicorn-log-level",
    }
)
"""vLLM's options that begin like one of ours, so that a prefix of both is not taken for ours.
For each of ours, the one that is like it for longest is enough."""
_KNOWN = _READ | _NEIGHBOURS

_ALIASES = {"-tp": TENSOR, "-pp": PIPELINE, "-dp": DATA, "-sc": SPECULATIVE, "-cc": COMPILATION}


@dataclass(frozen=True)
class Option:
    name: str
    entry: str  # what follows the dot in --speculative-config.model, else ""
    values: tuple[str, ...]

    @property
    def value(self) -> str:
        """The first one; empty where there is none."""
        return self.values[0] if self.values else ""


def pairs(words: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each option as written, with the values that follow it or stand behind its `=`."""
    before_end = list(takewhile(lambda word: word != "--", words))
    for option in cut(before_end):
        yield option.name, option.following if option.value is None else (option.value,)


def known_options(words: Sequence[str]) -> Iterator[Option]:
    """The options that something here reads, in order."""
    for written, values in pairs(words):
        head, _, entry = written.partition(".")
        name = _resolve(normalised(head))
        if name:
            yield Option(name, entry, values)


def normalised(written: str) -> str:
    head, dot, entry = written.partition(".")
    return (head.replace("_", "-") if head.startswith("--") else head) + dot + entry


def json_of(text: str) -> Any:
    """None for what is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _resolve(name: str) -> str | None:
    """The option that argparse would take a name for, if it is one that we read."""
    if name in _ALIASES:
        return _ALIASES[name]
    if name in _READ:
        return name
    if not name.startswith("--") or name in _NEIGHBOURS:
        return None
    fitting = [option for option in _KNOWN if option.startswith(name)]
    return fitting[0] if len(fitting) == 1 and fitting[0] in _READ else None

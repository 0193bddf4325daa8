"""What of an engine's command line and environment decides whether compiled code can be reused.

Read for two reasons: so that pods with other settings do not share an entry that fits one of them
only, and to say what has changed. A setting that is listed here as ignored but decides after all
costs no more than a start that compiles: vLLM looks at its own key as well.

No value is kept, only its hash: a value may be a secret. The ignored ones are not even hashed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence

from warmpod.commandline import cut, leading

COMMAND = "command"
"""The words before the first option, among them the path of the weights."""

HASH_CHARACTERS = 16


def _any_of(patterns: str) -> re.Pattern[str]:
    """Matches a name that fits one of the words, which are regular expressions."""
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns.split()))


_RANKS = {
    "tensor-parallel-size": "tensor-parallel-size",
    "tp": "tensor-parallel-size",
    "pipeline-parallel-size": "pipeline-parallel-size",
    "pp": "pipeline-parallel-size",
    "data-parallel-size": "data-parallel-size",
    "dp": "data-parallel-size",
}

# Options that vLLM leaves out of its key (compute_hash() in vllm/config/*.py of 0.26 to 0.33), or
# that are its HTTP server's.
_IGNORED_OPTIONS = _any_of(
    """
    allow(ed)?-.* api-.* chat-template.* data-parallel-(?!size$).* device-memory-utilization
    disable-(log|uvicorn)-.*
    disable-(access-log-for-endpoints|fastapi-docs|frontend-multiprocessing)
    distributed-executor-backend download-dir dp[a-z]+ enable-(auto-tool-choice|flashinfer-autotune)
    enable-force-include-usage enable-log-.* enable-prefix-caching enable-prompt-tokens-details
    enable-request-id-headers enable-server-load-tracking enable-ssl-refresh
    enable-tokenizer-info-endpoint gpu-memory-utilization h11-.* hf-token host ignore-patterns
    kv-cache-memory-bytes kv-transfer-config load-format log-config-file logging-config master-.*
    max-log-len max-num-queued-reqs max-parallel-loading-workers middleware
    model-loader-extra-config node-rank otlp-.* port prefix-caching-hash-algo pt-load-map-location
    reasoning-parser.* response-role return-tokens-as-token-ids root-path safetensors-.* seed
    served-model-name shutdown-timeout ssl-.* tokenizer.* tool-.* uds use-tqdm-on-load uvicorn-.*
    """
)

# Variables that steer compilation.
_STEERING = _any_of("VLLM_.* TORCH.* PYTORCH_.* TRITON_.* FLASHINFER_.* DG_.* CUDA_HOME")
# Of those, places of caches, and what vLLM ignores itself: compile_factors() in vllm/envs.py of
# 0.33. Some of these differ from pod to pod.
_IGNORED_VARIABLES = _any_of(
    """
    DG_JIT_CACHE_DIR FLASHINFER_(CUBIN_DIR|JIT_VERBOSE|LOGLEVEL|WORKSPACE_BASE)
    TORCHINDUCTOR_CACHE_DIR TORCH_(HOME|LOGS) TRITON_(CACHE_DIR|HOME)
    VLLM_API_KEY VLLM_ASSETS_CACHE.* VLLM_CACHE_ROOT VLLM_CHAT_TEMPLATE_FUEL VLLM_CONFIG_ROOT
    VLLM_CPU_(KVCACHE_SPACE|MOE_PREPACK) VLLM_CUDA_COMPATIBILITY_PATH VLLM_DEBUG_.*
    VLLM_DO_NOT_TRACK VLLM_DP_MASTER_.* VLLM_ELASTIC_EP_SCALE_UP_LAUNCH
    VLLM_ENABLE_(CUDA_COMPATIBILITY|STARTUP_PLAN|V1_MULTIPROCESSING)
    VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS VLLM_FLASHINFER_AUTOTUNE_.* VLLM_FORCE_AOT_LOAD VLLM_HOST_IP
    VLLM_HTTP_.* VLLM_(IMAGE|AUDIO|VIDEO)_FETCH_TIMEOUT VLLM_KEEP_ALIVE_ON_ENGINE_DEATH
    VLLM_LOG(GING)?_.* VLLM_MAX_(AUDIO|EMBED_DECODE|IMAGE|MEDIA)_.* VLLM_MEDIA_.*
    VLLM_MODEL_REDIRECT_PATH VLLM_NIXL_SIDE_CHANNEL_HOST VLLM_NO_USAGE_STATS
    VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME VLLM_PORT VLLM_RANDOMIZE_DP_DUMMY_INPUTS
    VLLM_RAY_BUNDLE_INDICES VLLM_REQUEST_BODY_LOG_LEVEL VLLM_RINGBUFFER_WARNING_INTERVAL
    VLLM_RPC_BASE_PATH VLLM_SERVER_DEV_MODE VLLM_SKIP_(MODEL_NAME_VALIDATION|VERSION_SUFFIX)
    VLLM_TEST_FORCE_LOAD_FORMAT VLLM_TRITON_JIT_WARMUP_NUM_THREADS VLLM_TUNED_CONFIG_FOLDER
    VLLM_USAGE_STATS_SERVER VLLM_USE_MODELSCOPE VLLM_V1_OUTPUT_PROC_CHUNK_SIZE
    VLLM_VIDEO_LOADER_BACKEND VLLM_WORKER_.* VLLM_XLA_CACHE_PATH VLLM_ZENTORCH_WEIGHT_PREPACK
    """
)


def arguments(argv: Sequence[str]) -> dict[str, str]:
    """Hash of the values of each option, by its name without dashes; the words before the first
    one are COMMAND. Options that no key of vLLM holds, and the sizes of `ranks`, are left out.

    The order of options does not count, that of the values of one option does.
    """
    values: dict[str, list[str]] = {}
    sizes = _sizes(argv)
    for name, given in _options(argv):
        if not _ignored(name) and _RANKS.get(name) not in sizes:
            values.setdefault(name, []).extend(given)
    return {name: _hash(*given) for name, given in sorted(values.items())}


def ranks(argv: Sequence[str]) -> dict[str, int]:
    """The parallel sizes that are given as numbers above 1."""
    return {name: size for name, size in sorted(_sizes(argv).items()) if size > 1}


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Hash of the value of each variable that steers compilation."""
    return {name: _hash(value) for name, value in sorted(variables.items()) if _steers(name)}


def _sizes(argv: Sequence[str]) -> dict[str, int]:
    return {
        _RANKS[name]: int(given[0])
        for name, given in _options(argv)
        if name in _RANKS and len(given) == 1 and given[0].isdecimal()
    }


def _steers(name: str) -> bool:
    return bool(_STEERING.fullmatch(name)) and not _IGNORED_VARIABLES.fullmatch(name)


def _ignored(name: str) -> bool:
    head = name.partition(".")[0]
    return _IGNORED_OPTIONS.fullmatch(head.removeprefix("no-")) is not None


def _options(argv: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each option with all words that are its values, or would be if it took so many."""
    yield COMMAND, list(leading(argv))
    for option in cut(argv):
        behind = [] if option.value is None else [option.value]
        yield _normalised(option.name), [*behind, *option.following]


def _normalised(written: str) -> str:
    """vLLM takes underscores in the name of an option, but not in what follows its first dot."""
    head, dot, entry = written.lstrip("-").partition(".")
    return head.replace("_", "-") + dot + entry


def _hash(*values: str) -> str:
    data = b"\0".join(value.encode("utf-8", "surrogateescape") for value in values)
    return hashlib.sha256(data).hexdigest()[:HASH_CHARACTERS]

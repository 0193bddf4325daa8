"""What the engine's log lines mean: start-up stages, late compilations and known failures.

Pure. The texts are those of vLLM 0.26 to 0.33. A line is first searched for a fixed piece of text,
because a regular expression on every line of a busy server costs CPU that the engine needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

LINE_CHARACTERS = 300
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Stage:
    """A start-up stage was passed; `seconds` and `detail` are what the line says about it."""

    name: str
    seconds: float | None = None
    detail: str | None = None


@dataclass(frozen=True)
class LateCompile:
    """A kernel was compiled while a request waited for it."""

    kernel: str


@dataclass(frozen=True)
class Slept:
    """A worker has given memory of its GPU back; it still holds `held_gib`."""

    freed_gib: float
    held_gib: float


@dataclass(frozen=True)
class Failure:
    """A line that names the cause of an engine's death, or that only follows from a cause.

    `depth` is 0 for a cause; a failure follows from those of its own depth and less.
    """

    reason: str
    line: str
    depth: int = 0


Finding = Stage | LateCompile | Slept | Failure


@dataclass(frozen=True)
class _StageRule:
    name: str
    text: str
    pattern: re.Pattern[str]


def _stage(name: str, text: str, pattern: str) -> _StageRule:
    return _StageRule(name, text, re.compile(pattern))


# Groups named `seconds` and `detail` go into the event.
_STAGES = (
    _stage("version", "version", r"version (?P<detail>\d+\.\d+\.[^\s,]+)(?:$|, serving model)"),
    _stage("args", "non-default args: ", r"non-default args: (?P<detail>.*)"),
    _stage("config", "Using max model len", r"Using max model len (?P<detail>\d+)"),
    _stage(
        "engine_start",
        "Initializing a V1 LLM engine",
        r"Initializing a V1 LLM engine \(v(?P<detail>[^)]+)\)",
    ),
    _stage("dist", "world_size=", r"(?P<detail>world_size=\d+ rank=\d+) local_rank=\d+"),
    _stage("load_start", "oad", r"Starting to load model |Loading model from scratch"),
    _stage("weights", "Loading weights took", r"Loading weights took (?P<seconds>[\d.]+) seconds"),
    _stage(
        "model_loaded",
        "Model loading took",
        r"Model loading took (?P<detail>[\d.]+ GiB)(?: memory)? and (?P<seconds>[\d.]+) seconds",
    ),
    _stage(
        "aot_hit",
        "Directly load AOT compilation",
        r"Directly load AOT compilation from path (?P<detail>\S+)",
    ),
    _stage(
        "aot_fail",
        "Compiling model again due to a load failure",
        r"Compiling model again due to a load failure from \S+, reason: (?P<detail>.*)",
    ),
    _stage("compile", "torch.compile took", r"torch\.compile took (?P<seconds>[\d.]+) s in total"),
    _stage(
        "compile_nonaot",
        "torch.compile and initial profiling",
        r"torch\.compile and initial profiling/warmup run together took (?P<seconds>[\d.]+) s",
    ),
    _stage(
        "profile",
        "Initial profiling/warmup run took",
        r"Initial profiling/warmup run took (?P<seconds>[\d.]+) s",
    ),
    _stage("kv_size", "KV cache size: ", r"(?:GPU|CPU) KV cache size: (?P<detail>[\d,]+ tokens)"),
    _stage(
        "jit",
        "JIT kernel warmup",
        r"JIT kernel warmup (?P<detail>finished|failed) (?:in|after) (?P<seconds>[\d.]+)s",
    ),
    _stage("graphs_start", "Capturing ", r"Capturing (?:[\w -]+ )?CUDA graphs\b"),
    _stage(
        "graphs",
        "Graph capturing finished",
        r"Graph capturing finished in (?P<seconds>[\d.]+) secs, took (?P<detail>-?[\d.]+ GiB)",
    ),
    _stage(
        "engine_ready",
        "init engine (profile",
        r"init engine \(profile, create kv cache, warmup model\) took (?P<seconds>[\d.]+) s"
        r"(?: \((?P<detail>compilation: .*)\))?",
    ),
    _stage("http", "Starting vLLM server on", r"Starting vLLM server on (?P<detail>\S+)"),
    _stage("ready", "Application startup complete.", r"Application startup complete\."),
)

_LATE_COMPILE_TEXT = "kernel JIT compilation during inference: "
_LATE_COMPILE = re.compile(
    r"(?:Triton|CuTeDSL|TileLang) kernel JIT compilation during inference: "
    r"(?P<kernel>\S+?)\.(?:\s|$)"
)

# One line a worker (v1/worker/gpu_worker.py).
_SLEPT_TEXT = "Sleep mode freed "
_SLEPT = re.compile(
    r"Sleep mode freed (?P<freed>[\d.]+) GiB memory, (?P<held>[\d.]+) GiB memory is still in use"
)


# These lines hold the words of users, which may be any text of the rules: of a prompt, an answer, a
# stop word, a body that was refused.
_OF_REQUESTS = (
    "Received request ",
    " details: prompt: ",
    " JSON body: ",
    "Generated response ",
    "response_body={",
    "Input prompt: ",
    "Received messages request ",
    "Convert to OpenAI request ",
    " failed (bad request): ",
    "Chat template rejected the request: ",
)


@dataclass(frozen=True)
class _FailureRule:
    reason: str
    texts: tuple[str, ...]
    depth: int = 0


# The first rule that fits a line wins.
_FAILURES = (
    _FailureRule("OutOfMemoryInWeights", ("Failed to load model - not enough GPU memory",)),
    _FailureRule(
        "OutOfMemory",
        (
            "CUDA out of memory",
            "OutOfMemoryError",
            "HIP out of memory",
            "XPU out of memory",
            "CUDA error: out of memory",
            "HIP error: out of memory",
            "CUBLAS_STATUS_ALLOC_FAILED",
            "DefaultCPUAllocator: can't allocate memory",
            "is less than desired CPU memory utilization",
        ),
    ),
    _FailureRule(
        "KVCacheTooSmall",
        (
            "No available memory for the cache blocks",
            "is larger than the maximum number of tokens that can be stored in KV cache",
            "larger than the available KV cache memory",
        ),
    ),
    _FailureRule("GpuBusy", ("is less than desired GPU memory utilization",)),
    _FailureRule("ContextTooLong", ("is greater than the derived max_model_len",)),
    _FailureRule(
        "NotEnoughGpus",
        (
            "is larger than the number of available GPUs",
            "Tensor parallel size may exceed available GPUs",
            "You don't have enough GPUs available in a current node",
            "CUDA error: invalid device ordinal",
            "HIP error: invalid device ordinal",
            "DP adjusted local rank ",
        ),
    ),
    _FailureRule("ParallelSizeMismatch", ("must be divisible by tensor parallel size",)),
    _FailureRule(
        "UnsupportedQuantization",
        (
            "Unknown quantization method: ",
            "is not supported for the current GPU. Minimum capability",
            "quantization is currently not supported in ",
            "Quantization method specified in the model config (",
        ),
    ),
    _FailureRule(
        "RemoteCodeNeeded",
        (
            "consider setting `trust_remote_code=True`",
            "Please pass the argument `trust_remote_code=True`",
        ),
    ),
    _FailureRule(
        "UnsupportedArgument",
        (
            "error: unrecognized arguments:",
            "error: ambiguous option:",
            "error: argument ",
            "error: the following arguments are required:",
            "ValueError: Load format `",
        ),
    ),
    _FailureRule(
        "GatedModel",
        (
            "403 Client Error",
            "Client error '403 Forbidden'",
            "you are not in the authorized list",
            "is awaiting a review from the repo authors",
        ),
    ),
    _FailureRule(
        "MissingToken",
        (
            "401 Client Error",
            "Client error '401 Unauthorized'",
            "You must have access to it and be authenticated to access it",
        ),
    ),
    # It is said for both; the lines around it tell which.
    _FailureRule(
        "MissingToken",
        ("GatedRepoError", "You are trying to access a gated repo", "is a gated repository"),
        depth=1,
    ),
    _FailureRule(
        "ModelNotFound",
        (
            "Invalid repository ID or local directory specified",
            "is not a local folder and is not a valid model identifier",
            "is not a local folder or a valid repository name",
            "does not appear to have a file named",
            "does not appear to have files named",
            "Repo id must be in the form",
            "Repo id must use alphanumeric chars",
            "Cannot find any model weights with",
            "We couldn't connect to 'https://",
            "in the disk cache and outgoing traffic has been disabled",
            "offline mode is enabled. To disable it, please unset the `HF_HUB_OFFLINE`",
        ),
    ),
    _FailureRule("WeightsDamaged", ("SafetensorError", "Error while deserializing header")),
    _FailureRule(
        "UnsupportedModel",
        (
            "are not supported for now. Supported architectures:",
            "is not supported in-tree anymore",
            "but Transformers does not recognize this architecture",
        ),
    ),
    # Not "Address already in use" alone: vLLM says that, too, when it tries another port.
    _FailureRule("PortInUse", ("[Errno 98]", "address already in use")),
    _FailureRule(
        "DriverMismatch",
        (
            "The NVIDIA driver on your system is too old",
            "CUDA driver version is insufficient for CUDA runtime version",
            "forward compatibility was attempted on non supported HW",
            "system has unsupported display driver / cuda driver combination",
            "the provided PTX was compiled with an unsupported toolchain",
        ),
    ),
    # A driver that does not fit shows no GPU either.
    _FailureRule(
        "NoGpu",
        (
            "No CUDA GPUs are available",
            "No HIP GPUs are available",
            "Failed to infer device type",
            "no NVIDIA GPU detected",
            "Found no NVIDIA driver on your system",
        ),
        depth=1,
    ),
    _FailureRule(
        "UnsupportedGpu",
        (
            "no kernel image is available for execution on the device",
            "Bfloat16 is only supported on GPUs with compute capability",
        ),
    ),
    # vLLM's own libraries, built for another torch or another CUDA.
    _FailureRule(
        "EngineImageMismatch",
        (
            "_C.abi3.so: undefined symbol: ",
            "_C_stable_libtorch.abi3.so: undefined symbol: ",
            "ImportError: libcudart.so.1",
        ),
    ),
    _FailureRule(
        "SharedMemoryTooSmall",
        (
            "Error while creating shared memory segment",
            "insufficient shared memory (shm)",
            "unable to allocate shared memory(shm) for file",
            "unable to resize file </torch_",
        ),
    ),
    _FailureRule("DiskFull", ("No space left on device",)),
    # One rank's death breaks the connections of the others.
    _FailureRule(
        "NcclFailed",
        (
            "RuntimeError: NCCL error: ",
            "DistBackendError: NCCL error in: ",
            "ncclUnhandledCudaError",
            "ncclSystemError",
            "ncclInternalError",
            "ncclInvalidUsage",
            "ncclRemoteError",
        ),
        depth=1,
    ),
    _FailureRule(
        "WorkerDied",
        ("died unexpectedly, shutting down executor", "died unexpectedly (exit code: "),
        depth=1,
    ),
    # What pydantic says of a setting that does not fit, where nothing above knows it.
    _FailureRule("UnsupportedArgument", ("[type=value_error, input_value=ArgsKwargs(",), depth=1),
    _FailureRule(
        "EngineStartFailed",
        (
            "EngineCore failed to start.",
            "WorkerProc failed to start.",
            "Engine core initialization failed.",
        ),
        depth=2,
    ),
)


FAILURE_REASONS = frozenset(rule.reason for rule in _FAILURES)


def clean(line: str) -> str:
    """The line without terminal colours, at most LINE_CHARACTERS long."""
    return _COLOURS.sub("", line).rstrip()[:LINE_CHARACTERS]


def findings(line: str) -> Iterator[Finding]:
    """What one line of the engine's output says; nothing if a user may have written it."""
    text = _COLOURS.sub("", line).rstrip()
    for finding in _search(text):
        if not any(piece in text for piece in _OF_REQUESTS):
            yield finding


def _search(text: str) -> Iterator[Finding]:
    stage = _find_stage(text)
    if stage is not None:
        yield stage
        return
    if _LATE_COMPILE_TEXT in text:
        late = _LATE_COMPILE.search(text)
        if late is not None:
            yield LateCompile(late["kernel"][:LINE_CHARACTERS])
            return
    if _SLEPT_TEXT in text:
        yield from _find_slept(text)
        return
    for rule in _FAILURES:
        if any(piece in text for piece in rule.texts):
            yield Failure(rule.reason, clean(text), rule.depth)
            return


def _number(digits: str | None) -> float | None:
    """None also for dots that are no number: anybody may write a line that looks like vLLM's, for
    example into a prompt that is logged."""
    try:
        return None if digits is None else float(digits)
    except ValueError:
        return None


def _find_slept(text: str) -> Iterator[Slept]:
    found = _SLEPT.search(text)
    if found is None:
        return
    freed, held = _number(found["freed"]), _number(found["held"])
    if freed is not None and held is not None:
        yield Slept(freed, held)


def _find_stage(text: str) -> Stage | None:
    for rule in _STAGES:
        if rule.text not in text:
            continue
        found = rule.pattern.search(text)
        if found is not None:
            groups = found.groupdict()
            seconds, detail = groups.get("seconds"), groups.get("detail")
            return Stage(
                rule.name,
                _number(seconds),
                detail[:LINE_CHARACTERS] if detail is not None else None,
            )
    return None

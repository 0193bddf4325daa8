"""The known causes of an engine's death, by the engine's own words. Pure.

The texts are those of vLLM 0.26 to 0.33, and of what it runs on.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FailureRule:
    """A line with one of the texts tells this reason; `depth` is that of a Failure."""

    reason: str
    texts: tuple[str, ...]
    depth: int = 0


# The first rule that fits a line wins.
_RULES = (
    FailureRule("OutOfMemoryInWeights", ("Failed to load model - not enough GPU memory",)),
    FailureRule(
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
    FailureRule(
        "KVCacheTooSmall",
        (
            "No available memory for the cache blocks",
            "is larger than the maximum number of tokens that can be stored in KV cache",
            "larger than the available KV cache memory",
        ),
    ),
    FailureRule("GpuBusy", ("is less than desired GPU memory utilization",)),
    FailureRule("ContextTooLong", ("is greater than the derived max_model_len",)),
    FailureRule(
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
    FailureRule("ParallelSizeMismatch", ("must be divisible by tensor parallel size",)),
    FailureRule(
        "UnsupportedQuantization",
        (
            "Unknown quantization method: ",
            "is not supported for the current GPU. Minimum capability",
            "quantization is currently not supported in ",
            "Quantization method specified in the model config (",
        ),
    ),
    FailureRule(
        "RemoteCodeNeeded",
        (
            "consider setting `trust_remote_code=True`",
            "Please pass the argument `trust_remote_code=True`",
        ),
    ),
    FailureRule(
        "UnsupportedArgument",
        (
            "error: unrecognized arguments:",
            "error: ambiguous option:",
            "error: argument ",
            "error: the following arguments are required:",
            "ValueError: Load format `",
        ),
    ),
    FailureRule(
        "GatedModel",
        (
            "403 Client Error",
            "Client error '403 Forbidden'",
            "you are not in the authorized list",
            "is awaiting a review from the repo authors",
        ),
    ),
    FailureRule(
        "MissingToken",
        (
            "401 Client Error",
            "Client error '401 Unauthorized'",
            "You must have access to it and be authenticated to access it",
        ),
    ),
    # It is said for both; the lines around it tell which.
    FailureRule(
        "MissingToken",
        ("GatedRepoError", "You are trying to access a gated repo", "is a gated repository"),
        depth=1,
    ),
    FailureRule(
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
    FailureRule("WeightsDamaged", ("SafetensorError", "Error while deserializing header")),
    FailureRule(
        "UnsupportedModel",
        (
            "are not supported for now. Supported architectures:",
            "is not supported in-tree anymore",
            "but Transformers does not recognize this architecture",
        ),
    ),
    # Not "Address already in use" alone: vLLM says that, too, when it tries another port.
    FailureRule("PortInUse", ("[Errno 98]", "address already in use")),
    FailureRule(
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
    FailureRule(
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
    FailureRule(
        "UnsupportedGpu",
        (
            "no kernel image is available for execution on the device",
            "Bfloat16 is only supported on GPUs with compute capability",
        ),
    ),
    # vLLM's own libraries, built for another torch or another CUDA.
    FailureRule(
        "EngineImageMismatch",
        (
            "_C.abi3.so: undefined symbol: ",
            "_C_stable_libtorch.abi3.so: undefined symbol: ",
            "ImportError: libcudart.so.1",
        ),
    ),
    FailureRule(
        "SharedMemoryTooSmall",
        (
            "Error while creating shared memory segment",
            "insufficient shared memory (shm)",
            "unable to allocate shared memory(shm) for file",
            "unable to resize file </torch_",
        ),
    ),
    FailureRule("DiskFull", ("No space left on device",)),
    # One rank's death breaks the connections of the others.
    FailureRule(
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
    FailureRule(
        "WorkerDied",
        ("died unexpectedly, shutting down executor", "died unexpectedly (exit code: "),
        depth=1,
    ),
    # What pydantic says of a setting that does not fit, where nothing above knows it.
    FailureRule("UnsupportedArgument", ("[type=value_error, input_value=ArgsKwargs(",), depth=1),
    FailureRule(
        "EngineStartFailed",
        (
            "EngineCore failed to start.",
            "WorkerProc failed to start.",
            "Engine core initialization failed.",
        ),
        depth=2,
    ),
)

REASONS = frozenset(rule.reason for rule in _RULES)


def rule_for(text: str) -> FailureRule | None:
    """The rule that a line without colours fits, if there is one."""
    for rule in _RULES:
        if any(piece in text for piece in rule.texts):
            return rule
    return None

"""What the launcher makes of an engine's last words. The texts are the engines' own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from warmpod import reasons
from warmpod.launcher.events import EventLog
from warmpod.launcher.log.failures import REASONS
from warmpod.launcher.log.output import Listener
from warmpod.launcher.log.stages import Failure, findings

VALIDATION = (
    "[type=value_error, input_value=ArgsKwargs((), {'model': '/m'}), input_type=ArgsKwargs]"
)
UVICORN = 'INFO:     10.0.0.7:51016 - "GET /v1/models HTTP/1.1" '
DRIVER = (
    "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions "
    "before calling NumCudaDevices() that might have already set an error? "
)
WEIGHTS_DO_NOT_FIT = (
    "Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization to free "
    "memory for weights (original error: CUDA out of memory. Tried to allocate 224.00 MiB.)"
)
OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has"

LINES = [
    (OUT_OF_MEMORY, "OutOfMemory"),
    ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 64.00 MiB", "OutOfMemory"),
    ("torch.AcceleratorError: CUDA error: out of memory", "OutOfMemory"),
    (
        "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy "
        "requests. Please try lowering `max_num_seqs`",
        "OutOfMemory",
    ),
    (
        "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't "
        "allocate memory: you tried to allocate 1073741824 bytes.",
        "OutOfMemory",
    ),
    (
        "ValueError: Available memory on node 0 (1.2/7.8 GiB) on startup is less than desired CPU "
        "memory utilization (0.92, 7.2 GiB).",
        "OutOfMemory",
    ),
    (WEIGHTS_DO_NOT_FIT, "OutOfMemoryInWeights"),
    ("ValueError: No available memory for the cache blocks.", "KVCacheTooSmall"),
    (
        "ValueError: To serve at least one request with the model's max seq len (131072), (16.0 "
        "GiB KV cache is needed, which is larger than the available KV cache memory (9.1 GiB).",
        "KVCacheTooSmall",
    ),
    (
        "ValueError: Free memory on device cuda:0 (1.0/139.8 GiB) on startup is less than "
        "desired GPU memory utilization (0.9, 125.8 GiB).",
        "GpuBusy",
    ),
    (
        "  Value error, User-specified max_model_len (4096) is greater than the derived "
        "max_model_len (max_position_embeddings=2048 or model_max_length=None in model's "
        f"config.json). {VALIDATION}",
        "ContextTooLong",
    ),
    (
        "  Value error, World size (2) is larger than the number of available GPUs (1) in this "
        f"node. If this is intentional and you are using: {VALIDATION}",
        "NotEnoughGpus",
    ),
    ("torch.AcceleratorError: CUDA error: invalid device ordinal", "NotEnoughGpus"),
    (
        "AssertionError: DP adjusted local rank 1 is out of bounds for 1 devices.",
        "NotEnoughGpus",
    ),
    (
        "  Value error, Total number of attention heads (12) must be divisible by tensor parallel "
        f"size (8). {VALIDATION}",
        "ParallelSizeMismatch",
    ),
    (
        "ValueError: Unknown quantization method: awq2. Must be one of ['awq', 'fp8'].",
        "UnsupportedQuantization",
    ),
    (
        "ValueError: The quantization method fp8 is not supported for the current GPU. Minimum "
        "capability: 75. Current capability: 70.",
        "UnsupportedQuantization",
    ),
    ("ValueError: awq quantization is currently not supported in cpu.", "UnsupportedQuantization"),
    (
        "Value error, Quantization method specified in the model config (gptq) does not match the "
        f"quantization method specified in the `quantization` argument (awq). {VALIDATION}",
        "UnsupportedQuantization",
    ),
    (
        "RuntimeError: Failed to load the tokenizer. If the tokenizer is a custom tokenizer not "
        "yet available in the HuggingFace transformers library, consider setting "
        "`trust_remote_code=True` in LLM or using the `--trust-remote-code` flag in the CLI.",
        "RemoteCodeNeeded",
    ),
    (
        "Please pass the argument `trust_remote_code=True` to allow custom code to be run.",
        "RemoteCodeNeeded",
    ),
    ("vllm: error: unrecognized arguments: --preload-model", "UnsupportedArgument"),
    (
        "vllm serve: error: ambiguous option: --scheduler could match --scheduler-cls, "
        "--scheduler-reserve-full-isl",
        "UnsupportedArgument",
    ),
    ("api_server.py: error: argument --port: invalid int value", "UnsupportedArgument"),
    ("ValueError: Load format `sharded` is not supported", "UnsupportedArgument"),
    (
        "huggingface_hub.errors.GatedRepoError: 403 Client Error. (Request ID: Root=1-68;a)",
        "GatedModel",
    ),
    (
        "Access to model meta-llama/Llama-3.1-8B is restricted and you are not in the authorized "
        "list. Visit https://huggingface.co/meta-llama/Llama-3.1-8B to ask for access.",
        "GatedModel",
    ),
    (
        "huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: Root=1-68;a)",
        "MissingToken",
    ),
    (
        "Access to model meta-llama/Llama-3.1-8B is restricted. You must have access to it and be "
        "authenticated to access it. Please log in.",
        "MissingToken",
    ),
    ("OSError: Invalid repository ID or local directory specified: '/m'", "ModelNotFound"),
    (
        "OSError: /models/m does not appear to have a file named config.json. Checkout "
        "'https://huggingface.co//models/m/tree/main' for available files.",
        "ModelNotFound",
    ),
    (
        "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't "
        "find them in the cached files.",
        "ModelNotFound",
    ),
    ("RuntimeError: Cannot find any model weights with `/models/m`", "ModelNotFound"),
    (
        "safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, "
        "file not fully covered",
        "WeightsDamaged",
    ),
    (
        "Model architectures ['XForCausalLM'] are not supported for now. Supported architectures: "
        "dict_keys(['AquilaModel'])",
        "UnsupportedModel",
    ),
    (
        "ValueError: The checkpoint you are trying to load has model type `x` but Transformers "
        "does not recognize this architecture.",
        "UnsupportedModel",
    ),
    ("OSError: [Errno 98] Address already in use", "PortInUse"),
    (
        "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address "
        "already in use",
        "PortInUse",
    ),
    (
        "RuntimeError: The NVIDIA driver on your system is too old (found version 12020).",
        "DriverMismatch",
    ),
    (
        DRIVER + "Error 803: system has unsupported display driver / cuda driver combination",
        "DriverMismatch",
    ),
    (
        DRIVER + "Error 804: forward compatibility was attempted on non supported HW",
        "DriverMismatch",
    ),
    (
        "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the "
        "device",
        "UnsupportedGpu",
    ),
    (
        "ImportError: /usr/local/lib/python3.12/dist-packages/vllm/_C.abi3.so: undefined symbol: "
        "_ZN3c104cuda9SetDeviceEab",
        "EngineImageMismatch",
    ),
    (
        "WARNING [cuda.py:22] Failed to import from vllm._C_stable_libtorch: ImportError('/x/vllm/"
        "_C_stable_libtorch.abi3.so: undefined symbol: torch_call_dispatcher')",
        "EngineImageMismatch",
    ),
    (
        "ImportError: libcudart.so.13: cannot open shared object file: No such file or directory",
        "EngineImageMismatch",
    ),
    (
        "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-YVQ1bL (size 9637888), "
        "error: No space left on device (28)",
        "SharedMemoryTooSmall",
    ),
    (
        "RuntimeError: unable to allocate shared memory(shm) for file </torch_91_2>: No space left "
        "on device (28)",
        "SharedMemoryTooSmall",
    ),
    ("OSError: [Errno 28] No space left on device: '/tmp/x'", "DiskFull"),
]
SYMPTOMS = [
    ("OSError: You are trying to access a gated repo.", "MissingToken", 1),
    ("RuntimeError: No CUDA GPUs are available", "NoGpu", 1),
    ("RuntimeError: Failed to infer device type, please set the environment variable", "NoGpu", 1),
    (
        "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "NcclFailed",
        1,
    ),
    (
        "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/"
        "NCCLUtils.cpp:94, unhandled cuda error",
        "NcclFailed",
        1,
    ),
    ("Worker proc VllmWorker-1 died unexpectedly, shutting down executor.", "WorkerDied", 1),
    (
        "Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down executor.",
        "WorkerDied",
        1,
    ),
    (f"  Value error, something is wrong. {VALIDATION}", "UnsupportedArgument", 1),
    ("ERROR [core.py:1510] EngineCore failed to start.", "EngineStartFailed", 2),
    ("ERROR [multiproc_executor.py:953] WorkerProc failed to start.", "EngineStartFailed", 2),
    (
        "RuntimeError: Engine core initialization failed. See root cause above.",
        "EngineStartFailed",
        2,
    ),
]


@pytest.mark.parametrize(("line", "reason"), LINES)
def test_cause(line: str, reason: str) -> None:
    assert list(findings(f"(EngineCore pid=97) {line}")) == [
        Failure(reason, f"(EngineCore pid=97) {line}"[:300])
    ]


@pytest.mark.parametrize(("line", "reason", "depth"), SYMPTOMS)
def test_what_follows_from_a_cause(line: str, reason: str, depth: int) -> None:
    assert list(findings(line)) == [Failure(reason, line, depth)]


def test_every_rule_has_its_line() -> None:
    assert {reason for _, reason, *_ in (*LINES, *SYMPTOMS)} == REASONS


def test_every_reason_is_known_to_the_operator() -> None:
    of_the_launcher = {
        "EngineNotFound",
        "EngineNotStartable",
        "OutOfMemoryInGraphCapture",
        "RunDirectoryFull",
    }
    assert REASONS | of_the_launcher <= set(reasons.ALL)


@pytest.mark.parametrize(
    "line",
    [
        f"{UVICORN}401 Unauthorized",
        f"{UVICORN}403 Forbidden",
        "WARNING [parallel.py:746] Address already in use. Retrying with a new port.",
        "INFO [request_logger.py:56] Request cmpl-1 details: prompt: 'why CUDA out of memory?', p",
        "INFO [request_logger.py:66] Received request cmpl-1: params: SamplingParams(stop=["
        "'Application startup complete.']), lora_request: None.",
        "INFO [request_logger.py:109] Generated response cmpl-1: output: 'No space left on device'",
        'INFO [log_response.py:141] response_body={{"text":"No CUDA GPUs are available"}}',
        "INFO [async_llm.py:795] Request cmpl-1 failed (bad request): [Errno 98].",
        "Triton kernel JIT compilation during inference: x. in Generated response cmpl-1",
    ],
)
def test_what_users_write_and_are_answered_is_no_failure(line: str) -> None:
    assert list(findings(line)) == []


def told(tmp_path: Path, *lines: str) -> list[str]:
    """The reasons in the order in which a listener tells them."""
    listener = Listener("b", EventLog(tmp_path / "events.jsonl"))
    for line in lines:
        listener.hear(line)
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    return [event["reason"] for event in events if event["event"] == "failure"]


LOADING = "Starting to load model /models/m..."
LOADED = "Model loading took 14.99 GiB memory and 4.1 seconds"
KV = "GPU KV cache size: 1,234 tokens"
CAPTURING = "Capturing CUDA graphs (decode, FULL):  10%|#         | 1/10 [00:00<00:01,  8.9it/s]"
CAPTURED = "Graph capturing finished in 15 secs, took 0.62 GiB"


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        ([], "OutOfMemory"),
        ([LOADING], "OutOfMemoryInWeights"),
        ([LOADING, "world_size=2 rank=1 local_rank=1 distributed"], "OutOfMemoryInWeights"),
        ([LOADING, "Loading weights took 3.25 seconds"], "OutOfMemoryInWeights"),
        ([LOADING, LOADED], "OutOfMemory"),
        ([LOADING, LOADED, CAPTURING], "OutOfMemoryInGraphCapture"),
        ([LOADING, LOADED, CAPTURING, KV], "OutOfMemory"),
        ([LOADING, LOADED, CAPTURING, KV, CAPTURING, CAPTURING], "OutOfMemoryInGraphCapture"),
        ([LOADING, LOADED, KV, CAPTURING, CAPTURED], "OutOfMemory"),
    ],
)
def test_memory_runs_out_at_a_stage(tmp_path: Path, before: list[str], reason: str) -> None:
    assert told(tmp_path, *before, OUT_OF_MEMORY, OUT_OF_MEMORY) == [reason]


def test_a_progress_bar_is_one_stage(tmp_path: Path) -> None:
    listener = Listener("b", EventLog(tmp_path / "events.jsonl"))
    for line in (CAPTURING, CAPTURING, CAPTURING, KV, CAPTURING, CAPTURING, CAPTURED):
        listener.hear(line)
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    stages = [event["stage"] for event in events]
    assert stages == ["graphs_start", "kv_size", "graphs_start", "graphs"]


@pytest.mark.parametrize(
    ("lines", "reasons"),
    [
        (
            [
                "ERROR EngineCore failed to start.",
                "RuntimeError: No CUDA GPUs are available",
                "RuntimeError: Engine core initialization failed. See root cause above.",
            ],
            ["EngineStartFailed", "NoGpu"],
        ),
        (
            [
                DRIVER + "Error 803: system has unsupported display driver / cuda driver",
                "RuntimeError: The NVIDIA driver on your system is too old (found version 12020).",
                "RuntimeError: Failed to infer device type",
            ],
            ["DriverMismatch"],
        ),
        (
            [
                "huggingface_hub.errors.GatedRepoError: 403 Client Error. (Request ID: R)",
                "OSError: You are trying to access a gated repo.",
            ],
            ["GatedModel"],
        ),
        (
            [OUT_OF_MEMORY, "RuntimeError: NCCL error: unhandled system error"],
            ["OutOfMemory"],
        ),
        (
            ["RuntimeError: NCCL error: unhandled system error", OUT_OF_MEMORY],
            ["NcclFailed", "OutOfMemory"],
        ),
    ],
)
def test_the_last_reason_told_is_the_cause(
    tmp_path: Path, lines: list[str], reasons: list[str]
) -> None:
    assert told(tmp_path, *lines) == reasons


def test_listener_is_bounded_and_names_a_failure_once(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    listener = Listener("b", EventLog(path))
    listener.hear("RuntimeError: No CUDA GPUs are available")
    listener.hear("RuntimeError: No CUDA GPUs are available")
    for _ in range(3000):
        listener.hear("Initial profiling/warmup run took 6.00 s")
    listener.hear("Application startup complete.")
    assert listener.ready.is_set()
    assert len(path.read_text().splitlines()) == 1 + 1000
    assert len(listener.last_lines()) == 10

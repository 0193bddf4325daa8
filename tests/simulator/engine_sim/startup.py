"""How an engine process starts: its phases, what each takes, and vLLM's lines about them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from engine_sim import logs, process
from engine_sim.compilecache import CompileCache, Found
from engine_sim.knobs import VERSION
from engine_sim.setup import Setup

# What each phase takes of SIM_LOAD_SECONDS when it has no knob of its own.
SHARES = {"init": 0.2, "weights": 0.4, "compile": 0.2, "kv": 0.1, "graphs": 0.1}
# A compilation that the cache saves costs this part of it.
HIT_SHARE = 0.1
GRAPH_SIZES = 35

OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
    "capacity of 139.80 GiB of which 1.12 GiB is free."
)
# Faults that end a start-up in a phase, with the root cause that vLLM prints.
DEATHS = {
    "driver-mismatch": (
        "init",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 12020). Please "
        "update your GPU driver.",
    ),
    "gpu-busy": (
        "init",
        "ValueError: Free memory on device cuda:0 (3.12/139.80 GiB) on startup is less than "
        "desired GPU memory utilization (0.92, 128.62 GiB). Decrease GPU memory utilization or "
        "reduce GPU memory used by other processes.",
    ),
    "oom-in-weights": ("weights", OUT_OF_MEMORY),
    "kv-cache-too-small": (
        "kv",
        "ValueError: No available memory for the cache blocks. Try increasing "
        "`gpu_memory_utilization` when initializing the engine.",
    ),
    "oom-in-graphs": ("graphs", OUT_OF_MEMORY),
}


class StartFailed(Exception):
    """The engine process ends before it is ready."""


class Startup:
    """One start-up, phase by phase."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._cache = CompileCache(setup)

    def run(self) -> None:
        """Take the time, print the lines. Raises StartFailed where the fault says so."""
        eager = self._setup.arguments.enforce_eager
        self._phase("init", self._init)
        self._phase("weights", self._weights)
        warmed_from = time.monotonic()
        if not eager:
            self._phase("compile", self._compile)
        self._nvcc()
        self._phase("kv", self._kv)
        if not eager:
            self._phase("graphs", self._graphs)
        took = time.monotonic() - warmed_from
        say(
            "core.py:281",
            f"init engine (profile, create kv cache, warmup model) took {took:.2f} s",
        )

    def _phase(self, name: str, act: Callable[[float], None]) -> None:
        act(self._seconds(name))

    def _perhaps_die(self, phase: str) -> None:
        wanted, cause = DEATHS.get(self._setup.knobs.fault.name, ("", ""))
        if wanted == phase:
            logs.plain(cause)
            raise StartFailed(cause)

    def _seconds(self, name: str) -> float:
        own = float(getattr(self._setup.knobs, f"{name}_seconds"))
        return own if own >= 0 else SHARES[name] * self._setup.knobs.load_seconds

    def _init(self, seconds: float) -> None:
        model = self._setup.arguments.model
        time.sleep(seconds / 2)
        say(
            "core.py:105", f"Initializing a V1 LLM engine (v{VERSION}) with config: model='{model}'"
        )
        time.sleep(seconds / 2)
        say(
            "parallel_state.py:1523",
            "world_size=1 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:29500 "
            "backend=nccl",
        )
        self._perhaps_die("init")

    def _weights(self, seconds: float) -> None:
        say("gpu_model_runner.py:4011", f"Starting to load model {self._setup.arguments.model}...")
        self._perhaps_die("weights")
        if self._setup.knobs.fault.name == "hang-at-start":
            _hang()
        time.sleep(seconds)
        say("default_loader.py:384", f"Loading weights took {seconds:.2f} seconds")
        say(
            "gpu_model_runner.py:4108",
            f"Model loading took 0.01 GiB memory and {seconds:.6f} seconds",
        )

    def _compile(self, seconds: float) -> None:
        found, path = self._cache.look(), self._cache.path
        if found is Found.STALE:
            say(
                "decorators.py:319",
                f"Compiling model again due to a load failure from {path}, reason: Compile cache "
                "file corrupted.",
                "WARNING",
            )
        if found is Found.HIT:
            own = self._setup.knobs.compile_hit_seconds
            seconds = own if own >= 0 else seconds * HIT_SHARE
            time.sleep(seconds)
            say("decorators.py:305", f"Directly load AOT compilation from path {path}")
            self._perhaps_crash_on_hit()
        else:
            self._compile_anew(seconds)
        say("monitor.py:53", f"[backbone] torch.compile took {seconds:.2f} s in total")
        say("monitor.py:81", "[backbone] Initial profiling/warmup run took 0.01 s")

    def _perhaps_crash_on_hit(self) -> None:
        if self._setup.knobs.fault.name == "crash-on-hit":
            logs.plain("Fatal Python error: Segmentation fault")
            raise StartFailed

    def _compile_anew(self, seconds: float) -> None:
        top = self._setup.arguments.max_num_batched_tokens
        say(
            "backends.py:1105",
            f"[backbone] Using cache directory: {self._cache.directory} for vLLM's torch.compile",
        )
        say("monitor.py:38", "[backbone] Starting torch.compile")
        time.sleep(seconds * 0.3)
        say("backends.py:1166", f"[backbone] Dynamo bytecode transform time: {seconds * 0.3:.2f} s")
        time.sleep(seconds * 0.7)
        say(
            "backends.py:398",
            f"[backbone] Compiling a graph for compile range (1, {top}) takes "
            f"{seconds * 0.7:.2f} s",
        )
        self._cache.save()
        say("decorators.py:653", f"saved AOT compiled function to {self._cache.path}")

    def _nvcc(self) -> None:
        """FlashInfer's compiler: minutes without a line, seen only as a child process."""
        seconds = self._setup.knobs.nvcc_seconds
        base = self._setup.switches.flashinfer_base
        library = base and base / ".cache/flashinfer/0.6.0/90a/cached_ops/attention.so"
        if seconds <= 0 or (library and library.exists()):
            return
        os.waitpid(process.fork_named(b"nvcc", lambda: _sleep(seconds)), 0)
        if library:
            library.parent.mkdir(parents=True, exist_ok=True)
            library.write_text("simulated".ljust(65536))

    def _kv(self, seconds: float) -> None:
        arguments, tokens = self._setup.arguments, self._setup.knobs.kv_cache_tokens
        time.sleep(seconds)
        self._perhaps_die("kv")
        say("gpu_worker.py:598", "Available KV cache memory: 1.00 GiB")
        say(
            "kv_cache_utils.py:2327",
            f"GPU KV cache size: {tokens:,} tokens, Maximum concurrency for "
            f"{arguments.max_model_len:,} tokens per request: "
            f"{tokens / arguments.max_model_len:.2f}x",
        )

    def _graphs(self, seconds: float) -> None:
        say("kernel_warmup.py:88", "JIT kernel warmup starting.")
        say("kernel_warmup.py:97", "JIT kernel warmup finished in 0.01s.")
        logs.plain(f"Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 0/{GRAPH_SIZES}")
        self._perhaps_die("graphs")
        time.sleep(seconds)
        say(
            "gpu_model_runner.py:5401",
            f"Graph capturing finished in {seconds:.0f} secs, took 0.10 GiB",
        )
        say(
            "jit_monitor.py:91",
            "Kernel JIT monitor activated; monitored JIT compilations during inference will use "
            "mode=warn.",
        )


def say(where: str, message: str, level: str = "INFO") -> None:
    """Print a line of the engine process."""
    logs.line("EngineCore", where, message, level)


def _hang() -> None:
    """Do nothing for as long as the server lives."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.2)
    raise StartFailed


def _sleep(seconds: float) -> int:
    time.sleep(seconds)
    return 0

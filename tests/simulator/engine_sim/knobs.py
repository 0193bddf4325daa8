"""What only a simulator is told: how its hardware behaves (SIM_*), and vLLM's own switches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from engine_sim.faults import NO_FAULT, Fault, parse_fault

VERSION = "0.32.0"


@dataclass(frozen=True)
class Knobs:
    """How the simulated hardware and model behave. A field `x_y` is read from SIM_X_Y.

    Times are seconds. The parts of a start-up that are negative get their share of
    `load_seconds`. README.md describes every one."""

    # start-up
    load_seconds: float = 1.0
    import_seconds: float = 0.0
    init_seconds: float = -1.0
    weights_seconds: float = -1.0
    compile_seconds: float = -1.0
    compile_hit_seconds: float = -1.0
    nvcc_seconds: float = 0.0
    kv_seconds: float = -1.0
    graphs_seconds: float = -1.0
    http_seconds: float = 0.0
    # first requests
    first_seconds: float = 0.3
    cold_requests: int = 1
    cold_decay: float = 1.0
    kernel_classes: str = "coarse"
    kernel_cache: bool = False
    schema_seconds: float = 0.0
    # every request
    token_seconds: float = 0.005
    prefill_seconds: float = 0.0
    jitter: float = 0.0
    # sleep
    sleep_seconds: float = 0.0
    wake_seconds: float = 0.0
    paused: str = "hang"
    # model
    architecture: str = ""
    chat_template: str = ""
    labels: int = 0
    embedding_size: int = 32
    kv_cache_tokens: int = 65536
    fault: Fault = NO_FAULT

    def __post_init__(self) -> None:
        _one_of("SIM_KERNEL_CLASSES", self.kernel_classes, ("coarse", "fine"))
        _one_of("SIM_PAUSED", self.paused, ("hang", "503"))
        _one_of("SIM_CHAT_TEMPLATE", self.chat_template, ("", "none"))


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name}={value!r} is not one of: {', '.join(filter(None, choices))}")


def read_knobs(environment: Mapping[str, str]) -> Knobs:
    """Read the SIM_* variables; what is not set keeps its default. Raises ValueError."""
    given: dict[str, object] = {}
    for field in fields(Knobs):
        text = environment.get(f"SIM_{field.name.upper()}")
        if text is None:
            continue
        try:
            given[field.name] = _value(text, field.default)
        except ValueError as failed:
            raise ValueError(f"SIM_{field.name.upper()}: {failed}") from failed
    return Knobs(**given)  # type: ignore[arg-type]


def _value(text: str, default: object) -> object:
    if isinstance(default, Fault):
        return parse_fault(text)
    if isinstance(default, bool):
        return _flag(text)
    return type(default)(text)  # type: ignore[call-arg]


def _flag(text: str) -> bool:
    return text.strip().lower() in ("1", "true")


@dataclass(frozen=True)
class Switches:
    """Environment variables of vLLM itself that change what a client or an operator sees."""

    dev_mode: bool = False
    runtime_lora: bool = False
    keep_alive_on_death: bool = False
    # Where caches are kept. Unlike vLLM, which falls back to the home directory, the simulator
    # keeps none that it was not told of.
    cache_root: Path | None = None
    triton_cache: Path | None = None
    flashinfer_base: Path | None = None
    # VLLM_* variables that are part of the compile cache's key.
    hashed: tuple[str, ...] = ()


# From vLLM's envs.py, as far as they matter here; every other VLLM_* variable is hashed.
UNHASHED = (
    "VLLM_CACHE_ROOT",
    "VLLM_HOST_IP",
    "VLLM_SERVER_DEV_MODE",
    "VLLM_LOGGING_LEVEL",
    "VLLM_ENABLE_STARTUP_PLAN",
    "VLLM_KEEP_ALIVE_ON_ENGINE_DEATH",
    "VLLM_API_KEY",
)


def read_switches(environment: Mapping[str, str]) -> Switches:
    """Read vLLM's own variables."""

    def path(name: str) -> Path | None:
        return Path(environment[name]) if environment.get(name) else None

    return Switches(
        dev_mode=_flag(environment.get("VLLM_SERVER_DEV_MODE", "0")),
        runtime_lora=_flag(environment.get("VLLM_ALLOW_RUNTIME_LORA_UPDATING", "0")),
        keep_alive_on_death=_flag(environment.get("VLLM_KEEP_ALIVE_ON_ENGINE_DEATH", "0")),
        cache_root=path("VLLM_CACHE_ROOT"),
        triton_cache=path("TRITON_CACHE_DIR"),
        flashinfer_base=path("FLASHINFER_WORKSPACE_BASE"),
        hashed=tuple(
            sorted(
                f"{name}={value}"
                for name, value in environment.items()
                if name.startswith("VLLM_") and name not in UNHASHED
            )
        ),
    )

"""The phases of a start-up: their names, what people read, and what they are summed up under.

The names are part of the status and of metrics, so the set is closed: whatever the engine's log
brings that is not here is `other`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from warmpod.protocol import WARMUP_FAILED

Group = Literal["scheduling", "images", "weights", "comparison", "engine", "warm-up"]


@dataclass(frozen=True, slots=True)
class PhaseName:
    label: str
    group: Group


PHASES: Final[Mapping[str, PhaseName]] = {
    "schedule": PhaseName("wait for a node", "scheduling"),
    "sandbox": PhaseName("mount volumes and make the sandbox", "images"),
    "sandbox-and-images": PhaseName("make the sandbox and pull images", "images"),
    "images": PhaseName("pull images of volumes and sidecar", "images"),
    "fill-weights": PhaseName("copy the weights into memory", "weights"),
    "engine-image": PhaseName("pull the engine's image", "images"),
    "start-container": PhaseName("start the engine's container", "images"),
    "wait-for-weights": PhaseName("wait for the weights", "weights"),
    "compare": PhaseName("run the settings to compare with", "comparison"),
    "import": PhaseName("import vLLM", "engine"),
    "configure": PhaseName("read arguments and configuration", "engine"),
    "start-engine": PhaseName("start the engine process", "engine"),
    "join-ranks": PhaseName("join the ranks", "engine"),
    "prepare-workers": PhaseName("prepare the workers", "engine"),
    "load-weights": PhaseName("load the weights", "engine"),
    "finish-loading": PhaseName("finish loading", "engine"),
    "load-compiled": PhaseName("load compiled code", "engine"),
    "compile": PhaseName("compile", "engine"),
    "compilers": PhaseName("run compilers", "engine"),
    "profile": PhaseName("profile memory", "engine"),
    "kernels": PhaseName("warm up kernels", "engine"),
    "prepare-graphs": PhaseName("prepare to capture graphs", "engine"),
    "graphs": PhaseName("capture graphs", "engine"),
    "finish-engine": PhaseName("finish the engine", "engine"),
    "start-http": PhaseName("start HTTP", "engine"),
    "other": PhaseName("another stage", "engine"),
    "first-token": PhaseName("first token", "warm-up"),
    "rounds": PhaseName("rounds of warm-up", "warm-up"),
}

OTHER: Final = "other"

# What the engine had done when its log came to a stage (the launcher's names of log lines).
OF_STAGE: Final[Mapping[str, str]] = {
    "version": "import",
    "args": "configure",
    "config": "configure",
    "engine_start": "start-engine",
    "dist": "join-ranks",
    "load_start": "prepare-workers",
    "weights": "load-weights",
    "model_loaded": "finish-loading",
    "aot_hit": "load-compiled",
    "aot_fail": "compile",
    "compile": "compile",
    "compile_nonaot": "compile",
    "profile": "profile",
    "kv_size": "profile",
    "jit": "kernels",
    "graphs_start": "prepare-graphs",
    "graphs": "graphs",
    "engine_ready": "finish-engine",
    "http": "start-http",
    "ready": "start-http",
}

# Their lines give the length of more than the stage itself, of what came before it, too.
SUMS: Final = frozenset({"model_loaded", "engine_ready", "compile_nonaot", "profile"})

CAUSES: Final = ("pod-start", "container-restart", "engine-died", WARMUP_FAILED)

# What the launcher says that a store of compiled code did for a boot.
CACHE_OUTCOMES: Final = ("filled", "miss", "damaged", "set-aside", "kept")

# What the sidecar writes about a span in which the engine logs nothing.
SILENT_IMPORT: Final = "import"
SILENT_COMPILERS: Final = "compilers"
SILENT_GAP: Final = "not logged by the engine"


def known(name: str) -> str:
    return name if name in PHASES else OTHER

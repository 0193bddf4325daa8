"""One engine, as a WarmModel and as a plain Deployment: the same settings in all of them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import plain
from gpu import engine_image, machine

JsonObject = dict[str, Any]

NAME = "llama"  # of the WarmModels
NAMESPACES = WARM, PLAIN, SLEEP = "gpu-warm", "gpu-plain", "gpu-sleep"
WARMUP = "WARMPOD_GPU_WARMUP"  # spec.warmup, as JSON
# Two engines fit on one GPU beside each other, awake.
ARGUMENTS = (
    "--gpu-memory-utilization=0.42",
    "--max-model-len=8192",
    "--enable-auto-tool-choice",
    "--tool-call-parser=hermes",
)

# What makes a start shorter, whoever starts it: 9 sizes of graphs in place of 51, a plan of the
# start in place of profiling, no choice between kernels that this model does not have.
GRAPH_SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256]
LEAN_ARGUMENTS = (
    "--compilation-config",
    json.dumps({"cudagraph_capture_sizes": GRAPH_SIZES}),
    "--no-enable-flashinfer-autotune",
    "--chat-template-content-format=string",
)
LEAN_VARIABLES = [{"name": "VLLM_ENABLE_STARTUP_PLAN", "value": "1"}]

# Where the plain engine finds what it compiled in an earlier pod: a directory of the node at the
# places below its HOME, as people do it with a volume of their own.
PLAIN_CACHES = machine.ROOT / "plain-caches"
_CACHE_FOLDERS = {"cache": "/tmp/.cache", "triton": "/tmp/.triton", "nv": "/tmp/.nv"}


@dataclass(frozen=True)
class Setting:
    """The model's directory on the machine."""

    model: Path

    def engine(self, *, lean: bool = False) -> JsonObject:
        """As in a WarmModel's spec.engine, and in a pod."""
        return {
            "image": engine_image.REFERENCE,
            "args": [*ARGUMENTS, *(LEAN_ARGUMENTS if lean else ())],
            "env": [*engine_image.variables(), *(LEAN_VARIABLES if lean else ())],
            "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "1"}},
            # Gives the pod the devices of the machine.
            "securityContext": {"privileged": True},
            "volumeMounts": engine_image.volume_mounts(),
        }

    def warm_model(
        self, *, forked: bool = False, lean: bool = False, replicas: int = 1
    ) -> JsonObject:
        """Its compiled code is kept on the node."""
        start = {"start": "Forked"} if forked else {}
        return {
            "apiVersion": "warmpod.io/v1alpha1",
            "kind": "WarmModel",
            "metadata": {"name": NAME, "namespace": WARM},
            "spec": {
                "replicas": replicas,
                "model": {"nodePath": {"path": str(self.model)}},
                "weights": {"size": sum(path.stat().st_size for path in self.model.iterdir())},
                "engine": self.engine(lean=lean) | start,
                "compileCache": {"store": "Node"},
                # What is measured is to be seen, also if it should be slower.
                "rollout": {"onRegression": "Proceed"},
                "warmup": warm_up(),
                "pod": {"volumes": engine_image.volumes()},
            },
        }

    def sleeper(self, standby: int = 1) -> JsonObject:
        """Has no serving pod: those of its pool sleep until one is asked for."""
        model = self.warm_model(forked=True, lean=True, replicas=0)
        model["metadata"]["namespace"] = SLEEP
        # A plan of the start is for an engine that finds the GPU's memory as it was left.
        model["spec"]["engine"]["env"] = engine_image.variables()
        model["spec"]["standby"] = {"replicas": standby, "state": "Sleeping"}
        return model

    def plain_objects(self) -> list[JsonObject]:
        weights = {"hostPath": {"path": str(self.model)}}
        caches = {"path": str(PLAIN_CACHES), "type": "DirectoryOrCreate"}
        volumes = (*engine_image.volumes(), {"name": "caches", "hostPath": caches})
        engine = self.engine()
        engine["volumeMounts"] += [
            {"name": "caches", "mountPath": path, "subPath": folder}
            for folder, path in _CACHE_FOLDERS.items()
        ]
        return plain.objects(PLAIN, engine, volumes, weights)


def warm_up() -> JsonObject:
    found: JsonObject = json.loads(os.environ.get(WARMUP, "{}"))
    return found

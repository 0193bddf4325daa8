"""What is done on the machine, in this order."""

from __future__ import annotations

import importlib
import json
import os
import platform
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

from gpu import engine_image, machine, stream, weights
from gpu.runner import Step

JsonObject = dict[str, Any]

MODEL = machine.MODELS / f"llama-{weights.CHOSEN}"
GPUS = "nvidia.com/gpu"
# One GPU is handed out several times: pods find it by themselves, and divide its memory by their
# arguments.
SHARES = 4
# Longest pass: repeats for which there is no time are left out.
MINUTES = float(os.environ.get("WARMPOD_GPU_MINUTES", "20"))
# Seconds after a measurement's time is over until it counts as failed.
GRACE_S = 240

_TORCH = "import torch; torch.cuda.get_device_name(); print(torch.__version__)"
_MODULES = "vllm._custom_ops, vllm.v1.engine.core, vllm.entrypoints.openai.api_server"
_VLLM = f"import vllm, {_MODULES}; print(vllm.__version__)"


def describe_machine() -> JsonObject:
    """What the figures were measured on; fails where no GPU can be used."""
    query = "name,driver_version,memory.total"
    smi = _output("nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader")
    memory = Path("/proc/meminfo").read_text().split("\n", 1)[0].split()
    torch = _output(*machine.python("-c", _TORCH)).splitlines()[-1]
    return {
        "gpu": smi,
        "torch": torch,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        "memory_gib": round(int(memory[1]) / 2**20, 1),
        "cgroups": 2 if Path("/sys/fs/cgroup/cgroup.controllers").exists() else 1,
    }


def write_weights() -> JsonObject:
    return weights.write(weights.SHAPES[weights.CHOSEN], MODEL) | {"shape": weights.CHOSEN}


def unpack(bundle: str) -> JsonObject:
    stream.unpack(stream.read_index(machine.STORE), bundle, machine.STORE, machine.ROOT)
    return {}


def start_cluster() -> JsonObject:
    """The real cluster, with GPUs that its scheduler counts."""
    lacking = machine.write_wrappers()
    said = _output(*machine.python(machine.CLUSTER, "up"))
    status = {"status": {"capacity": {GPUS: str(SHARES)}}}
    patch = ["--subresource=status", "--type=merge", f"--patch={json.dumps(status)}"]
    _output("kubectl", "patch", "node", "node-1", *patch)
    return {"wrapped": lacking, "said": said.splitlines()[0]}


def install_operator() -> JsonObject:
    """The image that was brought, as it was built."""
    from devtools import images, push

    image = images.built("operator")
    reference = push.push(image)
    _output(*machine.python(machine.TREE / "hack" / "install.py"))
    return {"image": reference}


def unpack_wheels() -> JsonObject:
    return {"wheels": engine_image.unpack_wheels()}


def import_engine() -> JsonObject:
    """Finds out early whether something is missing."""
    variables = os.environ | engine_image.environment()
    variables["PYTHONPATH"] = str(machine.ENGINE / "site")
    version = _output(*machine.python("-c", _VLLM), env=variables).splitlines()[-1]
    return {"vllm": version}


def _output(*command: str, env: dict[str, str] | None = None) -> str:
    """Standard output of a program that must not fail; what it complains about is in the log."""
    completed = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=False)
    if completed.returncode != 0:
        print(completed.stdout)
        raise RuntimeError(f"{' '.join(command)} failed with {completed.returncode}")
    return completed.stdout.strip()


def _measured(name: str, place: str, budget_s: float) -> Step:
    """`place`: module and function, which need packages that have arrived when it is called."""
    budget_s *= MINUTES / 20

    def run() -> JsonObject:
        from gpu import pods, setting
        from gpu.results import Results
        from support.api import Api

        module, _, function = place.partition(":")
        api, results = Api(machine.KUBECONFIG), Results(name, budget_s)
        pods.ensure_operator(api)
        measure = getattr(importlib.import_module(f"gpu.{module}"), function)
        measure(api, setting.Setting(MODEL), results)
        return results.found

    return Step(name, run, PREPARED, alone=True, limit_s=int(budget_s) + GRACE_S)


PREPARED = ("import", "image", "operator", "weights")

PREPARATION = (
    Step("machine", describe_machine),
    Step("weights", write_weights, needs=("machine",)),
    Step("unpack-engine", partial(unpack, "engine"), bundles=("engine",)),
    Step("unpack-packages", partial(unpack, "engine-packages"), bundles=("engine-packages",)),
    Step("engine", unpack_wheels, needs=("unpack-engine", "unpack-packages")),
    Step("import", import_engine, needs=("engine",)),
    Step("unpack-programs", partial(unpack, "programs"), bundles=("programs",)),
    Step("unpack-cluster", partial(unpack, "cluster"), bundles=("cluster",)),
    Step("cluster", start_cluster, needs=("unpack-programs", "unpack-cluster")),
    Step("image", engine_image.push, needs=("cluster",)),
    Step("unpack-operator", partial(unpack, "operator"), bundles=("operator",)),
    Step("operator", install_operator, needs=("cluster", "unpack-operator")),
)

# By value: a pass that breaks off has the most wanted figures. Each one makes what it needs, so any
# may fail, and each can be had alone. The seconds are those of a pass of 20 minutes.
MEASUREMENTS = (
    _measured("warm-first", "warm_starts:first_pod", 150),
    _measured("warm-second", "warm_starts:second_pods", 200),
    _measured("forked", "warm_starts:forked", 170),
    _measured("forked-profile", "warm_starts:forked_profile", 175),
    _measured("plain-first", "plain_starts:first_start", 150),
    _measured("plain", "plain_starts:later_starts", 130),
    _measured("sleep", "sleeping:wakes", 140),
    _measured("switch", "sleeping:switches", 95),
    _measured("cycles", "sleeping:cycles", 65),
)

# Other kinds of the engine, which a pass has no time for: only by name.
KINDS = (
    _measured("fp8", "kinds:fp8", 150),
    _measured("gptq", "kinds:gptq", 150),
    _measured("awq", "kinds:awq", 150),
    _measured("lora", "kinds:lora", 150),
    _measured("two-gpus", "kinds:two_gpus", 150),
)


def wanted(names: str) -> tuple[Step, ...]:
    """The preparation, and the measurements of these names in their order; without names a pass."""
    known = {step.name: step for step in (*MEASUREMENTS, *KINDS)}
    unknown = sorted(set(names.split()) - set(known))
    if unknown:
        raise ValueError(f"no step {', '.join(unknown)}; there are {', '.join(known)}")
    chosen = [known[name] for name in names.split()]
    return (*PREPARATION, *(chosen or MEASUREMENTS))


STEPS = wanted(os.environ.get("WARMPOD_GPU_MEASURE", ""))

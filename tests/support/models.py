"""Builders of WarmModels for tests, and readers of what became of them."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from support.api import Api, JsonObject
from support.waiting import wait_until

ENGINE_SIM = "127.0.0.1:5000/warmpod/engine-sim:dev"
ENGINE_CPU = "127.0.0.1:5000/warmpod/engine-cpu:dev"
WEIGHTS_TINY = "127.0.0.1:5000/warmpod/weights-tiny:dev"
WEIGHTS_BASE = "127.0.0.1:5000/warmpod/weights-tiny-base:dev"
WEIGHTS_GPTQ = "127.0.0.1:5000/warmpod/weights-tiny-gptq:dev"
WEIGHTS_AWQ = "127.0.0.1:5000/warmpod/weights-tiny-awq:dev"
WEIGHTS_EMBEDDING = "127.0.0.1:5000/warmpod/weights-tiny-embedding:dev"
WEIGHTS_RERANKER = "127.0.0.1:5000/warmpod/weights-tiny-reranker:dev"
ADAPTER_TINY = "127.0.0.1:5000/warmpod/adapter-tiny:dev"
GATE = "warmpod.io/Warm"

SHORT_WARMUP: JsonObject = {
    "stallSeconds": 60,
    "canaryPeriodSeconds": 5,
    "promptTokens": [16],
    "concurrency": [1, 4],
    "skip": ["sampler/*", "structured/*", "repeat", "prefill-while-decoding"],
}


def warm_model(name: str, namespace: str, **spec: Any) -> JsonObject:
    """A WarmModel that runs the simulator; keywords replace whole fields of the spec."""
    base: JsonObject = {
        "replicas": 1,
        "model": {"image": WEIGHTS_TINY},
        "engine": {
            "image": ENGINE_SIM,
            "env": knobs(first_seconds=0.05),
            "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}},
        },
        # A short plan: what is tested is what follows from it.
        "warmup": SHORT_WARMUP,
    }
    return {
        "apiVersion": "warmpod.io/v1alpha1",
        "kind": "WarmModel",
        "metadata": {"name": name, "namespace": namespace},
        "spec": base | copy.deepcopy(spec),
    }


def held_model(
    name: str, namespace: str, image: str, medium: str = "Image", size: str = "128Mi", **spec: Any
) -> JsonObject:
    """A WarmModel without engine pods: the weights of an image, held on the node."""
    weights = {"medium": medium, "size": size}
    return warm_model(
        name, namespace, **({"replicas": 0, "model": {"image": image}, "weights": weights} | spec)
    )


def vllm_engine() -> JsonObject:
    """The real engine, as small as it goes."""
    return {
        "image": ENGINE_CPU,
        "args": ["--dtype=bfloat16", "--max-model-len=256", "--max-num-seqs=4", "--enforce-eager"],
        "env": [
            {"name": "VLLM_CPU_KVCACHE_SPACE", "value": "1"},
            {"name": "VLLM_CPU_OMP_THREADS_BIND", "value": "nobind"},
            {"name": "OMP_NUM_THREADS", "value": "1"},
        ],
        "resources": {"requests": {"cpu": "500m", "memory": "4Gi"}},
    }


def with_adapter(spec: JsonObject, name: str) -> JsonObject:
    """The fields of a spec whose engine loads the tiny adapter under that name."""
    changed = copy.deepcopy(spec)
    engine, volume, path = changed["engine"], f"adapter-{name}", f"/adapters/{name}"
    engine["args"] += ["--enable-lora", "--max-lora-rank=8", "--lora-modules", f"{name}={path}"]
    engine.setdefault("volumeMounts", []).append({"name": volume, "mountPath": path})
    image = {"reference": ADAPTER_TINY, "pullPolicy": "IfNotPresent"}
    volumes = changed.setdefault("pod", {}).setdefault("volumes", [])
    volumes.append({"name": volume, "image": image})
    return changed


def with_engine(model: JsonObject, **engine: Any) -> JsonObject:
    """The model with fields of its engine replaced; `sim` sets the simulator's knobs."""
    changed = copy.deepcopy(model)
    simulator = engine.pop("sim", {})
    changed["spec"]["engine"].update(engine)
    if simulator:
        changed["spec"]["engine"]["env"] = knobs(**simulator)
    return changed


def knobs(**values: object) -> list[JsonObject]:
    """Environment variables that adjust the simulator."""
    return [{"name": f"SIM_{key.upper()}", "value": str(value)} for key, value in values.items()]


@dataclass(frozen=True)
class ModelView:
    """What the API server tells about one WarmModel."""

    api: Api
    name: str
    namespace: str

    def get(self) -> JsonObject:
        return self.api.get("WarmModel", self.name, self.namespace)

    def condition(self, type_: str) -> JsonObject:
        """The condition, or {} when it is not there or belongs to an older generation."""
        model = self.api.find("WarmModel", self.name, self.namespace)
        if model is None:
            return {}
        found = condition_of(model, type_)
        if found.get("observedGeneration") != model["metadata"]["generation"]:
            return {}
        return found

    def conditions(self) -> str:
        model = self.api.find("WarmModel", self.name, self.namespace) or {}
        found = model.get("status", {}).get("conditions", [])
        return "\n".join(f"{c['type']}={c['status']} {c['reason']}: {c['message']}" for c in found)

    def engine_pods(self) -> list[JsonObject]:
        return self._pods("engine")

    def prefetch_pods(self) -> list[JsonObject]:
        return self._pods("prefetch")

    def prefetch_pod(self) -> JsonObject:
        """The one prefetch pod that is not on its way out."""
        return _only(self.prefetch_pods(), f"prefetch pods of {self.name}")

    def _pods(self, component: str) -> list[JsonObject]:
        selector = f"warmpod.io/model={self.name},warmpod.io/component={component}"
        return self.api.list("Pod", self.namespace, selector)

    def engine_pod(self) -> JsonObject:
        """The one engine pod that is not on its way out."""
        return _only(self.engine_pods(), f"engine pods of {self.name}")

    def wait_resident(self, timeout_s: float = 120) -> None:
        self.wait_condition("WeightsResident", "True", timeout_s=timeout_s)

    def wait_ready(self, timeout_s: float = 120) -> None:
        """Also after a change of the spec, while which the previous revision may be Ready."""
        self.wait_condition("Reconciling", "False", {"UpToDate"}, timeout_s=timeout_s)

    def wait_condition(
        self, type_: str, status: str, reasons: set[str] | None = None, timeout_s: float = 60
    ) -> JsonObject:
        def holds() -> JsonObject | None:
            found = self.condition(type_)
            if found.get("status") != status:
                return None
            return found if reasons is None or found["reason"] in reasons else None

        wanted = f"{self.name}: {type_}={status}" + (f" for {sorted(reasons)}" if reasons else "")
        found = wait_until(wanted, holds, timeout_s=timeout_s, describe=self.conditions)
        assert found is not None
        return found

    def ready_addresses(self) -> set[str]:
        """Pod addresses that the Service sends traffic to."""
        selector = f"kubernetes.io/service-name={self.name}"
        slices = self.api.list("EndpointSlice", self.namespace, selector)
        return {
            address
            for found in slices
            for endpoint in found.get("endpoints") or []
            if endpoint.get("conditions", {}).get("ready")
            for address in endpoint["addresses"]
        }

    def service_url(self, scheme: str = "http") -> str:
        service = self.api.get("Service", self.name, self.namespace)
        return f"{scheme}://{service['spec']['clusterIP']}:8000"


def _only(pods: list[JsonObject], what: str) -> JsonObject:
    staying = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    assert len(staying) == 1, f"{len(staying)} {what}"
    return staying[0]


def condition_of(body: JsonObject, type_: str) -> JsonObject:
    """A condition of any object, {} where it has none of that type."""
    for condition in body.get("status", {}).get("conditions") or []:
        if condition["type"] == type_:
            found: JsonObject = condition
            return found
    return {}


def gate_is_open(pod: JsonObject) -> bool:
    return bool(condition_of(pod, GATE).get("status") == "True")


def container_status(pod: JsonObject, name: str) -> JsonObject:
    status = pod.get("status", {})
    for key in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(key) or []:
            if container["name"] == name:
                found: JsonObject = container
                return found
    return {}

"""Starts of one model on the GPU: a plain Deployment, and the pods of a WarmModel."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import features, plain, startup
from bench.watching import Recorder
from gpu import engine_image, machine
from support import sidecar
from support.api import Api
from support.clients import Client
from support.features import TOOLS, chat_features
from support.models import ModelView, condition_of, container_status, gate_is_open
from support.node import Node, kill
from support.waiting import wait_until

JsonObject = dict[str, Any]

NAME = "llama"  # of the WarmModel
WARM, PLAIN = "gpu-warm", "gpu-plain"  # namespaces
FEATURES = [*chat_features(), TOOLS]
LIMIT_S = 540
WARMUP = "WARMPOD_GPU_WARMUP"  # spec.warmup, as JSON
KINDS = ("WarmModel", "DaemonSet", "Deployment", "Pod", "EndpointSlice")
# Two engines at once fit on one GPU, and the third part is for whatever runs beside them.
ARGUMENTS = (
    "--gpu-memory-utilization=0.3",
    "--max-model-len=8192",
    "--enable-auto-tool-choice",
    "--tool-call-parser=hermes",
)


@dataclass(frozen=True)
class Setting:
    """The model's directory on the machine."""

    model: Path

    def engine(self) -> JsonObject:
        """As in a WarmModel's spec.engine, and in a pod."""
        return {
            "image": engine_image.REFERENCE,
            "args": list(ARGUMENTS),
            "env": engine_image.variables(),
            "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "1"}},
            # Gives the pod the devices of the machine.
            "securityContext": {"privileged": True},
            "volumeMounts": engine_image.volume_mounts(),
        }

    def warm_model(self) -> JsonObject:
        size = sum(path.stat().st_size for path in self.model.iterdir())
        return {
            "apiVersion": "warmpod.io/v1alpha1",
            "kind": "WarmModel",
            "metadata": {"name": NAME, "namespace": WARM},
            "spec": {
                "model": {"nodePath": {"path": str(self.model)}},
                "weights": {"size": size},
                "engine": self.engine(),
                "warmup": json.loads(os.environ.get(WARMUP, "{}")),
                "pod": {"volumes": engine_image.volumes()},
            },
        }

    def plain_objects(self) -> list[JsonObject]:
        weights = {"hostPath": {"path": str(self.model)}}
        volumes = tuple(engine_image.volumes())
        return plain.objects(PLAIN, self.engine(), volumes, weights)


def plain_start(setting: Setting) -> JsonObject:
    """From apply to traffic, and the first request of each feature after that."""
    api = Api(machine.KUBECONFIG)
    _new_namespace(api, PLAIN)
    recorder = Recorder(api, PLAIN, ("Pod", "EndpointSlice"), LIMIT_S)
    applied = time.monotonic() - recorder.started
    for body in setting.plain_objects():
        api.apply(body)
    view = ModelView(api, plain.NAME, PLAIN)
    try:
        wait_until("traffic", view.ready_addresses, timeout_s=LIMIT_S)
        times = _features(Client(view.service_url()), plain.NAME)
        running = recorder.first("Pod", _engine_runs)
        traffic = recorder.first("EndpointSlice", startup.has_ready_endpoint)
        memory = gpu_memory_mib()
    finally:
        _save_log("plain", PLAIN)
    _remove_namespace(api, PLAIN)
    return {
        "engine_env": engine_image.variables(),
        "to_traffic_s": round(traffic - applied, 2),
        "container_to_traffic_s": round(traffic - running, 2),
        "features": times,
        "gpu_memory_mib": memory,
    }


def first_pod(setting: Setting) -> JsonObject:
    """A WarmModel, from apply to traffic. It stays for the measurements after this one."""
    api = Api(machine.KUBECONFIG)
    _new_namespace(api, WARM)
    recorder = Recorder(api, WARM, KINDS, LIMIT_S)
    applied = time.monotonic() - recorder.started
    api.apply(setting.warm_model())
    view = ModelView(api, NAME, WARM)
    try:
        wait_until("traffic", view.ready_addresses, timeout_s=LIMIT_S, describe=view.conditions)
        pod = view.engine_pod()
        told = _told_by(pod)
        times = _features(Client(view.service_url()), NAME)
        traffic = recorder.first("EndpointSlice", startup.has_ready_endpoint)
        resident = recorder.first("Pod", lambda pod: startup.holds(pod, "warmpod.io/Resident"))
        running = recorder.first("Pod", _engine_runs)
    finally:
        _save_log("warm-first", WARM)
    return {
        "engine_env": engine_image.variables(),
        "warmup": setting.warm_model()["spec"]["warmup"],
        "to_traffic_s": round(traffic - applied, 2),
        "to_resident_s": round(resident - applied, 2),
        "container_to_traffic_s": round(traffic - running, 2),
        "features": times,
        "gpu_memory_mib": gpu_memory_mib(),
        **told,
    }


def second_pod(_setting: Setting) -> JsonObject:
    """One more pod of the same WarmModel on the same node."""
    api = Api(machine.KUBECONFIG)
    view = ModelView(api, NAME, WARM)
    known = {pod["metadata"]["name"] for pod in view.engine_pods()}
    started = time.monotonic()
    api.patch("WarmModel", NAME, WARM, {"spec": {"replicas": len(known) + 1}})

    def new_pod() -> JsonObject | None:
        found = [pod for pod in view.engine_pods() if pod["metadata"]["name"] not in known]
        ready = [pod for pod in found if pod.get("status", {}).get("podIP") in addresses()]
        return ready[0] if ready else None

    def addresses() -> set[str]:
        return view.ready_addresses()

    try:
        pod = wait_until("traffic", new_pod, timeout_s=LIMIT_S, describe=view.conditions)
        took = time.monotonic() - started
        assert pod is not None
        told = _told_by(pod)
        times = _features(Client(f"http://{pod['status']['podIP']}:8000"), NAME)
    finally:
        _save_log("warm-second", WARM)
    return {
        "to_traffic_s": round(took, 2),
        "features": times,
        "gpu_memory_mib": gpu_memory_mib(),
        **told,
    }


def next_boot(_setting: Setting) -> JsonObject:
    """The engine of one pod is killed: from there to an open gate, in the same pod. Then the
    WarmModel goes."""
    api, node = Api(machine.KUBECONFIG), Node()
    view = ModelView(api, NAME, WARM)
    name, uid = (view.engine_pods()[0]["metadata"][key] for key in ("name", "uid"))
    before = _told_by(view.engine_pods()[0])["timeline"]["boot"]
    started = time.monotonic()
    kill(node.engine_main(uid))

    def gate(is_open: bool) -> JsonObject | None:
        pod = api.get("Pod", name, WARM)
        return pod if gate_is_open(pod) == is_open else None

    try:
        wait_until("the gate closes", lambda: gate(False), timeout_s=30, poll_s=0.01)
        closed = time.monotonic() - started
        pod = wait_until("the gate opens", lambda: gate(True), timeout_s=LIMIT_S)
        opened = time.monotonic() - started
        assert pod is not None
        told = _told_by(pod, before)
    finally:
        _save_log("warm-again", WARM)
    _remove_namespace(api, WARM)
    return {"gate_closed_s": round(closed, 3), "gate_open_s": round(opened, 2), **told}


def _told_by(pod: JsonObject, before: str = "") -> JsonObject:
    """What the sidecar recorded of the start: times of each stage, and of each bucket.

    `before`: the boot whose record is not meant."""
    api = Api(machine.KUBECONFIG)

    def recorded() -> JsonObject | None:
        latest = api.get("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"])
        message = condition_of(latest, "warmpod.io/StartupTimeline").get("message")
        timeline: JsonObject = json.loads(message or "{}")
        return timeline if timeline.get("gate") and timeline["boot"] != before else None

    timeline = wait_until("a start-up is recorded", recorded, timeout_s=60)
    return {"timeline": timeline, "sidecar": sidecar.status(pod)}


def _features(client: Client, model: str) -> JsonObject:
    """Seconds of the first request of each feature, and of the median of later ones."""
    measured = features.measure(client, model, FEATURES)
    return {
        name: {key: round(value, 4) for key, value in asdict(times).items() if value is not None}
        for name, times in measured.items()
    }


def gpu_memory_mib() -> int:
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return sum(map(int, listed.split()))


def _engine_runs(pod: JsonObject) -> bool:
    return "running" in container_status(pod, "engine").get("state", {})


def _save_log(name: str, namespace: str) -> None:
    """What the engines said, beside the steps' own logs."""
    selector = f"app={plain.NAME}" if namespace == PLAIN else "warmpod.io/component=engine"
    command = ["kubectl", "logs", f"--namespace={namespace}", f"--selector={selector}"]
    command += ["--container=engine", "--tail=-1", "--timestamps", "--prefix"]
    log = machine.STEPS / f"{name}-engine-{time.time():.0f}.log"
    with log.open("wb") as file:
        subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False)


def _new_namespace(api: Api, name: str) -> None:
    _remove_namespace(api, name)
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def _remove_namespace(api: Api, name: str) -> None:
    api.delete("Namespace", name)
    gone = lambda: api.find("Namespace", name) is None  # noqa: E731
    wait_until(f"namespace {name} is gone", gone, timeout_s=120)

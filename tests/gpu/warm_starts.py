"""Starts of the pods and boots of one WarmModel, each with its phases."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from bench import startup
from bench.watching import Recorder
from gpu import pods
from gpu.readings import GpuMemory, of_timeline
from gpu.results import REPEATS, Results
from gpu.setting import NAME, WARM, Setting
from support import sidecar
from support.api import Api
from support.clients import Client
from support.models import ModelView, condition_of, gate_is_open
from support.node import Node, kill
from support.waiting import wait_until
from warmpod.protocol import CACHE_ROOT

JsonObject = dict[str, Any]

KINDS = ("WarmModel", "DaemonSet", "Deployment", "Pod", "EndpointSlice")
# An agent looks for what engines offer every ten seconds.
STORED_S = 60


def first_pod(api: Api, setting: Setting, results: Results) -> None:
    """From apply to traffic, where nothing is in the page cache or compiled."""
    pods.new_namespace(api, WARM)
    view = ModelView(api, NAME, WARM)
    pods.drop_page_cache()
    with GpuMemory() as memory:
        recorder = Recorder(api, WARM, KINDS, pods.LIMIT_S)
        applied = time.monotonic() - recorder.started
        api.apply(setting.warm_model())
        pod = pods.new_pod(view.engine_pods, set(), view)
        traffic = recorder.first("EndpointSlice", startup.has_ready_endpoint)
        resident = recorder.first("Pod", lambda pod: startup.holds(pod, "warmpod.io/Resident"))
        start = told_by(api, pod, memory)
    start |= {
        "to_traffic_s": round(traffic - applied, 2),
        "to_resident_s": round(resident - applied, 2),
    }
    results.add("starts", start)
    results.note(spec=setting.warm_model()["spec"], sidecar=sidecar.status(pod))
    results.note(features=pods.measure_features(Client(view.service_url()), NAME))
    results.note(log=len(pods.engine_log(pod)), stored=wait_until_stored(view))


def second_pods(api: Api, setting: Setting, results: Results) -> None:
    """Another pod of the same WarmModel on the same node, again and again: what the first one
    compiled is there."""
    view = _running(api, setting)
    results.note(stored=wait_until_stored(view))
    pod: JsonObject | None = None
    for _ in results.repeats():
        known = pods.names(view.engine_pods())
        with GpuMemory() as memory:
            started = time.monotonic()
            if pod is None:
                api.patch("WarmModel", NAME, WARM, {"spec": {"replicas": 2}})
            else:
                pods.remove(api, pod)  # another one takes its place at once
            pod = pods.new_pod(view.engine_pods, known, view)
            took = round(time.monotonic() - started, 2)
            results.add("starts", told_by(api, pod, memory) | {"to_traffic_s": took})
        pods.engine_log(pod)


def forked(api: Api, setting: Setting, results: Results) -> None:
    """Boots that are forked from a process that has imported vLLM, after a kill of the engine."""
    _boots(api, setting.warm_model(forked=True), results)


def forked_profile(api: Api, setting: Setting, results: Results) -> None:
    """The same with the options that make any start shorter."""
    _boots(api, setting.warm_model(forked=True, lean=True), results)


def _boots(api: Api, body: JsonObject, results: Results) -> None:
    results.note(args=body["spec"]["engine"]["args"], env=body["spec"]["engine"]["env"])
    with GpuMemory() as memory:
        pod = pods.only_pod(api, roll_out(api, body))
        results.note(pod_start=told_by(api, pod, memory))
    for _ in results.repeats(REPEATS):
        results.add("starts", next_boot(api, pod))
    pods.engine_log(pod)


def roll_out(api: Api, body: JsonObject) -> ModelView:
    """Applies it and waits until its one pod serves; at once where it does already."""
    pods.ensure_namespace(api, WARM)
    view = ModelView(api, NAME, WARM)
    if len(view.engine_pods()) > 1:
        # The next revision's pod starts beside the last one's: there is no room for three.
        api.patch("WarmModel", NAME, WARM, {"spec": {"replicas": 1}})
        pods.only_pod(api, view)
    api.apply(body)
    view.wait_ready(pods.LIMIT_S)
    return view


def next_boot(api: Api, pod: JsonObject) -> JsonObject:
    """The engine is killed: from there to an open gate, in the same pod."""
    node, name = Node(), pod["metadata"]["name"]
    before = timeline_of(api, pod, "")["boot"]

    def gate(is_open: bool) -> JsonObject | None:
        found = api.get("Pod", name, WARM)
        return found if gate_is_open(found) == is_open else None

    with GpuMemory() as memory:
        started = time.monotonic()
        kill(node.engine_main(pod["metadata"]["uid"]))
        wait_until("the gate closes", lambda: gate(False), timeout_s=30, poll_s=0.01)
        closed = time.monotonic() - started
        wait_until("the gate opens", lambda: gate(True), timeout_s=pods.LIMIT_S)
        opened = time.monotonic() - started
        start = told_by(api, pod, memory, before)
    return start | {"gate_closed_s": round(closed, 3), "kill_to_gate_s": round(opened, 2)}


def told_by(api: Api, pod: JsonObject, memory: GpuMemory, before: str = "") -> JsonObject:
    """What the sidecar recorded of the start, which is not that of the boot `before`."""
    return of_timeline(timeline_of(api, pod, before), memory)


def timeline_of(api: Api, pod: JsonObject, before: str) -> JsonObject:
    def recorded() -> JsonObject | None:
        latest = api.get("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"])
        message = condition_of(latest, "warmpod.io/StartupTimeline").get("message")
        timeline: JsonObject = json.loads(message or "{}")
        return timeline if timeline.get("gate") and timeline["boot"] != before else None

    found = wait_until("a start-up is recorded", recorded, timeout_s=60)
    assert found is not None
    return found


def _running(api: Api, setting: Setting) -> ModelView:
    """The WarmModel of `first_pod`, made anew where it is not there or has become another one."""
    view = roll_out(api, setting.warm_model())
    pods.only_pod(api, view)
    return view


def wait_until_stored(view: ModelView) -> list[JsonObject]:
    """What the node has kept of the compiled code, by its own account; [] if that does not come."""
    store = Path(CACHE_ROOT) / view.namespace / view.get()["metadata"]["uid"] / "published"
    deadline = time.monotonic() + STORED_S
    while time.monotonic() < deadline:
        # One whose name begins with a dot is still being copied.
        if found := list(store.glob("[!.]*/entry.json")):
            return [_described(json.loads(path.read_text())) for path in found]
        time.sleep(0.5)
    return []


def _described(entry: JsonObject) -> JsonObject:
    """Without its list of files, which is long."""
    files = entry.pop("files", [])
    return entry | {"files": len(files)}

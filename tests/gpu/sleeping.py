"""Engines that sleep: how fast they wake up, two that take turns on one GPU, and whether its memory
comes back after many turns."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import requests

from gpu import pods
from gpu.readings import gpu_memory_mib
from gpu.results import REPEATS, Results
from gpu.setting import NAME, SLEEP, Setting
from support.api import Api
from support.clients import Client
from support.endpoints import EndpointWatch
from support.features import COMPLETION, SHORT, new_text
from support.models import GATE, ModelView, condition_of, gate_is_open
from support.node import Node
from support.promotion import QUIET_S, RoleWatch, scale
from support.waiting import wait_until
from warmpod.protocol import DEV_KEY_FILE, DEV_KEY_HEADER, RUN_MOUNT

JsonObject = dict[str, Any]

CYCLES = 20
# The first time, host memory for the weights is pinned.
ASLEEP_S = 120
_TOOK = re.compile(r"It took (?P<seconds>[\d.]+) seconds to (?P<what>fall asleep|wake up[^.]*)")


def wakes(api: Api, setting: Setting, results: Results) -> None:
    """From the write to /scale to the first token through the Service, of a pod that sleeps."""
    view = _pool(api, setting, 1)
    roles, endpoints = RoleWatch(api, SLEEP), EndpointWatch(api, view, timeout_s=3600)
    results.note(spec=setting.sleeper()["spec"], asleep_mib=gpu_memory_mib())
    for _ in results.repeats(REPEATS):
        time.sleep(QUIET_S)
        results.add("wakes", _wake(api, view, roles, endpoints))
    (pod,) = view.engine_pods()
    results.note(engine=times_of(pods.engine_log(pod)))


def _wake(api: Api, view: ModelView, roles: RoleWatch, endpoints: EndpointWatch) -> JsonObject:
    (pod,), asleep = view.engine_pods(), gpu_memory_mib()
    name, address = pod["metadata"]["name"], pod["status"]["podIP"]
    written = scale(api, view, 1)
    answered = _first_token_of(view.service_url())
    # Nobody is to take its place in the pool, where the next turn would have two pods.
    _set(api, replicas=1, standby=0)
    found = {
        "label_s": roles.wait_for(name) - written,
        "endpoint_s": endpoints.wait_for(address, ready=True, timeout_s=60) - written,
        "answer_s": answered - written,
    }
    awake = gpu_memory_mib()
    pods.only_pod(api, view)
    back = time.monotonic()
    _set(api, replicas=0, standby=1)
    _wait_asleep(view, 1)
    found["asleep_again_s"] = time.monotonic() - back
    return _rounded(found) | {"asleep_mib": asleep, "awake_mib": awake}


def switches(api: Api, setting: Setting, results: Results) -> None:
    """Two engines, each by its own endpoints: one falls asleep, the other one wakes up and answers.

    They are pods of one WarmModel, which no engine can tell from two models of one size."""
    view = _pool(api, setting, 2)
    results.note(both_asleep_mib=gpu_memory_mib())
    with pods.without_operator(api):
        on, off = (_Engine(api, pod) for pod in view.engine_pods())
        on.wake()
        on.wait_told(awake=True)
        for _ in results.repeats(REPEATS):
            for way, switch in WAYS.items():
                results.add(way, _rounded(switch(on, off)) | {"awake_mib": gpu_memory_mib()})
                on, off = off, on
                on.wait_told(awake=True)
        on.sleep()
    results.note(engines=[times_of(pods.engine_log(pod)) for pod in view.engine_pods()])


def _one_after_the_other(on: _Engine, off: _Engine) -> JsonObject:
    called = time.monotonic()
    on.sleep()
    slept = time.monotonic()
    off.wake()
    woken = time.monotonic()
    return {
        "slept_s": slept - called,
        "woken_s": woken - called,
        "first_token_s": off.first_token() - called,
    }


def _weights_beside(on: _Engine, off: _Engine) -> JsonObject:
    """The weights of one come while those of the other go; its KV cache, for which there may be no
    room before, comes after that. Not all of it at once: vLLM's sleep fails where it finds less
    memory free than when it began (v1/worker/gpu_worker.py)."""
    called = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        going = pool.submit(on.sleep)
        off.wake("weights")
        weights = time.monotonic()
        going.result()
    slept = time.monotonic()
    off.wake("kv_cache")
    woken = time.monotonic()
    return {
        "slept_s": slept - called,
        "weights_s": weights - called,
        "woken_s": woken - called,
        "first_token_s": off.first_token() - called,
    }


WAYS: dict[str, Callable[[_Engine, _Engine], JsonObject]] = {
    "one_after_the_other": _one_after_the_other,
    "weights_beside": _weights_beside,
}


def cycles(api: Api, setting: Setting, results: Results) -> None:
    """Asleep and awake again and again: the GPU's memory must not grow."""
    view = _pool(api, setting, None)
    with pods.without_operator(api):
        engine = _Engine(api, view.engine_pods()[0])
        results.note(asleep_before_mib=gpu_memory_mib())
        for _ in results.repeats(CYCLES):
            engine.wake()
            engine.first_token()
            engine.wait_told(awake=True)
            awake = gpu_memory_mib()
            engine.sleep()
            engine.wait_told(awake=False)
            results.add("cycles", {"awake_mib": awake, "asleep_mib": gpu_memory_mib()})


class _Engine:
    """One engine, called as its sidecar calls it."""

    def __init__(self, api: Api, pod: JsonObject) -> None:
        self._api = api
        self._name = pod["metadata"]["name"]
        self._url = f"http://{pod['status']['podIP']}:8000"
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy between the harness and the cluster
        key = Node().files_in(pod, "engine", RUN_MOUNT) / DEV_KEY_FILE
        self._session.headers[DEV_KEY_HEADER] = key.read_text().strip()

    def sleep(self) -> None:
        self._post("/sleep", level="1", mode="wait")

    def wake(self, tags: str = "") -> None:
        """Its weights, its KV cache, or both."""
        self._post("/wake_up", **({"tags": tags} if tags else {}))

    def first_token(self) -> float:
        """The moment (monotonic) of the first token of an answer."""
        return _ask(self._url)

    def wait_told(self, *, awake: bool) -> None:
        """Until its sidecar has seen it; awake: and has compared its answer with the one from
        before it slept."""

        def told() -> bool:
            return gate_is_open(self._api.get("Pod", self._name, SLEEP)) == awake

        wait_until(f"the gate of {self._name} follows", told, timeout_s=60)

    def _post(self, path: str, **parameters: str) -> None:
        response = self._session.post(f"{self._url}{path}", params=parameters, timeout=ASLEEP_S)
        response.raise_for_status()


def _pool(api: Api, setting: Setting, count: int | None) -> ModelView:
    """The WarmModel whose pods sleep, made where it is not there, once `count` of them do; None: as
    many as there are, but at least one."""
    pods.ensure_namespace(api, SLEEP)
    view = ModelView(api, NAME, SLEEP)
    if count is None:
        count = max(1, len(pods.staying(view.engine_pods())))
    # One by one: an engine that starts measures what memory of the GPU others leave it.
    for number in range(1, count + 1):
        if len(pods.staying(view.engine_pods())) < number or number == count:
            api.apply(setting.sleeper(standby=number))
            _wait_asleep(view, number)
    return view


def _wait_asleep(view: ModelView, count: int) -> None:
    def asleep() -> bool:
        found = view.engine_pods()
        return len(found) == count and all(
            condition_of(pod, GATE).get("reason") == "Asleep" for pod in found
        )

    limit = pods.LIMIT_S + ASLEEP_S
    wait_until(f"{count} sleep", asleep, timeout_s=limit, describe=view.conditions)


def _set(api: Api, replicas: int, standby: int) -> None:
    body = {"spec": {"replicas": replicas, "standby": {"replicas": standby}}}
    api.patch("WarmModel", NAME, SLEEP, body)


def _first_token_of(url: str) -> float:
    """The moment (monotonic) of the first token, asked for without a pause until there is one."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            return _ask(url)
        except requests.ConnectionError:
            continue
    raise AssertionError(f"nobody answers at {url}")


def _ask(url: str) -> float:
    body = {"model": NAME, "prompt": new_text(SHORT), "max_tokens": 8}
    sent = time.monotonic()
    return sent + Client(url).stream(COMPLETION, body).first_token


def times_of(log: list[str]) -> JsonObject:
    """What the engine itself says of how long it took to sleep and to wake up, in seconds."""
    found: JsonObject = {}
    for line in log:
        if told := _TOOK.search(line):
            found.setdefault(told["what"], []).append(float(told["seconds"]))
    return found


def _rounded(seconds: JsonObject) -> JsonObject:
    return {name: round(value, 3) for name, value in seconds.items()}

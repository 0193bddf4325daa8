"""The first request of each feature after an engine takes traffic, against those that follow."""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import requests

from bench import plain
from support import sidecar
from support.api import Api, JsonObject
from support.clients import Client
from support.features import TOOLS, Feature, Took, chat_features
from support.models import ModelView, condition_of, vllm_engine, warm_model, with_adapter
from support.waiting import wait_until

BOOTS = 10  # with warmpod
PLAIN_BOOTS = 3  # without: what they show is large
STEADY_PASSES = 10  # over all features
LIMIT_S = 900
# The node acts on a gate that opened (endpoints, the proxy's rules, status) for as long as that; on
# two cores it would be taken for what the first features cost.
NODE_SETTLES_S = 3
ADAPTER = "dialect"
ARGUMENTS = ["--enable-auto-tool-choice", "--tool-call-parser=hermes"]
FEATURES = [*chat_features(ADAPTER), TOOLS]


@dataclass(frozen=True)
class Times:
    """Seconds of one feature in one boot: the first request, and the medians of later ones, to the
    end of the answer; of streamed ones to the first token, too."""

    first: float
    steady: float
    first_token: float | None
    steady_token: float | None


@dataclass(frozen=True)
class Boot:
    """`buckets` is the sidecar's own account of the warm-up, which a plain engine has not."""

    times: dict[str, Times]
    warm_up_s: float = 0.0
    buckets: tuple[JsonObject, ...] = ()


def vllm_spec() -> JsonObject:
    return _with_features(vllm_engine())


def simulator_spec() -> JsonObject:
    """The simulator as the tests run it, but with the arguments of the real engine."""
    engine: JsonObject = warm_model("bench", "")["spec"]["engine"]
    return _with_features(engine | {"args": vllm_engine()["args"]})


def _with_features(engine: JsonObject) -> JsonObject:
    spec = with_adapter({"engine": engine, "warmup": {}}, ADAPTER)
    spec["engine"]["args"] += ARGUMENTS
    return spec


def warm_boot(api: Api, namespace: str, spec: JsonObject) -> Boot:
    api.apply(warm_model("bench", namespace, **spec))
    view = ModelView(api, "bench", namespace)
    wait_until("traffic", view.ready_addresses, timeout_s=LIMIT_S, describe=view.conditions)
    times = measure(Client(view.service_url()), view.name)
    pod = view.engine_pod()
    timeline = json.loads(condition_of(pod, "warmpod.io/StartupTimeline")["message"])
    buckets = tuple(sidecar.status(pod)["buckets"])
    return Boot(times, float(timeline["gate"] - timeline["http"]), buckets)


def plain_boot(api: Api, namespace: str, spec: JsonObject) -> Boot:
    for body in plain.objects(namespace, spec["engine"], tuple(spec["pod"]["volumes"])):
        api.apply(body)
    view = ModelView(api, plain.NAME, namespace)
    wait_until("traffic", view.ready_addresses, timeout_s=LIMIT_S)
    return Boot(measure(Client(view.service_url()), view.name))


def measure(client: Client, model: str, features: Sequence[Feature] = FEATURES) -> dict[str, Times]:
    """Asks for every feature once, again and again: later requests of a feature come after others
    just as its first does. In another order in each boot, so that no place in it is any feature's.
    """
    wait_until("an answer", lambda: _answers(client.url), timeout_s=LIMIT_S)
    time.sleep(NODE_SETTLES_S)
    order = random.sample(features, len(features))
    first, *later = (
        {feature.name: feature.ask(client, model) for feature in order}
        for _ in range(1 + STEADY_PASSES)
    )
    return {
        feature.name: _times(feature, first[feature.name], [took[feature.name] for took in later])
        for feature in features
    }


def _answers(url: str) -> bool:
    """Whether the Service does: the node's proxy follows the endpoints a moment later. This page
    costs the engine nothing, and every kubelet asks for it."""
    with requests.Session() as session:
        session.trust_env = False
        try:
            return session.get(f"{url}/health", timeout=5).ok
        except requests.ConnectionError:
            return False


def _times(feature: Feature, first: Took, later: Sequence[Took]) -> Times:
    steady = statistics.median(took.total for took in later)
    if not feature.stream:
        return Times(first.total, steady, None, None)
    steady_token = statistics.median(took.first_token for took in later)
    return Times(first.total, steady, first.first_token, steady_token)


def summary(warm: Sequence[Boot], without: Sequence[Boot]) -> JsonObject:
    return {
        "boots": len(warm),
        "features": {
            feature.name: {
                "warmpod": _over_boots([boot.times[feature.name] for boot in warm]),
                "plain": _over_boots([boot.times[feature.name] for boot in without]),
            }
            for feature in FEATURES
        },
        "warm_up_s": [round(boot.warm_up_s, 2) for boot in warm],
        "buckets": list(_buckets(warm)),
    }


def _over_boots(times: Sequence[Times]) -> JsonObject:
    """`ratio` is the median over the boots."""
    tokens = [
        (each.first_token, each.steady_token)
        for each in times
        if each.first_token is not None and each.steady_token is not None
    ]
    found = _compared("", [(each.first, each.steady) for each in times])
    return found | (_compared("_token", tokens) if tokens else {})


def _compared(suffix: str, pairs: Sequence[tuple[float, float]]) -> JsonObject:
    return {
        f"ratio{suffix}": round(statistics.median(first / steady for first, steady in pairs), 2),
        f"first{suffix}_ms": [_milliseconds(first) for first, _ in pairs],
        f"steady{suffix}_ms": [_milliseconds(steady) for _, steady in pairs],
    }


def _buckets(boots: Sequence[Boot]) -> Iterator[JsonObject]:
    """Medians over the boots of what the sidecar measured for each bucket."""
    for name in dict.fromkeys(bucket["name"] for boot in boots for bucket in boot.buckets):
        found = [bucket for boot in boots for bucket in boot.buckets if bucket["name"] == name]
        yield {"name": name} | {
            key: round(statistics.median(bucket[key] for bucket in found), 2)
            for key in ("first_ms", "steady_ms", "ratio", "rounds")
        }


def _milliseconds(seconds: float) -> float:
    return round(1000 * seconds, 1)


def table(result: JsonObject) -> str:
    """For docs/benchmarks.md: medians of all boots in milliseconds."""
    lines = ["| feature | first | later | ratio | plain: first | later | ratio |"]
    lines.append("|---|" + 6 * "---:|")
    for name, measured in result["features"].items():
        lines.append(_row(name, measured, ""))
        if "ratio_token" in measured["warmpod"]:
            lines.append(_row(f"{name}: first token", measured, "_token"))
    lines += ["", "| bucket | first, ms | steady, ms | ratio | rounds |", "|---|" + 4 * "---:|"]
    for bucket in result["buckets"]:
        figures = " | ".join(
            f"{bucket[key]:g}" for key in ("first_ms", "steady_ms", "ratio", "rounds")
        )
        lines.append(f"| `{bucket['name']}` | {figures} |")
    return "\n".join(lines)


def _row(name: str, measured: JsonObject, suffix: str) -> str:
    cells = [_cells(measured[side], suffix) for side in ("warmpod", "plain")]
    return f"| {name} | {' | '.join(cells)} |"


def _cells(measured: JsonObject, suffix: str) -> str:
    first, steady = (
        statistics.median(measured[f"{key}{suffix}_ms"]) for key in ("first", "steady")
    )
    return f"{first:.0f} | {steady:.0f} | {measured[f'ratio{suffix}']:.2f}"

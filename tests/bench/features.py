"""The first request of each feature after an engine takes traffic, against those that follow."""

from __future__ import annotations

import json
import socket
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from bench import plain
from support import sidecar
from support.api import Api, JsonObject
from support.clients import Client
from support.features import TOOLS, Feature, chat_features
from support.models import ModelView, condition_of, vllm_engine, warm_model, with_adapter
from support.waiting import wait_until

BOOTS = 10  # with warmpod
PLAIN_BOOTS = 3  # without: what they show is large
STEADY_REQUESTS = 10  # of each feature
LIMIT_S = 900
ADAPTER = "dialect"
ARGUMENTS = ["--enable-auto-tool-choice", "--tool-call-parser=hermes"]
FEATURES = [*chat_features(ADAPTER), TOOLS]


@dataclass(frozen=True)
class Times:
    """Seconds of one feature in one boot: the first request, and the median of later ones."""

    first: float
    steady: float


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
    times = _measure(Client(view.service_url()), view.name)
    pod = view.engine_pod()
    timeline = json.loads(condition_of(pod, "warmpod.io/StartupTimeline")["message"])
    buckets = tuple(sidecar.status(pod)["buckets"])
    return Boot(times, float(timeline["gate"] - timeline["http"]), buckets)


def plain_boot(api: Api, namespace: str, spec: JsonObject) -> Boot:
    for body in plain.objects(namespace, spec["engine"], tuple(spec["pod"]["volumes"])):
        api.apply(body)
    view = ModelView(api, plain.NAME, namespace)
    wait_until("traffic", view.ready_addresses, timeout_s=LIMIT_S)
    return Boot(_measure(Client(view.service_url()), view.name))


def _measure(client: Client, model: str) -> dict[str, Times]:
    """Each feature's first request before any of them is asked again."""
    wait_until("a connection", lambda: _connects(client.url), timeout_s=LIMIT_S)
    firsts = {feature.name: feature.ask(client, model) for feature in FEATURES}
    return {
        feature.name: Times(firsts[feature.name], _steady(feature, client, model))
        for feature in FEATURES
    }


def _connects(url: str) -> bool:
    """Whether the Service does; the node's proxy follows the endpoints a moment later. Nothing is
    asked on the connection."""
    address = urlsplit(url)
    try:
        socket.create_connection((address.hostname or "", address.port or 80), timeout=1).close()
    except OSError:
        return False
    return True


def _steady(feature: Feature, client: Client, model: str) -> float:
    return statistics.median(feature.ask(client, model) for _ in range(STEADY_REQUESTS))


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
    return {
        "ratio": round(statistics.median(each.first / each.steady for each in times), 2),
        "first_ms": [_milliseconds(each.first) for each in times],
        "steady_ms": [_milliseconds(each.steady) for each in times],
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
        cells = [_cells(measured[side]) for side in ("warmpod", "plain")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", "| bucket | first, ms | steady, ms | ratio | rounds |", "|---|" + 4 * "---:|"]
    for bucket in result["buckets"]:
        figures = " | ".join(
            f"{bucket[key]:g}" for key in ("first_ms", "steady_ms", "ratio", "rounds")
        )
        lines.append(f"| `{bucket['name']}` | {figures} |")
    return "\n".join(lines)


def _cells(measured: JsonObject) -> str:
    first, steady = (statistics.median(measured[key]) for key in ("first_ms", "steady_ms"))
    return f"{first:.0f} | {steady:.0f} | {measured['ratio']:.2f}"

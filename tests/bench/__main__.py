"""Measures everything and writes docs/benchmarks/<name>.json, one file a subject.

python -m bench [SUBJECT...]

Subjects: gate, footprint, operator, startup, pull, prefetched, features, promotion, churn,
restarts, compile_cache, for which KUBECONFIG names the local cluster; hashing, restart, residency
and engine_image need no cluster, but root.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path

from bench import (
    agent_restart,
    compile_cache,
    engine_image,
    features,
    gate,
    hashing,
    operator_load,
    prefetched,
    promotion,
    residency,
    scale_outs,
    startup,
    usage,
)
from support.api import Api, JsonObject
from support.models import ModelView, warm_model
from support.namespaces import temporary_namespace
from support.node import Node

OUTPUT = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"
REPEATS = 3


def namespace(api: Api) -> AbstractContextManager[str]:
    return temporary_namespace(api, "bench-")


def bench_gate(api: Api, node: Node) -> JsonObject:
    with namespace(api) as name:
        view = simulated(api, name)
        delays = gate.measure_kills(api, node, view)
    milliseconds = sorted(round(1000 * delay, 1) for delay in delays)
    return {
        "kills": len(milliseconds),
        "median_ms": statistics.median(milliseconds),
        "worst_ms": milliseconds[-1],
        "all_ms": milliseconds,
    }


def bench_footprint(api: Api, node: Node) -> JsonObject:
    with namespace(api) as name:
        view = simulated(api, name)
        engine = view.engine_pod()["metadata"]["uid"]
        prefetch = view.prefetch_pods()[0]["metadata"]["uid"]
        containers = {
            "sidecar": node.container_pid(engine, "warmup"),
            "agent": node.container_pid(prefetch, "agent"),
        }
        seconds = operator_load.IDLE_SECONDS
        return {what: rounded(usage.measure(pid, seconds)) for what, pid in containers.items()}


def bench_operator(api: Api, node: Node) -> JsonObject:
    idle = operator_load.measure_idle(api, node)
    with namespace(api) as name:
        loaded = operator_load.measure_with_many(api, node, name)
    return {"idle": rounded(idle), f"{operator_load.MODELS} WarmModels": rounded(loaded)}


def bench_startup(api: Api, node: Node) -> JsonObject:
    """Alternates the two, so that noise of the machine meets both alike."""
    warm, plain = [], []
    for _ in range(REPEATS):
        with namespace(api) as name:
            plain.append(startup.measure_plain(api, name))
        with namespace(api) as name:
            warm.append(startup.measure_warm(api, name))
    return {
        "warmpod": [startup.as_json(start) for start in warm],
        "plain": [startup.as_json(start) for start in plain],
        "ratio_to_traffic": ratio([w.to_traffic for w in warm], [p.to_traffic for p in plain]),
        "ratio_first_to_steady_warmpod": ratio(
            [w.first_request_s for w in warm], [w.steady_request_s for w in warm]
        ),
        "ratio_first_to_steady_plain": ratio(
            [p.first_request_s for p in plain], [p.steady_request_s for p in plain]
        ),
    }


def bench_pull(api: Api, node: Node) -> JsonObject:
    """The first start on a node that has neither the engine's image nor the weights'."""
    starts = []
    for _ in range(REPEATS):
        node.remove_images("warmpod/engine-cpu", "warmpod/weights-tiny")
        with namespace(api) as name:
            starts.append(startup.measure_warm(api, name))
    return {"warmpod": [startup.as_json(start) for start in starts]}


def bench_prefetched(api: Api, node: Node) -> JsonObject:
    """Alternates the two, so that noise of the machine meets both alike."""
    held, bare = [], []
    for _ in range(REPEATS):
        node.remove_images("warmpod/engine-cpu", "warmpod/weights-tiny")
        with namespace(api) as name:
            bare.append(prefetched.start(api, name))
        with namespace(api) as name:
            prefetched.prefetch(api, name)
            held.append(prefetched.start(api, name))
    return {
        "prefetched_s": [round(seconds, 2) for seconds in held],
        "bare_s": [round(seconds, 2) for seconds in bare],
        "ratio_bare_to_prefetched": ratio(bare, held),
    }


def bench_features(api: Api, node: Node) -> JsonObject:
    """Each boot in a new pod, and those without warmpod among the others, so that noise of the
    machine meets both alike."""
    specs = {"simulator": features.simulator_spec(), "vllm": features.vllm_spec()}
    return {engine: bench_features_of(api, spec) for engine, spec in specs.items()}


def bench_features_of(api: Api, spec: JsonObject) -> JsonObject:
    warm, plain = [], []
    for number in range(features.BOOTS):
        if number < features.PLAIN_BOOTS:
            with namespace(api) as name:
                plain.append(features.plain_boot(api, name, spec))
            print(json.dumps({"plain": asdict(plain[-1])}), flush=True)
        with namespace(api) as name:
            warm.append(features.warm_boot(api, name, spec))
        print(json.dumps({"warmpod": asdict(warm[-1])}), flush=True)
    result = features.summary(warm, plain)
    print(features.table(result), flush=True)
    return result


def bench_promotion(api: Api, node: Node) -> JsonObject:
    with namespace(api) as name:
        return promotion.measure(api, node, name)


def bench_restarts(api: Api, _node: Node) -> JsonObject:
    with namespace(api) as name:
        return scale_outs.while_the_operator_restarts(api, name)


def bench_churn(api: Api, _node: Node) -> JsonObject:
    with namespace(api) as name:
        return scale_outs.while_endpoints_churn(api, name)


def bench_compile_cache(api: Api, _node: Node) -> JsonObject:
    with namespace(api) as name:
        return compile_cache.measure(api, name)


def simulated(api: Api, name: str) -> ModelView:
    api.apply(warm_model("bench", name, warmup={}))
    view = ModelView(api, "bench", name)
    view.wait_ready()
    return view


def ratio(ours: list[float], theirs: list[float]) -> float:
    return round(statistics.median(ours) / statistics.median(theirs), 2)


def rounded(measured: usage.Usage) -> JsonObject:
    return {name: round(value, 2) for name, value in asdict(measured).items()}


SUBJECTS: dict[str, Callable[[Api, Node], JsonObject]] = {
    "gate": bench_gate,
    "footprint": bench_footprint,
    "operator": bench_operator,
    "startup": bench_startup,
    "pull": bench_pull,
    "prefetched": bench_prefetched,
    "features": bench_features,
    "promotion": bench_promotion,
    "restarts": bench_restarts,
    "churn": bench_churn,
    "compile_cache": bench_compile_cache,
}


# Without a cluster.
OF_THE_MACHINE: dict[str, Callable[[], JsonObject]] = {
    "hashing": hashing.measure,
    "restart": agent_restart.measure,
    "residency": residency.measure,
    "engine_image": engine_image.measure,
}


def measure(subject: str) -> JsonObject:
    if subject in OF_THE_MACHINE:
        return OF_THE_MACHINE[subject]()
    return SUBJECTS[subject](Api(Path(os.environ["KUBECONFIG"])), Node())


def main() -> int:
    known = [*SUBJECTS, *OF_THE_MACHINE]
    wanted = sys.argv[1:] or known
    if unknown := sorted(set(wanted) - set(known)):
        print(f"no subject {', '.join(unknown)}; choose from {', '.join(known)}")
        return 2
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for subject in wanted:
        print(f"measuring {subject} …", flush=True)
        result = measure(subject)
        (OUTPUT / f"{subject}.json").write_text(json.dumps(result, indent=2) + "\n")
        print(json.dumps(result, indent=2), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

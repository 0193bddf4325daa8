"""A WarmModel with two pods, as the API server returns them."""

import json
from datetime import UTC, datetime
from typing import Any

CREATED = "2026-01-01T10:00:00Z"
ZERO = datetime(2026, 1, 1, 10, tzinfo=UTC).timestamp()
NOW = datetime(2026, 1, 1, 11, 30, tzinfo=UTC)

TIMELINE = {
    "boot": "abc123",
    "number": 1,
    "cause": "pod-start",
    "launcher": ZERO + 4,
    "boot_started": ZERO + 5,
    "stages": {
        "version": ZERO + 15,
        "weights": ZERO + 25,
        "compile": ZERO + 32,
        "graphs": ZERO + 40,
    },
    "took": {"weights": 10.0, "compile": 12.0, "graphs": 3.0},
    "silent": [[ZERO + 5, ZERO + 15, "import"], [ZERO + 33, ZERO + 36, "compilers: nvcc"]],
    "buckets": 31,
    "worst": [["chat/<stream>&co", 1840.4, 22.1]],
    "restarts": 0,
    "http": ZERO + 41,
    "first_token": ZERO + 43,
    "rounds": 4,
    "gate": ZERO + 50,
    "first_ttft_ms": 1840.4,
    "steady_ttft_ms": 22.1,
    "compile": "miss",
}


def warm_model() -> dict[str, Any]:
    return {
        "metadata": {"name": "tiny", "namespace": "demo", "generation": 2},
        "spec": {"replicas": 2, "model": {"image": "127.0.0.1:5000/warmpod/weights-tiny:dev"}},
        "status": {
            "observedGeneration": 2,
            "revision": "0123456789",
            "readyReplicas": 1,
            "warmReplicas": 1,
            "model": {"digest": "sha256:aaaa"},
            "nodes": {
                "eligible": 2,
                "prefetched": 2,
                "resident": 1,
                "failed": [{"node": "n2", "reason": "SizeMismatch", "message": "model.gguf"}],
            },
            "conditions": [
                {
                    "type": "Ready",
                    "status": "False",
                    "reason": "WaitingForWarmPods",
                    "message": "1 of 2 pods are warm [really]",
                    "lastTransitionTime": "2026-01-01T11:29:00Z",
                }
            ],
            "lastStartups": [
                {"pod": "tiny-1", "boot": "abc123", "warmTime": "2026-01-01T10:00:50Z"},
                {
                    "pod": "tiny-0",
                    "boot": "fff",
                    "cause": "pod-start",
                    "compile": "hit",
                    "warmTime": "2026-01-01T09:00:00Z",
                    "startSeconds": 30,
                    "weightsSeconds": 2,
                    "engineSeconds": 20,
                    "warmupSeconds": 5,
                    "rounds": 3,
                    "firstTokenMilliseconds": 100,
                    "steadyTokenMilliseconds": 20,
                },
                {
                    "pod": "tiny-3",
                    "boot": "eee",
                    "cause": "engine-died",
                    "warmTime": "2026-01-01T08:00:00Z",
                    "startSeconds": 10,
                    "phases": [
                        {"name": "import", "milliseconds": 6000, "silent": True},
                        {"name": "start-http", "milliseconds": 1500, "silent": False},
                        {"name": "rounds", "milliseconds": 2500, "silent": False},
                    ],
                },
            ],
        },
    }


def pod(name: str, component: str, conditions: list[dict[str, Any]]) -> dict[str, Any]:
    labels = {"warmpod.io/component": component}
    if component == "engine":
        labels |= {"warmpod.io/role": "serving", "warmpod.io/revision": "0123456789"}
    else:
        labels["warmpod.io/prefetch"] = "01234567"
    return {
        "metadata": {"name": name, "labels": labels, "creationTimestamp": CREATED},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running", "conditions": conditions},
    }


def engine_pod(conditions: list[dict[str, Any]]) -> dict[str, Any]:
    """Scheduled after one second; its engine's container ran after four."""
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastTransitionTime": "2026-01-01T10:00:01Z",
    }
    found = pod("tiny-1", "engine", [*conditions, scheduled])
    state = {"running": {"startedAt": "2026-01-01T10:00:04Z"}}
    found["status"]["containerStatuses"] = [{"name": "engine", "restartCount": 0, "state": state}]
    return found


def pods() -> list[dict[str, Any]]:
    warm = {"type": "warmpod.io/Warm", "status": "True", "reason": "Warm", "message": "boot abc123"}
    timeline = {
        "type": "warmpod.io/StartupTimeline",
        "status": "True",
        "message": json.dumps(TIMELINE),
    }
    resident = {
        "type": "warmpod.io/Resident",
        "status": "True",
        "reason": "Resident",
        "message": "5 files",
    }
    return [
        engine_pod([warm, timeline]),
        pod("tiny-2", "engine", []),
        pod("tiny-prefetch-1", "prefetch", [resident]),
    ]

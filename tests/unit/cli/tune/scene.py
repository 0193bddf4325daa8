"""A WarmModel to tune, and a cluster to tune it on."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from unit.resources.samples import rendered
from warmpod.api import WarmModel
from warmpod.cli.cluster import AlreadyExists, Cluster, ClusterError, Document, Snapshot
from warmpod.cli.tune.load import Play
from warmpod.cli.tune.points import Point
from warmpod.cli.tune.run import Tuning
from warmpod.cli.waiting import Waiting
from warmpod.load.summary import Summary

FAST = Summary(100, 0, 900.0, 9.0, 20.0, 400.0, 10.0, 12.0)
SLOW = Summary(100, 0, 500.0, 5.0, 20.0, 100.0, 10.0, 12.0)
PLAY = Play('{"prompt": "a"}', 64, 60, 10)
POINTS = [Point(2048, 64), Point(8192, 64)]


def model(**spec: Any) -> Document:
    """As the API server has it."""
    engine = {"image": "vllm/vllm-openai:v0.32.0", "args": ["--max-num-seqs=9"]}
    return {
        "metadata": {
            "name": "llama",
            "namespace": "demo",
            "uid": "u",
            "labels": {"argocd.argoproj.io/instance": "x"},
        },
        "spec": {"model": {"image": "models/llama:1"}, "engine": engine, **spec},
    }


def stalled(why: str) -> Document:
    return {"conditions": [{"type": "Stalled", "status": "True", "reason": why, "message": "m"}]}


WARM: Document = {"readyReplicas": 1}


@dataclass
class FakeCluster:
    """An API server with an operator: what it is asked for happens at the next look.

    `statuses` are those of the temporary WarmModels, one after another; `loads` phase and log of
    their loads. `failures` counts looks that fail before the others do not."""

    statuses: list[Document] = field(default_factory=list)
    loads: list[tuple[str, str]] = field(default_factory=list)
    failures: int = 0
    default_namespace: str = "demo"
    models: dict[str, Document] = field(default_factory=dict)
    objects: dict[tuple[str, str], Document] = field(default_factory=dict)
    made: list[Document] = field(default_factory=list)
    leaving: int = 0

    def snapshot(self, namespace: str, name: str) -> Snapshot:
        self._fail_sometimes()
        if name not in self.models:
            raise ClusterError(f"there is no WarmModel {namespace}/{name}")
        return Snapshot(self.models[name], self.pods(namespace, name))

    def create(self, namespace: str, document: Document) -> Document:
        name = document["metadata"]["name"]
        if name in self.models or self.leaving:
            raise AlreadyExists(name)
        created = copy.deepcopy(document)
        created["metadata"]["uid"] = f"uid-{len(self.made)}"
        self.made.append(document)
        self.models[name] = {**created, "status": self.statuses.pop(0)}
        return created

    def delete(self, document: Document) -> None:
        del self.models[document["metadata"]["name"]]
        self.objects.clear()
        self.leaving = 2  # looks at pods until they are gone

    def pods(self, namespace: str, name: str) -> list[Document]:
        self._fail_sometimes()
        if name in self.models:
            return [engine_pod(WarmModel.parse(self.models[name]))]
        self.leaving = max(0, self.leaving - 1)
        return [{}] if self.leaving else []

    def core_object(self, namespace: str, plural: str, name: str) -> Document:
        self._fail_sometimes()
        found = self.objects[plural, name]
        if plural == "pods":
            found["status"] = {"phase": self.loads[0][0]}
        return found

    def create_core_object(self, namespace: str, plural: str, document: Document) -> Document:
        self.objects[plural, document["metadata"]["name"]] = document
        return document

    def log(self, namespace: str, pod: str) -> str:
        return self.loads.pop(0)[1]

    def _fail_sometimes(self) -> None:
        if self.failures:
            self.failures -= 1
            raise ClusterError("no answer from the cluster")


def engine_pod(owner: WarmModel) -> Document:
    """As the Deployment of a WarmModel would make it."""
    template = rendered(owner).engine_template
    labels = {"warmpod.io/component": "engine"}
    return {"metadata": {"name": "e", "labels": labels}, "spec": template["spec"]}


def tuning(cluster: FakeCluster, told: list[str] | None = None) -> Tuning:
    tell: Callable[[str], object] = (told if told is not None else []).append
    waiting = Waiting(cast(Cluster, cluster), tell, sleep=lambda seconds: None)
    return Tuning(waiting, model(), PLAY)


def log_of(summary: Summary) -> tuple[str, str]:
    return "Succeeded", json.dumps(asdict(summary)) + "\n"

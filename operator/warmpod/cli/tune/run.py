"""`tune`: one temporary WarmModel after another, each measured by a pod beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from warmpod.cli.cluster import Cluster, Document
from warmpod.cli.temporary import applied
from warmpod.cli.tune import load
from warmpod.cli.tune.load import Play
from warmpod.cli.tune.points import Point, Result, TuneError, temporary
from warmpod.cli.waiting import Waiting
from warmpod.load.summary import Summary

#: Seconds for the load's pod beside those that it measures: to be placed, to pull its image, which
#: the node of an engine has, and to hear the last answers out.
SPARE_SECONDS = 600.0

#: Seconds for the pods of a WarmModel to go once it is deleted, beside their grace period.
GONE_SECONDS = 120.0


@dataclass(frozen=True)
class Tuning:
    waiting: Waiting
    model: Document
    play: Play

    @property
    def cluster(self) -> Cluster:
        return self.waiting.cluster

    def run(self, points: Sequence[Point]) -> Iterator[Result]:
        """Measure one point after another. A point that does not work is a result, too.

        Raises TuneError and ClusterError for what concerns all of them."""
        for number, point in enumerate(points, 1):
            self.waiting.tell(f"{number} of {len(points)}: {point}")
            wanted = temporary(self.model, point)
            with applied(self.cluster, wanted) as created:
                result = self._measure(point, created)
            self._wait_until_gone(created)
            yield result

    def _measure(self, point: Point, created: Document) -> Result:
        if why := self.waiting.until(*_place(created), "readyReplicas"):
            self.waiting.tell(f"does not become warm: {why}")
            return Result(point, None, why)
        return self._load(point, created)

    def _load(self, point: Point, created: Document) -> Result:
        namespace, name = _place(created)
        pods = self.waiting.patiently(lambda: self.cluster.pods(namespace, name))
        engine = load.engine_pod(pods)
        prompts = load.prompts(created, self.play)
        self.cluster.create_core_object(namespace, "configmaps", prompts)
        pod = load.pod(created, engine, self.play)
        self.cluster.create_core_object(namespace, "pods", pod)
        self.waiting.tell(f"measuring, {self.play.concurrency} requests at a time")
        return self._result(point, namespace, pod["metadata"]["name"])

    def _result(self, point: Point, namespace: str, pod: str) -> Result:
        """Raises ClusterError, and TuneError for a log that cannot be read."""
        phase = self._wait_for_load(namespace, pod)
        if phase not in ("Succeeded", "Failed"):
            why = f"its pod is {phase}: kubectl describe pod -n {namespace} {pod}"
            return Result(point, None, f"the load did not run: {why}")
        log = self.waiting.patiently(lambda: self.cluster.log(namespace, pod))
        lines = log.strip().splitlines()
        last = lines[-1] if lines else "it said nothing"
        if phase == "Failed":
            return Result(point, None, f"the load did not run: {last}")
        return Result(point, _summary(last))

    def _wait_for_load(self, namespace: str, pod: str) -> str:
        """The phase in which its pod ended, or in which it hangs."""
        seconds = self.play.ramp_seconds + self.play.seconds + SPARE_SECONDS
        phase = ""
        for _ in self.waiting.looks(seconds):
            found = self.waiting.patiently(lambda: self.cluster.core_object(namespace, "pods", pod))
            phase = str(found.get("status", {}).get("phase"))
            if phase in ("Succeeded", "Failed"):
                break
        return phase

    def _wait_until_gone(self, created: Document) -> None:
        """The next point needs its GPU. Raises TuneError, ClusterError."""
        namespace, name = _place(created)
        grace = created["spec"].get("pod", {}).get("terminationGracePeriodSeconds", 0)
        seconds = grace + GONE_SECONDS
        for _ in self.waiting.looks(seconds):
            if not self.waiting.patiently(lambda: self.cluster.pods(namespace, name)):
                return
        raise TuneError(
            f"pods of WarmModel {namespace}/{name} are still there {seconds:.0f} s after it was "
            f"deleted: see kubectl get pods -n {namespace} -l warmpod.io/model={name}"
        )


def _summary(line: str) -> Summary:
    """Raises TuneError."""
    try:
        return Summary(**json.loads(line))
    except (ValueError, TypeError) as error:
        raise TuneError(f"the load said {line[:200]!r}: is warmpod of the same version?") from error


def _place(document: Document) -> tuple[str, str]:
    return document["metadata"]["namespace"], document["metadata"]["name"]

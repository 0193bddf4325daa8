"""`tune`: the grid, the temporary WarmModels, what is chosen, and that nothing stays behind."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from unit.resources.samples import rendered
from warmpod.api import WarmModel
from warmpod.cli.cluster import AlreadyExists, Cluster, ClusterError, Document, Snapshot
from warmpod.cli.main import app
from warmpod.cli.tune import command, load, points
from warmpod.cli.tune.load import Play
from warmpod.cli.tune.points import Point, Result, TuneError, best, grid, temporary
from warmpod.cli.tune.run import Tuning
from warmpod.load.main import parser
from warmpod.load.summary import Summary

FAST = Summary(100, 0, 900.0, 9.0, 20.0, 400.0, 10.0, 12.0)
SLOW = Summary(100, 0, 500.0, 5.0, 20.0, 100.0, 10.0, 12.0)
PLAY = Play('{"prompt": "a"}', 64, 60, 10)
POINTS = [Point(2048, 64), Point(8192, 64)]
runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})


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


# The grid.


@pytest.mark.parametrize(
    ("tokens", "seqs", "expected"),
    [
        ([8192, 2048], [64], [(2048, 64), (8192, 64)]),
        ([64, 64], [64, 32], [(64, 32), (64, 64)]),
        # vLLM refuses a budget that is smaller than the number of sequences.
        ([128, 512], [64, 256], [(128, 64), (512, 64), (512, 256)]),
    ],
)
def test_all_pairs_that_vllm_takes(
    tokens: list[int], seqs: list[int], expected: list[tuple[int, int]]
) -> None:
    found = [(point.max_num_batched_tokens, point.max_num_seqs) for point in grid(tokens, seqs)]
    assert found == expected


@pytest.mark.parametrize(("tokens", "seqs"), [([64], [128]), ([0], [1]), ([1], [-1])])
def test_a_grid_of_nothing_is_refused(tokens: list[int], seqs: list[int]) -> None:
    with pytest.raises(TuneError):
        grid(tokens, seqs)


# The temporary WarmModel.


def test_it_is_the_model_with_one_pod_and_the_arguments_of_the_point() -> None:
    original = model(
        replicas=4,
        standby={"replicas": 2, "state": "Sleeping"},
        schedule=[],
        forecast={"mode": "Off"},
        warmup={"maxRounds": 5, "compare": {"args": []}},
        profile="Serverless",
        pod={"nodeSelector": {"pool": "gpu"}},
    )
    before = copy.deepcopy(original)
    made = temporary(original, Point(8192, 256))
    assert original == before
    assert made["metadata"] == {"name": "llama-tune", "namespace": "demo"}
    assert made["spec"] == {
        "model": {"image": "models/llama:1", "servedName": "llama"},
        "engine": {
            "image": "vllm/vllm-openai:v0.32.0",
            "args": ["--max-num-seqs=9", "--max-num-batched-tokens=8192", "--max-num-seqs=256"],
        },
        "replicas": 1,
        "standby": {"replicas": 0, "state": "Sleeping"},
        "rollout": {"onRegression": "Proceed"},
        "warmup": {"maxRounds": 5},
        "profile": "Serverless",
        "pod": {"nodeSelector": {"pool": "gpu"}},
    }


def test_the_served_name_stays() -> None:
    """It is part of the weights' path, and so of vLLM's cache key."""
    named = model(model={"image": "m:1", "servedName": "meta/llama"})
    assert temporary(named, POINTS[0])["spec"]["model"]["servedName"] == "meta/llama"


def test_a_long_name_is_cut() -> None:
    long = model()
    long["metadata"]["name"] = "a" * 44 + "-" + "b" * 5
    made = temporary(long, POINTS[0])
    assert made["metadata"]["name"] == "a" * 44 + "-tune"


def test_a_command_of_ones_own_is_refused() -> None:
    own = model()
    own["spec"]["engine"]["command"] = ["serve"]
    with pytest.raises(TuneError, match=r"spec\.engine\.command"):
        temporary(own, POINTS[0])


# What is chosen.


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(None, FAST), (400.0, FAST), (399.0, SLOW), (100.0, SLOW), (99.0, None)],
)
def test_the_best_has_most_tokens_within_the_limit(
    limit: float | None, expected: Summary | None
) -> None:
    results = [Result(POINTS[0], SLOW), Result(POINTS[1], FAST), Result(POINTS[1], None, "x")]
    chosen = best(results, limit)
    assert (chosen.summary if chosen else None) == expected


@pytest.mark.parametrize(("failed", "counts"), [(1, True), (2, False)])
def test_a_point_that_fails_is_not_the_best(failed: int, counts: bool) -> None:
    summary = Summary(99, failed, 900.0, 9.0, 20.0, 400.0, 10.0, 12.0, error="503")
    assert (best([Result(POINTS[0], summary)], None) is not None) is counts


# The prompts.


def test_prompts_of_the_spec_become_bodies() -> None:
    prompts = [
        {"name": "a", "text": "Hello"},
        {"name": "b", "text": "Go on", "endpoint": "Completion"},
        {"name": "c", "body": {"messages": [], "max_tokens": 3}},
        {"name": "d", "body": {"input": "embed"}},
    ]
    found = load.own_prompts(
        model(warmup={"prompts": prompts}),
        [("more", {"data": {"x.jsonl": '{"prompt": "x"}\n', "y": "Tell me"}})],
    )
    assert [json.loads(line) for line in found.splitlines()] == [
        {"messages": [{"role": "user", "content": "Hello"}]},
        {"prompt": "Go on"},
        {"messages": [], "max_tokens": 3},
        {"prompt": "x"},
        {"messages": [{"role": "user", "content": "Tell me"}]},
    ]


@pytest.mark.parametrize(
    ("prompts", "why"),
    [
        ("Hello", "line 1 is not JSON"),
        ("", "there is no request"),
        (json.dumps({"prompt": "x" * 1024 * 1024}), "fit into a ConfigMap"),
    ],
)
def test_prompts_that_cannot_be_played_are_refused(prompts: str, why: str) -> None:
    with pytest.raises(TuneError, match=why):
        load.check(prompts)


def test_without_prompts_nothing_is_measured() -> None:
    with pytest.raises(TuneError, match="--prompts"):
        load.own_prompts(model(), [])


# One point after another.


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
    return Tuning(cast(Cluster, cluster), model(), PLAY, tell, sleep=lambda seconds: None)


def log_of(summary: Summary) -> tuple[str, str]:
    return "Succeeded", json.dumps(asdict(summary)) + "\n"


def test_points_are_measured_one_at_a_time_and_nothing_stays() -> None:
    cluster = FakeCluster([WARM, WARM], [log_of(SLOW), log_of(FAST)])
    results = list(tuning(cluster).run(POINTS))
    assert results == [Result(POINTS[0], SLOW), Result(POINTS[1], FAST)]
    last = [made["spec"]["engine"]["args"][-2:] for made in cluster.made]
    assert last == [point.arguments for point in POINTS]
    assert (cluster.models, cluster.objects) == ({}, {})


@pytest.mark.parametrize(
    ("status", "load", "why"),
    [
        (stalled("Unschedulable"), ("", ""), "Unschedulable: m"),
        (WARM, ("Failed", "Traceback\nKeyError: 'x'\n"), "the load did not run: KeyError: 'x'"),
        (WARM, ("Failed", ""), "the load did not run: it said nothing"),
        (WARM, ("Pending", ""), "its pod is Pending: kubectl describe pod -n demo llama-tune-load"),
    ],
)
def test_a_point_that_does_not_work_is_a_result(
    status: Document, load: tuple[str, str], why: str
) -> None:
    loads = [load, log_of(FAST)] if status is WARM and load[0] == "Failed" else [log_of(FAST)]
    cluster = FakeCluster([status, WARM], [load] if load[0] == "Pending" else loads)
    points = POINTS[:1] if load[0] == "Pending" else POINTS
    results = list(tuning(cluster).run(points))
    assert results[0].summary is None
    assert why in results[0].why
    assert [result.summary for result in results[1:]] == [FAST] * (len(points) - 1)
    assert cluster.models == {}


def test_an_api_server_that_is_away_for_a_while_ends_nothing() -> None:
    cluster = FakeCluster([WARM], [log_of(FAST)], failures=3)
    told: list[str] = []
    assert [result.summary for result in tuning(cluster, told).run(POINTS[:1])] == [FAST]
    assert told.count("no answer from the cluster; looking again") == 3


@pytest.mark.parametrize("error", [KeyboardInterrupt, ClusterError("gone")])
def test_what_was_made_goes_however_it_ends(
    error: BaseException | type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster([WARM], [log_of(FAST)])

    def interrupted(*_: object) -> Document:
        raise error

    monkeypatch.setattr(cluster, "create_core_object", interrupted)
    with pytest.raises((KeyboardInterrupt, ClusterError)):
        list(tuning(cluster).run(POINTS))
    assert cluster.models == {}


def test_one_that_stands_in_the_way_is_not_touched() -> None:
    cluster = FakeCluster([WARM], models={"llama-tune": {"metadata": {}}})
    with pytest.raises(ClusterError, match="kubectl delete warmmodel -n demo llama-tune"):
        list(tuning(cluster).run(POINTS))
    assert "llama-tune" in cluster.models


def test_pods_that_do_not_go_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster([WARM, WARM], [log_of(FAST)])
    monkeypatch.setattr(cluster, "pods", lambda namespace, name: [engine_pod_of_tune()])
    with pytest.raises(TuneError, match="are still there"):
        list(tuning(cluster).run(POINTS))


def engine_pod_of_tune() -> Document:
    made = temporary(model(), POINTS[0])
    made["metadata"]["uid"] = "u"
    return engine_pod(WarmModel.parse(made))


# The pod that plays.


def test_the_load_asks_the_service_with_the_key_and_has_no_labels_of_ours() -> None:
    secured = model()
    secured["spec"]["engine"]["args"] = ["--ssl-certfile=/c", "--api-key=$(KEY)"]
    source = {"secretKeyRef": {"name": "s", "key": "k"}}
    secured["spec"]["engine"]["env"] = [{"name": "KEY", "valueFrom": source}]
    made = temporary(secured, POINTS[0])
    made["metadata"]["uid"] = "uid-9"
    found = load.pod(made, engine_pod(WarmModel.parse(made)), PLAY)
    assert "labels" not in found["metadata"]
    assert found["metadata"]["ownerReferences"][0]["uid"] == "uid-9"
    (container,) = found["spec"]["containers"]
    assert container["command"][:3] == ["python3", "-m", "warmpod.load.main"]
    asked = parser().parse_args(container["command"][3:])
    assert (asked.url, asked.model) == ("https://llama-tune:8000", "llama")
    assert (asked.concurrency, asked.seconds, asked.ramp_seconds) == (64, 60, 10)
    mount = container["volumeMounts"][0]["mountPath"]
    (key,) = load.prompts(made, PLAY)["data"]
    assert str(asked.prompts) == f"{mount}/{key}"
    assert [variable["name"] for variable in container["env"]] == ["KEY", "WARMPOD_ENGINE_API_KEY"]
    assert container["securityContext"]["runAsNonRoot"] is True
    assert found["spec"]["automountServiceAccountToken"] is False


# The command.


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster([WARM, WARM], [log_of(SLOW), log_of(FAST)], models={"llama": model()})
    monkeypatch.setattr(command, "Cluster", lambda kubeconfig, context: fake)
    monkeypatch.setattr("warmpod.cli.tune.run.LOOK_SECONDS", 0.001)
    return fake


def tuned(tmp_path: Path, *options: str) -> Any:
    prompts = tmp_path / "p.jsonl"
    prompts.write_text('{"prompt": "a"}\n')
    grid_options = ["--batched-tokens", "2048,8192", "--seqs", "64"]
    return runner.invoke(app, ["tune", "llama", "--prompts", str(prompts), *grid_options, *options])


def test_the_table_and_the_best(cluster: FakeCluster, tmp_path: Path) -> None:
    result = tuned(tmp_path, "--ttft-ms", "150")
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.stdout.splitlines() if line.strip()]
    assert rows[1][:3] == ["2048", "64", "500"]
    assert rows[1][-1] == "best"
    assert rows[2][:3] == ["8192", "64", "900"]
    assert rows[-1][-2:] == ["--max-num-batched-tokens=2048", "--max-num-seqs=64"]
    assert "1 of 2: 2048 tokens, 64 sequences" in result.stderr
    assert set(cluster.models) == {"llama"}


def test_no_best_is_a_failure(cluster: FakeCluster, tmp_path: Path) -> None:
    result = tuned(tmp_path, "--ttft-ms", "1")
    assert result.exit_code == 1
    assert "No point answers" in result.stdout


def test_what_was_measured_is_shown_when_the_rest_fails(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.loads[1] = ("Succeeded", "nonsense")
    result = tuned(tmp_path)
    assert result.exit_code == 1
    assert "2048" in result.stdout
    assert "is warmpod of the same version?" in result.stderr
    assert set(cluster.models) == {"llama"}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--seqs", "many"], "'many' is no list of numbers"),
        (["--seqs", "9000"], "no number of --batched-tokens is as large as one of --seqs"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    cluster: FakeCluster, tmp_path: Path, options: list[str], why: str
) -> None:
    result = tuned(tmp_path, *options)
    assert result.exit_code == 1
    assert why in result.stderr


def test_suffix_fits_into_every_name() -> None:
    assert len(points.temporary_name("x" * 50)) == 50

"""One point after another, of which nothing stays behind."""

from __future__ import annotations

import pytest

from unit.cli.tune.scene import (
    FAST,
    POINTS,
    SLOW,
    WARM,
    FakeCluster,
    engine_pod,
    log_of,
    model,
    stalled,
    tuning,
)
from warmpod.api import WarmModel
from warmpod.cli.cluster import ClusterError, Document
from warmpod.cli.tune.points import Result, TuneError, temporary


def test_points_are_measured_one_at_a_time_and_nothing_stays() -> None:
    cluster = FakeCluster([WARM, WARM], [log_of(SLOW), log_of(FAST)])
    results = list(tuning(cluster).run(POINTS))
    assert results == [Result(POINTS[0], SLOW), Result(POINTS[1], FAST)]
    last = [made["spec"]["engine"]["args"][-2:] for made in cluster.made]
    assert last == [point.arguments for point in POINTS]
    assert (cluster.models, cluster.objects) == ({}, {})


@pytest.mark.parametrize(
    ("statuses", "loads", "why"),
    [
        ([stalled("Unschedulable"), WARM], [], "Unschedulable: m"),
        ([WARM, WARM], [("Failed", "Traceback\nKeyError: 'x'\n")], "did not run: KeyError: 'x'"),
        ([WARM, WARM], [("Failed", "")], "the load did not run: it said nothing"),
    ],
)
def test_a_point_that_does_not_work_is_a_result_and_the_next_one_follows(
    statuses: list[Document], loads: list[tuple[str, str]], why: str
) -> None:
    cluster = FakeCluster(statuses, [*loads, log_of(FAST)])
    bad, good = tuning(cluster).run(POINTS)
    assert bad.summary is None
    assert why in bad.why
    assert good.summary == FAST
    assert cluster.models == {}


def test_a_load_that_never_runs_is_a_result() -> None:
    (result,) = tuning(FakeCluster([WARM], [("Pending", "")])).run(POINTS[:1])
    assert result.summary is None
    assert "its pod is Pending: kubectl describe pod -n demo llama-tune-load" in result.why


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

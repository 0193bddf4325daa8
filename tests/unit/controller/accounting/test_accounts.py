"""All ledgers together: fed by the cache, looked at by reconciles and by Prometheus."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from unit.controller.accounting.pods import Clock, cold, serving, standby, warm
from unit.controller.builders import NAME, NAMESPACE, prefetch, warm_model
from warmpod.api import WarmModel
from warmpod.controller.accounting.accounts import Accounts, start_seconds
from warmpod.controller.accounting.metrics import AccountsCollector
from warmpod.controller.accounting.report import Account
from warmpod.controller.apiserver.kinds import WARM_MODEL
from warmpod.controller.objects.views import ModelView, project

KEY = (NAMESPACE, NAME)
GPU = {"resources": {"limits": {"nvidia.com/gpu": 1}}}
STARTUP = {"pod": "p", "cause": "pod-start", "warmTime": "2030-01-01T11:00:00Z"}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def accounts(clock: Clock) -> Accounts:
    return Accounts(Decimal("3.6"), clock=clock)


def look(accounts: Accounts, obj: dict[str, Any] | None = None) -> Account:
    body = obj or warm_model(engine=GPU)
    view = project(WARM_MODEL, body)
    assert isinstance(view, ModelView)
    return accounts.look(view, WarmModel.parse(body))


def series(accounts: Accounts) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(AccountsCollector(accounts))
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


def test_pods_are_counted_for_their_model(accounts: Accounts, clock: Clock) -> None:
    look(accounts)
    held, promoted = standby("a", warm), serving("a", warm, promoted="Awake")
    accounts.changed(None, held)
    clock.now += 60
    accounts.changed(held, promoted)
    accounts.changed(None, prefetch().resident().view())
    found = look(accounts)
    assert found.totals.warm_hits == 1
    assert found.totals.gpu_seconds == 60
    assert found.totals.cost == pytest.approx(0.06)
    accounts.changed(promoted, None)
    assert not look(accounts).accruing


def test_sums_of_earlier_operators_are_gone_on_with(accounts: Accounts) -> None:
    accounts.changed(None, serving("a", cold))  # pods may be listed before their model
    accounts.changed(serving("a", cold), serving("a", warm))
    status = {"standby": {"warmHits": 5, "coldStarts": 2, "cost": "1.50"}}
    found = look(accounts, warm_model(status=status))
    assert (found.totals.warm_hits, found.totals.cold_starts) == (5, 3)
    # The status that this operator writes is not added once more.
    later = {"standby": {"warmHits": 5, "coldStarts": 3, "cost": "1.50"}}
    assert look(accounts, warm_model(status=later)).totals == found.totals


def test_another_model_of_the_same_name_begins_anew(accounts: Accounts) -> None:
    look(accounts, warm_model(status={"standby": {"coldStarts": 2}}))
    other = warm_model()
    other["metadata"]["uid"] = "another"
    assert look(accounts, other).totals.cold_starts == 0


def test_what_a_start_takes_is_the_median_of_pods_that_started() -> None:
    def started(*seconds: int) -> dict[str, Any]:
        return {"lastStartups": [{**STARTUP, "startSeconds": value} for value in seconds]}

    assert start_seconds({}) is None
    assert start_seconds(started(40, 60, 50)) == 50
    in_place = {**STARTUP, "cause": "engine-died", "startSeconds": 1}
    assert start_seconds({"lastStartups": [in_place, STARTUP]}) is None


def test_series_are_there_from_the_first_look_and_go_with_the_model(accounts: Accounts) -> None:
    accounts.changed(None, standby("a", warm))
    assert series(accounts) == {}
    body = warm_model(status={"lastStartups": [{**STARTUP, "startSeconds": 60}]}, engine=GPU)
    look(accounts, body)
    where = f"{NAMESPACE} {NAME}"
    assert series(accounts) == {
        f"warmpod_scale_out_pods_total {where} warm": 0,
        f"warmpod_scale_out_pods_total {where} sleeping": 0,
        f"warmpod_scale_out_pods_total {where} cold": 0,
        f"warmpod_scale_out_seconds_saved_total {where}": 0,
        f"warmpod_standby_gpu_seconds_total {where} awake": 0,
        f"warmpod_standby_gpu_seconds_total {where} asleep": 0,
        f"warmpod_standby_cost_total {where}": 0,
        f"warmpod_standby_pods {where} awake": 1,
        f"warmpod_standby_pods {where} asleep": 0,
        f"warmpod_standby_pods {where} starting": 0,
        f"warmpod_start_seconds {where}": 60,
    }
    accounts.forget(KEY)
    assert series(accounts) == {}


def test_counters_grow_without_a_look_and_do_not_begin_where_the_status_does(
    accounts: Accounts, clock: Clock
) -> None:
    accounts.changed(None, standby("a", warm))
    body = warm_model(status={"standby": {"awakeGpuSeconds": 5000}}, engine=GPU)
    look(accounts, body)
    clock.now += 100
    found = series(accounts)
    assert found[f"warmpod_standby_gpu_seconds_total {NAMESPACE} {NAME} awake"] == 100
    assert found[f"warmpod_standby_cost_total {NAMESPACE} {NAME}"] == pytest.approx(0.1)

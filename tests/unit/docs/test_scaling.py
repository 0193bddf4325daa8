"""Figures and queries of the page about sizing a pool."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from unit.controller.accounting.pods import standby, warm
from unit.controller.builders import warm_model
from warmpod.api import WarmModel
from warmpod.controller.accounting.accounts import Accounts
from warmpod.controller.accounting.metrics import AccountsCollector
from warmpod.controller.apiserver.kinds import WARM_MODEL
from warmpod.controller.objects.views import ModelView, project

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "scaling.md").read_text()
SIZING = PAGE.partition("### How large a pool")[2]
SHARES = (0.1, 0.01, 0.001)


def loss(size: int, load: float) -> float:
    """Erlang's formula, as the page writes it."""
    return 1.0 if not size else load * loss(size - 1, load) / (size + load * loss(size - 1, load))


def rows(columns: int) -> list[list[float]]:
    cells = "^" + r"\| ([0-9.]+)(?: %)? " * columns + r"\|$"
    return [[float(cell) for cell in found] for found in re.findall(cells, SIZING, re.MULTILINE)]


def test_the_table_of_pool_sizes_is_that_of_the_formula() -> None:
    table = rows(4)
    assert len(table) == 7
    for load, *sizes in table:
        for size, share in zip(sizes, SHARES, strict=True):
            assert loss(int(size), load) <= share < loss(int(size) - 1, load)


def test_the_example_is_that_of_the_formula() -> None:
    table = rows(3)
    assert len(table) == 4
    for size, percent, cold in table:
        share = loss(int(size), 12 * 90 / 3600)
        assert 100 * share == pytest.approx(percent, rel=0.1)
        assert 12 * 24 * share == pytest.approx(cold, abs=0.5)


def exported() -> dict[str, set[str]]:
    """What the operator shows of a model, and the labels of it."""
    accounts, body = Accounts(), warm_model(status={"lastStartups": [STARTUP]})
    view = project(WARM_MODEL, body)
    assert isinstance(view, ModelView)
    accounts.look(view, WarmModel.parse(body))
    accounts.changed(None, standby("a", warm))
    registry = CollectorRegistry()
    registry.register(AccountsCollector(accounts))
    samples = [sample for family in registry.collect() for sample in family.samples]
    return {sample.name: set(sample.labels) for sample in samples}


STARTUP = {"cause": "pod-start", "startSeconds": 60, "warmTime": "2030-01-01T11:00:00Z"}


def test_queries_ask_for_series_and_labels_that_there_are() -> None:
    series = exported()
    asked = re.findall(r"(warmpod_(?:scale|standby|start)\w+)(?:\{(\w+)[!=])?", SIZING)
    assert {name for name, _ in asked} == set(series) - {"warmpod_standby_gpu_seconds_total"}
    for name, label in asked:
        assert not label or label in series[name]

"""Fixtures of the tests on the local cluster, where everything is real.

They need a running cluster with the operator installed (`make install`); the
environment variable KUBECONFIG names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from support import operator
from support.api import Api, JsonObject
from support.fixtures import api, kubeconfig
from support.models import ModelView
from support.node import Node

__all__ = ["api", "kubeconfig"]

Scaled = Callable[[], AbstractContextManager[None]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def node() -> Node:
    return Node()


@pytest.fixture
def namespace(api: Api, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own; its labels come from @pytest.mark.namespace_labels."""
    marker = request.node.get_closest_marker("namespace_labels")
    name = api.create(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "generateName": "test-",
                "labels": dict(marker.args[0]) if marker else {},
            },
        }
    )["metadata"]["name"]
    yield name
    api.delete("Namespace", name)  # it goes while the next test begins


@pytest.fixture
def create(api: Api) -> Callable[[JsonObject], ModelView]:
    """Applies a WarmModel and gives the view of it."""

    def apply(model: JsonObject) -> ModelView:
        api.apply(model)
        metadata = model["metadata"]
        return ModelView(api, metadata["name"], metadata["namespace"])

    return apply


@pytest.fixture
def operator_away(api: Api) -> Scaled:
    """A context in which the operator is scaled to zero."""

    @contextmanager
    def away() -> Iterator[None]:
        operator.scale(api, 0)
        try:
            yield
        finally:
            operator.scale(api, 1)

    return away

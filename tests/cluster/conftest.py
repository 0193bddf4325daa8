"""Fixtures of the tests on the local cluster, where everything is real.

They need a running cluster with the operator installed (`make install`); the
environment variable KUBECONFIG names it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from support.api import Api, JsonObject
from support.models import ModelView
from support.node import Node
from support.waiting import wait_until

OPERATOR_NAMESPACE = "warmpod-system"
OPERATOR = "warmpod-operator"
CONTAINERD_SOCKET = Path("/run/warmpod-cluster/containerd.sock")

Scaled = Callable[[], AbstractContextManager[None]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def kubeconfig() -> Path:
    return Path(os.environ["KUBECONFIG"])


@pytest.fixture(scope="session")
def api(kubeconfig: Path) -> Api:
    return Api(kubeconfig)


@pytest.fixture(scope="session")
def node() -> Node:
    return Node(CONTAINERD_SOCKET)


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
        scale_operator(api, 0)
        try:
            yield
        finally:
            scale_operator(api, 1)

    return away


def scale_operator(api: Api, replicas: int) -> None:
    api.patch(
        "Deployment",
        OPERATOR,
        OPERATOR_NAMESPACE,
        {"spec": {"replicas": replicas}},
        subresource="scale",
    )
    wait_for_operator(api, replicas)


def wait_for_operator(api: Api, replicas: int) -> None:
    """Waits until exactly this many operator pods exist and are ready, of the newest template."""

    def settled() -> bool:
        status = (deployment := api.get("Deployment", OPERATOR, OPERATOR_NAMESPACE))["status"]
        current = status.get("observedGeneration") == deployment["metadata"]["generation"]
        selector = "app.kubernetes.io/name=warmpod-operator"
        pods = api.list("Pod", OPERATOR_NAMESPACE, selector)
        return (
            current
            and len(pods) == replicas
            and status.get("readyReplicas", 0) == replicas
            and status.get("updatedReplicas", 0) == replicas
        )

    wait_until(f"{replicas} operator pods are ready", settled, timeout_s=120)

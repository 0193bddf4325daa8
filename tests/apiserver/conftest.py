"""Fixtures of the tests that need an API server (with its controllers) but no node.

The environment variable KUBECONFIG names the cluster, as in
`KUBECONFIG=$(make -s kubeconfig) pytest tests/apiserver`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from apiserver.manifests import ROOT, Kubectl, apply, kustomize
from support.api import Api, JsonObject
from support.fixtures import api, kubeconfig
from support.images import binary
from support.waiting import wait_until


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.apiserver)


__all__ = ["api", "kubeconfig"]


@pytest.fixture(scope="session")
def kubectl(kubeconfig: Path) -> Kubectl:
    """Runs kubectl and gives what it prints; the test fails when kubectl does."""

    def run(*arguments: str, stdin: str | None = None) -> str:
        command = [str(binary("kubectl")), f"--kubeconfig={kubeconfig}", *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    return run


@pytest.fixture(scope="session")
def crd(api: Api, kubectl: Kubectl) -> JsonObject:
    """The CRD, once the API server serves it."""
    apply(kubectl, kustomize(kubectl, ROOT / "manifests/cluster"))
    path = "apis/apiextensions.k8s.io/v1/customresourcedefinitions/warmmodels.warmpod.io"

    def established() -> JsonObject | None:
        found = api.request("GET", path)
        conditions = {c["type"]: c["status"] for c in found["status"].get("conditions", [])}
        return found if conditions.get("Established") == "True" else None

    return wait_until("the CRD is established", established, timeout_s=30)


@pytest.fixture
def namespace(api: Api) -> Iterator[str]:
    """A namespace of the test's own. Its deletion is not waited for."""
    body: JsonObject = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"generateName": "test-"},
    }
    name = api.create(body)["metadata"]["name"]
    yield name
    api.delete("Namespace", name)

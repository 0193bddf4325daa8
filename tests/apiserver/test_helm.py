"""The life of a release: an upgrade brings the new CRD, an uninstall leaves CRD and resources.

The CRD gets other names here, so that the cluster's own one is not touched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from apiserver.manifests import ROOT, Kubectl
from support.api import Api, ApiError, JsonObject
from support.images import binary
from support.waiting import wait_until

GROUP = "helm.warmpod.test"
CRD_NAME = f"helmmodels.{GROUP}"
CRD = f"apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD_NAME}"
CRD_FILE = "files/warmpod.io_warmmodels.yaml"
RENAMED = {"warmpod.io": GROUP, "warmmodel": "helmmodel", "WarmModel": "HelmModel", "- wm": "- hm"}

Helm = Callable[..., str]


@pytest.fixture
def helm(kubeconfig: Path, tmp_path: Path, namespace: str) -> Helm:
    """Runs helm in the test's namespace; the test fails when helm does."""
    homes = {f"HELM_{kind}_HOME": str(tmp_path / "helm") for kind in ("CACHE", "CONFIG", "DATA")}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [str(binary("helm")), *arguments, f"--namespace={namespace}"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **homes, "KUBECONFIG": str(kubeconfig), "NO_PROXY": "*"},
        )
        assert done.returncode == 0, f"helm {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    return run


@pytest.fixture
def chart(kubectl: Kubectl, tmp_path: Path) -> Iterator[Path]:
    """A copy of the chart with a CRD of the tests' own, which is removed afterwards."""
    copy = tmp_path / "warmpod"
    shutil.copytree(ROOT / "charts/warmpod", copy)
    text = (copy / CRD_FILE).read_text()
    for old, new in RENAMED.items():
        text = text.replace(old, new)
    (copy / CRD_FILE).write_text(text)
    yield copy
    kubectl("delete", "crd", CRD_NAME, "--ignore-not-found", "--wait=false")


def without_field(crd: str, field: str) -> str:
    """The CRD of an earlier version, which did not know a field of the spec yet."""
    body = yaml.safe_load(crd)
    schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"][field]
    return yaml.safe_dump(body)


def knows_field(crd: JsonObject, field: str) -> bool:
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return field in schema["properties"]["spec"]["properties"]


def test_upgrade_and_uninstall(api: Api, helm: Helm, chart: Path, namespace: str) -> None:
    values = [
        f"--set=watchNamespaces={{{namespace}}}",
        "--set=admissionPolicy.install=false,userRoles.install=false",
        "--set-string=nodeSelector.test=no-node-has-this",
    ]
    newer = (chart / CRD_FILE).read_text()
    (chart / CRD_FILE).write_text(without_field(newer, "compileCache"))
    helm("install", "warmpod", str(chart), *values)
    assert not knows_field(api.request("GET", CRD), "compileCache")

    (chart / CRD_FILE).write_text(newer)
    helm("upgrade", "warmpod", str(chart), *values)
    assert knows_field(api.request("GET", CRD), "compileCache")

    model: JsonObject = {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "HelmModel",
        "metadata": {"name": "m"},
        "spec": {
            "model": {"image": "m:1"},
            "engine": {"image": "e:1"},
            "compileCache": {"store": "None"},
        },
    }
    resources = f"apis/{GROUP}/v1alpha1/namespaces/{namespace}/helmmodels"
    created = wait_until(
        "the API server takes the new field",
        lambda: try_create(api, resources, model),
        timeout_s=30,
    )
    assert created["spec"]["compileCache"] == {"store": "None"}

    helm("uninstall", "warmpod")
    assert api.find("Deployment", "warmpod-operator", namespace) is None
    kept = api.request("GET", f"{resources}/m")
    assert kept["metadata"]["uid"] == created["metadata"]["uid"]
    assert "deletionTimestamp" not in kept["metadata"]


def try_create(api: Api, resources: str, body: JsonObject) -> JsonObject | None:
    """The object, or None while the API server still serves no or the older schema."""
    try:
        return api.request("POST", resources, body, fieldValidation="Strict")
    except ApiError as error:
        if error.status == 404 or "unknown field" in error.message:
            return None
        raise

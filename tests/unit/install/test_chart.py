"""The chart installs what `manifests/install` does, and its values are checked."""

import copy
import subprocess
from typing import Any

import pytest
import yaml

from unit.install.tools import CHART, ROOT, Objects, helm_template, kustomize, program

HELM_LABELS = {
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
}
KEEP = "helm.sh/resource-policy"


def without_helm(item: dict[str, Any]) -> dict[str, Any]:
    item = copy.deepcopy(item)
    metadata = item["metadata"]
    for field, ours in (("labels", HELM_LABELS), ("annotations", {KEEP})):
        kept = {key: value for key, value in metadata.get(field, {}).items() if key not in ours}
        metadata.pop(field, None)
        if kept:
            metadata[field] = kept
    return item


@pytest.fixture(scope="module")
def chart() -> Objects:
    return helm_template()


def test_chart_and_kustomize_render_the_same_objects(chart: Objects) -> None:
    install = kustomize(ROOT / "manifests/install")
    del install["Namespace", "", "warmpod-system"]  # `helm install --create-namespace`
    assert set(chart) == set(install)
    for key, item in chart.items():
        assert without_helm(item) == without_helm(install[key]), key


def test_every_object_has_helms_labels(chart: Objects) -> None:
    for key, item in chart.items():
        assert set(item["metadata"]["labels"]) >= HELM_LABELS, key


def test_crd_is_kept_unless_told_otherwise(chart: Objects) -> None:
    crd = ("CustomResourceDefinition", "", "warmmodels.warmpod.io")
    assert chart[crd]["metadata"]["annotations"][KEEP] == "keep"
    removed_with_release = helm_template("--set", "crds.keep=false")
    assert KEEP not in removed_with_release[crd]["metadata"].get("annotations", {})
    assert crd not in helm_template("--set", "crds.install=false")


def test_watched_namespaces_get_roles_and_nothing_cluster_wide() -> None:
    objects = helm_template(
        "--set", "watchNamespaces={green,blue}",
        "--set", "crds.install=false,admissionPolicy.install=false,userRoles.install=false",
        namespace="blue",
    )  # fmt: skip
    assert all(namespace for _, namespace, _ in objects), "an object without a namespace"
    rules = kustomize(ROOT / "manifests/install")["ClusterRole", "", "warmpod-operator"]["rules"]
    for namespace in ("blue", "green"):
        assert objects["Role", namespace, "warmpod-operator"]["rules"] == rules
        (subject,) = objects["RoleBinding", namespace, "warmpod-operator"]["subjects"]
        assert subject["namespace"] == "blue"
    deployment = objects["Deployment", "blue", "warmpod-operator"]
    (operator,) = deployment["spec"]["template"]["spec"]["containers"]
    env = {entry["name"]: entry.get("value") for entry in operator["env"]}
    assert env["WARMPOD_WATCH_NAMESPACES"] == "blue,green"


def test_startup_taints_need_a_right_that_is_given_apart(chart: Objects) -> None:
    role = ("ClusterRole", "", "warmpod-operator-nodes")
    patch = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]}
    objects = helm_template("--set", "startupTaint.remove=true", "--set", "pullsPerRegistry=9")
    assert objects[role]["rules"] == [*chart[role]["rules"], patch]
    deployment = objects["Deployment", "warmpod-system", "warmpod-operator"]
    (operator,) = deployment["spec"]["template"]["spec"]["containers"]
    env = {entry["name"]: entry.get("value") for entry in operator["env"]}
    assert env["WARMPOD_REMOVE_STARTUP_TAINT"] == "true"
    assert env["WARMPOD_PULLS_PER_REGISTRY"] == "9"


def test_the_price_of_a_gpu_is_text(chart: Objects) -> None:
    key = ("Deployment", "warmpod-system", "warmpod-operator")
    priced = helm_template("--set-string", "gpuHourPrice=2.50")
    for objects, expected in ((chart, None), (priced, "2.50")):
        (operator,) = objects[key]["spec"]["template"]["spec"]["containers"]
        env = {entry["name"]: entry.get("value") for entry in operator["env"]}
        assert env.get("WARMPOD_GPU_HOUR_PRICE") == expected


def test_digest_takes_the_place_of_the_tag() -> None:
    digest = f"sha256:{'a' * 64}"
    objects = helm_template("--set", f"image.repository=example.com/op,image.digest={digest}")
    deployment = objects["Deployment", "warmpod-system", "warmpod-operator"]
    (operator,) = deployment["spec"]["template"]["spec"]["containers"]
    assert operator["image"] == f"example.com/op@{digest}"
    assert {"name": "WARMPOD_OPERATOR_IMAGE", "value": operator["image"]} in operator["env"]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ("image.tag=a/b", "tag"),
        ("image.digest=sha256:1", "digest"),
        ("watchNamespaces={Blue}", "watchNamespaces"),
        ("crds.instal=false", "instal"),
        ("replicas=2", "replicas"),
        ("pullsPerRegistry=0", "pullsPerRegistry"),
        ("gpuHourPrice=cheap", "gpuHourPrice"),
        ("startupTaint.remove=yes", "remove"),
    ],
)
def test_wrong_values_are_refused_by_name(wrong: str, named: str) -> None:
    command = [program("helm"), "template", "warmpod", str(CHART), "--set", wrong]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert named in done.stderr


def test_lint_finds_nothing() -> None:
    command = [program("helm"), "lint", "--strict", str(CHART)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_schema_knows_every_value() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    assert set(values) | {"global"} == set(schema["properties"])

"""What `kubectl apply -k` would install: complete, and with no more rights than needed."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from unit.install.tools import ROOT, Objects, kustomize

OPERATOR = "warmpod-operator"
NODES = "warmpod-operator-nodes"
REVIEWS = "warmpod-operator-reviews"


@pytest.fixture(scope="module")
def install() -> Objects:
    return kustomize(ROOT / "manifests/install")


@pytest.fixture(scope="module")
def namespaced() -> Objects:
    return kustomize(ROOT / "manifests/namespaced")


def container(objects: Objects, namespace: str) -> dict[str, Any]:
    return objects["Deployment", namespace, OPERATOR]["spec"]["template"]["spec"]["containers"][0]


def test_install_has_every_object_once(install: Objects) -> None:
    assert set(install) == {
        ("Namespace", "", "warmpod-system"),
        ("CustomResourceDefinition", "", "warmmodels.warmpod.io"),
        ("ValidatingAdmissionPolicy", "", "warmpod-own-pod-status"),
        ("ValidatingAdmissionPolicyBinding", "", "warmpod-own-pod-status"),
        ("ClusterRole", "", "warmpod-view"),
        ("ClusterRole", "", "warmpod-edit"),
        ("ClusterRole", "", OPERATOR),
        ("ClusterRoleBinding", "", OPERATOR),
        ("ClusterRole", "", NODES),
        ("ClusterRoleBinding", "", NODES),
        ("ClusterRole", "", REVIEWS),
        ("ClusterRoleBinding", "", REVIEWS),
        ("Role", "warmpod-system", "warmpod-operator-lease"),
        ("RoleBinding", "warmpod-system", "warmpod-operator-lease"),
        ("Role", "warmpod-system", "warmpod-operator-token"),
        ("RoleBinding", "warmpod-system", "warmpod-operator-token"),
        ("ServiceAccount", "warmpod-system", OPERATOR),
        ("Deployment", "warmpod-system", OPERATOR),
        ("Service", "warmpod-system", "warmpod-operator-metrics"),
    }


def test_namespaced_needs_nothing_outside_its_namespace(
    install: Objects, namespaced: Objects
) -> None:
    assert {namespace for _, namespace, _ in namespaced} == {"models"}
    role = namespaced["Role", "models", OPERATOR]
    assert role["rules"] == install["ClusterRole", "", OPERATOR]["rules"]
    binding = namespaced["RoleBinding", "models", OPERATOR]
    assert binding["roleRef"]["kind"] == "Role"
    env = {entry["name"]: entry for entry in container(namespaced, "models")["env"]}
    assert env["WARMPOD_WATCH_NAMESPACES"]["valueFrom"]["fieldRef"] == {
        "fieldPath": "metadata.namespace"
    }


def test_cluster_and_namespaced_together_are_the_install(
    install: Objects, namespaced: Objects
) -> None:
    cluster = kustomize(ROOT / "manifests/cluster")
    kinds_and_names = {(kind, name) for kind, _, name in [*cluster, *namespaced]}
    wanted = {
        (kind.replace("Cluster", "") if name == OPERATOR else kind, name)
        for kind, _, name in install
        if kind != "Namespace" and name not in (NODES, REVIEWS)
    }
    assert kinds_and_names == wanted


@pytest.mark.parametrize("folder", ["manifests/install", "manifests/namespaced"])
def test_bindings_name_the_service_account_where_it_lives(folder: str) -> None:
    objects = kustomize(ROOT / folder)
    (account,) = (key for key in objects if key[0] == "ServiceAccount")
    bindings = [item for key, item in objects.items() if key[0].endswith("RoleBinding")]
    assert len(bindings) == (5 if folder == "manifests/install" else 3)
    for binding in bindings:
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": account[2], "namespace": account[1]}
        ]


def test_no_rule_has_a_wildcard_secrets_or_a_way_to_more_rights(install: Objects) -> None:
    for (kind, _, name), item in install.items():
        if kind not in ("Role", "ClusterRole"):
            continue
        for rule in item["rules"]:
            said = f"{kind} {name}: {rule}"
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]], said
            assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"]), said
            assert "secrets" not in rule["resources"], said
            if "serviceaccounts/token" in rule["resources"]:
                assert (kind, rule["resourceNames"]) == ("Role", [OPERATOR]), said
            if "nodes" in rule["resources"]:
                assert set(rule["verbs"]) == {"get", "list", "watch"}, said


def test_startup_taints_need_a_right_that_is_given_apart(tmp_path: Path, install: Objects) -> None:
    for folder in ("manifests", "crds"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    overlay = tmp_path / "manifests/overlay"
    overlay.mkdir()
    (overlay / "kustomization.yaml").write_text(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
        "resources: [../install]\ncomponents: [../startup-taint]\n"
    )
    objects = kustomize(overlay)
    patch = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]}
    before = install["ClusterRole", "", NODES]["rules"]
    assert objects["ClusterRole", "", NODES]["rules"] == [*before, patch]
    env = {e["name"]: e.get("value") for e in container(objects, "warmpod-system")["env"]}
    assert env["WARMPOD_REMOVE_STARTUP_TAINT"] == "true"
    assert set(objects) == set(install)


def test_operator_pod_is_restricted(install: Objects) -> None:
    pod = install["Deployment", "warmpod-system", OPERATOR]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    security = container(install, "warmpod-system")["securityContext"]
    assert security == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    labels = install["Namespace", "", "warmpod-system"]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_another_image_reaches_the_environment_too(tmp_path: Path) -> None:
    """Pods mount the image named in the environment: both must change together."""
    for folder in ("manifests", "crds"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    with (tmp_path / "manifests/install/kustomization.yaml").open("a") as file:
        file.write(
            "images:\n"
            "- name: 127.0.0.1:5000/warmpod/operator\n"
            "  newName: registry.example.com/warmpod/operator\n"
            "  newTag: 0.1.0\n"
        )
    operator = container(kustomize(tmp_path / "manifests/install"), "warmpod-system")
    env = {entry["name"]: entry.get("value") for entry in operator["env"]}
    assert operator["image"] == "registry.example.com/warmpod/operator:0.1.0"
    assert env["WARMPOD_OPERATOR_IMAGE"] == operator["image"]

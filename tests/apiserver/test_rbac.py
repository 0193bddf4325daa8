"""What the operator and users may do, asked of the API server's own authorizer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from apiserver.manifests import ROOT, Kubectl, apply, kustomize, kustomize_into
from support.api import Api, JsonObject
from support.waiting import wait_until

OPERATOR_NAMESPACE = "warmpod-system"
ACCOUNT = "warmpod-operator"
# The operator itself and what routes to it: not needed to ask about its rights.
WORKLOAD = ("Deployment", "Service")

# "verb resource.group[/subresource]" in any namespace that the operator works in
ALLOWED = """
get    warmmodels.warmpod.io
list   warmmodels.warmpod.io
watch  warmmodels.warmpod.io
patch  warmmodels.warmpod.io/status
update warmmodels.warmpod.io/finalizers
create daemonsets.apps
patch  daemonsets.apps
delete daemonsets.apps
watch  daemonsets.apps
create deployments.apps
patch  deployments.apps
watch  deployments.apps
create controllerrevisions.apps
patch  controllerrevisions.apps
delete controllerrevisions.apps
create services
patch  services
create serviceaccounts
patch  serviceaccounts
create roles.rbac.authorization.k8s.io
patch  roles.rbac.authorization.k8s.io
create rolebindings.rbac.authorization.k8s.io
patch  rolebindings.rbac.authorization.k8s.io
create poddisruptionbudgets.policy
patch  poddisruptionbudgets.policy
get    pods
list   pods
watch  pods
patch  pods
delete pods
patch  pods/status
list   endpointslices.discovery.k8s.io
get    configmaps
create configmaps
patch  configmaps
create events
patch  events
list   horizontalpodautoscalers.autoscaling
watch  horizontalpodautoscalers.autoscaling
"""

FORBIDDEN = """
create warmmodels.warmpod.io
patch  warmmodels.warmpod.io
update warmmodels.warmpod.io
delete warmmodels.warmpod.io
update warmmodels.warmpod.io/status
get    secrets
list   secrets
watch  secrets
create secrets
list   configmaps
watch  configmaps
delete configmaps
create pods
update pods
create pods/exec
get    pods/log
create pods/eviction
delete deployments.apps
delete services
delete serviceaccounts
create serviceaccounts/token
impersonate serviceaccounts
delete roles.rbac.authorization.k8s.io
escalate roles.rbac.authorization.k8s.io
bind   roles.rbac.authorization.k8s.io
delete rolebindings.rbac.authorization.k8s.io
delete events
patch  horizontalpodautoscalers.autoscaling
"""

NODES = """
get    nodes
list   nodes
watch  nodes
get    nodes/stats
get    nodes/configz
"""

FORBIDDEN_CLUSTER_WIDE = """
patch  nodes
update nodes
delete nodes
get    nodes/proxy
create nodes/proxy
list   namespaces
create namespaces
create clusterroles.rbac.authorization.k8s.io
escalate clusterroles.rbac.authorization.k8s.io
bind   clusterroles.rbac.authorization.k8s.io
create clusterrolebindings.rbac.authorization.k8s.io
create customresourcedefinitions.apiextensions.k8s.io
patch  customresourcedefinitions.apiextensions.k8s.io
patch  validatingadmissionpolicies.admissionregistration.k8s.io
delete validatingadmissionpolicybindings.admissionregistration.k8s.io
"""


def rows(table: str) -> list[str]:
    return [" ".join(line.split()) for line in table.strip().splitlines()]


class Rights:
    """Asks the API server what a user may do."""

    def __init__(self, api: Api, user: str, groups: tuple[str, ...] = ()) -> None:
        self._api = api
        self._who = {"user": user, "groups": ["system:authenticated", *groups]}

    def allow(self, row: str, namespace: str, name: str = "") -> bool:
        verb, what = row.split()
        resource, _, subresource = what.partition("/")
        plural, _, group = resource.partition(".")
        review: JsonObject = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                **self._who,
                "resourceAttributes": {
                    "verb": verb,
                    "group": group,
                    "resource": plural,
                    "subresource": subresource,
                    "namespace": namespace,
                    "name": name,
                },
            },
        }
        answer = self._api.request(
            "POST", "apis/authorization.k8s.io/v1/subjectaccessreviews", review
        )
        return bool(answer["status"]["allowed"])

    def wait_for(self, row: str, namespace: str) -> None:
        """A new binding takes the API server a moment."""
        wait_until(f"{row} is allowed", lambda: self.allow(row, namespace), timeout_s=30)


def service_account(api: Api, namespace: str) -> Rights:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return Rights(api, f"system:serviceaccount:{namespace}:{ACCOUNT}", groups)


def without_workload(objects: list[JsonObject]) -> list[JsonObject]:
    return [item for item in objects if item["kind"] not in WORKLOAD]


@pytest.fixture(scope="module")
def operator(api: Api, kubectl: Kubectl, crd: JsonObject) -> Rights:
    objects = without_workload(kustomize(kubectl, ROOT / "manifests/install"))
    if api.find("Namespace", OPERATOR_NAMESPACE) is not None:
        # An install has chosen its labels: on the local cluster, others than the tree's.
        objects = [item for item in objects if item["kind"] != "Namespace"]
    apply(kubectl, objects)
    rights = service_account(api, OPERATOR_NAMESPACE)
    rights.wait_for("list warmmodels.warmpod.io", "default")
    return rights


@pytest.fixture(scope="module")
def namespaced(
    api: Api, kubectl: Kubectl, crd: JsonObject, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Rights, str]]:
    """The operator of one namespace, and that namespace."""
    body: JsonObject = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"generateName": "rbac-"},
    }
    namespace = api.create(body)["metadata"]["name"]
    overlay = tmp_path_factory.mktemp("overlay")
    objects = kustomize_into(kubectl, ROOT / "manifests/namespaced", namespace, overlay)
    apply(kubectl, without_workload(objects))
    rights = service_account(api, namespace)
    rights.wait_for("list warmmodels.warmpod.io", namespace)
    yield rights, namespace
    api.delete("Namespace", namespace)


@pytest.mark.parametrize("row", rows(ALLOWED))
def test_operator_may(operator: Rights, row: str) -> None:
    assert operator.allow(row, "default")


@pytest.mark.parametrize("row", rows(FORBIDDEN))
def test_operator_may_not(operator: Rights, row: str) -> None:
    assert not operator.allow(row, "default")
    assert not operator.allow(row, OPERATOR_NAMESPACE)


@pytest.mark.parametrize("row", rows(NODES))
def test_operator_may_look_at_nodes(operator: Rights, row: str) -> None:
    assert operator.allow(row, "")


@pytest.mark.parametrize("row", rows(NODES))
def test_namespaced_operator_may_not_look_at_nodes(
    namespaced: tuple[Rights, str], row: str
) -> None:
    rights, _ = namespaced
    assert not rights.allow(row, "")


@pytest.mark.parametrize("row", rows(FORBIDDEN_CLUSTER_WIDE))
def test_operator_may_not_in_the_cluster(operator: Rights, row: str) -> None:
    assert not operator.allow(row, "")


def test_operator_reads_the_namespace_it_works_in(operator: Rights) -> None:
    assert operator.allow("get namespaces", "default", "default")


def test_operator_makes_tokens_of_its_own_account_only(operator: Rights) -> None:
    create = "create serviceaccounts/token"
    assert operator.allow(create, OPERATOR_NAMESPACE, ACCOUNT)
    assert not operator.allow(create, OPERATOR_NAMESPACE, "default")
    assert not operator.allow(create, "kube-system", ACCOUNT)


def test_operator_leads_by_one_lease_of_its_own_namespace(operator: Rights) -> None:
    lease = "leases.coordination.k8s.io"
    assert operator.allow(f"create {lease}", OPERATOR_NAMESPACE)
    for verb in ("get", "update", "watch"):
        assert operator.allow(f"{verb} {lease}", OPERATOR_NAMESPACE, ACCOUNT)
        assert not operator.allow(f"{verb} {lease}", OPERATOR_NAMESPACE, "kube-scheduler")


def test_kubectl_agrees(operator: Rights, kubectl: Kubectl) -> None:
    who = f"--as=system:serviceaccount:{OPERATOR_NAMESPACE}:{ACCOUNT}"
    assert kubectl("auth", "can-i", "create", "daemonsets.apps", who).strip() == "yes"
    assert "*" not in kubectl("auth", "can-i", "--list", "--no-headers", who).replace("/*", "")


@pytest.mark.parametrize("row", rows(ALLOWED))
def test_namespaced_operator_may_in_its_namespace_only(
    namespaced: tuple[Rights, str], row: str
) -> None:
    rights, namespace = namespaced
    assert rights.allow(row, namespace)
    assert not rights.allow(row, "default")
    assert not rights.allow(row, "")


@pytest.mark.parametrize("row", rows(FORBIDDEN))
def test_namespaced_operator_may_not(namespaced: tuple[Rights, str], row: str) -> None:
    rights, namespace = namespaced
    assert not rights.allow(row, namespace)


def test_namespaced_operator_reads_its_namespace_only(
    api: Api, kubectl: Kubectl, namespaced: tuple[Rights, str]
) -> None:
    rights, namespace = namespaced
    assert rights.allow("get namespaces", namespace, namespace)
    assert not rights.allow("get namespaces", "default", "default")
    who = f"--as=system:serviceaccount:{namespace}:{ACCOUNT}"
    assert namespace in kubectl("get", "namespace", namespace, who)


def test_operator_can_give_the_sidecars_role_and_no_more(
    operator: Rights, kubectl: Kubectl, namespace: str
) -> None:
    """RBAC lets nobody grant what he does not have."""
    who = f"--as=system:serviceaccount:{OPERATOR_NAMESPACE}:{ACCOUNT}"
    kubectl(
        "-n", namespace, "create", "role", "m-warmpod", who,
        "--verb=patch", "--resource=pods/status",
    )  # fmt: skip
    kubectl(
        "-n", namespace, "create", "rolebinding", "m-warmpod", who,
        "--role=m-warmpod", f"--serviceaccount={namespace}:m-warmpod",
    )  # fmt: skip
    with pytest.raises(AssertionError, match="attempting to grant RBAC permissions not currently"):
        kubectl("-n", namespace, "create", "role", "thief", who, "--verb=get", "--resource=secrets")


USERS = [
    ("view", "get warmmodels.warmpod.io", True),
    ("view", "list warmmodels.warmpod.io", True),
    ("view", "get warmmodels.warmpod.io/status", True),
    ("view", "patch warmmodels.warmpod.io", False),
    ("view", "patch warmmodels.warmpod.io/scale", False),
    ("edit", "watch warmmodels.warmpod.io", True),
    ("edit", "create warmmodels.warmpod.io", True),
    ("edit", "delete warmmodels.warmpod.io", True),
    ("edit", "patch warmmodels.warmpod.io/scale", True),
    ("edit", "patch warmmodels.warmpod.io/status", False),
    ("admin", "create warmmodels.warmpod.io", True),
    ("admin", "patch warmmodels.warmpod.io/status", False),
]


@pytest.mark.parametrize(("role", "row", "allowed"), USERS)
def test_users(
    api: Api, kubectl: Kubectl, operator: Rights, namespace: str, role: str, row: str, allowed: bool
) -> None:
    user = f"user-with-{role}"
    kubectl(
        "-n", namespace, "create", "rolebinding", "user", f"--clusterrole={role}", f"--user={user}"
    )
    rights = Rights(api, user)
    rights.wait_for("get warmmodels.warmpod.io", namespace)
    assert rights.allow(row, namespace) is allowed

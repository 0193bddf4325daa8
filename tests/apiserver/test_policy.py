"""The admission policy: a pod's token can set our conditions on that pod, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.api import JSON_PATCH, STRATEGIC_PATCH, Api, ApiError, JsonObject
from support.waiting import wait_until

POLICY = "warmpod-own-pod-status"
ACCOUNT = "m-warmpod"
OTHER_ACCOUNT = "somebody"

OWN_POD_ONLY = "a pod may patch its own status only"
METADATA = "labels, annotations, finalizers and ownerReferences of the pod must stay"
CONDITIONS_ONLY = "of the pod's status only the conditions may be patched"
OUR_TYPES_ONLY = "only conditions whose type starts with warmpod.io/ may be patched"


@dataclass(frozen=True)
class Pods:
    """A namespace with two pods of one service account, and a token that is bound to the first."""

    namespace: str
    own: JsonObject
    other: JsonObject
    holder: Api

    def patch_own(self, body: Any, content_type: str = STRATEGIC_PATCH) -> JsonObject:
        return patch_status(self.holder, self.own, body, content_type)


def patch_status(
    api: Api, pod: JsonObject, body: Any, content_type: str = STRATEGIC_PATCH
) -> JsonObject:
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    return api.patch("Pod", name, namespace, body, content_type=content_type, subresource="status")


def condition(type_: str, status: str = "True", **fields: str) -> JsonObject:
    entry = {"type": type_, "status": status, "reason": "Test", "message": "", **fields}
    return {"status": {"conditions": [entry]}}


@pytest.fixture(scope="module")
def policy(api: Api, crd: JsonObject) -> JsonObject:
    """The policy, once the API server has type-checked it and enforces it."""
    path = f"apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{POLICY}"

    def checked() -> JsonObject | None:
        found = api.request("GET", path)
        current = found.get("status", {}).get("observedGeneration")
        return found if current == found["metadata"]["generation"] else None

    return wait_until("the policy is type-checked", checked, timeout_s=60)


@pytest.fixture(scope="module")
def pods(api: Api, kubeconfig: Path, policy: JsonObject) -> Iterator[Pods]:
    body: JsonObject = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"generateName": "policy-"},
    }
    namespace = api.create(body)["metadata"]["name"]
    for account in (ACCOUNT, OTHER_ACCOUNT):
        make_account(api, namespace, account)
    own, other = (make_pod(api, namespace, name, ACCOUNT) for name in ("own", "other"))
    holder = Api(kubeconfig, token=make_token(api, namespace, ACCOUNT, bound_to=own))
    wait_until_enforced(Api(kubeconfig, token=make_token(api, namespace, ACCOUNT)), own)
    yield Pods(namespace, own, other, holder)
    api.delete("Namespace", namespace)


def make_account(api: Api, namespace: str, name: str) -> None:
    """A service account with the role that the operator gives to the pods of a model."""
    group = "rbac.authorization.k8s.io"
    metadata = {"name": name, "namespace": namespace}
    api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    rules = [{"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]}]
    api.create({"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": rules})
    api.create(
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", **metadata}],
        }
    )


def make_pod(api: Api, namespace: str, name: str, account: str) -> JsonObject:
    """A pod that no node takes, with a status as a kubelet writes it."""
    pod = api.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {"warmpod.io/role": "serving"},
                "annotations": {"example.com/note": "kept"},
            },
            "spec": {
                "serviceAccountName": account,
                "automountServiceAccountToken": False,
                "schedulerName": "nobody",
                "containers": [{"name": "engine", "image": "engine:1"}],
            },
        }
    )
    status = {
        "phase": "Running",
        "podIPs": [{"ip": "10.0.0.1"}],
        "podIP": "10.0.0.1",
        "startTime": "2026-01-01T00:00:00Z",
        "containerStatuses": [
            {
                "name": "engine",
                "image": "engine:1",
                "imageID": "",
                "ready": True,
                "restartCount": 0,
            }
        ],
        "conditions": [
            {"type": "Ready", "status": "False"},
            {"type": "example.com/theirs", "status": "True", "reason": "Theirs"},
        ],
    }
    return patch_status(api, pod, {"status": status})


def make_token(api: Api, namespace: str, account: str, bound_to: JsonObject | None = None) -> str:
    spec: JsonObject = {"expirationSeconds": 3600}
    if bound_to is not None:
        metadata = bound_to["metadata"]
        spec["boundObjectRef"] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata["name"],
            "uid": metadata["uid"],
        }
    answer = api.request(
        "POST",
        f"api/v1/namespaces/{namespace}/serviceaccounts/{account}/token",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec},
    )
    token: str = answer["status"]["token"]
    return token


def wait_until_enforced(unbound: Api, pod: JsonObject) -> None:
    """A new policy takes the API server a moment; a new role binding as well."""

    def refused() -> bool:
        try:
            patch_status(unbound, pod, condition("warmpod.io/Probe"))
        except ApiError as error:
            return POLICY in error.message
        return False

    wait_until("the policy is enforced", refused, timeout_s=30)


def test_policy_has_no_type_warnings(policy: JsonObject) -> None:
    assert policy["status"].get("typeChecking", {}).get("expressionWarnings", []) == []


@pytest.mark.parametrize(
    "type_", ["warmpod.io/Warm", "warmpod.io/StartupTimeline", "warmpod.io/Resident"]
)
def test_own_condition_is_allowed(pods: Pods, type_: str) -> None:
    """Set, changed, and set to the same again."""
    for status in ("False", "True", "True"):
        body = condition(type_, status, lastTransitionTime="2026-01-01T00:00:00Z")
        body["metadata"] = {"uid": pods.own["metadata"]["uid"]}
        after = {c["type"]: c["status"] for c in pods.patch_own(body)["status"]["conditions"]}
        assert after == {**after, type_: status, "Ready": "False", "example.com/theirs": "True"}


# what a token tries on its own pod → (patch, what the answer must say)
REFUSED: dict[str, tuple[JsonObject, str]] = {
    "Ready": (condition("Ready"), OUR_TYPES_ONLY),
    "new condition of the kubelet": (condition("Initialized"), OUR_TYPES_ONLY),
    "another domain": (condition("example.com/ours"), OUR_TYPES_ONLY),
    "change of another domain": (condition("example.com/theirs", "False"), OUR_TYPES_ONLY),
    "a name that looks like ours": (condition("warmpod.iox/Warm"), OUR_TYPES_ONLY),
    "removal of another domain": (
        {"status": {"conditions": [{"type": "example.com/theirs", "$patch": "delete"}]}},
        OUR_TYPES_ONLY,
    ),
    "ours and another at once": (
        {
            "status": {
                "conditions": [
                    {"type": "warmpod.io/Warm", "status": "True"},
                    {"type": "Ready", "status": "True"},
                ]
            }
        },
        OUR_TYPES_ONLY,
    ),
    "phase": ({"status": {"phase": "Failed"}}, CONDITIONS_ONLY),
    "message": ({"status": {"message": "x"}}, CONDITIONS_ONLY),
    "reason": ({"status": {"reason": "Evicted"}}, CONDITIONS_ONLY),
    "removal of an address": ({"status": {"podIPs": None, "podIP": None}}, CONDITIONS_ONLY),
    "start time": ({"status": {"startTime": "2026-01-02T00:00:00Z"}}, CONDITIONS_ONLY),
    "nominated node": ({"status": {"nominatedNodeName": "n"}}, CONDITIONS_ONLY),
    "container": (
        {"status": {"containerStatuses": [{"name": "engine", "ready": False}]}},
        CONDITIONS_ONLY,
    ),
    "init containers": (
        {
            "status": {
                "initContainerStatuses": [
                    {"name": "i", "image": "i", "imageID": "", "ready": True, "restartCount": 0}
                ]
            }
        },
        CONDITIONS_ONLY,
    ),
    "new label": ({"metadata": {"labels": {"x": "y"}}}, METADATA),
    "changed label": ({"metadata": {"labels": {"warmpod.io/role": "standby"}}}, METADATA),
    "removed label": ({"metadata": {"labels": {"warmpod.io/role": None}}}, METADATA),
    "annotation": ({"metadata": {"annotations": {"example.com/note": "x"}}}, METADATA),
    "no annotations": ({"metadata": {"annotations": None}}, METADATA),
    "finalizer": ({"metadata": {"finalizers": ["example.com/x"]}}, METADATA),
}


@pytest.mark.parametrize(("body", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_everything_else_of_the_own_pod_is_refused(
    api: Api, pods: Pods, body: JsonObject, said: str
) -> None:
    with pytest.raises(ApiError) as refused:
        pods.patch_own(body)
    assert POLICY in refused.value.message
    assert said in refused.value.message


def test_removal_of_the_whole_status_is_refused(pods: Pods) -> None:
    with pytest.raises(ApiError) as refused:
        pods.patch_own([{"op": "replace", "path": "/status", "value": {}}], JSON_PATCH)
    assert CONDITIONS_ONLY in refused.value.message


def test_another_pod_of_the_same_account_is_refused(pods: Pods) -> None:
    with pytest.raises(ApiError) as refused:
        patch_status(pods.holder, pods.other, condition("warmpod.io/Warm"))
    assert OWN_POD_ONLY in refused.value.message
    assert f"bound to pod own, uid {pods.own['metadata']['uid']}" in refused.value.message


def test_token_without_a_pod_is_refused(api: Api, kubeconfig: Path, pods: Pods) -> None:
    unbound = Api(kubeconfig, token=make_token(api, pods.namespace, ACCOUNT))
    with pytest.raises(ApiError) as refused:
        patch_status(unbound, pods.own, condition("warmpod.io/Warm"))
    assert OWN_POD_ONLY in refused.value.message
    assert "bound to no pod" in refused.value.message


def test_token_of_an_earlier_pod_with_the_same_name_is_refused(
    api: Api, kubeconfig: Path, pods: Pods
) -> None:
    """The API server refuses the token of a deleted pod itself."""
    first = make_pod(api, pods.namespace, "again", ACCOUNT)
    holder = Api(kubeconfig, token=make_token(api, pods.namespace, ACCOUNT, bound_to=first))
    api.request("DELETE", f"api/v1/namespaces/{pods.namespace}/pods/again", gracePeriodSeconds="0")
    wait_until(
        "the first pod is gone",
        lambda: api.find("Pod", "again", pods.namespace) is None,
        timeout_s=30,
    )
    second = make_pod(api, pods.namespace, "again", ACCOUNT)
    with pytest.raises(ApiError) as refused:
        patch_status(holder, second, condition("warmpod.io/Warm"))
    assert refused.value.status in (401, 403, 422)


def test_other_resources_are_refused(pods: Pods) -> None:
    for kind in ("Pod", "ConfigMap", "ServiceAccount"):
        with pytest.raises(ApiError) as refused:
            pods.holder.list(kind, pods.namespace)
        assert refused.value.status == 403


def test_other_accounts_and_users_are_not_concerned(api: Api, kubeconfig: Path, pods: Pods) -> None:
    """The kubelet, controllers and administrators go on writing what they write."""
    pod = make_pod(api, pods.namespace, "free", OTHER_ACCOUNT)
    holder = Api(kubeconfig, token=make_token(api, pods.namespace, OTHER_ACCOUNT))
    for writer in (api, holder):
        after = patch_status(writer, pod, {"status": {"message": "x"}, **condition("Ready")})
        assert after["status"]["conditions"]
    patch_status(api, pods.own, {"metadata": {"labels": {"example.com/x": "y"}}})

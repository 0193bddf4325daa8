"""Which fields of our objects others have set, by what the API server wrote down."""

from __future__ import annotations

from typing import Any

import pytest

from warmpod.controller.apiserver.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    SERVICE,
    SERVICE_ACCOUNT,
    Kind,
)
from warmpod.controller.objects import ownership

Object = dict[str, Any]

ENGINE = 'k:{"name":"engine"}'
SHELL = 'k:{"name":"shell"}'
OURS: Object = {
    "f:metadata": {"f:labels": {"f:app": {}}},
    "f:spec": {
        "f:replicas": {},
        "f:template": {
            "f:metadata": {"f:labels": {"f:app": {}}},
            "f:spec": {"f:containers": {ENGINE: {".": {}, "f:name": {}, "f:image": {}}}},
        },
    },
}
TOLERATIONS = [{"key": "gpu"}]
SPEC: Object = {
    "replicas": 1,
    "paused": True,
    "template": {
        "metadata": {"labels": {"app": "a"}, "annotations": {"restartedAt": "now"}},
        "spec": {
            "nodeSelector": {"disk": "fast"},
            "tolerations": TOLERATIONS,
            "containers": [
                {"name": "engine", "image": "e", "env": [{"name": "A", "value": "1"}]},
                {"name": "shell", "image": "s"},
            ],
        },
    },
}


def entry(fields: Object, manager: str = "kubectl-edit", **more: str) -> Object:
    time = {"time": "2030-01-01T12:00:00Z"}
    return {"manager": manager, "operation": "Update", "fieldsV1": fields, **time, **more}


def deployment(*entries: Object, **spec: Any) -> Object:
    applied = entry(OURS, "warmpod", operation="Apply")
    metadata = {"name": "a", "managedFields": [applied, *entries]}
    return {"metadata": metadata, "spec": {**SPEC, **spec}, "status": {"replicas": 1}}


def in_pods(fields: Object) -> Object:
    return {"f:spec": {"f:template": {"f:spec": fields}}}


def found(obj: Object, kind: Kind = DEPLOYMENT) -> list[str]:
    return [edit.field for edit in ownership.find(kind, obj)]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"f:spec": {"f:paused": {}}}, ["spec.paused"]),
        (in_pods({"f:nodeSelector": {}}), ["spec.template.spec.nodeSelector"]),
        (in_pods({"f:tolerations": {}}), ["spec.template.spec.tolerations"]),
        (
            in_pods({"f:containers": {".": {}, SHELL: {".": {}, "f:name": {}, "f:image": {}}}}),
            ["spec.template.spec.containers[shell]"],
        ),
        (
            in_pods({"f:containers": {ENGINE: {"f:env": {".": {}, 'k:{"name":"A"}': {}}}}}),
            ["spec.template.spec.containers[engine].env"],
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_others_added(fields: Object, expected: list[str]) -> None:
    (edit,) = ownership.find(DEPLOYMENT, deployment(entry(fields)))
    assert [edit.field] == expected
    assert edit.manager == "kubectl-edit"
    assert edit.at is not None
    assert edit.in_template == expected[0].startswith("spec.template.")


@pytest.mark.parametrize(
    "entries",
    [
        (),
        (entry({"f:metadata": {"f:labels": {"f:theirs": {}}}}),),
        (entry({"f:spec": {"f:replicas": {}}}, "both-have-it"),),
        (entry({"f:status": {"f:replicas": {}}}, "kube-controller-manager", subresource="status"),),
        (entry({"f:spec": {"f:replicas": {}}}, "kubectl", subresource="scale"),),
        (entry({"f:spec": {"f:gone": {}}}),),
        (entry(in_pods({"f:containers": {'k:{"name":"gone"}': {".": {}}}})),),
        (entry({"f:spec": {"f:paused": {}}}, "warmpod"),),
        (
            entry(
                {"f:spec": {"f:template": {"f:metadata": {"f:annotations": {"f:restartedAt": {}}}}}}
            ),
        ),
    ],
    ids=[
        "nobody",
        "labels are for everybody",
        "the same value as ours",
        "status",
        "scale",
        "not there any more",
        "an item that is not there any more",
        "our own patches",
        "rollout restart",
    ],
)
def test_what_is_no_edit(entries: tuple[Object, ...]) -> None:
    assert found(deployment(*entries)) == []


def test_where_we_have_applied_nothing_there_is_no_edit() -> None:
    obj = deployment(entry({"f:spec": {"f:paused": {}}}))
    del obj["metadata"]["managedFields"][0]
    assert found(obj) == []


@pytest.mark.parametrize("kind", [SERVICE_ACCOUNT, CONFIG_MAP])
def test_kinds_that_are_for_others_too(kind: Kind) -> None:
    assert found(deployment(entry({"f:spec": {"f:paused": {}}})), kind) == []


def test_a_port_is_named_by_its_keys() -> None:
    port = 'k:{"port":9000,"protocol":"TCP"}'
    obj = deployment(
        entry({"f:spec": {"f:ports": {port: {".": {}}}}}), ports=[{"port": 9000, "protocol": "TCP"}]
    )
    obj["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:ports"] = {}
    assert found(obj, SERVICE) == ["spec.ports[9000/TCP]"]


def test_values_and_numbers_of_lists() -> None:
    theirs = {"f:spec": {"f:ips": {'v:"a"': {}, 'v:"gone"': {}, "i:0": {}, "i:7": {}}}}
    obj = deployment(entry(theirs), ips=["a"])
    obj["metadata"]["managedFields"][0] = entry(
        {"f:spec": {"f:ips": {}}}, "warmpod", operation="Apply"
    )
    assert found(obj, SERVICE) == ["spec.ips[a]", "spec.ips[0]"]


def test_several_are_told_by_manager() -> None:
    obj = deployment(
        entry(in_pods({"f:tolerations": {}, "f:nodeSelector": {}})),
        entry({"f:spec": {"f:paused": {}}}, "other"),
    )
    assert ownership.told(ownership.find(DEPLOYMENT, obj)) == (
        "spec.template.spec.nodeSelector, spec.template.spec.tolerations (set by kubectl-edit); "
        "spec.paused (set by other)"
    )


def test_taken_over_all_edits_are_ours() -> None:
    restart = {"f:metadata": {"f:annotations": {"f:restartedAt": {}}}}
    theirs = {"f:metadata": {"f:labels": {"f:theirs": {}}}, **in_pods({"f:nodeSelector": {}})}
    theirs["f:spec"]["f:template"] |= restart
    status = entry({"f:status": {"f:replicas": {}}}, "controller", subresource="status")
    obj = deployment(entry(theirs), entry({"f:spec": {"f:paused": {}}}, "other"), status)
    fields = ownership.taken_over(DEPLOYMENT, obj)
    obj["metadata"]["managedFields"] = fields
    assert found(obj) == []
    ours, edit, untouched = fields
    assert ours["fieldsV1"]["f:spec"]["f:paused"] == {}
    assert ours["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:nodeSelector"] == {}
    assert ours["fieldsV1"]["f:spec"]["f:replicas"] == {}, "what we had we keep"
    assert edit["fieldsV1"] == {
        "f:metadata": {"f:labels": {"f:theirs": {}}},
        "f:spec": {"f:template": restart},
    }
    assert untouched == status

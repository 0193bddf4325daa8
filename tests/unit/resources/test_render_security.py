"""Rendered pods satisfy the level of the namespace that they are rendered for."""

from __future__ import annotations

from typing import Any

import pytest

from unit.resources.pod_security import violations
from unit.resources.samples import (
    REMOTE,
    SOURCES,
    container,
    engine_spec,
    prefetch_spec,
    warm_model,
)
from warmpod.resources.security import PodSecurity, level_of, refusal

STAGING = {"staging": {"persistentVolumeClaim": {"claimName": "staging"}}}


@pytest.mark.parametrize("level", ["baseline", "restricted"])
@pytest.mark.parametrize("medium", ["Image", "PodMemory"])
def test_every_pod_is_allowed(level: PodSecurity, medium: str) -> None:
    model = warm_model(weights={"medium": medium, "size": "1Gi"})
    assert violations(engine_spec(model, pod_security=level), level) == []
    assert violations(prefetch_spec(model, pod_security=level), level) == []


@pytest.mark.parametrize("level", ["baseline", "restricted"])
def test_node_memory_is_refused_before_anything_is_made(level: PodSecurity) -> None:
    model = warm_model(weights={"medium": "NodeMemory", "size": "1Gi"})
    text = refusal(model, level) or ""
    assert "spec.weights.medium" in text
    assert "PodMemory or Image" in text
    assert level in text
    assert violations(engine_spec(model, pod_security=level), level) != []
    assert refusal(model, "privileged") is None
    assert refusal(warm_model(), level) is None


PATHS = [
    ({"compileCache": {"store": "Node"}}, "spec.compileCache.store: Node", "use Pod or Image"),
    ({"model": SOURCES["nodePath"]}, "spec.model.nodePath", "persistentVolumeClaim"),
    ({"model": SOURCES["s3"]}, "spec.model", "set spec.weights.staging"),
    (
        {"additionalModels": [{"name": "a", **SOURCES["claim"]}, {"name": "b", **SOURCES["http"]}]},
        "spec.additionalModels[1]",
        "set spec.weights.staging",
    ),
    (
        {"additionalModels": [{"name": "a", **SOURCES["nodePath"]}], "weights": STAGING},
        "spec.additionalModels[0].nodePath",
        "use an image",
    ),
]


@pytest.mark.parametrize("level", ["baseline", "restricted"])
@pytest.mark.parametrize(("spec", "field", "remedy"), PATHS)
def test_sources_on_the_nodes_disk_are_refused_where_it_is_forbidden(
    level: PodSecurity, spec: dict[str, Any], field: str, remedy: str
) -> None:
    model = warm_model(**spec)
    text = refusal(model, level) or ""
    assert text.startswith(field)
    assert remedy in text
    assert "namespace models" in text
    pods = (engine_spec(model, pod_security=level), prefetch_spec(model, pod_security=level))
    assert any(violations(pod, level) for pod in pods)
    assert refusal(model, "privileged") is None


@pytest.mark.parametrize("level", ["baseline", "restricted"])
@pytest.mark.parametrize("medium", ["Image", "PodMemory"])
@pytest.mark.parametrize("source", ["huggingFace", "s3", "http", "claim"])
def test_what_lies_in_claims_is_allowed_everywhere(
    level: PodSecurity, medium: str, source: str
) -> None:
    staging = STAGING if source in REMOTE else {}
    model = warm_model(model=SOURCES[source], weights={"medium": medium, "size": "1Gi", **staging})
    assert refusal(model, level) is None
    assert violations(engine_spec(model, pod_security=level), level) == []
    assert violations(prefetch_spec(model, pod_security=level), level) == []


def test_the_agent_may_write_to_the_claim_of_downloads_by_its_group() -> None:
    downloads = {"model": SOURCES["s3"], "weights": STAGING}
    context = prefetch_spec(warm_model(**downloads))["securityContext"]
    assert context["fsGroup"] == 65532
    assert context["fsGroupChangePolicy"] == "OnRootMismatch"
    own = warm_model(**downloads, pod={"securityContext": {"fsGroup": 1000800000}})
    assert prefetch_spec(own)["securityContext"]["fsGroup"] == 1000800000
    on_disk = warm_model(model=SOURCES["s3"])
    assert "fsGroup" not in prefetch_spec(on_disk)["securityContext"]


def test_our_own_containers_are_restricted_everywhere() -> None:
    model = warm_model(
        weights={"medium": "PodMemory", "size": "1Gi"},
        pod={"securityContext": {"runAsUser": 0, "seccompProfile": {"type": "Unconfined"}}},
    )
    spec = engine_spec(model)
    spec["containers"] = []
    assert violations(spec, "restricted") == []
    for item in spec["initContainers"]:
        assert item["securityContext"]["readOnlyRootFilesystem"] is True


def test_a_user_id_for_the_pod_holds_for_our_containers_too() -> None:
    model = warm_model(pod={"securityContext": {"runAsUser": 1000800000}})
    spec = engine_spec(model, pod_security="restricted")
    assert container(spec, "warmup")["securityContext"]["runAsUser"] == 1000800000
    assert spec["securityContext"]["runAsUser"] == 1000800000
    assert violations(spec, "restricted") == []


def test_the_engine_runs_as_its_image_says_where_that_is_allowed() -> None:
    for level in ("privileged", "baseline"):
        spec = engine_spec(warm_model(), pod_security=level)
        assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
        assert container(spec, "engine")["securityContext"] == {
            "capabilities": {"drop": ["ALL"]},
            "allowPrivilegeEscalation": False,
        }


def test_in_a_restricted_namespace_the_engine_is_not_root() -> None:
    spec = engine_spec(warm_model(), pod_security="restricted")
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 65532
    own = engine_spec(
        warm_model(engine={"securityContext": {"runAsUser": 7}}), pod_security="restricted"
    )
    assert "runAsUser" not in own["securityContext"]
    assert container(own, "engine")["securityContext"]["runAsUser"] == 7


def test_the_users_fields_win() -> None:
    context = {"capabilities": {"add": ["IPC_LOCK"]}, "readOnlyRootFilesystem": True}
    spec = engine_spec(warm_model(engine={"securityContext": context}))
    assert container(spec, "engine")["securityContext"] == {
        **context,
        "allowPrivilegeEscalation": False,
    }
    privileged = engine_spec(warm_model(engine={"securityContext": {"privileged": True}}))
    assert "allowPrivilegeEscalation" not in container(privileged, "engine")["securityContext"]


def test_the_agent_has_two_capabilities_where_that_is_allowed_and_none_elsewhere() -> None:
    def context(level: PodSecurity) -> dict[str, Any]:
        spec = prefetch_spec(warm_model(), pod_security=level)
        found: dict[str, Any] = container(spec, "agent")["securityContext"]
        return found

    assert context("privileged")["capabilities"] == {"add": ["FOWNER", "IPC_LOCK"], "drop": ["ALL"]}
    assert context("privileged")["runAsUser"] == 0
    for level in ("baseline", "restricted"):
        assert context(level)["capabilities"] == {"drop": ["ALL"]}
        assert context(level)["runAsUser"] == 65532


@pytest.mark.parametrize(
    ("labels", "level"),
    [
        ({}, "privileged"),
        ({"pod-security.kubernetes.io/enforce": "privileged"}, "privileged"),
        ({"pod-security.kubernetes.io/enforce": "baseline"}, "baseline"),
        ({"pod-security.kubernetes.io/enforce": "restricted"}, "restricted"),
        ({"pod-security.kubernetes.io/enforce": "nonsense"}, "restricted"),
        ({"pod-security.kubernetes.io/warn": "restricted"}, "privileged"),
    ],
)
def test_level_of_a_namespace(labels: dict[str, str], level: str) -> None:
    assert level_of(labels) == level

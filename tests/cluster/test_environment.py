"""Namespaces and pods that are set up in unusual but legitimate ways."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.api import Api, JsonObject
from support.models import ModelView, warm_model, with_engine
from support.traffic import first_answer

Create = Callable[[JsonObject], ModelView]

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


def test_a_service_named_vllm(api: Api, create: Create, namespace: str) -> None:
    """Service links would set VLLM_PORT to a URL, which vLLM cannot read."""
    api.create(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "vllm", "namespace": namespace},
            "spec": {"selector": {"app": "none"}, "ports": [{"port": 8000}]},
        }
    )
    view = create(warm_model("linked", namespace))
    view.wait_ready()


def test_random_user_with_a_read_only_root(create: Create, namespace: str) -> None:
    model = with_engine(
        warm_model(
            "random", namespace, pod={"securityContext": {"runAsUser": 1000800000, "runAsGroup": 0}}
        ),
        securityContext={"readOnlyRootFilesystem": True},
    )
    view = create(model)
    view.wait_ready()
    assert first_answer(view.service_url(), "random") != ""


@pytest.mark.namespace_labels(RESTRICTED)
@pytest.mark.parametrize("medium", ["Image", "PodMemory"])
def test_restricted_namespace(create: Create, namespace: str, medium: str) -> None:
    size = {} if medium == "Image" else {"size": "16Mi"}
    view = create(warm_model("restricted", namespace, weights={"medium": medium, **size}))
    view.wait_ready()
    view.wait_condition("WeightsResident", "True")


@pytest.mark.namespace_labels(RESTRICTED)
def test_restricted_namespace_refuses_node_memory_with_a_reason(
    create: Create, namespace: str
) -> None:
    view = create(
        warm_model("refused", namespace, weights={"medium": "NodeMemory", "size": "16Mi"})
    )
    found = view.wait_condition("Ready", "False", {"PodSecurityViolation"})
    assert "hostPath" in found["message"]


def test_an_object_of_somebody_else_is_never_taken_over(
    api: Api, create: Create, namespace: str
) -> None:
    taken = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "taken", "namespace": namespace},
        "spec": {"selector": {"app": "other"}, "ports": [{"port": 80}]},
    }
    api.create(taken)
    view = create(warm_model("taken", namespace))
    view.wait_condition("Ready", "False", {"NameConflict"})
    assert api.get("Service", "taken", namespace)["spec"]["selector"] == {"app": "other"}
    api.delete("Service", "taken", namespace)
    view.wait_ready(timeout_s=240)

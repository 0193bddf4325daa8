"""A sidecar's token can do one thing: set our conditions on the sidecar's own pod."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.api import STRATEGIC_PATCH, Api, ApiError, JsonObject
from support.images import binary
from support.models import ModelView, warm_model

Create = Callable[[JsonObject], ModelView]
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"


def test_token_of_a_sidecar(api: Api, kubeconfig: Path, create: Create, namespace: str) -> None:
    view = create(warm_model("victim", namespace, replicas=2))
    view.wait_ready()
    own, other = (pod["metadata"]["name"] for pod in view.engine_pods())
    (prefetch,) = view.prefetch_pods()
    sidecar = Api(kubeconfig, token=read_token(kubeconfig, namespace, own))

    set_condition(sidecar, namespace, own, "warmpod.io/Warm")
    for pod, type_ in (
        (other, "warmpod.io/Warm"),
        (prefetch["metadata"]["name"], "warmpod.io/Resident"),
        (own, "Ready"),
        (own, "example.com/other"),
    ):
        with pytest.raises(ApiError) as refused:
            set_condition(sidecar, namespace, pod, type_)
        assert refused.value.status in (403, 422), f"{pod} {type_}"
    for body in ({"status": {"phase": "Failed"}}, {"metadata": {"labels": {"x": "y"}}}):
        with pytest.raises(ApiError):
            sidecar.patch(
                "Pod", own, namespace, body, content_type=STRATEGIC_PATCH, subresource="status"
            )
    for kind in ("Pod", "ConfigMap", "WarmModel"):
        with pytest.raises(ApiError) as refused:
            sidecar.list(kind, namespace)
        assert refused.value.status == 403


def test_engine_has_no_token(kubeconfig: Path, create: Create, namespace: str) -> None:
    view = create(warm_model("tokenless", namespace))
    view.wait_ready()
    pod = view.engine_pod()["metadata"]["name"]
    result = execute(kubeconfig, namespace, pod, "engine", "ls", TOKEN)
    assert result.returncode != 0


def set_condition(api: Api, namespace: str, pod: str, type_: str) -> None:
    condition = {"type": type_, "status": "True", "reason": "Test", "message": ""}
    api.patch(
        "Pod",
        pod,
        namespace,
        {"status": {"conditions": [condition]}},
        content_type=STRATEGIC_PATCH,
        subresource="status",
    )


def read_token(kubeconfig: Path, namespace: str, pod: str) -> str:
    result = execute(kubeconfig, namespace, pod, "warmup", "cat", TOKEN)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def execute(
    kubeconfig: Path, namespace: str, pod: str, container: str, *command: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            str(binary("kubectl")),
            f"--kubeconfig={kubeconfig}",
            f"--namespace={namespace}",
            "exec",
            pod,
            f"--container={container}",
            "--",
            *command,
        ],
        capture_output=True,
        text=True,
        check=False,
    )

"""Whole renderings, to see in a review what a change does to them."""

from __future__ import annotations

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from unit.resources.samples import rendered, warm_model
from warmpod.api import WarmModel
from warmpod.resources.security import PodSecurity

MINIMAL = warm_model()
GPU_IN_NODE_MEMORY = warm_model(
    model={"servedName": "meta-llama/Llama-3-8B"},
    weights={"medium": "NodeMemory", "size": "17Gi"},
    warmup={"promptsFrom": [{"configMap": "llama-prompts"}]},
    engine={
        "args": ["--max-model-len=8192", "-tp", "2"],
        "env": [{"name": "NCCL_DEBUG", "value": "INFO"}],
        "resources": {"limits": {"nvidia.com/gpu": 2, "memory": "32Gi"}},
    },
    pod={
        "nodeSelector": {"pool": "gpu"},
        "tolerations": [{"key": "team", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "registry"}],
        "priorityClassName": "serving",
    },
)
RESTRICTED_POD_MEMORY = warm_model(weights={"medium": "PodMemory", "size": "2Gi"})
OWN_COMMAND = warm_model(
    engine={
        "command": ["python3", "-m", "vllm.entrypoints.openai.api_server"],
        "args": ["--model=/models/llama", "--port=8443", "--ssl-certfile=/tls/c", "--api-key=k"],
        "volumeMounts": [{"name": "tls", "mountPath": "/tls", "readOnly": True}],
    },
    compileCache={"store": "None"},
    pod={
        "volumes": [{"name": "tls", "secret": {"secretName": "tls"}}],
        "terminationGracePeriodSeconds": 600,
    },
)


@pytest.mark.parametrize(
    ("model", "pod_security"),
    [
        pytest.param(MINIMAL, "privileged", id="minimal"),
        pytest.param(GPU_IN_NODE_MEMORY, "privileged", id="gpu-node-memory"),
        pytest.param(RESTRICTED_POD_MEMORY, "restricted", id="restricted-pod-memory"),
        pytest.param(OWN_COMMAND, "baseline", id="own-command"),
    ],
)
def test_templates(
    model: WarmModel, pod_security: PodSecurity, snapshot: SnapshotAssertion
) -> None:
    made = rendered(model, pod_security=pod_security)
    assert yaml.safe_dump(made.engine_template, sort_keys=False, width=100) == snapshot
    assert yaml.safe_dump(made.prefetch_template, sort_keys=False, width=100) == snapshot

"""Rules of the prefetch pod, one by one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from unit.resources.samples import (
    ENGINE_DIGEST,
    MODEL_DIGEST,
    container,
    environment,
    mounts,
    prefetch_spec,
    rendered,
    volumes,
    warm_model,
)


def agent(**spec: Any) -> dict[str, Any]:
    return container(prefetch_spec(warm_model(**spec)), "agent")


def test_every_image_is_a_mounted_image_volume() -> None:
    adapter = {"name": "lora", "image": {"reference": "adapters/a:1"}}
    other = {"name": "data", "emptyDir": {}}
    spec = prefetch_spec(warm_model(pod={"volumes": [adapter, other]}))
    images = {
        path: volumes(spec)[mount["name"]]["image"]["reference"]
        for path, mount in mounts(container(spec, "agent")).items()
        if "image" in volumes(spec)[mount["name"]]
    }
    assert images == {
        "/images/model": f"registry.example.com:5000/models/llama@{MODEL_DIGEST}",
        "/images/engine": f"vllm/vllm-openai@{ENGINE_DIGEST}",
        "/images/volumes/lora": "adapters/a:1",
    }
    assert "data" not in volumes(spec)


def test_engine_and_prefetch_use_the_same_references() -> None:
    made = rendered(warm_model())
    engine, prefetch = made.engine_template["spec"], made.prefetch_template["spec"]
    assert (
        container(engine, "engine")["image"]
        == (volumes(prefetch)["warmpod-engine"]["image"]["reference"])
    )
    assert (
        volumes(engine)["warmpod-weights"]["image"] == volumes(prefetch)["warmpod-model"]["image"]
    )
    assert (
        volumes(engine)["warmpod-launcher"]["image"]["reference"]
        == (container(prefetch, "agent")["image"])
    )


def test_agent_config() -> None:
    config = json.loads(environment(agent())["WARMPOD_AGENT_CONFIG"])
    assert config == {
        "model": "llama",
        "model_uid": "uid-1",
        "medium": "Image",
        "node_root": "/run/warmpod-weights",
        "stage_root": "/run/warmpod-staged",
        "state_dir": "/run/warmpod-agent",
        "port": 9181,
        "look_seconds": 10,
        "scrub_seconds": None,
        "sets": [
            {
                "name": "llama",
                "source": "/images/model",
                "key": MODEL_DIGEST[7:39],
                "target": "/weights/llama",
                "remote": None,
                "credentials": None,
                "verify": None,
                "origin": {
                    "kind": "image",
                    "name": f"registry.example.com:5000/models/llama@{MODEL_DIGEST}",
                },
            }
        ],
    }


def test_the_kubelet_expands_nothing_in_the_agents_config() -> None:
    source = {"repository": "org/llama", "exclude": ["$(HOME)*.bin"]}
    config = environment(agent(model={"huggingFace": source}))["WARMPOD_AGENT_CONFIG"]
    assert "$" not in config
    (found,) = json.loads(config)["sets"]
    assert found["remote"]["huggingFace"]["exclude"] == ["$(HOME)*.bin"]


def test_files_are_read_again_as_often_as_the_spec_says() -> None:
    config = environment(agent(weights={"scrubSeconds": 86400}))["WARMPOD_AGENT_CONFIG"]
    assert json.loads(config)["scrub_seconds"] == 86400


def test_node_memory_has_the_nodes_folder() -> None:
    spec = prefetch_spec(warm_model(weights={"medium": "NodeMemory", "size": "1Gi"}))
    name = mounts(container(spec, "agent"))["/run/warmpod-weights"]["name"]
    assert volumes(spec)[name]["hostPath"] == {
        "path": "/dev/shm/warmpod",
        "type": "DirectoryOrCreate",
    }


@pytest.mark.parametrize("medium", ["Image", "PodMemory"])
def test_the_other_media_have_no_path_of_the_node(medium: str) -> None:
    spec = prefetch_spec(warm_model(weights={"medium": medium, "size": "1Gi"}))
    assert not [volume for volume in spec["volumes"] if "hostPath" in volume]


@pytest.mark.parametrize("medium", ["Image", "NodeMemory"])
def test_the_agent_pays_for_the_weights(medium: str) -> None:
    memory = f"{17 * 1024 + 192}Mi"
    assert agent(weights={"medium": medium, "size": "17Gi"})["resources"] == {
        "requests": {"cpu": "50m", "memory": memory},
        "limits": {"memory": memory},
    }


@pytest.mark.parametrize("weights", [{}, {"medium": "PodMemory", "size": "17Gi"}])
def test_no_limit_where_the_size_is_not_known_or_not_held(weights: dict[str, Any]) -> None:
    assert agent(weights=weights)["resources"] == {"requests": {"cpu": "50m", "memory": "192Mi"}}


def test_readiness_is_the_agents_and_there_is_no_gate() -> None:
    spec = prefetch_spec(warm_model())
    assert container(spec, "agent")["readinessProbe"]["httpGet"] == {
        "path": "/readyz",
        "port": "agent",
    }
    assert "readinessGates" not in spec
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert "/var/run/secrets/kubernetes.io/serviceaccount" in mounts(container(spec, "agent"))


def test_labels_of_the_pod() -> None:
    made = rendered(warm_model())
    assert made.prefetch_template["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "warmpod",
        "warmpod.io/model": "llama",
        "warmpod.io/component": "prefetch",
    }


def test_nothing_of_the_revision_is_in_it() -> None:
    made = rendered(warm_model())
    assert made.hash not in json.dumps(made.prefetch_template)


def test_it_waits_behind_a_gate_until_it_is_its_turn() -> None:
    assert prefetch_spec(warm_model())["schedulingGates"] == [{"name": "warmpod.io/prefetch"}]

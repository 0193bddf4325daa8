"""How the files of each source come into the pods, by medium."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from unit.resources.samples import (
    DIGESTS,
    MEDIA,
    MODEL_DIGEST,
    REMOTE,
    SOURCES,
    Json,
    container,
    engine_spec,
    environment,
    mounts,
    prefetch_spec,
    volumes,
    warm_model,
)
from warmpod.agent.sources.lookup import Lookup
from warmpod.agent.sources.origin import Origin
from warmpod.api import WarmModel
from warmpod.resources import weight_sets

STAGING = {"staging": {"persistentVolumeClaim": {"claimName": "staging"}}}
PEM = "-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----\n"
SIGNED = "example.com/models/m:1@sha256:" + "5" * 64
EVERY_SOURCE = pytest.mark.parametrize("source", SOURCES)
EVERY_MEDIUM = pytest.mark.parametrize("medium", MEDIA)


def of(source: str, medium: str, **weights: Any) -> WarmModel:
    return warm_model(model=SOURCES[source], weights={"medium": medium, "size": "17Gi", **weights})


def key_of(source: str, **spec: Any) -> str:
    return weight_sets.of(warm_model(model=SOURCES[source], **spec), DIGESTS)[0].key


def mounted(pod: Json, name: str, path: str) -> tuple[Json, Json]:
    """The volume at a path of a container, without its name, and the mount."""
    mount = mounts(container(pod, name))[path]
    volume = volumes(pod)[mount["name"]]
    return {kind: source for kind, source in volume.items() if kind != "name"}, mount


def config_of(pod: Json, name: str) -> Json:
    config: Json = json.loads(environment(container(pod, name))["WARMPOD_AGENT_CONFIG"])
    return config


def waits(model: WarmModel) -> list[str]:
    command = container(engine_spec(model), "engine")["command"]
    return [word for word in command if word.startswith("--wait-for=")]


def weights_of(pod: Json, name: str) -> Json:
    """Of one container: what it mounts of the weights, with the volumes."""
    return {
        path: {**volumes(pod)[mount["name"]], **mount}
        for path, mount in mounts(container(pod, name)).items()
        if path.startswith(("/models", "/weights", "/images/model", "/run/warmpod-"))
    }


# --- every source in every medium -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "staging"),
    [
        *(pytest.param(source, {}, id=source) for source in SOURCES),
        *(pytest.param(source, STAGING, id=f"{source}-in-a-claim") for source in REMOTE),
    ],
)
@EVERY_MEDIUM
def test_mounts(source: str, medium: str, staging: Json, snapshot: SnapshotAssertion) -> None:
    model = of(source, medium, **staging)
    engine, prefetch = engine_spec(model), prefetch_spec(model)
    found = {
        "agent": weights_of(prefetch, "agent"),
        "engine": weights_of(engine, "engine"),
        "waits": waits(model),
    }
    if medium == "PodMemory":
        found["weights"] = weights_of(engine, "weights")
    assert yaml.safe_dump(found, sort_keys=False, width=100) == snapshot


@EVERY_SOURCE
@EVERY_MEDIUM
def test_agents_find_the_files_where_their_config_says(source: str, medium: str) -> None:
    model = of(source, medium)
    pods = [(prefetch_spec(model), "agent")]
    if medium == "PodMemory":
        pods.append((engine_spec(model), "weights"))
    for pod, name in pods:
        (found,) = config_of(pod, name)["sets"]
        under = [
            path for path in mounts(container(pod, name)) if f"{found['source']}/".startswith(path)
        ]
        assert len(under) == 1
        assert found["key"] == key_of(source)


@EVERY_SOURCE
@EVERY_MEDIUM
def test_the_engine_reads_at_one_path_and_may_not_write(source: str, medium: str) -> None:
    spec = engine_spec(of(source, medium))
    assert mounts(container(spec, "engine"))["/models/llama"]["readOnly"] is True
    used = {
        mount["name"]
        for item in [*spec["initContainers"], *spec["containers"]]
        for mount in item["volumeMounts"]
    }
    assert used == set(volumes(spec))


@EVERY_SOURCE
@EVERY_MEDIUM
def test_the_engine_waits_for_what_can_be_incomplete(source: str, medium: str) -> None:
    incomplete = medium == "NodeMemory" or (medium == "Image" and source in REMOTE)
    receipt = "--wait-for=/models/llama/.warmpod-receipt.json"
    assert waits(of(source, medium)) == ([receipt] if incomplete else [])


# --- where the files lie --------------------------------------------------------------------------


def test_a_claim_is_mounted_read_only_at_its_path() -> None:
    volume = {"persistentVolumeClaim": {"claimName": "models", "readOnly": True}}
    model = of("claim", "Image")
    for pod, name, path in (
        (engine_spec(model), "engine", "/models/llama"),
        (prefetch_spec(model), "agent", "/run/warmpod-sources/llama"),
    ):
        found, mount = mounted(pod, name, path)
        assert found == volume
        assert (mount["subPath"], mount["readOnly"]) == ("llama/1", True)


def test_a_claim_without_a_path_is_mounted_whole() -> None:
    model = warm_model(model={"persistentVolumeClaim": {"claimName": "models"}})
    assert "subPath" not in mounted(engine_spec(model), "engine", "/models/llama")[1]


def test_a_path_of_the_node_must_be_there() -> None:
    volume = {"hostPath": {"path": "/data/llama", "type": "Directory"}}
    model = of("nodePath", "Image")
    assert mounted(engine_spec(model), "engine", "/models/llama")[0] == volume
    found, mount = mounted(prefetch_spec(model), "agent", "/run/warmpod-sources/llama")
    assert (found, mount["readOnly"]) == (volume, True)


@EVERY_MEDIUM
@pytest.mark.parametrize(
    ("source", "volume", "lookup"),
    [
        (
            "claim",
            {"persistentVolumeClaim": {"claimName": "models", "readOnly": True}},
            {"path": "llama/1", "place": ""},
        ),
        (
            "nodePath",
            {"hostPath": {"path": "/data", "type": ""}},
            {"path": "llama", "place": "/data"},
        ),
    ],
)
def test_the_agent_looks_up_again_what_can_be_replaced(
    source: str, medium: str, volume: Json, lookup: Json
) -> None:
    spec = prefetch_spec(of(source, medium))
    (found,) = config_of(spec, "agent")["sets"]
    assert found["lookup"] == {"root": "/run/warmpod-lookups/llama", **lookup}
    assert Lookup.from_document(found["lookup"]).path == lookup["path"]
    above, mount = mounted(spec, "agent", "/run/warmpod-lookups/llama")
    assert above == volume
    assert mount.keys() == {"name", "mountPath", "readOnly"}


@pytest.mark.parametrize(
    "model",
    [
        {"nodePath": {"path": "/llama/"}},
        {"nodePath": {"path": "/var/lib/llama"}},
        {"persistentVolumeClaim": {"claimName": "models"}},
        *(SOURCES[source] for source in ("image", *REMOTE)),
    ],
)
def test_what_cannot_be_replaced_or_lies_among_other_mounts_is_not_looked_up(model: Json) -> None:
    spec = prefetch_spec(warm_model(model=model))
    assert not [path for path in mounts(container(spec, "agent")) if "lookups" in path]
    assert not [volume for volume in volumes(spec) if "lookup" in volume]
    (found,) = config_of(spec, "agent")["sets"]
    assert "lookup" not in found


@pytest.mark.parametrize("source", REMOTE)
def test_downloads_lie_on_the_nodes_disk(source: str) -> None:
    model, key = of(source, "Image"), key_of(source)
    engine, mount = mounted(engine_spec(model), "engine", "/models/llama")
    path = f"/var/lib/warmpod/weights/{key}"
    assert engine == {"hostPath": {"path": path, "type": "DirectoryOrCreate"}}
    assert mount["readOnly"] is True
    agent, mount = mounted(prefetch_spec(model), "agent", "/run/warmpod-staged")
    root = {"path": "/var/lib/warmpod/weights", "type": "DirectoryOrCreate"}
    assert agent == {"hostPath": root}
    assert "readOnly" not in mount


@EVERY_MEDIUM
@pytest.mark.parametrize("source", sorted(REMOTE))
def test_a_claim_separates_namespaces_but_for_node_memory(source: str, medium: str) -> None:
    """A claim belongs to its namespace; the key of a node's copy is the same in all."""
    model = of(source, medium, **STAGING)
    pods = (prefetch_spec(model), engine_spec(model))
    shared = {
        volume["hostPath"]["path"]
        for pod in pods
        for volume in pod["volumes"]
        if "hostPath" in volume
    }
    key = key_of(source)
    memory = {"/dev/shm/warmpod", f"/dev/shm/warmpod/{key}"}
    assert shared == (memory if medium == "NodeMemory" else set())


@pytest.mark.parametrize("source", REMOTE)
def test_downloads_lie_in_a_claim_where_the_spec_names_one(source: str) -> None:
    model, key = of(source, "Image", **STAGING), key_of(source)
    volume = {"persistentVolumeClaim": {"claimName": "staging"}}
    engine, mount = mounted(engine_spec(model), "engine", "/models/llama")
    assert (engine, mount["subPath"], mount["readOnly"]) == (volume, key, True)
    agent, mount = mounted(prefetch_spec(model), "agent", "/run/warmpod-staged")
    assert agent == volume
    assert mount.keys() == {"name", "mountPath"}


# --- keys -----------------------------------------------------------------------------------------


def test_every_source_has_a_key_that_is_a_plain_name() -> None:
    keys = {source: key_of(source) for source in SOURCES}
    assert keys.pop("image") == MODEL_DIGEST[7:39]
    assert {key.partition("-")[0] for key in keys.values()} == {"hf", "s3", "http", "claim", "node"}
    assert all(key.replace("-", "").isalnum() for key in keys.values())


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"secretName": "a"}, {"secretName": "b"}, True),
        ({"include": ["a", "b"]}, {"include": ["b", "a"]}, True),
        ({}, {"revision": "main"}, True),
        ({}, {"revision": "v1"}, False),
        ({}, {"include": ["*.json"]}, False),
        ({"include": ["*.json"]}, {"exclude": ["*.json"]}, False),
        ({}, {"endpoint": "https://mirror.example.com"}, False),
    ],
)
def test_equal_files_have_equal_keys(one: Json, other: Json, same: bool) -> None:
    keys = {
        weight_sets.of(
            warm_model(model={"huggingFace": {"repository": "org/llama", **fields}}), DIGESTS
        )[0].key
        for fields in (one, other)
    }
    assert (len(keys) == 1) == same


def test_a_slash_at_the_end_of_a_path_makes_no_other_key() -> None:
    found = {
        weight_sets.of(warm_model(model={"nodePath": {"path": path}}), DIGESTS)[0].key
        for path in ("/data/llama", "/data/llama/")
    }
    assert len(found) == 1


# --- additional models ----------------------------------------------------------------------------

ADDITIONAL: Any = [
    {"name": "draft", "image": "models/draft:1"},
    {"name": "lora", **SOURCES["s3"]},
    {"name": "tokenizer", **SOURCES["claim"]},
]


@EVERY_MEDIUM
def test_additional_models_stand_beside_the_model(medium: str) -> None:
    weights = {"medium": medium, "size": "17Gi"}
    model = warm_model(additionalModels=ADDITIONAL, weights=weights)
    spec = engine_spec(model)
    found = mounts(container(spec, "engine"))
    paths = ["/models/llama", "/models/draft", "/models/lora", "/models/tokenizer"]
    assert [path for path in found if path.startswith("/models/")] == paths
    assert all(found[path]["readOnly"] for path in paths)
    assert container(spec, "engine")["args"][2] == "/models/llama"
    waited = {"Image": paths[2:3], "NodeMemory": paths, "PodMemory": []}[medium]
    assert waits(model) == [f"--wait-for={path}/.warmpod-receipt.json" for path in waited]


def test_the_agent_holds_all_models() -> None:
    model = warm_model(additionalModels=ADDITIONAL, weights={"size": "17Gi"})
    spec = prefetch_spec(model)
    sets = config_of(spec, "agent")["sets"]
    assert [item["name"] for item in sets] == ["llama", "draft", "lora", "tokenizer"]
    assert [item["source"] for item in sets] == [
        "/images/model",
        "/images/models/draft",
        f"/run/warmpod-staged/{sets[2]['key']}",
        "/run/warmpod-sources/tokenizer",
    ]
    assert len({item["target"] for item in sets}) == 4
    limit = container(spec, "agent")["resources"]["limits"]["memory"]
    assert limit == f"{17 * 1024 + 192}Mi"


def test_a_pods_memory_is_filled_with_all_models() -> None:
    weights = {"medium": "PodMemory", "size": "17Gi"}
    model = warm_model(additionalModels=ADDITIONAL, weights=weights)
    spec = engine_spec(model)
    fill = mounts(container(spec, "weights"))
    sets = config_of(spec, "weights")["sets"]
    assert [item["target"] for item in sets] == [
        f"/weights/{name}" for name in ("llama", "draft", "lora", "tokenizer")
    ]
    assert all(fill[item["source"]]["readOnly"] for item in sets)
    assert "readOnly" not in fill["/weights"]


# --- secrets and the network ----------------------------------------------------------------------


def test_credentials_are_the_agents_alone_and_may_appear_later() -> None:
    other = {"name": "lora", **SOURCES["s3"]}
    model = warm_model(model=SOURCES["huggingFace"], additionalModels=[other])
    spec = prefetch_spec(model)
    for name, secret in (("llama", "hub"), ("lora", "bucket")):
        path = f"/run/warmpod-credentials/{name}"
        volume, mount = mounted(spec, "agent", path)
        assert volume == {"secret": {"secretName": secret, "optional": True}}
        assert mount["readOnly"] is True
    sets = config_of(spec, "agent")["sets"]
    assert [item["credentials"] for item in sets] == [
        "/run/warmpod-credentials/llama",
        "/run/warmpod-credentials/lora",
    ]
    assert "secretName" not in json.dumps(sets)
    assert not [volume for volume in engine_spec(model)["volumes"] if "secret" in volume]


@pytest.mark.parametrize(
    ("source", "remote"),
    [
        ("image", None),
        ("claim", None),
        ("nodePath", None),
        (
            "huggingFace",
            {
                "huggingFace": {
                    "repository": "org/llama",
                    "revision": "main",
                    "endpoint": None,
                    "include": [],
                    "exclude": [],
                }
            },
        ),
        ("s3", {"s3": {"uri": "s3://models/llama", "endpoint": None, "region": "eu-central-1"}}),
        ("http", {"http": {"url": "https://files.example.com/llama.tar.gz"}}),
    ],
)
def test_what_the_agent_downloads(source: str, remote: Json | None) -> None:
    (found,) = config_of(prefetch_spec(of(source, "Image")), "agent")["sets"]
    assert found["remote"] == remote


@pytest.mark.parametrize(
    ("source", "staging", "origin"),
    [
        (
            "image",
            {},
            {"kind": "image", "name": f"registry.example.com:5000/models/llama@{MODEL_DIGEST}"},
        ),
        ("claim", {}, {"kind": "persistentVolumeClaim", "name": "models", "folder": "llama/1/"}),
        ("nodePath", {}, {"kind": "nodePath", "folder": "/data/llama"}),
        ("http", {}, {"kind": "download", "folder": "/var/lib/warmpod/weights/KEY"}),
        ("http", STAGING, {"kind": "download", "name": "staging", "folder": "KEY"}),
    ],
)
def test_the_agent_knows_where_a_person_finds_the_files(
    source: str, staging: Json, origin: Json
) -> None:
    (found,) = config_of(prefetch_spec(of(source, "Image", **staging)), "agent")["sets"]
    written = {name: text.replace("KEY", found["key"]) for name, text in origin.items()}
    assert found["origin"] == written
    assert Origin.from_document(written).place


@EVERY_SOURCE
def test_an_engine_with_downloaded_files_asks_no_hub(source: str) -> None:
    found = environment(container(engine_spec(of(source, "Image")), "engine"))
    assert found["HF_HUB_OFFLINE"] == "1"
    assert found.get("TRANSFORMERS_OFFLINE") == ("1" if source in REMOTE else None)


def test_the_users_word_on_the_network_wins() -> None:
    env = [{"name": "TRANSFORMERS_OFFLINE", "value": "0"}]
    model = warm_model(model=SOURCES["s3"], engine={"env": env})
    assert environment(container(engine_spec(model), "engine"))["TRANSFORMERS_OFFLINE"] == "0"


# --- signatures -----------------------------------------------------------------------------------


def test_an_image_is_verified_as_it_is_mounted_and_asked_for_with_the_pull_secrets() -> None:
    model = {"image": SIGNED, "verify": {"publicKey": PEM}}
    pod = {"imagePullSecrets": [{"name": "registry"}, {"name": "mirror"}]}
    spec = prefetch_spec(warm_model(model=model, pod=pod))
    (found,) = config_of(spec, "agent")["sets"]
    volume, _ = mounted(spec, "agent", "/images/model")
    assert found["verify"] == {
        "image": volume["image"]["reference"],
        "publicKey": PEM,
        "dockerconfig": ["/run/warmpod-pull/0", "/run/warmpod-pull/1"],
    }
    for path, secret in zip(found["verify"]["dockerconfig"], ("registry", "mirror"), strict=True):
        volume, mount = mounted(spec, "agent", path)
        assert volume == {"secret": {"secretName": secret, "optional": True}}
        assert mount["readOnly"] is True


def test_pull_secrets_are_mounted_for_signatures_only() -> None:
    pod = {"imagePullSecrets": [{"name": "registry"}]}
    assert not [v for v in prefetch_spec(warm_model(pod=pod))["volumes"] if "secret" in v]
    model = {"image": SIGNED, "verify": {"publicKey": PEM}}
    (found,) = config_of(prefetch_spec(warm_model(model=model)), "agent")["sets"]
    assert found["verify"]["dockerconfig"] is None

"""How the stores of compiled code come into the pods."""

from __future__ import annotations

import json
from typing import Any

import pytest

from unit.resources.samples import (
    ENGINE_DIGEST,
    MODEL_DIGEST,
    container,
    engine_spec,
    environment,
    mounts,
    prefetch_spec,
    rendered,
    volumes,
    warm_model,
)
from warmpod.resources import revision
from warmpod.resources.revision import Digests

CACHE_DIGEST = "sha256:" + "c" * 64
NODE = {"store": "Node"}
IMAGE = {"store": "Image", "image": "registry.example.com/caches/llama:1"}
ROOT = "/var/lib/warmpod/compile-cache/models/uid-1"
WITH_CACHE = Digests(ENGINE_DIGEST, MODEL_DIGEST, cache=CACHE_DIGEST)


def options(spec: dict[str, Any]) -> dict[str, str]:
    """The launcher's options about caches."""
    words = container(spec, "engine")["command"]
    return {
        name: value
        for name, _, value in (word.partition("=") for word in words)
        if name.startswith("--cache-")
    }


def of(cache: dict[str, Any], **facts: Any) -> dict[str, Any]:
    return engine_spec(warm_model(compileCache=cache), **facts)


def test_without_a_store_the_engine_keeps_its_caches_where_it_likes() -> None:
    spec = of({"store": "None"})
    assert options(spec) == {}
    assert "warmpod-cache" not in volumes(spec)


@pytest.mark.parametrize("cache", [{"store": "Pod"}, NODE, IMAGE])
def test_every_store_has_a_copy_of_the_pods_own(cache: dict[str, Any]) -> None:
    """What a pod compiles and loads is its own: the tools lock, write and trust it."""
    spec = of(cache)
    assert options(spec)["--cache-dir"] == "/var/cache/warmpod"
    mount = mounts(container(spec, "engine"))["/var/cache/warmpod"]
    assert volumes(spec)[mount["name"]]["emptyDir"] == {}


def test_a_cache_of_the_pod_has_nothing_to_be_filled_from() -> None:
    assert "--cache-store" not in options(of({"store": "Pod"}))
    for cache in (NODE, IMAGE):
        assert options(of(cache))["--cache-store"] == "/run/warmpod-cache"


@pytest.mark.parametrize("cache", [{"store": "Pod"}, NODE, IMAGE])
def test_the_launcher_is_told_what_only_the_operator_knows(cache: dict[str, Any]) -> None:
    found = options(of(cache))
    assert json.loads(found["--cache-factors"]) == {
        "image": ENGINE_DIGEST,
        "model": MODEL_DIGEST[7:39],
    }


def test_an_image_whose_digest_is_not_known_is_told_by_its_reference() -> None:
    def image(reference: str) -> str:
        model = warm_model(compileCache=NODE, engine={"image": reference})
        spec = engine_spec(model, digests=Digests(None, None))
        return str(json.loads(options(spec)["--cache-factors"])["image"])

    assert image("vllm:1").startswith("ref-")
    assert image("vllm:1") != image("vllm:2")
    assert image(f"other/vllm@{ENGINE_DIGEST}") == ENGINE_DIGEST


def test_engines_read_what_is_published_and_write_elsewhere() -> None:
    spec = of(NODE)
    found = mounts(container(spec, "engine"))
    for folder, read_only in (("published", True), ("incoming", False)):
        mount = found[f"/run/warmpod-cache/{folder}"]
        assert mount.get("readOnly", False) is read_only
        assert volumes(spec)[mount["name"]]["hostPath"] == {
            "path": f"{ROOT}/{folder}",
            "type": "DirectoryOrCreate",
        }
    assert "/run/warmpod-cache" not in found
    assert not any("cache" in path for path in mounts(container(spec, "warmup")))


def test_the_agent_has_its_models_store_and_those_of_no_other_namespace() -> None:
    spec = prefetch_spec(warm_model(compileCache=NODE | {"size": "2Gi"}))
    found = mounts(container(spec, "agent"))
    for path, place in (("/run/warmpod-cache", ROOT), ("/run/warmpod-caches", ROOT[:-6])):
        assert volumes(spec)[found[path]["name"]]["hostPath"]["path"] == place
        assert "readOnly" not in found[path]
    config = json.loads(environment(container(spec, "agent"))["WARMPOD_AGENT_CONFIG"])
    assert config["compile_cache"] == {
        "root": "/run/warmpod-cache",
        "bytes": 2 * 1024**3,
        "stores": "/run/warmpod-caches",
    }


def test_a_store_without_a_size_has_a_bound() -> None:
    spec = prefetch_spec(warm_model(compileCache=NODE))
    config = json.loads(environment(container(spec, "agent"))["WARMPOD_AGENT_CONFIG"])
    assert config["compile_cache"]["bytes"] == 20 * 1024**3


def test_an_image_is_mounted_by_engine_and_prefetch_pods_alike() -> None:
    made = rendered(warm_model(compileCache=IMAGE), digests=WITH_CACHE)
    reference = f"registry.example.com/caches/llama@{CACHE_DIGEST}"
    for template, name, path in (
        (made.engine_template, "engine", "/run/warmpod-cache"),
        (made.prefetch_template, "agent", "/images/compile-cache"),
    ):
        mount = mounts(container(template["spec"], name))[path]
        assert mount["readOnly"] is True
        assert volumes(template["spec"])[mount["name"]]["image"]["reference"] == reference
    assert "incoming" not in json.dumps(made.engine_template)


def test_the_tag_of_its_image_is_resolved_like_all_others() -> None:
    spec = warm_model(compileCache=IMAGE).spec
    assert Digests(ENGINE_DIGEST, MODEL_DIGEST).unresolved(spec) == (IMAGE["image"],)
    assert WITH_CACHE.unresolved(spec) == ()
    assert Digests.resolved(spec, lambda image: image).cache == IMAGE["image"]


def test_a_stored_revision_knows_the_digest_of_its_cache() -> None:
    model = warm_model(compileCache=IMAGE)
    stored = revision.build(model, rendered(model, digests=WITH_CACHE))
    assert revision.parse(stored).digests == WITH_CACHE


def test_pods_without_a_store_are_prefetched_as_before() -> None:
    """An agent that has nothing to do with caches must not be replaced because of them."""
    for cache in ({"store": "None"}, {"store": "Pod"}):
        assert prefetch_spec(warm_model(compileCache=cache)) == prefetch_spec(warm_model())
    assert "cache" not in json.dumps(prefetch_spec(warm_model()))

"""A revision is computed from the spec alone, rendered once, and stored as it is."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest

from unit.resources.samples import (
    ENGINE_DIGEST,
    MODEL_DIGEST,
    SETTINGS,
    SOURCES,
    rendered,
    warm_model,
)
from warmpod.api import WarmModelSpec
from warmpod.api.crd import crd
from warmpod.resources import daemonset, deployment, revision
from warmpod.resources.digests import Digests
from warmpod.resources.revision import InvalidRevision
from warmpod.resources.settings import Settings

DEFAULTS = {
    name: node["default"]
    for name, node in crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][
        "spec"
    ]["properties"].items()
    if "default" in node
}


def hash_of(**spec: Any) -> str:
    return revision.compute_hash(warm_model(**spec).spec)


def test_a_hash_never_changes_between_versions_of_the_operator() -> None:
    """If this fails, an upgrade restarts every engine of every user."""
    assert hash_of() == "0aeedffbd9"
    assert (
        hash_of(
            model={"servedName": "org/llama"},
            weights={"medium": "NodeMemory", "size": "17Gi"},
            engine={
                "args": ["--max-model-len=8192", "-tp", "2"],
                "env": [{"name": "A", "value": "b"}],
                "resources": {"limits": {"nvidia.com/gpu": 2}},
            },
            warmup={"maxRounds": 7},
            compileCache={"store": "None"},
            pod={"tolerations": [{"operator": "Exists"}], "affinity": {"podAntiAffinity": {}}},
        )
        == "37b4601ca6"
    )


def test_numbers_of_pods_are_not_in_it() -> None:
    assert hash_of(replicas=7, standby={"replicas": 3}) == hash_of()


def test_whether_an_engine_may_sleep_is_in_it() -> None:
    one, three = ({"replicas": number, "state": "Sleeping"} for number in (1, 3))
    assert hash_of(standby=one) == hash_of(standby=three) != hash_of()


def test_nor_is_how_it_is_rolled_out() -> None:
    assert hash_of(rollout={"onRegression": "Proceed", "tolerancePercent": 9}) == hash_of()


def test_nor_is_what_it_costs() -> None:
    assert hash_of(cost={"perGpuHour": "2.50"}) == hash_of()


def test_stated_defaults_are_not_in_it() -> None:
    """A default that the API server wrote, also one of a later version, makes no revision."""
    assert hash_of(**DEFAULTS) == hash_of()


def test_the_order_of_maps_is_not_in_it() -> None:
    one = {"affinity": {"a": {"x": 1, "y": 2}, "b": {}}, "nodeSelector": {"k": "1", "l": "2"}}
    other = {"nodeSelector": {"l": "2", "k": "1"}, "affinity": {"b": {}, "a": {"y": 2, "x": 1}}}
    assert hash_of(pod=one) == hash_of(pod=other)


SHAPING: list[dict[str, Any]] = [
    {"model": {"image": "other:1"}},
    {"model": {"servedName": "other"}},
    {"model": {"huggingFace": {"repository": "org/llama"}}},
    {"model": {"huggingFace": {"repository": "org/llama", "revision": "v1"}}},
    {"model": {"nodePath": {"path": "/data"}}},
    {"additionalModels": [{"name": "draft", "image": "draft:1"}]},
    {"additionalModels": [{"name": "draft", "image": "draft:2"}]},
    {"weights": {"size": "1Gi"}},
    {"weights": {"size": "2Gi"}},
    {"weights": {"scrubSeconds": 600}},
    {"engine": {"image": "other:1"}},
    {"engine": {"command": ["x"]}},
    {"engine": {"args": ["--a", "--b"]}},
    {"engine": {"args": ["--b", "--a"]}},
    {"engine": {"env": [{"name": "A", "value": "1"}]}},
    {"engine": {"env": [{"name": "A", "value": "2"}]}},
    {"engine": {"port": 9000}},
    {"engine": {"resources": {"limits": {"nvidia.com/gpu": 1}}}},
    {"engine": {"securityContext": {"runAsUser": 1}}},
    {"warmup": {"maxRounds": 3}},
    {"profile": "HighThroughput"},
    {"profile": "CostSaving"},
    {"compileCache": {"store": "None"}},
    {"compileCache": {"store": "Node"}},
    {"compileCache": {"store": "Node", "size": "1Gi"}},
    {"compileCache": {"store": "Image", "image": "cache:1"}},
    {"compileCache": {"store": "Image", "image": "cache:2"}},
    {"pod": {"nodeSelector": {"a": "b"}}},
    {"pod": {"affinity": {"podAffinity": {"namespaceSelector": {}}}}},
    {"pod": {"affinity": {"podAffinity": {}}}},
    {"pod": {"volumes": [{"name": "v", "emptyDir": {}}]}},
    {"pod": {"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]}},
    {"pod": {"terminationGracePeriodSeconds": 120}},
]


def test_whatever_shapes_the_pods_is_in_it() -> None:
    hashes = [hash_of(), *(hash_of(**spec) for spec in SHAPING)]
    for (i, one), (j, other) in itertools.combinations(enumerate(hashes), 2):
        assert one != other, (i, j)


def test_every_field_of_the_spec_is_covered_or_left_out_on_purpose() -> None:
    covered = {key for spec in SHAPING for key in spec} | {
        "replicas",
        "standby",
        "schedule",
        "forecast",
        "rollout",
        "cost",
    }
    fields = {field.alias for field in WarmModelSpec.model_fields.values()}
    assert fields == covered


def test_an_upgrade_of_the_operator_changes_no_pod() -> None:
    model = warm_model()
    stored = revision.parse(revision.build(model, rendered(model)))
    newer = rendered(model, settings=Settings("registry.example.com/warmpod/operator:2.0"))
    assert newer.hash == stored.hash
    assert newer.name == stored.name
    assert newer.engine_template != stored.engine_template  # it would, were it rendered again
    for build in (lambda r: deployment.build(model, r, 1), lambda r: daemonset.build(model, r)):
        assert build(stored) == build(rendered(model))
        assert "operator:2.0" not in str(build(stored))


def test_rendering_twice_gives_the_same_in_the_same_order() -> None:
    model = warm_model(engine={"args": ["--x"], "resources": {"limits": {"nvidia.com/gpu": 1}}})
    assert repr(rendered(model)) == repr(rendered(model))


def test_rendering_does_not_touch_the_spec() -> None:
    affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}
    model = warm_model(pod={"affinity": affinity, "securityContext": {"fsGroup": 1}})
    before = copy.deepcopy(model)
    rendered(model)
    assert model == before


def test_it_is_stored_with_all_that_is_needed_to_go_back() -> None:
    model = warm_model()
    made = rendered(model)
    body = revision.build(model, made)
    assert body["metadata"]["name"] == f"llama-{made.hash}"
    assert body["metadata"]["labels"]["warmpod.io/revision"] == made.hash
    assert body["revision"] == 1
    assert body["data"]["digests"] == {"engine": ENGINE_DIGEST, "model": MODEL_DIGEST}
    assert revision.parse(body) == made


def test_unresolved_digests_are_stored_as_such() -> None:
    model = warm_model()
    made = rendered(model, digests=Digests(None, None))
    assert revision.parse(revision.build(model, made)) == made


def test_digests_of_additional_images_are_stored_and_older_revisions_have_none() -> None:
    models = [
        {"name": "draft", "image": "draft:1"},
        {"name": "lora", "s3": {"uri": "s3://bucket/lora"}},
    ]
    model = warm_model(additionalModels=models)
    digest = "sha256:" + "d" * 64
    digests = Digests.resolved(
        model.spec, lambda image: digest if image == "draft:1" else ENGINE_DIGEST
    )
    assert digests == Digests(ENGINE_DIGEST, ENGINE_DIGEST, {"draft": digest})
    body = revision.build(model, rendered(model, digests=digests))
    assert body["data"]["digests"]["additional"] == {"draft": digest}
    assert f"draft@{digest}" in str(body["data"]["engineTemplate"])
    assert revision.parse(body) == rendered(model, digests=digests)
    del body["data"]["digests"]["additional"]
    assert revision.parse(body).digests.additional == {}


def test_images_without_a_digest_are_asked_for() -> None:
    models = [{"name": "draft", "image": "draft:1"}, {"name": "lora", **SOURCES["s3"]}]
    spec = warm_model(model=SOURCES["claim"], additionalModels=models).spec
    assert Digests(None, None).unresolved(spec) == ("vllm/vllm-openai:v0.32.0", "draft:1")
    assert Digests(ENGINE_DIGEST, None, {"draft": MODEL_DIGEST}).unresolved(spec) == ()


def test_the_identity_of_prefetch_pods_survives_storing() -> None:
    model = warm_model()
    made = rendered(model)
    assert revision.parse(revision.build(model, made)).prefetch_hash == made.prefetch_hash
    assert len(made.prefetch_hash) == 8


@pytest.mark.parametrize(
    "damage",
    [
        lambda body: body.pop("metadata"),
        lambda body: body.pop("data"),
        lambda body: body.pop("revision"),
        lambda body: body["metadata"].pop("labels"),
        lambda body: body["data"].pop("digests"),
        lambda body: body["data"].update(engineTemplate="x"),
        lambda body: body["data"].pop("prefetchTemplate"),
        lambda body: body["data"]["digests"].update(model=3),
        lambda body: body["data"]["digests"].update(additional={"draft": 3}),
    ],
)
def test_a_damaged_revision_is_refused_with_the_remedy(damage: Any) -> None:
    model = warm_model()
    body = revision.build(model, rendered(model))
    damage(body)
    with pytest.raises(InvalidRevision, match="delete it"):
        revision.parse(body)


def test_settings_are_all_that_the_operator_adds() -> None:
    text = repr(rendered(warm_model()))
    assert SETTINGS.operator_image in text

"""Reading never fails in any other way than InvalidSpec."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmpod.api import InvalidSpec, WarmModel

GOOD: dict[str, Any] = {
    "metadata": {"name": "m", "namespace": "n", "uid": "u", "generation": 3},
    "spec": {"model": {"image": "models/m:1"}, "engine": {"image": "vllm:1"}},
}


PEM = "-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----\n"
SIGNED = "example.com/models/m:1@sha256:" + "5" * 64


def changed(path: str, value: Any) -> dict[str, Any]:
    obj = copy.deepcopy(GOOD)
    *parents, last = path.split(".")
    target = obj
    for name in parents:
        target = target.setdefault(name, {})
    target[last] = value
    return obj


def test_a_minimal_object() -> None:
    model = WarmModel.parse(GOOD)
    assert (model.name, model.namespace, model.uid, model.generation) == ("m", "n", "u", 3)
    assert model.served_name == "m"
    assert not model.deleting
    assert model.spec.warmup.prompt_tokens == ()


def test_a_stated_served_name_and_a_deletion() -> None:
    obj = changed("spec.model.servedName", "org/m")
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    model = WarmModel.parse(obj)
    assert model.served_name == "org/m"
    assert model.deleting


def test_opaque_structures_come_through_as_they_are() -> None:
    volume = {"name": "v", "csi": {"driver": "d", "volumeAttributes": {"a": "b"}}}
    obj = changed("spec.pod", {"volumes": [volume], "affinity": {"x": {"y": []}}})
    pod = WarmModel.parse(obj).spec.pod
    assert pod.volumes[0].model_dump() == volume
    assert pod.affinity == {"x": {"y": []}}


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ({"image": SIGNED, "verify": {"publicKey": PEM}}, SIGNED),
        ({"huggingFace": {"repository": "org/m"}}, "https://huggingface.co/org/m@main"),
        (
            {
                "huggingFace": {
                    "repository": "org/m",
                    "revision": "refs/pr/1",
                    "endpoint": "https://hub.example.com",
                }
            },
            "https://hub.example.com/org/m@refs/pr/1",
        ),
        ({"s3": {"uri": "s3://bucket/a/b"}}, "s3://bucket/a/b"),
        ({"http": {"url": "https://example.com/m.tgz?sig=x"}}, "https://example.com/m.tgz"),
        ({"persistentVolumeClaim": {"claimName": "c"}}, "persistentVolumeClaim c/"),
        (
            {"persistentVolumeClaim": {"claimName": "c", "path": "a/b"}},
            "persistentVolumeClaim c/a/b",
        ),
        ({"nodePath": {"path": "/data/m"}}, "nodePath /data/m"),
    ],
)
def test_every_source_is_read_and_told_in_one_line(source: dict[str, Any], text: str) -> None:
    """What may follow a ? is left out: some servers want a secret there."""
    spec = WarmModel.parse(changed("spec.model", source)).spec
    assert spec.model.text == text
    assert (spec.model.remote is not None) == spec.has_downloads == ("://" in text)


def test_a_staging_claim_counts_only_with_downloads() -> None:
    staging = {"staging": {"persistentVolumeClaim": {"claimName": "c"}}}
    obj = changed("spec.weights", staging)
    assert WarmModel.parse(obj).spec.staging_claim is None
    obj["spec"]["additionalModels"] = [{"name": "a", "s3": {"uri": "s3://bucket"}}]
    assert WarmModel.parse(obj).spec.staging_claim == "c"


@pytest.mark.parametrize(
    ("path", "value", "field", "words"),
    [
        ("spec.weights", {"medium": "PodMemory"}, "spec.weights", "size is needed"),
        ("spec.weights.size", "0", "spec.weights", "more than 0"),
        ("spec.weights.size", "lots", "spec.weights.size", "17Gi"),
        ("spec.engine.args", ["a", 3], "spec.engine.args[1]", "string"),
        ("spec.engine.prot", 3, "spec.engine.prot", "upgrade the operator"),
        ("spec.replicas", "2", "spec.replicas", "integer"),
        ("spec.replicas", True, "spec.replicas", "integer"),
        ("spec.model", {}, "spec.model", "set exactly one of image, huggingFace, s3, http"),
        ("spec.model.nodePath", {"path": "/data"}, "spec.model", "set exactly one of image"),
        ("spec.model.huggingFace", {}, "spec.model.huggingFace.repository", "set it"),
        (
            "spec.model",
            {"s3": {"uri": "s3://bucket"}, "verify": {"publicKey": PEM}},
            "spec.model",
            "verify needs the source image",
        ),
        (
            "spec.model.verify",
            {"publicKey": PEM},
            "spec.model",
            "verify needs the image by digest",
        ),
        ("spec.additionalModels", [{"name": "a"}], "spec.additionalModels[0]", "exactly one of"),
        ("spec.weights.scrubSeconds", 599, "spec.weights.scrubSeconds", "equal to 600"),
        ("spec", None, "spec", "spec.model"),
        ("metadata", None, "metadata", "apply"),
        ("metadata.uid", None, "metadata.uid", "apply"),
        ("metadata.name", "9", "metadata.name", "starts with a letter"),
        ("metadata.name", "m" * 51, "metadata.name", "at most 50"),
        ("spec.warmup.promptTokens", [0], "spec.warmup.promptTokens[0]", "equal to 1"),
        ("spec.warmup.skip", ["a b"], "spec.warmup.skip[0]", "kubectl warm plan"),
        ("spec.warmup.prompts", [{"name": "a"}], "spec.warmup.prompts[0]", "text or body"),
        (
            "spec.warmup.prompts",
            [{"name": "a", "text": "x", "body": {}}],
            "spec.warmup.prompts[0]",
            "set one of them",
        ),
    ],
)
def test_what_is_wrong_is_named(path: str, value: Any, field: str, words: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        WarmModel.parse(changed(path, value))
    assert caught.value.path.startswith(field)
    assert words in caught.value.message
    assert str(caught.value) == f"{caught.value.path}: {caught.value.message}"


def test_further_errors_are_counted() -> None:
    obj = changed("spec.replicas", -1)
    obj["spec"]["engine"]["port"] = 0
    with pytest.raises(InvalidSpec, match="1 more"):
        WarmModel.parse(obj)


@pytest.mark.parametrize("quantity", [-1, 2**62, True, 1.5, "-1", "1e99", ""])
def test_what_kubernetes_cannot_reckon_with_is_refused(quantity: Any) -> None:
    with pytest.raises(InvalidSpec, match="nvidia"):
        WarmModel.parse(changed("spec.engine.resources", {"limits": {"nvidia.com/gpu": quantity}}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=10,
)
PATHS = st.sampled_from(
    [
        "metadata",
        "metadata.name",
        "metadata.generation",
        "metadata.deletionTimestamp",
        "spec",
        "spec.model",
        "spec.model.servedName",
        "spec.model.huggingFace",
        "spec.additionalModels",
        "spec.weights",
        "spec.weights.size",
        "spec.engine",
        "spec.engine.args",
        "spec.engine.env",
        "spec.engine.resources",
        "spec.engine.securityContext",
        "spec.warmup",
        "spec.pod",
        "spec.pod.affinity",
        "spec.pod.volumes",
        "spec.pod.tolerations",
        "status",
    ]
)


@given(PATHS, JSON)
def test_any_value_anywhere_is_read_or_refused(path: str, value: Any) -> None:
    with contextlib.suppress(InvalidSpec):
        assert WarmModel.parse(changed(path, value)).name


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=3))
def test_any_object_is_read_or_refused(obj: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec):
        WarmModel.parse(obj)


def test_a_structure_too_deep_to_read_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    obj = {**GOOD, "spec": {**GOOD["spec"], "pod": {"affinity": deep}}}
    with pytest.raises(InvalidSpec, match="JSON"):
        WarmModel.parse(obj)


@pytest.mark.parametrize("host", ["h:port", "[::1", ":80", "@", "a@b@c", "h:123456"])
def test_a_url_needs_a_host_and_a_port_that_can_be(host: str) -> None:
    with pytest.raises(InvalidSpec, match=r"http\.url"):
        WarmModel.parse(changed("spec.model", {"http": {"url": f"https://{host}/m.tar"}}))


@pytest.mark.parametrize("host", ["h.example:8443", "[::1]:80", "ü.de"])
def test_hosts_of_urls(host: str) -> None:
    url = f"https://{host}/m.tar?token=x"
    http = WarmModel.parse(changed("spec.model", {"http": {"url": url}})).spec.model.http
    assert http is not None
    assert http.url == url

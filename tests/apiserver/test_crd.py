"""The API server accepts the CRD, and judges WarmModels by it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from apiserver.manifests import ROOT, Kubectl
from support.api import Api, ApiError, JsonObject

REMOVE = object()
#: Those of autoscalers have no WarmModel of their own.
SAMPLES = sorted(
    path
    for path in (ROOT / "manifests/samples").glob("*.yaml")
    if any(item["kind"] == "WarmModel" for item in yaml.safe_load_all(path.read_text()))
)

NOW = "2026-01-01T00:00:00Z"
RESIDENT: JsonObject = {"medium": "NodeMemory", "size": "17Gi"}
STAGING: JsonObject = {"persistentVolumeClaim": {"claimName": "staging"}}
PEM = "-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----\n"
SIGNED = "example.com/models/m:1@sha256:" + "5" * 64
VOLUME: JsonObject = {"name": "data", "emptyDir": {}}


def model(namespace: str, changes: dict[str, Any] | None = None, name: str = "m") -> JsonObject:
    """A minimal WarmModel; `changes` sets (or removes) values by dotted path below spec."""
    spec: JsonObject = {"model": {"image": "example.com/m:1"}, "engine": {"image": "vllm:1"}}
    for path, value in (changes or {}).items():
        *parents, last = path.split(".")
        target = spec
        for parent in parents:
            target = target.setdefault(parent, {})
        if value is REMOVE:
            del target[last]
        else:
            target[last] = copy.deepcopy(value)
    return {
        "apiVersion": "warmpod.io/v1alpha1",
        "kind": "WarmModel",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


@pytest.fixture
def refusal(api: Api) -> Callable[[JsonObject], str]:
    """What the API server says when it refuses an object."""

    def refused(body: JsonObject) -> str:
        with pytest.raises(ApiError) as error:
            api.create(body)
        assert error.value.status in (400, 422), error.value
        return error.value.message

    return refused


@pytest.fixture(autouse=True)
def _installed(crd: JsonObject) -> None:
    """Every test here needs the CRD."""


def test_crd_is_established_and_structural(crd: JsonObject) -> None:
    conditions = {c["type"]: c for c in crd["status"]["conditions"]}
    assert conditions["Established"]["status"] == "True"
    assert conditions["NamesAccepted"]["status"] == "True"
    assert "NonStructuralSchema" not in conditions, conditions["NonStructuralSchema"]
    assert "KubernetesAPIApprovalPolicyConformant" not in conditions


ACCEPTED: dict[str, dict[str, Any]] = {
    "minimal": {},
    "scaled to zero": {"replicas": 0},
    "served name with a slash": {"model.servedName": "meta-llama/Llama-3.1-8B"},
    "digest": {"model.image": f"registry.example.com:5000/m@sha256:{'a' * 64}"},
    "hugging face": {
        "model": {
            "huggingFace": {
                "repository": "meta-llama/Llama-3.1-8B",
                "revision": "refs/pr/1",
                "endpoint": "https://hub.example.com/mirror",
                "secretName": "hub",
                "include": ["*.safetensors", "*.json"],
                "exclude": ["original/*"],
            }
        }
    },
    "bucket": {"model": {"s3": {"uri": "s3://models/llama/1", "endpoint": "http://minio:9000"}}},
    "whole bucket": {"model": {"s3": {"uri": "s3://models"}}},
    "archive": {"model": {"http": {"url": "https://example.com:8443/a@b/llama.tar.gz?sig=x"}}},
    "listing": {"model": {"http": {"url": "https://example.com/llama/"}}},
    "claim": {"model": {"persistentVolumeClaim": {"claimName": "c", "path": "a/..b/c."}}},
    "path of the node": {"model": {"nodePath": {"path": "/data/models/llama..1"}}},
    "signed image": {"model": {"image": SIGNED, "verify": {"publicKey": PEM}}},
    "more models": {
        "additionalModels": [
            {"name": "draft", "image": SIGNED, "verify": {"publicKey": PEM}},
            {"name": "lora", "s3": {"uri": "s3://models/lora"}},
        ],
        "weights.staging": STAGING,
    },
    "additional model that begins like the model": {
        "model.servedName": "org/llama",
        "additionalModels": [{"name": "orga", "image": "example.com/draft:1"}],
    },
    "staging in a claim": {
        "model": {"s3": {"uri": "s3://models/llama"}},
        "weights": {"staging": STAGING, "scrubSeconds": 600},
    },
    "node memory": {"weights": RESIDENT},
    "pod memory, size as a number": {"weights": {"medium": "PodMemory", "size": 17179869184}},
    "image with a size": {"weights": {"size": "1.5Gi"}},
    "command": {"engine.command": ["python3", "server.py"]},
    "empty argument": {"engine.args": ["--max-model-len=8192", ""]},
    "value from": {
        "engine.env": [
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}
        ]
    },
    "gpus": {"engine.resources": {"limits": {"nvidia.com/gpu": 1, "memory": "32Gi"}}},
    "profile": {"profile": "Serverless"},
    "no standby": {"standby": {"replicas": 0, "state": "Awake"}},
    "standby": {"standby": {"replicas": 2, "state": "Sleeping", "maxUnfilledSeconds": 600}},
    "windows": {
        "schedule": [
            {
                "name": "day",
                "cron": "0,30 8-18/2 * JAN-DEC MON-FRI",
                "timeZone": "America/Argentina/Ushuaia",
                "durationSeconds": 3600,
                "replicas": 4,
            },
            {"name": "night", "cron": "5 0 1 1 0", "durationSeconds": 60, "standby": 0},
        ]
    },
    "forecast that is observed": {"forecast": {"mode": "Observe", "requestsPerPod": 8}},
    "no cache": {"compileCache.store": "None"},
    "cache on the node": {"compileCache.store": "Node"},
    "cache on the node, bounded": {"compileCache": {"store": "Node", "size": "512Mi"}},
    "cache in an image": {
        "compileCache": {"store": "Image", "image": "example.com/caches/llama:1"}
    },
    "open when warm-up fails": {"warmup.onFailure": "Open"},
    "restart when warm-up fails": {"warmup": {"onFailure": "Restart", "maxRestarts": 2}},
    "own prompts": {
        "warmup.prompts": [
            {"name": "a", "text": "Tell me."},
            {"name": "b", "body": {"messages": [{"role": "user", "content": "x"}], "n": 2}},
        ],
        "warmup.promptsFrom": [{"configMap": "my.prompts"}],
        "warmup.prefixes": [{"name": "a", "text": "You help."}],
        "warmup.skip": ["sampler/*", "chat/whole/sampled/p16/c?"],
    },
    "golden answers": {
        "warmup.golden": [
            {"name": "a", "prompt": "x", "text": "y"},
            {"name": "b", "prompt": "x", "tokens": ["y"], "logprobs": ["-0.25"]},
        ]
    },
    "compare": {"warmup.compare": {"args": ["-O0"], "env": [{"name": "A", "value": "1"}]}},
    "own service account": {"pod.serviceAccountName": "llama-warmpod"},
    "own volume": {
        "pod.volumes": [VOLUME],
        "engine.volumeMounts": [{"name": "data", "mountPath": "/data"}],
    },
    "any size people write": {
        "engine.resources": {
            "limits": {"cpu": "1500m", "memory": "17179869184", "nvidia.com/gpu": 8},
            "requests": {"cpu": "0.5", "memory": "263921164Ki", "x.io/a": "1e3"},
        }
    },
    "any text in an argument": {"engine.args": ["--foo=😀\n\u202e"]},
    "any affinity": {"pod.affinity": {"nodeAffinity": {"futureField": [1, {"a": "b"}]}}},
}


@pytest.mark.parametrize("changes", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepted(api: Api, namespace: str, changes: dict[str, Any]) -> None:
    api.create(model(namespace, changes))


# what is wrong → (changes, what the message must say: the field, and the remedy where it is ours)
REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no source": ({"model.image": REMOVE}, ["spec.model", "set exactly one of image"]),
    "two sources": (
        {"model.s3": {"uri": "s3://models/llama"}},
        ["spec.model", "set exactly one of image"],
    ),
    "no source of an additional model": (
        {"additionalModels": [{"name": "draft"}]},
        ["spec.additionalModels[0]", "set exactly one of image"],
    ),
    "repository without an organisation": (
        {"model": {"huggingFace": {"repository": "llama"}}},
        ["spec.model.huggingFace.repository", "use for example meta-llama/"],
    ),
    "revision that climbs": (
        {"model": {"huggingFace": {"repository": "a/b", "revision": "a/../b"}}},
        ["spec.model.huggingFace.revision", "use for example main"],
    ),
    "endpoint with credentials": (
        {"model": {"huggingFace": {"repository": "a/b", "endpoint": "https://u:p@example.com"}}},
        ["spec.model.huggingFace.endpoint", "use secretName"],
    ),
    "bucket by another scheme": (
        {"model": {"s3": {"uri": "gs://models/llama"}}},
        ["spec.model.s3.uri", "use for example s3://models/llama"],
    ),
    "archive with credentials": (
        {"model": {"http": {"url": "https://token@example.com/a.tar"}}},
        ["spec.model.http.url", "use secretName"],
    ),
    "port that is no number": (
        {"model": {"http": {"url": "https://example.com:port/a.tar"}}},
        ["spec.model.http.url", "use for example https://example.com/llama.tar"],
    ),
    "neither archive nor listing": (
        {"model": {"http": {"url": "https://example.com/model.safetensors"}}},
        ["spec.model.http.url", "must end in .tar"],
    ),
    "absolute path in a claim": (
        {"model": {"persistentVolumeClaim": {"claimName": "c", "path": "/a"}}},
        ["spec.model.persistentVolumeClaim.path", "for example models/llama"],
    ),
    "path that climbs out of a claim": (
        {"model": {"persistentVolumeClaim": {"claimName": "c", "path": "a/../../b"}}},
        ["spec.model.persistentVolumeClaim.path", "use the path that it leads to"],
    ),
    "whole node": (
        {"model": {"nodePath": {"path": "/"}}},
        ["spec.model.nodePath.path", "use for example /data/models/llama"],
    ),
    "relative path of the node": (
        {"model": {"nodePath": {"path": "data"}}},
        ["spec.model.nodePath.path", "use for example /data/models/llama"],
    ),
    "path of the node with dots": (
        {"model": {"nodePath": {"path": "/data/.."}}},
        ["spec.model.nodePath.path", "use the path that it leads to"],
    ),
    "signature of what is no image": (
        {"model": {"nodePath": {"path": "/data"}, "verify": {"publicKey": PEM}}},
        ["spec.model", "verify", "leave it out"],
    ),
    "signature of a tag": (
        {"model.verify": {"publicKey": PEM}},
        ["spec.model", "verify needs the image by digest"],
    ),
    "private key": (
        {"model.verify": {"publicKey": PEM.replace("PUBLIC", "PRIVATE")}},
        ["spec.model.verify.publicKey", "use the content of the cosign.pub"],
    ),
    "additional model twice": (
        {"additionalModels": [{"name": "a", "image": "a:1"}, {"name": "a", "image": "b:1"}]},
        ["spec.additionalModels[1]", "Duplicate"],
    ),
    "additional model with the model's name": (
        {"additionalModels": [{"name": "m", "image": "a:1"}], "model.servedName": "other"},
        ["spec.additionalModels", "choose another name"],
    ),
    "additional model over the model": (
        {"additionalModels": [{"name": "org", "image": "a:1"}], "model.servedName": "org/llama"},
        ["spec.additionalModels", "choose another name"],
    ),
    "mount over an additional model": (
        {
            "additionalModels": [{"name": "draft", "image": "a:1"}],
            "pod.volumes": [VOLUME],
            "engine.volumeMounts": [{"name": "data", "mountPath": "/models/draft"}],
        },
        ["spec.engine.volumeMounts", "choose another mountPath"],
    ),
    "staging of nothing": (
        {"weights.staging": STAGING},
        ["spec", "weights.staging", "leave it out"],
    ),
    "scrub all the time": ({"weights.scrubSeconds": 60}, ["spec.weights.scrubSeconds"]),
    "no engine image": ({"engine.image": REMOVE}, ["spec.engine.image", "Required"]),
    "image with a space": (
        {"model.image": "m :1"},
        ["spec.model.image", "use for example registry.example.com/"],
    ),
    "served name with an empty part": (
        {"model.servedName": "a//b"},
        ["spec.model.servedName", "use for example meta-llama/"],
    ),
    "region with a space": (
        {"model": {"s3": {"uri": "s3://models", "region": "eu central"}}},
        ["spec.model.s3.region", "use for example eu-central-1"],
    ),
    "endpoint without a scheme": (
        {"model": {"s3": {"uri": "s3://models", "endpoint": "minio:9000"}}},
        ["spec.model.s3.endpoint", "use for example https://"],
    ),
    "secret with a capital": (
        {"model": {"s3": {"uri": "s3://models", "secretName": "Keys"}}},
        ["spec.model.s3.secretName", "lower case letters"],
    ),
    "volume with a point": (
        {"pod.volumes": [{"name": "a.b", "emptyDir": {}}]},
        ["spec.pod.volumes[0].name", "use for example day-1"],
    ),
    "price with a comma": (
        {"cost.perGpuHour": "2,50"},
        ["spec.cost.perGpuHour", "use digits and a point", 'for example "2.50"'],
    ),
    "price of nothing": ({"cost.perGpuHour": ""}, ["spec.cost.perGpuHour", "is not a price"]),
    "number with an exponent": (
        {"warmup.golden": [{"name": "a", "prompt": "x", "tokens": ["y"], "logprobs": ["1e-3"]}]},
        ["spec.warmup.golden[0].logprobs[0]", 'use for example "-0.25"'],
    ),
    "negative replicas": ({"replicas": -1}, ["spec.replicas"]),
    "unknown medium": ({"weights.medium": "Disk"}, ["spec.weights.medium", '"PodMemory"']),
    "node memory without a size": (
        {"weights.medium": "NodeMemory"},
        ["spec.weights", "weights.size is needed", "for example 17Gi"],
    ),
    "pod memory without a size": (
        {"weights.medium": "PodMemory"},
        ["spec.weights", "weights.size is needed"],
    ),
    "size zero": ({"weights.size": "0"}, ["spec.weights.size", "more than 0"]),
    "size that is no quantity": (
        {"weights.size": "17 GB"},
        ["spec.weights.size", "use 16Mi or 16M"],
    ),
    "no such size": ({"weights.size": "1mi"}, ["spec.weights.size", "use 16Mi or 16M"]),
    "standby replicas below 0": ({"standby.replicas": -1}, ["spec.standby.replicas"]),
    "no such profile": ({"profile": "Fast"}, ["spec.profile", "Serverless"]),
    "no such standby state": ({"standby.state": "Dozing"}, ["spec.standby.state", "Sleeping"]),
    "standby pods missing for no time": (
        {"standby.maxUnfilledSeconds": 0},
        ["spec.standby.maxUnfilledSeconds"],
    ),
    "window that changes nothing": (
        {"schedule": [{"name": "day", "cron": "0 8 * * *", "durationSeconds": 60}]},
        ["spec.schedule[0]", "without replicas or standby", "set one of them"],
    ),
    "hour that does not exist": (
        {"schedule": [{"name": "a", "cron": "0 24 * * *", "durationSeconds": 60, "replicas": 1}]},
        ["spec.schedule[0].cron", "use five fields", "for example 0 8 * * MON-FRI"],
    ),
    "time zone that is none": (
        {
            "schedule": [
                {
                    "name": "a",
                    "cron": "0 8 * * *",
                    "timeZone": "+02:00",
                    "durationSeconds": 60,
                    "replicas": 1,
                }
            ]
        },
        ["spec.schedule[0].timeZone", "use for example Europe/Berlin"],
    ),
    "forecast of unknown pods": (
        {"forecast": {"mode": "Observe"}},
        ["spec.forecast", "requestsPerPod is needed"],
    ),
    "forecast without a bound": (
        {"forecast": {"mode": "Scale", "requestsPerPod": 8}},
        ["spec.forecast", "maxReplicas is needed"],
    ),
    "cache image without its store": (
        {"compileCache": {"store": "Node", "image": "example.com/cache:1"}},
        ["spec.compileCache", "set compileCache.store to Image"],
    ),
    "cache store without its image": (
        {"compileCache.store": "Image"},
        ["spec.compileCache", "compileCache.image is needed"],
    ),
    "bound of a cache that is the pod's": (
        {"compileCache.size": "1Gi"},
        ["spec.compileCache", "set compileCache.store to Node"],
    ),
    "cache of no size": (
        {"compileCache": {"store": "Node", "size": "0"}},
        ["spec.compileCache.size", "more than 0"],
    ),
    "cache of half a size": (
        {"compileCache": {"store": "Node", "size": "20GB"}},
        ["spec.compileCache.size", "quantities"],
    ),
    "mount over the store of caches": (
        {
            "engine.volumeMounts": [{"name": "v", "mountPath": "/run/warmpod-cache/published"}],
            "pod.volumes": [{"name": "v", "emptyDir": {}}],
        },
        ["engine.volumeMounts", "/run/warmpod-cache belong to warmpod"],
    ),
    "prompt of neither kind": (
        {"warmup.prompts": [{"name": "a"}]},
        ["spec.warmup.prompts[0]", "either text or body: set one of them"],
    ),
    "prompt of both kinds": (
        {"warmup.prompts": [{"name": "a", "text": "x", "body": {}}]},
        ["spec.warmup.prompts[0]", "either text or body"],
    ),
    "golden without an answer": (
        {"warmup.golden": [{"name": "a", "prompt": "x"}]},
        ["spec.warmup.golden[0]", "set text, tokens or both", "golden record"],
    ),
    "bucket name with a space": (
        {"warmup.skip": ["a b"]},
        ["spec.warmup.skip[0]", "use a name that `kubectl warm plan` prints"],
    ),
    "short stall": ({"warmup.stallSeconds": 9}, ["spec.warmup.stallSeconds"]),
    "prompt of no tokens": ({"warmup.promptTokens": [0]}, ["spec.warmup.promptTokens[0]"]),
    "concurrency zero": ({"warmup.concurrency": [0]}, ["spec.warmup.concurrency[0]"]),
    "port too high": ({"engine.port": 65536}, ["spec.engine.port"]),
    "too many arguments": ({"engine.args": ["a"] * 257}, ["spec.engine.args"]),
    "environment twice": (
        {"engine.env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]},
        ["spec.engine.env[1]", "Duplicate"],
    ),
    "service account without the suffix": (
        {"pod.serviceAccountName": "default"},
        ["spec.pod.serviceAccountName", "must end in -warmpod"],
    ),
    "our volume name": (
        {"pod.volumes": [{"name": "warmpod-run", "emptyDir": {}}]},
        ["spec.pod.volumes", "choose another name"],
    ),
    "mount of no volume": (
        {"engine.volumeMounts": [{"name": "data", "mountPath": "/data"}]},
        ["engine.volumeMounts", "pod.volumes"],
    ),
    "mount over the launcher": (
        {
            "pod.volumes": [VOLUME],
            "engine.volumeMounts": [{"name": "data", "mountPath": "/opt/warmpod/app"}],
        },
        ["spec.engine.volumeMounts", "choose another mountPath"],
    ),
    "mount over the run directory, in other words": (
        {
            "pod.volumes": [VOLUME],
            "engine.volumeMounts": [{"name": "data", "mountPath": "/x/../run/warmpod"}],
        },
        ["spec.engine.volumeMounts", "use the path that it leads to"],
    ),
    "mount path with an empty segment": (
        {
            "pod.volumes": [VOLUME],
            "engine.volumeMounts": [{"name": "data", "mountPath": "//run/warmpod"}],
        },
        ["spec.engine.volumeMounts[0].mountPath", "use for example /data"],
    ),
    "memory beyond what Kubernetes can reckon with": (
        {"engine.resources": {"limits": {"memory": "1e99"}}},
        ["spec.engine.resources.limits[memory]", "below 10P"],
    ),
    "as much in binary units": (
        {"engine.resources": {"limits": {"memory": "999999999999Ei"}}},
        ["spec.engine.resources.limits[memory]", "below 10P"],
    ),
    "as much as a number": (
        {"engine.resources": {"limits": {"memory": 2**62}}},
        ["spec.engine.resources.limits[memory]", "below 10P"],
    ),
    "fewer than no GPUs": (
        {"engine.resources": {"limits": {"nvidia.com/gpu": -1}}},
        ["spec.engine.resources.limits[nvidia.com/gpu]", "not negative"],
    ),
    "NUL in an argument": ({"engine.args": ["--foo=a\x00b"]}, ["spec.engine.args[0]"]),
    "mount over the model": (
        {
            "pod.volumes": [VOLUME],
            "engine.volumeMounts": [{"name": "data", "mountPath": "/models/m"}],
        },
        ["/models/<servedName>", "choose another mountPath"],
    ),
    "grace period too short": (
        {"pod.terminationGracePeriodSeconds": 5},
        ["spec.pod.terminationGracePeriodSeconds"],
    ),
}


@pytest.mark.parametrize(("changes", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(
    refusal: Callable[[JsonObject], str],
    namespace: str,
    changes: dict[str, Any],
    said: list[str],
) -> None:
    message = refusal(model(namespace, changes))
    for part in said:
        assert part in message


#: What nobody types, and only a program can get wrong.
BARE = {"NUL in an argument"}


@pytest.mark.parametrize("key", REFUSED.keys())
def test_nobody_is_answered_with_a_regular_expression(
    refusal: Callable[[JsonObject], str], namespace: str, key: str
) -> None:
    message = refusal(model(namespace, REFUSED[key][0]))
    assert ("should match" in message) == (key in BARE)


@pytest.mark.parametrize("name", ["m" * 51, "1m", "m.x", "9"])
def test_name_that_no_service_can_have(
    refusal: Callable[[JsonObject], str], namespace: str, name: str
) -> None:
    assert "metadata.name becomes the name of a Service" in refusal(model(namespace, name=name))


def test_longest_name(api: Api, namespace: str) -> None:
    api.create(model(namespace, name="m" * 50))


@pytest.mark.parametrize(
    "path",
    ["replica", "model.path", "engine.ports", "weights.digest", "warmup.rounds", "pod.labels"],
)
def test_unknown_field_is_refused_by_name(
    refusal: Callable[[JsonObject], str], namespace: str, path: str
) -> None:
    message = refusal(model(namespace, {path: 1}))
    assert f'unknown field "spec.{path}"' in message


def test_defaults(api: Api, namespace: str) -> None:
    spec = api.create(model(namespace))["spec"]
    assert spec == {
        "replicas": 1,
        "model": {"image": "example.com/m:1"},
        "weights": {"medium": "Image", "loader": "Auto"},
        "engine": {"image": "vllm:1", "start": "Plain"},
        "warmup": {
            "stallSeconds": 300,
            "tolerancePercent": 25,
            "maxRounds": 20,
            "roundSeconds": 60,
            "canaryPeriodSeconds": 30,
            "evidenceSeconds": 3600,
            "onFailure": "Block",
            "maxRestarts": 3,
        },
        # Their fields have no default of the API server: a profile may have others.
        "compileCache": {},
        "standby": {},
        "forecast": {"mode": "Off", "season": "Day"},
        "rollout": {"onRegression": "Rollback", "tolerancePercent": 50},
        "cost": {},
        "pod": {"terminationGracePeriodSeconds": 90},
    }


def test_arguments_come_back_as_they_were(api: Api, namespace: str) -> None:
    arguments = ["-tp", "2", "--b", "--a", "", "  spaced  ", '{"json": [1, 2]}', "--b"]
    api.create(model(namespace, {"engine.args": arguments}))
    assert api.get("WarmModel", "m", namespace)["spec"]["engine"]["args"] == arguments


def test_medium_cannot_be_changed(api: Api, namespace: str) -> None:
    api.create(model(namespace))
    with pytest.raises(ApiError, match=r"weights\.medium cannot be changed: make a new WarmModel"):
        api.patch("WarmModel", "m", namespace, {"spec": {"weights": RESIDENT}})


def test_medium_can_be_spelled_out_later(api: Api, namespace: str) -> None:
    api.create(model(namespace))
    api.patch("WarmModel", "m", namespace, {"spec": {"weights": {"medium": "Image"}}})


def test_status_is_a_subresource(api: Api, namespace: str) -> None:
    created = api.create({**model(namespace), "status": {"revision": "abc"}})
    assert "status" not in created
    changed = api.patch(
        "WarmModel",
        "m",
        namespace,
        {"spec": {"replicas": 5}, "status": {"revision": "abc"}},
        subresource="status",
    )
    assert changed["status"]["revision"] == "abc"
    assert changed["spec"]["replicas"] == 1
    assert changed["metadata"]["generation"] == created["metadata"]["generation"]


def test_condition_needs_a_reason(api: Api, namespace: str) -> None:
    api.create(model(namespace))
    condition = {"type": "Ready", "status": "True", "message": "", "lastTransitionTime": NOW}
    with pytest.raises(ApiError, match="reason"):
        set_status(api, namespace, {"conditions": [{**condition, "reason": ""}]})
    with pytest.raises(ApiError, match=r"[Dd]uplicate"):
        set_status(api, namespace, {"conditions": [{**condition, "reason": "Ready"}] * 2})


def test_scale_subresource(api: Api, namespace: str) -> None:
    selector = "warmpod.io/model=m,warmpod.io/component=engine,warmpod.io/role=serving"
    api.create(model(namespace))
    set_status(api, namespace, {"replicas": 1, "selector": selector})
    scaled = api.patch("WarmModel", "m", namespace, {"spec": {"replicas": 3}}, subresource="scale")
    assert scaled["kind"] == "Scale"
    assert scaled["spec"] == {"replicas": 3}
    assert scaled["status"] == {"replicas": 1, "selector": selector}
    assert api.get("WarmModel", "m", namespace)["spec"]["replicas"] == 3


def test_scale_obeys_the_bounds(api: Api, namespace: str) -> None:
    api.create(model(namespace))
    with pytest.raises(ApiError, match=r"replicas"):
        api.patch("WarmModel", "m", namespace, {"spec": {"replicas": -1}}, subresource="scale")


def test_kubectl_scale(api: Api, kubectl: Kubectl, namespace: str) -> None:
    api.create(model(namespace))
    kubectl("-n", namespace, "scale", "warmmodel/m", "--replicas=2")
    assert api.get("WarmModel", "m", namespace)["spec"]["replicas"] == 2


def test_printer_columns(api: Api, kubectl: Kubectl, namespace: str) -> None:
    api.create(model(namespace))
    condition = {"type": "Ready", "status": "False", "reason": "WarmingUp", "message": ""}
    status = {
        "conditions": [{**condition, "lastTransitionTime": NOW}],
        "warmReplicas": 0,
        "standbyReplicas": 2,
        "nodes": {"eligible": 2, "prefetched": 2, "resident": 1},
        "model": {"source": "example.com/m:1"},
    }
    set_status(api, namespace, status)
    heading, row = kubectl("-n", namespace, "get", "wm").splitlines()
    columns = ["NAME", "READY", "REASON", "REPLICAS", "WARM", "STANDBY", "RESIDENT", "AGE"]
    assert heading.split() == columns
    assert row.split()[:-1] == ["m", "False", "WarmingUp", "1", "0", "2", "1"]
    wide = kubectl("-n", namespace, "get", "wm", "--output=wide").splitlines()
    assert wide[0].split()[-3:] == ["MODEL", "POOL", "AGE"]
    assert "example.com/m:1" in wide[1]


def test_kubectl_explains_every_field_of_the_spec(crd: JsonObject, kubectl: Kubectl) -> None:
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    explained = kubectl("explain", "warmmodel.spec")
    for field in schema["properties"]["spec"]["properties"]:
        assert field in explained


@pytest.mark.parametrize("path", SAMPLES, ids=[path.stem for path in SAMPLES])
def test_samples_are_accepted(api: Api, namespace: str, path: Path) -> None:
    models = [item for item in yaml.safe_load_all(path.read_text()) if item["kind"] == "WarmModel"]
    for body in models:
        body["metadata"]["namespace"] = namespace
        api.create(body)


def set_status(api: Api, namespace: str, status: JsonObject) -> None:
    api.patch("WarmModel", "m", namespace, {"status": status}, subresource="status")

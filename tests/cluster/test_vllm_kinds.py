"""Kinds of real engines: each becomes warm, and then answers all that it serves."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from support import sidecar
from support.api import Api, JsonObject
from support.certificates import make_certificates
from support.clients import Certificate, Client
from support.endpoints import GateSampler
from support.features import (
    CHAT,
    CLASSIFYING,
    EMBEDDING,
    SCORING,
    TOOLS,
    Feature,
    chat_features,
    completion_features,
)
from support.models import (
    GATE,
    WEIGHTS_AWQ,
    WEIGHTS_BASE,
    WEIGHTS_EMBEDDING,
    WEIGHTS_GPTQ,
    WEIGHTS_RERANKER,
    WEIGHTS_TINY,
    ModelView,
    condition_of,
    vllm_engine,
    warm_model,
    with_adapter,
)
from support.namespaces import temporary_namespace

pytestmark = pytest.mark.vllm

START_LIMIT_S = 600  # an idle machine takes one minute
API_KEY = "tiny-secret"
SECRET, TLS_MOUNT = "engine", "/tls"


@dataclass(frozen=True)
class Kind:
    """An engine; patterns of buckets that its plan must and must not have; what users ask of it.

    `secured`: it wants the API key and speaks TLS."""

    name: str
    spec: JsonObject
    buckets: tuple[str, ...]
    no_buckets: tuple[str, ...]
    features: tuple[Feature, ...]
    model: str = "engine"
    secured: bool = False


def spec_of(image: str) -> JsonObject:
    return {"model": {"image": image}, "engine": vllm_engine(), "warmup": {"stallSeconds": 300}}


def everything() -> JsonObject:
    """Chat with an adapter, an API key, TLS, two served names, tools, and a port of its own."""
    spec = with_adapter(spec_of(WEIGHTS_TINY), "dialect")
    engine = spec["engine"]
    engine["args"] += ["--served-model-name", "first", "second", "--port=8443"]
    engine["args"] += [f"--ssl-certfile={TLS_MOUNT}/tls.crt", f"--ssl-keyfile={TLS_MOUNT}/tls.key"]
    engine["args"] += ["--enable-auto-tool-choice", "--tool-call-parser=hermes"]
    key = {"secretKeyRef": {"name": SECRET, "key": "api-key"}}
    engine["env"].append({"name": "VLLM_API_KEY", "valueFrom": key})
    engine["volumeMounts"].append({"name": "tls", "mountPath": TLS_MOUNT, "readOnly": True})
    spec["pod"]["volumes"].append({"name": "tls", "secret": {"secretName": SECRET}})
    return spec


def chat_kind(name: str, spec: JsonObject) -> Kind:
    """Asked for what any chat model is asked for."""
    return Kind(
        name,
        spec,
        buckets=("chat/stream/*", "chat/whole/*", "completion/*", "structured/regex", "*/c4"),
        no_buckets=("adapter/*", "embeddings/*", "score/*"),
        features=tuple(chat_features()),
    )


KINDS = (
    Kind(
        "everything",
        everything(),
        buckets=(
            "chat/stream/*",
            "chat/whole/*",
            "completion/*",
            "adapter/dialect/*",
            "structured/json-schema",
            "structured/regex",
            "tools/*",
            "sampler/logprobs",
            "*/c4",
            "repeat",
        ),
        no_buckets=("embeddings/*", "score/*", "image/*"),
        features=(
            *chat_features("dialect"),
            TOOLS,
            Feature("the first name", CHAT, stream=True, model="first"),
        ),
        model="second",
        secured=True,
    ),
    Kind(
        "base model without a chat template",
        spec_of(WEIGHTS_BASE),
        buckets=("completion/stream/*", "completion/whole/*", "structured/json-schema", "*/c4"),
        no_buckets=("chat/*", "tools/*", "adapter/*", "embeddings/*"),
        features=tuple(completion_features()),
    ),
    chat_kind("4 bits by GPTQ", spec_of(WEIGHTS_GPTQ)),
    chat_kind("4 bits by AWQ", spec_of(WEIGHTS_AWQ)),
    Kind(
        "embedding model",
        spec_of(WEIGHTS_EMBEDDING),
        buckets=("embeddings/*", "pooling/*", "score/*", "rerank/*", "*/c4"),
        no_buckets=("chat/*", "completion/*", "sampler/*", "structured/*", "classify/*"),
        features=(*EMBEDDING, *SCORING),
    ),
    Kind(
        "cross-encoder",
        spec_of(WEIGHTS_RERANKER),
        buckets=("classify/*", "score/*", "rerank/*", "*/c4"),
        no_buckets=("chat/*", "completion/*", "embeddings/*"),
        features=(*CLASSIFYING, *SCORING),
    ),
)


@dataclass(frozen=True)
class Warm:
    """An engine whose gate is open."""

    kind: Kind
    view: ModelView
    client: Client
    violations: list[str]


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.name)
def warm(
    api: Api, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Warm]:
    """One engine at a time, for all tests of its kind, since its start is long."""
    kind: Kind = request.param
    folder = tmp_path_factory.mktemp("tls")
    with temporary_namespace(api, "test-vllm-") as namespace:
        if kind.secured:
            api.create(secret(namespace, folder))
        api.apply(warm_model("engine", namespace, **copy.deepcopy(kind.spec)))
        view = ModelView(api, "engine", namespace)
        with GateSampler(view) as sampler:
            view.wait_ready(timeout_s=START_LIMIT_S)
        yield Warm(kind, view, client_of(kind, view, folder), sampler.violations)


def secret(namespace: str, folder: Path) -> JsonObject:
    make_certificates(folder, "tls")
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": namespace},
        "stringData": {
            "api-key": API_KEY,
            "tls.crt": (folder / "tls.crt").read_text(),
            "tls.key": (folder / "tls.key").read_text(),
        },
    }


def client_of(kind: Kind, view: ModelView, folder: Path) -> Client:
    url = view.service_url("https" if kind.secured else "http")
    if not kind.secured:
        return Client(url)
    return Client(url, API_KEY, Certificate(str(folder / "tls.crt"), "127.0.0.1"))


def test_users_are_answered_as_soon_as_the_gate_is_open(warm: Warm) -> None:
    assert warm.violations == []
    for feature in warm.kind.features:
        feature.ask(warm.client, warm.kind.model)


def test_gate_is_open_because_the_engine_is_warm(warm: Warm) -> None:
    gate = condition_of(warm.view.engine_pod(), GATE)
    assert (gate["status"], gate["reason"]) == ("True", "Warm")


def test_plan_is_made_for_what_the_engine_serves(warm: Warm) -> None:
    names = [bucket["name"] for bucket in sidecar.status(warm.view.engine_pod())["buckets"]]

    def found(patterns: tuple[str, ...]) -> list[str]:
        return [p for p in patterns if any(fnmatchcase(name, p) for name in names)]

    assert found(warm.kind.buckets) == list(warm.kind.buckets), names
    assert found(warm.kind.no_buckets) == [], names

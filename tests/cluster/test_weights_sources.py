"""Engines read exactly the files of their source, whichever it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.api import Api, JsonObject
from support.claims import claim
from support.copies import NODE_DISK, digests_in, digests_of, write_files
from support.file_server import FileServer
from support.hub_server import HubServer
from support.models import ModelView, warm_model
from support.namespaces import temporary_namespace
from support.node import Node
from support.s3_server import S3Server
from support.serving import serving, url_of
from support.waiting import wait_until
from support.weights import Files, good_weights

SMALL = {"size": "16Mi"}
TOKEN = "hf_right"
S3_KEYS = {"AKIDTESTS": "s3-secret"}
S3_SECRET = {"AWS_ACCESS_KEY_ID": "AKIDTESTS", "AWS_SECRET_ACCESS_KEY": "s3-secret"}


@dataclass(frozen=True)
class Places:
    """Where files lie before a WarmModel asks for them."""

    namespace: str
    directory: Path
    web: str
    hub: str
    s3: str
    claim: str
    empty_claim: str


@pytest.fixture(scope="module")
def weights() -> Files:
    return good_weights("sources")


@pytest.fixture(scope="module")
def draft() -> Files:
    return good_weights("draft")


@pytest.fixture(scope="module")
def places(
    api: Api, weights: Files, draft: Files, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Places]:
    folder = tmp_path_factory.mktemp("sources")
    write_files(folder / "model", weights)
    write_files(folder / "draft", draft)
    write_files(folder / "org" / "model", weights)
    write_files(folder / "bucket" / "a" / "model", weights)
    (folder / "empty").mkdir(mode=0o755)
    with ExitStack() as stack:
        namespace = stack.enter_context(temporary_namespace(api, "test-sources-"))
        api.create(secret("hub", namespace, token=f"{TOKEN}\n"))
        api.create(secret("s3", namespace, **S3_SECRET))
        yield Places(
            namespace,
            folder,
            url_of(stack.enter_context(serving(api, FileServer, folder))),
            url_of(stack.enter_context(serving(api, HubServer, folder, token=TOKEN))),
            url_of(stack.enter_context(serving(api, S3Server, folder, keys=S3_KEYS))),
            stack.enter_context(claim(api, "models", namespace, folder)),
            stack.enter_context(claim(api, "staging", namespace, folder / "empty")),
        )


SOURCES = (
    "hub",
    "s3",
    "http",
    "http-in-memory",
    "node-path",
    "claim",
    "claim-in-memory",
    "staged-to-a-claim",
    "with-a-draft",
)


def spec_of(source: str, places: Places) -> JsonObject:
    hub = {"repository": "org/model", "endpoint": places.hub, "secretName": "hub"}
    bucket = {"uri": "s3://bucket/a/model", "endpoint": places.s3, "secretName": "s3"}
    http = {"http": {"url": f"{places.web}/model/"}}
    in_claim = {"persistentVolumeClaim": {"claimName": places.claim, "path": "model"}}
    staging = {"persistentVolumeClaim": {"claimName": places.empty_claim}}
    draft = {"name": "draft", "http": {"url": f"{places.web}/draft/"}}
    return {
        "hub": {"model": {"huggingFace": hub}},
        "s3": {"model": {"s3": bucket}},
        "http": {"model": http},
        "http-in-memory": {"model": http, "weights": SMALL | {"medium": "NodeMemory"}},
        "node-path": {"model": {"nodePath": {"path": str(places.directory / "model")}}},
        "claim": {"model": in_claim},
        "claim-in-memory": {"model": in_claim, "weights": SMALL | {"medium": "NodeMemory"}},
        "staged-to-a-claim": {"model": http, "weights": {"staging": staging}},
        "with-a-draft": {"model": http, "additionalModels": [draft]},
    }[source]


@pytest.fixture(scope="module")
def views(api: Api, places: Places) -> dict[str, ModelView]:
    """All at once: most of the time is waiting."""
    for source in SOURCES:
        api.apply(warm_model(source, places.namespace, **spec_of(source, places)))
    return {source: ModelView(api, source, places.namespace) for source in SOURCES}


@pytest.mark.parametrize("source", SOURCES)
def test_engine_reads_the_files_of_its_source(
    node: Node, views: dict[str, ModelView], weights: Files, source: str
) -> None:
    view = views[source]
    view.wait_ready(timeout_s=240)
    view.wait_resident()
    files = node.files_in(view.engine_pod(), "engine", f"/models/{source}")
    assert digests_in(files) == digests_of(weights)


def test_additional_model_lies_beside_the_model(
    node: Node, views: dict[str, ModelView], draft: Files
) -> None:
    view = views["with-a-draft"]
    view.wait_ready(timeout_s=240)
    files = node.files_in(view.engine_pod(), "engine", "/models/draft")
    assert digests_in(files) == digests_of(draft)


def test_one_download_for_all_who_want_the_same(
    views: dict[str, ModelView], weights: Files, draft: Files
) -> None:
    """Three WarmModels have the same URL; one of them has the draft's, too."""
    for source in ("http", "http-in-memory", "with-a-draft"):
        views[source].wait_ready(timeout_s=240)
    found = sorted(
        digests_in(NODE_DISK.root / key)["config.json"]
        for key in NODE_DISK.names()
        if key.startswith("http-")
    )
    wanted = [digests_of(files)["config.json"] for files in (weights, draft)]
    assert [digest for digest in found if digest in wanted] == sorted(wanted)


def test_claim_holds_what_was_staged_to_it(
    views: dict[str, ModelView], places: Places, weights: Files
) -> None:
    views["staged-to-a-claim"].wait_ready(timeout_s=240)
    (key,) = [path for path in (places.directory / "empty").iterdir() if path.name[0] != "."]
    assert digests_in(key) == digests_of(weights)


def test_downloads_go_with_the_last_who_wants_them(
    api: Api, views: dict[str, ModelView], places: Places
) -> None:
    """The last test here: it deletes the models."""
    for source in SOURCES:
        api.delete("WarmModel", source, places.namespace)
    wait_until(
        "no agent is left",
        lambda: not any(view.prefetch_pods() for view in views.values()),
        timeout_s=180,
    )
    wait_until(
        "nothing is left on the disk",
        lambda: not [key for key in NODE_DISK.names() if key.startswith(("hf-", "s3-", "http-"))],
        timeout_s=60,
    )
    assert digests_in(places.directory / "model"), "files of a source were removed"


def secret(name: str, namespace: str, **values: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "stringData": values,
    }

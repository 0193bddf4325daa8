"""A source that refuses says which of two things is wrong, and is asked again when it is mended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from support.api import Api, JsonObject
from support.copies import write_files
from support.events import wait_event
from support.hub_server import HubServer
from support.models import ModelView, held_model
from support.serving import serving, url_of
from support.weights import good_weights

Create = Callable[[JsonObject], ModelView]

REPOSITORY = "org/model"
TOKEN = "hf_right"
# The kubelet looks at the Secrets of a pod every minute or so, the agent every half minute.
SECRET_LIMIT_S = 240


def test_missing_secret_is_unauthorized_until_it_appears(
    api: Api, create: Create, namespace: str, tmp_path: Path
) -> None:
    write_files(tmp_path / REPOSITORY, good_weights(namespace))
    with serving(api, HubServer, tmp_path, token=TOKEN) as hub:
        view = create(from_hub("private", namespace, url_of(hub)))
        found = view.wait_condition("WeightsResident", "False", {"SourceUnauthorized"})
        assert "secretName" in found["message"] or "Secret" in found["message"]
        view.wait_condition("Ready", "False", {"SourceUnauthorized"})
        wait_event(view, "SourceUnauthorized")
        api.create(secret(namespace))
        view.wait_resident(timeout_s=SECRET_LIMIT_S)


def test_gated_model_is_forbidden_until_its_terms_are_accepted(
    api: Api, create: Create, namespace: str, tmp_path: Path
) -> None:
    write_files(tmp_path / REPOSITORY, good_weights(namespace))
    api.create(secret(namespace))
    with serving(api, HubServer, tmp_path, token=TOKEN, gated=True) as hub:
        view = create(from_hub("gated", namespace, url_of(hub)))
        view.wait_condition("WeightsResident", "False", {"SourceForbidden"})
        wait_event(view, "SourceForbidden")
        hub.gated = False
        view.wait_resident(timeout_s=SECRET_LIMIT_S)


def from_hub(name: str, namespace: str, url: str) -> JsonObject:
    source = {"repository": REPOSITORY, "endpoint": url, "secretName": "hub"}
    return held_model(name, namespace, "", replicas=1, model={"huggingFace": source})


def secret(namespace: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "hub", "namespace": namespace},
        "stringData": {"token": f"{TOKEN}\n"},
    }

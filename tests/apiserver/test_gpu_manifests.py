"""What the measurements on a GPU apply is accepted: a pass there has no time for a typing error."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from gpu import kinds
from gpu.setting import Setting
from support.api import Api, JsonObject, resource_path


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    (tmp_path / "model.safetensors").write_bytes(b"123")
    return Setting(tmp_path)


def test_every_object_is_accepted(
    api: Api, crd: JsonObject, namespace: str, setting: Setting
) -> None:
    sleeper, promoted = setting.sleeper(), setting.sleeper(standby=0)
    promoted["spec"]["replicas"] = 1
    models = [
        setting.warm_model(),
        setting.warm_model(replicas=2),
        setting.warm_model(forked=True),
        setting.warm_model(forked=True, lean=True),
        sleeper,
        setting.sleeper(standby=2),
        promoted,
        kinds.fp8_model(setting),
        kinds.lora_model(setting),
        kinds.two_gpus_model(setting),
    ]
    for body in [*models, *setting.plain_objects()]:
        try_out(api, namespace, body)


def try_out(api: Api, namespace: str, body: JsonObject) -> None:
    """Applies it as the measurements do, but for good only in a namespace where nothing runs."""
    body = copy.deepcopy(body)
    metadata = body["metadata"]
    metadata["namespace"] = namespace
    api.request(
        "PATCH",
        resource_path(body["kind"], namespace, metadata["name"]),
        body,
        content_type="application/apply-patch+yaml",
        fieldManager="tests",
        force="true",
        fieldValidation="Strict",
        dryRun="All",
    )

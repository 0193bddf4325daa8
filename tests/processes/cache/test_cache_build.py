"""`warmpod cache build`: a WarmModel that goes again however the command ends."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cache_scene import BUILD, Scene, file_of_a_model

from support.compile_caches import publish
from support.crane import CraneRegistry, pulled
from support.registry import serving

Object = dict[str, Any]


def becomes_warm(scene: Scene) -> Callable[[Object], None]:
    def created(model: Object) -> None:
        model["status"] = {"warmReplicas": 1}
        publish(scene.add_node("n1", model=BUILD))

    return created


def waits(reason: str, stalled: bool = False) -> Callable[[Object], None]:
    def created(model: Object) -> None:
        kinds = ("Ready", "False"), ("Stalled", str(stalled))
        model["status"] = {
            "conditions": [
                {"type": kind, "status": status, "reason": reason, "message": "for a GPU"}
                for kind, status in kinds
            ]
        }

    return created


def test_what_it_compiled_becomes_an_image(
    scene: Scene, registry: CraneRegistry, tmp_path: Path
) -> None:
    created: list[Object] = []
    warm = becomes_warm(scene)
    scene.server.on_create = lambda model: (created.append(model), warm(model))[1]
    reference = f"{registry.host}/caches/tiny:1.0"
    status, output, errors = scene.run("build", "-f", file_of_a_model(tmp_path), reference)
    assert status == 0, errors
    assert output.startswith(f"{reference}@sha256:")
    with pulled(reference, tmp_path) as files:
        assert any(name.endswith("/entry.json") for name in files)
    (model,) = created
    assert model["metadata"]["name"] == BUILD
    assert model["spec"]["replicas"] == 1
    assert model["spec"]["model"]["servedName"] == "tiny"
    uid = {"uid": f"uid-of-{BUILD}"}
    assert [(name, body["preconditions"]) for name, body in scene.server.deleted] == [(BUILD, uid)]


def test_a_build_that_stalls(scene: Scene, registry: CraneRegistry, tmp_path: Path) -> None:
    scene.server.on_create = waits("NoNodes", stalled=True)
    reference = f"{registry.host}/caches/tiny:1.0"
    status, output, errors = scene.run("build", "-f", file_of_a_model(tmp_path), reference)
    assert (status, output) == (1, "")
    assert f"WarmModel demo/{BUILD} does not become warm: NoNodes: for a GPU" in errors
    assert BUILD not in scene.server.models


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_build_leaves_nothing(
    scene: Scene, registry: CraneRegistry, tmp_path: Path, number: signal.Signals
) -> None:
    scene.server.on_create = waits("Waiting")
    reference = f"{registry.host}/caches/tiny:1.0"
    process = scene.start("build", "-f", file_of_a_model(tmp_path), reference)
    assert process.stderr is not None
    for line in process.stderr:
        if "Waiting: for a GPU" in line:
            break
    assert BUILD in scene.server.models
    process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "Traceback" not in errors
    assert output == ""
    assert BUILD not in scene.server.models


def test_one_that_stands_there_is_left_alone(
    scene: Scene, registry: CraneRegistry, tmp_path: Path
) -> None:
    scene.server.models[BUILD] = {"metadata": {"name": BUILD}}
    reference = f"{registry.host}/caches/tiny:1.0"
    status, _, errors = scene.run("build", "-f", file_of_a_model(tmp_path), reference)
    assert status == 1
    assert f"remove it: kubectl delete warmmodel -n demo {BUILD}" in errors
    assert BUILD in scene.server.models


def test_a_registry_that_refuses_is_found_before_the_work(scene: Scene, tmp_path: Path) -> None:
    with serving({"me": "secret"}) as private:
        reference = f"{private.host}/caches/tiny:1.0"
        status, _, errors = scene.run("build", "-f", file_of_a_model(tmp_path), reference)
    assert status == 1
    assert f"docker login {private.host}" in errors
    assert scene.server.deleted == []

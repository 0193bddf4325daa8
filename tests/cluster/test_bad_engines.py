"""Every common fault becomes the right condition within 30 s, and is left behind when mended."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from support.api import JsonObject
from support.images import REGISTRY, File, push_image
from support.models import ModelView, warm_model, with_engine

Create = Callable[[JsonObject], ModelView]

LIMIT_S = 30  # what users were promised, counted from the moment of `kubectl apply`
MISSING_IMAGE = f"{REGISTRY}/warmpod/no-such-engine:1"
ARM_IMAGE = f"{REGISTRY}/test/arm64-engine:1"
# The header of an ELF executable for 64-bit Arm: all that a kernel looks at to refuse it.
ARM_EXECUTABLE = struct.pack(
    "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 2, 183, 1, 0, 64, 0, 0, 64, 56, 0, 64, 0, 0
)


def missing_engine_image(model: JsonObject) -> JsonObject:
    return with_engine(model, image=MISSING_IMAGE)


def missing_weights_image(model: JsonObject) -> JsonObject:
    model["spec"]["model"]["image"] = f"{REGISTRY}/warmpod/no-such-weights:1"
    return model


def wrong_architecture(model: JsonObject) -> JsonObject:
    return with_engine(model, image=ARM_IMAGE)


def unschedulable(model: JsonObject) -> JsonObject:
    return with_engine(model, resources={"requests": {"cpu": "1000"}})


def crash_looping(model: JsonObject) -> JsonObject:
    return with_engine(model, sim={"fault": "crash-at-start"})


def never_a_token(model: JsonObject) -> JsonObject:
    return with_engine(model, sim={"fault": "no-token"})


FAULTS: dict[str, tuple[Callable[[JsonObject], JsonObject], set[str]]] = {
    "missing-engine-image": (missing_engine_image, {"ImageNotFound"}),
    "missing-weights-image": (missing_weights_image, {"ImageNotFound"}),
    "wrong-architecture": (wrong_architecture, {"ArchMismatch"}),
    "unschedulable": (unschedulable, {"Unschedulable"}),
    "crash-looping": (crash_looping, {"EngineCrashLooping", "EngineDied", "EngineGaveUp"}),
    "never-a-token": (never_a_token, {"NoTokenYet"}),
}


@pytest.fixture(scope="session", autouse=True)
def arm_image(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory: Path = tmp_path_factory.mktemp("arm64") / "layout"
    files = {"usr/bin/python3": File(ARM_EXECUTABLE, 0o755)}
    push_image(ARM_IMAGE, files, directory, architecture="arm64")


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_named_and_recovers(create: Create, namespace: str, fault: str) -> None:
    break_it, reasons = FAULTS[fault]
    view = create(break_it(warm_model("faulty", namespace)))
    found = view.wait_condition("Ready", "False", reasons, timeout_s=LIMIT_S)
    assert len(found["message"]) > 20, "the message explains nothing"
    assert view.ready_addresses() == set()

    create(warm_model("faulty", namespace))
    view.wait_ready(timeout_s=240)
    assert view.condition("Stalled")["status"] == "False"


def test_twenty_models_of_which_some_are_broken(create: Create, namespace: str) -> None:
    """One bad WarmModel never delays another."""
    broken = {
        f"broken-{fault}": create(break_it(warm_model(f"broken-{fault}", namespace)))
        for fault, (break_it, _) in FAULTS.items()
    }
    good = [create(warm_model(f"good-{number}", namespace)) for number in range(20 - len(broken))]
    for view in good:
        view.wait_ready(timeout_s=300)
    for fault, (_, reasons) in FAULTS.items():
        broken[f"broken-{fault}"].wait_condition("Ready", "False", reasons)

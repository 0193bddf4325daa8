"""The three places that weights can be resident in."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.api import Api, JsonObject
from support.models import ModelView, condition_of, warm_model
from support.traffic import first_answer

Create = Callable[[JsonObject], ModelView]


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        ({"medium": "Image"}, "Resident"),
        ({"medium": "NodeMemory", "size": "16Mi"}, "Resident"),
        ({"medium": "PodMemory", "size": "16Mi"}, "Verified"),
    ],
    ids=["Image", "NodeMemory", "PodMemory"],
)
def test_medium(create: Create, namespace: str, weights: JsonObject, reason: str) -> None:
    view = create(warm_model("medium", namespace, weights=weights))
    view.wait_ready()
    view.wait_condition("WeightsResident", "True")
    (prefetch,) = view.prefetch_pods()
    resident = condition_of(prefetch, "warmpod.io/Resident")
    assert (resident["status"], resident["reason"]) == ("True", reason)
    assert condition_of(prefetch, "Ready")["status"] == "True"
    status = view.get()["status"]
    assert status["nodes"] | {"failed": []} == {
        "eligible": 1,
        "prefetched": 1,
        "resident": 1,
        "progress": "1/1 resident",
        "failed": [],
    }
    assert first_answer(view.service_url(), "medium") != ""


def test_model_is_always_mounted_at_the_same_path(api: Api, create: Create, namespace: str) -> None:
    """vLLM's compile cache key holds the path, so a change of medium must not change it."""
    paths = set()
    for medium in ("Image", "NodeMemory", "PodMemory"):
        size = {} if medium == "Image" else {"size": "16Mi"}
        view = create(
            warm_model(
                f"path-{medium.lower()}",
                namespace,
                model={
                    "image": "127.0.0.1:5000/warmpod/weights-tiny:dev",
                    "servedName": "same",
                },
                weights={"medium": medium, **size},
            )
        )
        view.wait_ready()
        engine = next(c for c in view.engine_pod()["spec"]["containers"] if c["name"] == "engine")
        paths |= {m["mountPath"] for m in engine["volumeMounts"] if m["name"] == "warmpod-weights"}
    assert paths == {"/models/same"}

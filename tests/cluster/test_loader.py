"""spec.weights.loader reaches the engine where the image has it, and is left out where not."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.api import Api
from support.models import ModelView, vllm_engine, warm_model
from support.node import Node
from support.waiting import wait_until

MULTITHREAD = '--model-loader-extra-config={"enable_multithread_load":true}'


def engine_words(node: Node, view: ModelView) -> list[str]:
    pid = node.engine_main(view.engine_pod()["metadata"]["uid"])
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


def loader_of(view: ModelView) -> str:
    """As the status has it."""

    def recorded() -> str | None:
        startups = view.get().get("status", {}).get("lastStartups", [])
        return startups[0].get("loader", "") if startups else None

    return str(wait_until("a start-up with a loader", recorded, timeout_s=30))


@pytest.mark.vllm
def test_vllm_loads_as_asked(api: Api, node: Node, namespace: str) -> None:
    weights = {"loader": "Multithread"}
    warmup = {"stallSeconds": 300}
    api.apply(warm_model("m", namespace, engine=vllm_engine(), weights=weights, warmup=warmup))
    view = ModelView(api, "m", namespace)
    view.wait_ready(timeout_s=600)
    assert MULTITHREAD in engine_words(node, view)
    assert loader_of(view) == "Multithread"


def test_an_image_without_vllm_starts_all_the_same(api: Api, node: Node, namespace: str) -> None:
    api.apply(warm_model("m", namespace, weights={"loader": "Multithread"}))
    view = ModelView(api, "m", namespace)
    view.wait_ready()
    assert MULTITHREAD not in engine_words(node, view)
    assert loader_of(view) == (
        "Auto in place of Multithread: python3 of the engine image finds no vLLM"
    )

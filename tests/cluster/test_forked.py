"""Engines that are forked from a process which has imported vLLM."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cluster.test_gate import boot_of
from support.api import Api, JsonObject
from support.endpoints import EndpointWatch, GateSampler
from support.models import ModelView, container_status, vllm_engine, warm_model, with_engine
from support.node import Node, children, is_fork_server, kill
from support.traffic import complete
from support.waiting import wait_until

KILLS = 20

pytestmark = pytest.mark.alone


def starts(node: Node, pod: JsonObject) -> list[JsonObject]:
    """What the launcher tells of how it has started each boot."""
    lines = (node.files_in(pod, "engine", "/run/warmpod") / "events.jsonl").read_text()
    events: list[JsonObject] = [json.loads(line) for line in lines.splitlines()]
    return [event for event in events if event["event"] in ("boot-forked", "start-plain")]


def engine_start(view: ModelView, boot: str) -> str:
    """As the status has it of that boot."""

    def recorded() -> str | None:
        startups = view.get().get("status", {}).get("lastStartups", [])
        return next(
            (each.get("engineStart", "") for each in startups if each["boot"] == boot), None
        )

    return str(wait_until("the start-up is recorded", recorded, timeout_s=30))


def wait_for_another_boot(view: ModelView, boot: str, timeout_s: float = 120) -> str:
    return str(
        wait_until(
            "another boot is warm",
            lambda: (found := boot_of(view)) not in ("", boot) and found,
            timeout_s=timeout_s,
        )
    )


def seen_open(sampler: GateSampler) -> None:
    """A gate that closes while the sampler looks at a new endpoint would be taken for one that was
    closed when the endpoint became ready."""
    before = sampler.samples
    wait_until("the gate was looked at", lambda: sampler.samples >= before + 2, timeout_s=30)


def test_each_of_twenty_killed_engines_comes_back_forked(
    api: Api, node: Node, namespace: str
) -> None:
    model = with_engine(
        warm_model("forked", namespace),
        start="Forked",
        sim={"first_seconds": 0.05, "import_seconds": 2},
    )
    api.apply(model)
    view = ModelView(api, "forked", namespace)
    with GateSampler(view) as sampler:
        view.wait_ready()
        pod = view.engine_pod()
        uid, address = pod["metadata"]["uid"], pod["status"]["podIP"]
        boots = [boot_of(view)]
        watch = EndpointWatch(api, view)
        for _ in range(KILLS):
            watch.wait_for(address, ready=True, timeout_s=120)
            seen_open(sampler)
            kill(node.engine_main(uid))
            boots.append(wait_for_another_boot(view, boots[-1]))
    assert sampler.samples > KILLS
    assert sampler.violations == []
    told = starts(node, pod)
    assert [(event["event"], event["boot"]) for event in told] == [
        ("boot-forked", boot) for boot in boots
    ]
    assert told[0]["import_seconds"] >= 2
    assert engine_start(view, boots[-1]) == "forked"
    assert container_status(view.engine_pod(), "engine")["restartCount"] == 0
    one_plain_boot_when_the_server_is_killed(node, view, boots[-1])


def one_plain_boot_when_the_server_is_killed(node: Node, view: ModelView, boot: str) -> None:
    """In the same pod, which has its weights and its node already."""
    uid = view.engine_pod()["metadata"]["uid"]
    server = next(pid for pid in children(node.container_pid(uid, "engine")) if is_fork_server(pid))
    kill(server)
    kill(node.engine_main(uid))
    plain = wait_for_another_boot(view, boot)
    assert engine_start(view, plain).startswith("plain: the fork server ")
    kill(node.engine_main(uid))
    assert engine_start(view, wait_for_another_boot(view, plain)) == "forked"


@pytest.mark.vllm
def test_vllm_is_forked_and_answers(api: Api, node: Node, namespace: str) -> None:
    engine = vllm_engine() | {"start": "Forked"}
    api.apply(warm_model("m", namespace, engine=engine, warmup={"stallSeconds": 300}))
    view = ModelView(api, "m", namespace)
    view.wait_ready(timeout_s=600)
    complete(view.service_url(), "m", timeout_s=30)
    pod = view.engine_pod()
    boot = boot_of(view)
    assert [event["event"] for event in starts(node, pod)] == ["boot-forked"]
    assert engine_start(view, boot) == "forked"
    main = node.engine_main(pod["metadata"]["uid"])
    # It is the program that a plain start runs, and the launcher's own child.
    assert Path(f"/proc/{main}/comm").read_text() == "vllm\n"
    kill(node.engine_core(pod["metadata"]["uid"]))
    wait_for_another_boot(view, boot, timeout_s=600)
    assert [event["event"] for event in starts(node, pod)] == ["boot-forked"] * 2

"""The pod that plays the load, and its prompts."""

from __future__ import annotations

import json

import pytest

from unit.cli.tune.scene import PLAY, POINTS, engine_pod, model
from warmpod.api import WarmModel
from warmpod.cli.tune import load
from warmpod.cli.tune.points import TuneError, temporary
from warmpod.load.main import parser


def test_prompts_of_the_spec_become_bodies() -> None:
    prompts = [
        {"name": "a", "text": "Hello"},
        {"name": "b", "text": "Go on", "endpoint": "Completion"},
        {"name": "c", "body": {"messages": [], "max_tokens": 3}},
        {"name": "d", "body": {"input": "embed"}},
    ]
    found = load.own_prompts(
        model(warmup={"prompts": prompts}),
        [("more", {"data": {"x.jsonl": '{"prompt": "x"}\n', "y": "Tell me"}})],
    )
    assert [json.loads(line) for line in found.splitlines()] == [
        {"messages": [{"role": "user", "content": "Hello"}]},
        {"prompt": "Go on"},
        {"messages": [], "max_tokens": 3},
        {"prompt": "x"},
        {"messages": [{"role": "user", "content": "Tell me"}]},
    ]


@pytest.mark.parametrize(
    ("prompts", "why"),
    [
        ("Hello", "line 1 is not JSON"),
        ("", "there is no request"),
        (json.dumps({"prompt": "x" * 1024 * 1024}), "fit into a ConfigMap"),
    ],
)
def test_prompts_that_cannot_be_played_are_refused(prompts: str, why: str) -> None:
    with pytest.raises(TuneError, match=why):
        load.check(prompts)


def test_without_prompts_nothing_is_measured() -> None:
    with pytest.raises(TuneError, match="--prompts"):
        load.own_prompts(model(), [])


def test_the_load_asks_the_service_with_the_key_and_has_no_labels_of_ours() -> None:
    secured = model()
    secured["spec"]["engine"]["args"] = ["--ssl-certfile=/c", "--api-key=$(KEY)"]
    source = {"secretKeyRef": {"name": "s", "key": "k"}}
    secured["spec"]["engine"]["env"] = [{"name": "KEY", "valueFrom": source}]
    made = temporary(secured, POINTS[0])
    made["metadata"]["uid"] = "uid-9"
    found = load.pod(made, engine_pod(WarmModel.parse(made)), PLAY)
    assert "labels" not in found["metadata"]
    assert found["metadata"]["ownerReferences"][0]["uid"] == "uid-9"
    (container,) = found["spec"]["containers"]
    assert container["command"][:3] == ["python3", "-m", "warmpod.load.main"]
    asked = parser().parse_args(container["command"][3:])
    assert (asked.url, asked.model) == ("https://llama-tune:8000", "llama")
    assert (asked.concurrency, asked.seconds, asked.ramp_seconds) == (64, 60, 10)
    mount = container["volumeMounts"][0]["mountPath"]
    (key,) = load.prompts(made, PLAY)["data"]
    assert str(asked.prompts) == f"{mount}/{key}"
    assert [variable["name"] for variable in container["env"]] == ["KEY", "WARMPOD_ENGINE_API_KEY"]
    assert container["securityContext"]["runAsNonRoot"] is True
    assert found["spec"]["automountServiceAccountToken"] is False

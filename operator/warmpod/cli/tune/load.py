"""The pod that plays the load, and its prompts. Pure.

It is a pod because a person's machine is far from the engine: what goes through the API server's
proxy measures the proxy.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from warmpod.api import InvalidSpec, WarmModel
from warmpod.cli.cluster import Document
from warmpod.cli.tune.points import TuneError
from warmpod.load import bodies
from warmpod.protocol import API_VERSION, KIND, SIDECAR_CONFIG_VARIABLE
from warmpod.resources.names import COMPONENT_LABEL, WARMUP_CONTAINER
from warmpod.resources.service import PORT
from warmpod.sidecar.planning.user import UserPrompt, inline_prompts, prompts_of

#: Bytes of prompts that fit into a ConfigMap, which holds at most 1 MiB (core/v1).
LARGEST_PROMPTS = 900 * 1024

_PROMPTS_MOUNT = "/prompts"
_PROMPTS_KEY = "prompts.jsonl"
# What the sidecar alone needs of its environment.
_SIDECARS = (SIDECAR_CONFIG_VARIABLE, "POD_NAME", "POD_NAMESPACE", "POD_UID")
# Of the engine pod: what lets a pod run where the engine may.
_PLACEMENT = ("tolerations", "imagePullSecrets", "priorityClassName")


@dataclass(frozen=True)
class Play:
    """What is played: request bodies, one a line, so many at a time, for so many seconds."""

    prompts: str
    concurrency: int
    seconds: float
    ramp_seconds: float


def check(prompts: str) -> str:
    """The prompts, if they can be played. Raises TuneError."""
    try:
        bodies.read(prompts, "any")
    except bodies.BodyError as error:
        raise TuneError(f"the prompts cannot be played: {error}") from error
    size = len(prompts.encode())
    if size > LARGEST_PROMPTS:
        raise TuneError(
            f"the prompts have {size} bytes, and {LARGEST_PROMPTS} fit into a ConfigMap: give "
            "fewer of them"
        )
    return prompts


def own_prompts(model: Document, config_maps: Iterable[tuple[str, Document]]) -> str:
    """The user's own requests of spec.warmup as request bodies, one a line. Raises TuneError."""
    try:
        found = inline_prompts(WarmModel.parse(model).spec.warmup.prompts)
    except InvalidSpec as error:
        raise TuneError(str(error)) from error
    for name, config_map in config_maps:
        for key, text in sorted((config_map.get("data") or {}).items()):
            found += prompts_of(f"{name}/{key}", text, f"ConfigMap {name}, key {key}")[0]
    lines = "\n".join(json.dumps(body) for body in map(_body, found) if body)
    if not lines:
        raise TuneError(
            "there is nothing of yours to measure with: give --prompts FILE (OpenAI request "
            "bodies, one a line), or set spec.warmup.prompts"
        )
    return check(lines)


def _body(prompt: UserPrompt) -> dict[str, Any] | None:
    """None for what a generating engine does not answer."""
    if prompt.body is not None:
        return dict(prompt.body) if {"messages", "prompt"} & prompt.body.keys() else None
    if prompt.endpoint == "completion":
        return {"prompt": prompt.text}
    if prompt.endpoint in (None, "chat"):
        return {"messages": [{"role": "user", "content": prompt.text}]}
    return None


def engine_pod(pods: Iterable[Document]) -> Document:
    """The engine pod among the pods of a WarmModel. Raises TuneError."""
    for pod in pods:
        if pod["metadata"].get("labels", {}).get(COMPONENT_LABEL) == "engine":
            return pod
    raise TuneError("the engine pod is gone: run tune again")


def prompts(model: Document, play: Play) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(model),
        "data": {_PROMPTS_KEY: play.prompts},
    }


def pod(model: Document, engine: Document, play: Play) -> Document:
    """It uses the image and the key of the sidecar, but no token."""
    sidecar = _sidecar(engine)
    config = json.loads(_value(sidecar, SIDECAR_CONFIG_VARIABLE))
    scheme = config["base_url"].partition(":")[0]
    command = [
        *("python3", "-m", "warmpod.load.main"),
        f"--url={scheme}://{model['metadata']['name']}:{PORT}",
        f"--model={config['served_name']}",
        f"--prompts={_PROMPTS_MOUNT}/{_PROMPTS_KEY}",
        f"--concurrency={play.concurrency}",
        f"--seconds={play.seconds:g}",
        f"--ramp-seconds={play.ramp_seconds:g}",
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(model),
        "spec": {
            **{name: engine["spec"][name] for name in _PLACEMENT if name in engine["spec"]},
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "load",
                    "image": sidecar["image"],
                    "imagePullPolicy": "IfNotPresent",
                    "command": command,
                    "env": list(_key(sidecar)),
                    "resources": {
                        "requests": {"cpu": "500m", "memory": "256Mi"},
                        "limits": {"memory": "1Gi"},
                    },
                    "securityContext": sidecar.get("securityContext", {}),
                    "volumeMounts": [
                        {"name": "prompts", "mountPath": _PROMPTS_MOUNT, "readOnly": True}
                    ],
                }
            ],
            "volumes": [{"name": "prompts", "configMap": {"name": _metadata(model)["name"]}}],
        },
    }


def _metadata(model: Document) -> dict[str, Any]:
    """Owned by the temporary WarmModel, with which it goes. It has none of the labels by which the
    Service and the operator know their pods."""
    metadata = model["metadata"]
    return {
        "name": f"{metadata['name']}-load",
        "namespace": metadata["namespace"],
        "ownerReferences": [
            {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "name": metadata["name"],
                "uid": metadata["uid"],
            }
        ],
    }


def _sidecar(engine: Document) -> Document:
    spec = engine["spec"]
    containers = [*spec.get("initContainers", []), *spec["containers"]]
    found: Document = next(each for each in containers if each["name"] == WARMUP_CONTAINER)
    return found


def _value(container: Document, name: str) -> str:
    return str(next(each["value"] for each in container["env"] if each["name"] == name))


def _key(sidecar: Document) -> Iterator[Document]:
    """The engine's key, and what it is made of."""
    return (each for each in sidecar["env"] if each["name"] not in _SIDECARS)

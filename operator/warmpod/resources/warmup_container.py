"""The native sidecar `warmup`: exercises the engine and holds the gate."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from warmpod.api import WarmModel
from warmpod.api.engine import EnvVar
from warmpod.engine.arguments import REFERENCE
from warmpod.protocol import PROMPTS_MOUNT, RUN_MOUNT, SIDECAR_CONFIG_VARIABLE, WARMUP_PORT
from warmpod.resources import names, pod_identity
from warmpod.resources.engine_container import RUN_VOLUME
from warmpod.resources.rendering import Rendering, mount
from warmpod.resources.security import helper_context

API_KEY_VARIABLE = "WARMPOD_ENGINE_API_KEY"

#: Bytes of spec.warmup in the sidecar's configuration, which is one string of its environment:
#: Linux takes at most 128 KiB for one (MAX_ARG_STRLEN, execve(2)). The rest is for all else.
LARGEST_WARMUP = 96 * 1024


def refusal(model: WarmModel) -> str | None:
    """Why the sidecar could not be started, with the remedy; None if it can."""
    size = len(_dumped(_warmup(model)))
    if size <= LARGEST_WARMUP:
        return None
    return (
        f"spec.warmup: is {size} bytes long as JSON, and a container cannot be started with more "
        f"than {LARGEST_WARMUP}: move prompts to a ConfigMap (spec.warmup.promptsFrom), or shorten "
        "prompts, prefixes and golden"
    )


def volumes(model: WarmModel) -> list[dict[str, Any]]:
    """The user's prompts. A ConfigMap that is missing holds up no pod."""
    return [
        {"name": volume, "configMap": {"name": config_map, "optional": True}}
        for volume, config_map in _prompt_volumes(model)
    ]


def _prompt_volumes(model: WarmModel) -> list[tuple[str, str]]:
    """By number, because a ConfigMap may have a longer name than a volume."""
    sources = model.spec.warmup.prompts_from
    return [(f"warmpod-prompts-{i}", source.config_map) for i, source in enumerate(sources)]


def container(rendering: Rendering) -> dict[str, Any]:
    return {
        "name": names.WARMUP_CONTAINER,
        "image": rendering.settings.operator_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["warmpod-sidecar"],
        "restartPolicy": "Always",
        "env": [
            *pod_identity.environment(),
            *_api_key(rendering),
            {"name": SIDECAR_CONFIG_VARIABLE, "value": _config(rendering)},
        ],
        "ports": [{"name": names.WARMUP_PORT_NAME, "containerPort": WARMUP_PORT}],
        # A second lock beside the readiness gate: it needs no API server and closes by itself.
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": names.WARMUP_PORT_NAME},
            "periodSeconds": 1,
            "failureThreshold": 1,
        },
        "resources": {
            "requests": {"cpu": "20m", "memory": "64Mi"},
            "limits": {"memory": "128Mi"},
        },
        "volumeMounts": [
            mount(RUN_VOLUME, RUN_MOUNT),
            pod_identity.token_mount(),
            *(
                mount(volume, f"{PROMPTS_MOUNT}/{config_map}", read_only=True)
                for volume, config_map in _prompt_volumes(rendering.model)
            ),
        ],
        "securityContext": helper_context(rendering.model.spec),
    }


def _warmup(model: WarmModel) -> Any:
    return model.spec.warmup.model_dump(by_alias=True, exclude_none=True, mode="json")


def _dumped(value: Any) -> str:
    """As JSON without `$`, which the kubelet would expand."""
    return json.dumps(value, sort_keys=True).replace("$", "\\u0024")


def _config(rendering: Rendering) -> str:
    facts = rendering.facts
    return _dumped(
        {
            "model": rendering.model.name,
            "revision": rendering.revision_hash,
            "base_url": f"{rendering.scheme}://127.0.0.1:{rendering.port}",
            "served_name": (facts.served_names or (rendering.model.served_name,))[0],
            "run_dir": RUN_MOUNT,
            "port": WARMUP_PORT,
            "warmup": _warmup(rendering.model),
            "engine": asdict(facts.traits),
            "caller": rendering.settings.operator_user,
            "api_key_env": API_KEY_VARIABLE if facts.api_key_set else None,
            "tls_verify": False,
        }
    )


def _api_key(rendering: Rendering) -> list[dict[str, Any]]:
    """The engine's key, from where the engine has it; vLLM prefers the argument."""
    variables = {variable.name: variable for variable in rendering.model.spec.engine.env}
    argument = rendering.facts.api_key_argument
    if argument is not None:
        key = EnvVar(name=API_KEY_VARIABLE, value=argument)
    elif rendering.facts.api_key_set:
        key = variables["VLLM_API_KEY"].model_copy(update={"name": API_KEY_VARIABLE})
    else:
        return []
    return [
        variable.model_dump(by_alias=True, exclude_none=True, mode="json")
        for variable in (*_referenced(key, variables), key)
    ]


def _referenced(variable: EnvVar, known: dict[str, EnvVar]) -> list[EnvVar]:
    """The variables that a value names as $(NAME), each before those that use it."""
    found: dict[str, EnvVar] = {}
    remaining = [variable]
    while remaining:
        for name in REFERENCE.findall(remaining.pop().value or ""):
            if name in known and name not in found:
                found[name] = known[name]
                remaining.append(known[name])
    return [item for name, item in known.items() if name in found]

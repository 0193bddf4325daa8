"""The container `engine`: the user's image with our launcher as its first process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from warmpod.api.engine import Resources
from warmpod.api.v1alpha1 import WarmModelSpec
from warmpod.engine import EngineFacts, engine_defaults, ignored_loader, read
from warmpod.protocol import CACHE_MOUNT, CACHE_STORE_MOUNT, LAUNCHER_MOUNT, RUN_MOUNT
from warmpod.resources import compile_cache, names, weights_volume
from warmpod.resources.rendering import Rendering, image_volume, mount, without_empty
from warmpod.resources.security import engine_context

HOME = "/home/warmpod"
RUN_VOLUME = "warmpod-run"
MAX_FAILED_BOOTS = 3

STOPPING_SECONDS = 30
"""Of the grace period: closing the gate (up to 6.5 s) and stopping the engine (up to 15 s)."""

_LAUNCHER = ["python3", f"{LAUNCHER_MOUNT}/app/launch.py"]


def container(rendering: Rendering) -> dict[str, Any]:
    spec = rendering.model.spec
    return without_empty(
        {
            "name": names.ENGINE_CONTAINER,
            "image": rendering.engine_image,
            "imagePullPolicy": "IfNotPresent",
            "command": _launcher_command(rendering),
            "args": _engine_command(rendering, rendering.model.spec.engine.args, _ours(rendering)),
            "env": _environment(spec),
            "ports": [{"name": names.ENGINE_PORT_NAME, "containerPort": rendering.port}],
            "resources": _resources(spec),
            "volumeMounts": _mounts(rendering),
            "lifecycle": {
                "preStop": {"exec": {"command": [*_LAUNCHER, "pre-stop", f"--run-dir={RUN_MOUNT}"]}}
            },
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "securityContext": engine_context(spec),
        }
    )


def volumes(rendering: Rendering) -> list[dict[str, Any]]:
    """All volumes of the engine container, ours first, but none that nothing mounts."""
    spec = rendering.model.spec
    return [
        image_volume("warmpod-launcher", rendering.settings.operator_image),
        {"name": RUN_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
        *({"name": name, "emptyDir": source} for name, _, source in _scratch(rendering)),
        *compile_cache.engine_volumes(rendering),
        *weights_volume.engine_volumes(rendering),
        *(volume.model_dump(by_alias=True, mode="json") for volume in spec.pod.volumes),
    ]


def _launcher_command(rendering: Rendering) -> list[str]:
    grace = rendering.model.spec.pod.termination_grace_period_seconds
    return [
        *_LAUNCHER,
        "run",
        f"--run-dir={RUN_MOUNT}",
        f"--port={rendering.port}",
        *(["--scheme=https"] if rendering.scheme == "https" else []),
        *(["--fork"] if rendering.model.spec.engine.start == "Forked" else []),
        *(f"--wait-for={receipt}" for receipt in weights_volume.receipt_paths(rendering)),
        f"--drain-seconds={grace - STOPPING_SECONDS}",
        f"--max-failed-boots={MAX_FAILED_BOOTS}",
        *_loader(rendering.model.spec),
        *_cache(rendering),
        *(["--sleep-mode"] if _may_sleep(rendering.model.spec) else []),
        *_reference(rendering),
        *_defaults(rendering.model.spec),
        "--",
    ]


def _engine_command(rendering: Rendering, args: Sequence[str], ours: Sequence[str]) -> list[str]:
    """The user's own command is run as it is; else `vllm serve` with what only we know."""
    command = rendering.model.spec.engine.command
    if command:
        return [*command, *args]
    return ["vllm", "serve", rendering.model_path, *ours, *args]


def _ours(rendering: Rendering) -> list[str]:
    facts = rendering.facts
    ours = [] if facts.served_names else [f"--served-model-name={rendering.model.served_name}"]
    port = rendering.model.spec.engine.port
    if port and _leaves_port(facts):
        ours.append(f"--port={port}")
    return ours


def _loader(spec: WarmModelSpec) -> list[str]:
    """The launcher adds its arguments: only inside the image can be seen what the engine has."""
    if spec.weights.loader == "Auto" or ignored_loader(spec):
        return []
    return [f"--loader={spec.weights.loader}"]


def _cache(rendering: Rendering) -> list[str]:
    """Where the engine keeps what it compiles; the launcher sets the variables that tell it so,
    because only inside the image can be seen which of them it has set itself."""
    if rendering.model.spec.compile_cache.store == "None":
        return []
    return [
        f"--cache-dir={CACHE_MOUNT}",
        *([f"--cache-store={CACHE_STORE_MOUNT}"] if compile_cache.has_store(rendering) else []),
        f"--cache-factors={_unexpanded(compile_cache.known_factors(rendering))}",
    ]


def _may_sleep(spec: WarmModelSpec) -> bool:
    """The user's own command is run as it is."""
    return spec.standby.state == "Sleeping" and not spec.engine.command


def _leaves_port(facts: EngineFacts) -> bool:
    """With a config file, spec.engine.port only repeats what that file says."""
    return facts.port is None and facts.config_file is None


def _reference(rendering: Rendering) -> list[str]:
    """The boot of spec.warmup.compare, which comes before all others.

    It must be found where the engine itself will be: under the same name, at the same port.
    """
    spec = rendering.model.spec
    compare = spec.warmup.compare
    if compare is None:
        return []
    facts = read(spec.engine.command, compare.args, spec.engine.env)
    ours = []
    if not facts.served_names:
        served = rendering.facts.served_names or (rendering.model.served_name,)
        ours += ["--served-model-name", *served]
    if _leaves_port(facts):
        ours.append(f"--port={rendering.port}")
    variables = {variable.name: variable.value for variable in compare.env}
    loader = [] if facts.loading else [f"--reference-{word[2:]}" for word in _loader(spec)]
    return [
        f"--reference-argv={_unexpanded(_engine_command(rendering, compare.args, ours))}",
        f"--reference-env={_unexpanded(variables)}",
        *loader,
    ]


def _defaults(spec: WarmModelSpec) -> list[str]:
    """What the profile adds to the engine, where the image has it."""
    defaults = engine_defaults(spec)
    if not defaults.arguments and not defaults.environment:
        return []
    return [f"--defaults={_unexpanded(asdict(defaults))}"]


def _unexpanded(value: Any) -> str:
    """JSON in which the kubelet finds no $(NAME): what it put there could break the JSON."""
    return json.dumps(value).replace("$", "\\u0024")


def _environment(spec: WarmModelSpec) -> list[dict[str, Any]]:
    """Ours first, so that the user's values may refer to them; the user's win."""
    users = [
        variable.model_dump(by_alias=True, exclude_none=True, mode="json")
        for variable in spec.engine.env
    ]
    taken = {variable["name"] for variable in users}
    ours = [
        {"name": name, "value": value}
        for name, value in _default_environment(spec).items()
        if name not in taken
    ]
    return ours + users


def _default_environment(spec: WarmModelSpec) -> dict[str, str]:
    """The same in every pod: most VLLM_* values are part of vLLM's compile cache key.

    HOME and USER, because a user id without a passwd entry has neither, and vLLM and its
    libraries write below HOME at start-up and at the first request.
    """
    environment = {
        "HOME": HOME,
        "USER": "warmpod",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    if spec.has_downloads:
        # The names in a repository's files must not lead back to where it was downloaded.
        environment["TRANSFORMERS_OFFLINE"] = "1"
    return environment


def _resources(spec: WarmModelSpec) -> dict[str, Any]:
    resources = spec.engine.resources or Resources()
    return without_empty(resources.model_dump(by_alias=True, exclude_none=True, mode="json"))


def _scratch(rendering: Rendering) -> list[tuple[str, str, dict[str, Any]]]:
    """Writable folders (volume, path, emptyDir), except where the user mounts something else.

    /dev/shm, because the runtime's own has 64 MiB, too small for vLLM's processes.
    """
    folders: list[tuple[str, str, dict[str, Any]]] = [
        ("warmpod-home", HOME, {}),
        ("warmpod-tmp", "/tmp", {}),  # noqa: S108 - a mount point in the container
        ("warmpod-shm", "/dev/shm", {"medium": "Memory"}),  # noqa: S108
        *compile_cache.scratch(rendering),
    ]
    taken = {item.mount_path.rstrip("/") for item in rendering.model.spec.engine.volume_mounts}
    return [folder for folder in folders if folder[1] not in taken]


def _mounts(rendering: Rendering) -> list[dict[str, Any]]:
    spec = rendering.model.spec
    return [
        mount("warmpod-launcher", LAUNCHER_MOUNT, read_only=True),
        mount(RUN_VOLUME, RUN_MOUNT),
        *(mount(name, path) for name, path, _ in _scratch(rendering)),
        *compile_cache.engine_mounts(rendering),
        *weights_volume.engine_mounts(rendering),
        *(
            item.model_dump(by_alias=True, exclude_none=True, mode="json")
            for item in spec.engine.volume_mounts
        ),
    ]

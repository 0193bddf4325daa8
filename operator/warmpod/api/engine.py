"""`spec.engine`: the container of the inference engine."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from warmpod.api.base import (
    ATOMIC,
    Form,
    ImageReference,
    Opaque,
    ResourceMap,
    StrictBase,
    keyed,
    rule,
    rules,
)
from warmpod.protocol import CACHE_STORE_MOUNT, LAUNCHER_MOUNT, RUN_MOUNT, WARMUP_PORT

RESERVED_MOUNTS = (LAUNCHER_MOUNT, RUN_MOUNT, CACHE_STORE_MOUNT)

DEFAULT_ENGINE_PORT = 8000

Port = Annotated[int, Field(ge=1, le=65535)]


class EnvVar(StrictBase):
    name: Annotated[str, Field(min_length=1, max_length=256)] = Field(
        description="Name of the variable."
    )
    value: Annotated[str, Field(max_length=16384)] | None = Field(
        default=None, description="Its value; $(NAME) is expanded as in a container."
    )
    value_from: Opaque | None = Field(
        default=None,
        description="Source of the value, as in a container: secretKeyRef, configMapKeyRef, "
        "fieldRef, resourceFieldRef.",
    )


class ResourceClaim(StrictBase):
    name: Annotated[str, Field(min_length=1, max_length=63)] = Field(
        description="Name of the entry in the pod's resourceClaims."
    )
    request: Annotated[str, Field(max_length=63)] | None = Field(
        default=None, description="Name of one request of the claim; default: all."
    )


class Resources(StrictBase):
    limits: ResourceMap | None = Field(
        default=None, description="Most that the engine may use, by resource name."
    )
    requests: ResourceMap | None = Field(
        default=None, description="What the engine is given for sure, by resource name."
    )
    claims: Annotated[tuple[ResourceClaim, ...], Field(max_length=16)] = Field(
        default=(),
        description="Dynamic resource claims that the engine uses.",
        json_schema_extra=keyed("name"),
    )


Argument = Annotated[str, Field(max_length=32768, pattern=r"^[^\x00]*$")]
"""The kernel ends a word of a command line at a NUL."""


class VolumeMount(StrictBase):
    name: Annotated[str, Field(min_length=1, max_length=63)] = Field(
        description="Name of a volume of pod.volumes."
    )
    mount_path: Annotated[
        str,
        Field(min_length=1, max_length=1024),
        Form(
            r"^(/|(/[^/:]+)+/?)$",
            "volumeMounts.mountPath is not an absolute path, or has : or // in it: use for example "
            "/data",
        ),
    ] = Field(description="Absolute path in the engine container, with no empty or dotted segment.")
    sub_path: Annotated[str, Field(max_length=1024)] | None = Field(
        default=None, description="Path inside the volume; default: its root."
    )
    sub_path_expr: Annotated[str, Field(max_length=1024)] | None = Field(
        default=None, description="Path inside the volume in which $(NAME) is expanded."
    )
    read_only: bool | None = Field(default=None, description="Mount it read-only.")
    recursive_read_only: Literal["Disabled", "IfPossible", "Enabled"] | None = Field(
        default=None, description="Whether mounts below it are read-only, too."
    )
    mount_propagation: Literal["None", "HostToContainer", "Bidirectional"] | None = Field(
        default=None, description="How later mounts spread between host and container."
    )


EngineStart = Literal["Plain", "Forked"]


class Engine(StrictBase):
    image: ImageReference = Field(
        description="Image that has vLLM (0.26 or later) and python3 (3.10 or later)."
    )
    command: Annotated[tuple[Argument, ...], Field(max_length=64)] = Field(
        default=(),
        description="Command that starts the engine instead of `vllm serve`. When it is given, "
        "nothing is added to it or to args: no model path, no served name, no port.",
        json_schema_extra=ATOMIC,
    )
    args: Annotated[tuple[Argument, ...], Field(max_length=256)] = Field(
        default=(),
        description="Arguments of `vllm serve`, after the model path; passed on untouched and "
        "in order.",
        json_schema_extra=ATOMIC,
    )
    env: Annotated[tuple[EnvVar, ...], Field(max_length=100)] = Field(
        default=(),
        description="Environment of the engine. It wins over what warmpod would set.",
        json_schema_extra=keyed("name"),
    )
    start: EngineStart = Field(
        default="Plain",
        description="Plain: each boot imports vLLM anew. Forked: boots are forked from a process "
        "that has imported it and has not touched the GPU; where that is not possible the engine "
        "starts as with Plain, and the start-up timeline says why.",
    )
    resources: Resources | None = Field(
        default=None, description="Resources of the engine container."
    )
    port: Port | None = Field(
        default=None,
        description="Port of the engine. Needed only where the arguments do not show it: in a "
        "config file or a custom command. Default: what the arguments say, else 8000.",
        json_schema_extra=rules(
            rule(
                f"self != {WARMUP_PORT}",
                f"engine.port: {WARMUP_PORT} belongs to the warmup sidecar: choose another port",
            )
        ),
    )
    security_context: Opaque | None = Field(
        default=None,
        description="Security context of the engine container. Its fields win over warmpod's.",
    )
    volume_mounts: Annotated[tuple[VolumeMount, ...], Field(max_length=32)] = Field(
        default=(),
        description="Mounts of pod.volumes in the engine container.",
        json_schema_extra=keyed("mountPath")
        | rules(
            rule(
                "self.all(m, "
                + " && ".join(
                    f"m.mountPath != '{path}' && !m.mountPath.startsWith('{path}/')"
                    for path in RESERVED_MOUNTS
                )
                + ")",
                f"engine.volumeMounts: {LAUNCHER_MOUNT}, {RUN_MOUNT} and {CACHE_STORE_MOUNT} "
                "belong to warmpod: choose another mountPath",
            ),
            rule(
                "self.all(m, !m.mountPath.matches('/[.][.]?(/|$)'))",
                "engine.volumeMounts: a mountPath has a /./ or /../ in it: use the path that it "
                "leads to",
            ),
        ),
    )

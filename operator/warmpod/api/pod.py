"""`spec.pod`: scheduling, volumes and security, as in a PodSpec."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from warmpod.api.base import (
    ATOMIC,
    NAME,
    LabelMap,
    Opaque,
    StrictBase,
    SubdomainName,
    keyed,
    rule,
    rules,
)

RESERVED_VOLUME_PREFIX = "warmpod-"


class Toleration(StrictBase):
    key: Annotated[str, Field(max_length=316)] | None = Field(
        default=None, description="Key of the taint; empty with Exists: every taint."
    )
    operator: Literal["Exists", "Equal", "Lt", "Gt"] | None = Field(
        default=None, description="How the key and the value are compared."
    )
    value: Annotated[str, Field(max_length=63)] | None = Field(
        default=None, description="Value of the taint."
    )
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="Effect of the taint; default: all effects."
    )
    toleration_seconds: Annotated[int, Field(ge=-1, le=31536000)] | None = Field(
        default=None, description="Seconds that a NoExecute taint is tolerated; default: for ever."
    )


class LocalReference(StrictBase):
    name: SubdomainName = Field(description="Name of an object of the same namespace.")


class NamedVolume(StrictBase):
    """A volume is copied unread, so its other fields are kept as they come."""

    model_config = ConfigDict(
        extra="allow", json_schema_extra={"x-kubernetes-preserve-unknown-fields": True}
    )

    name: Annotated[str, Field(min_length=1, max_length=63), NAME] = Field(
        description="Name of the volume."
    )


class Pod(StrictBase):
    node_selector: LabelMap | None = Field(
        default=None, description="Labels that a node must have."
    )
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=64)] = Field(
        default=(), description="Taints that the pods tolerate.", json_schema_extra=ATOMIC
    )
    affinity: Opaque | None = Field(
        default=None,
        description="Affinity of the engine pods; its nodeAffinity also holds for the prefetch "
        "pods.",
    )
    topology_spread_constraints: Annotated[tuple[Opaque, ...], Field(max_length=16)] = Field(
        default=(),
        description="How the engine pods spread over nodes and zones.",
        json_schema_extra=ATOMIC,
    )
    priority_class_name: SubdomainName | None = Field(
        default=None, description="Priority class of the pods."
    )
    runtime_class_name: SubdomainName | None = Field(
        default=None, description="Runtime class of the engine pods."
    )
    scheduler_name: SubdomainName | None = Field(
        default=None, description="Scheduler of the engine pods."
    )
    image_pull_secrets: Annotated[tuple[LocalReference, ...], Field(max_length=16)] = Field(
        default=(),
        description="Secrets with which the images are pulled, by engine and prefetch pods alike.",
        json_schema_extra=keyed("name"),
    )
    service_account_name: SubdomainName | None = Field(
        default=None,
        description="Service account of the pods. Default: one is made, <name>-warmpod.",
        json_schema_extra=rules(
            rule(
                "self.endsWith('-warmpod')",
                "pod.serviceAccountName must end in -warmpod: the admission policy that lets a "
                "pod report only its own conditions knows its accounts by that suffix",
            )
        ),
    )
    volumes: Annotated[tuple[NamedVolume, ...], Field(max_length=32)] = Field(
        default=(),
        description="Volumes for engine.volumeMounts. Image volumes are prefetched, too.",
        json_schema_extra=keyed("name")
        | rules(
            rule(
                f"self.all(v, !v.name.startsWith('{RESERVED_VOLUME_PREFIX}'))",
                "pod.volumes: names that start with warmpod- belong to warmpod: choose another "
                "name",
            )
        ),
    )
    security_context: Opaque | None = Field(
        default=None,
        description="Security context of the engine pods. Its fields win over warmpod's.",
    )
    termination_grace_period_seconds: Annotated[int, Field(ge=30, le=86400)] = Field(
        default=90,
        description="Seconds that a pod has to end. 30 of them are for closing the gate and "
        "stopping the engine; during the rest running requests may finish.",
    )

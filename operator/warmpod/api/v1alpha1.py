"""`warmpod.io/v1alpha1`: the fields of a WarmModel.

The CRD is generated from these models. Rules for change:

* A default, once released, stays: it is part of what revisions are computed from.
* A new field needs a default or must be optional; revisions leave out what equals its default, so
  that a new field restarts no engine.
* Every string, list, map and number has a bound: the API server needs them to accept the CEL rules.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from warmpod.api.base import (
    ATOMIC,
    NAME,
    Form,
    ImageReference,
    LabelMap,
    Opaque,
    Quantity,
    ResourceMap,
    StrictBase,
    SubdomainName,
    keyed,
    rule,
    rules,
)
from warmpod.api.compile_cache import CompileCache
from warmpod.api.cost import Cost
from warmpod.api.forecast import Forecast
from warmpod.api.rollout import Rollout
from warmpod.api.schedule import MAX_ENTRIES, ScheduleEntry
from warmpod.api.sources import Claim, ModelSource
from warmpod.api.standby import Standby
from warmpod.protocol import CACHE_STORE_MOUNT, LAUNCHER_MOUNT, RUN_MOUNT, WARMUP_PORT
from warmpod.quantity import to_bytes

MAX_NAME_LENGTH = 50
"""Leaves room below 63 for what is added to it in the names of children and in labels."""

SERVICE_NAME_PATTERN = "^[a-z]([-a-z0-9]*[a-z0-9])?$"

RESERVED_VOLUME_PREFIX = "warmpod-"
RESERVED_MOUNTS = (LAUNCHER_MOUNT, RUN_MOUNT, CACHE_STORE_MOUNT)

DEFAULT_ENGINE_PORT = 8000

Port = Annotated[int, Field(ge=1, le=65535)]
ItemName = Annotated[str, Field(min_length=1, max_length=40), NAME]


class Model(ModelSource):
    served_name: (
        Annotated[
            str,
            Field(min_length=1, max_length=128),
            Form(
                r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*$",
                "model.servedName has letters, digits and . _ - between its slashes, and begins "
                "with a letter or digit, also after a slash: use for example "
                "meta-llama/Llama-3.1-8B",
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="Name under which clients ask for the model, and the last part of its path, "
        "/models/<servedName>. Default: the name of the WarmModel.",
    )


class AdditionalModel(ModelSource):
    """What the engine reads beside the model: a draft model, an adapter, a tokenizer."""

    name: ItemName = Field(
        description="Last part of its path, /models/<name>, which engine.args may name."
    )


class Staging(StrictBase):
    persistent_volume_claim: Claim = Field(
        description="A volume that all nodes can mount and write (ReadWriteMany): downloads are "
        "then made once a cluster."
    )


Loader = Literal[
    "Auto", "Multithread", "RunaiStreamer", "FastSafetensors", "ShardedState", "Tensorizer"
]


ProfileName = Literal["HighThroughput", "MultiModel", "Serverless", "CostSaving"]


class Weights(StrictBase):
    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.medium == 'Image' || has(self.size)",
                "weights.size is needed for the media NodeMemory and PodMemory: set it to the "
                "size of all weight files, for example 17Gi",
                reason="FieldValueRequired",
            )
        )
    )

    medium: Literal["Image", "NodeMemory", "PodMemory"] = Field(
        default="Image",
        description="Where engines read the weights from. Image: the files where they lie on "
        "disk, held in the page cache. NodeMemory: one copy a node in a tmpfs that its engines "
        "share (needs hostPath). PodMemory: one copy a pod in a memory volume.",
        json_schema_extra=rules(
            rule(
                "self == oldSelf",
                "weights.medium cannot be changed: make a new WarmModel with the other medium "
                "and delete this one",
            )
        ),
    )
    size: Quantity | None = Field(
        default=None,
        description="Size of the weight files of all models together, as a quantity such as 17Gi. "
        "It is the memory that is reserved for them. Needed for NodeMemory and PodMemory; with "
        "Image it makes the reservation exact.",
        json_schema_extra=rules(
            rule(
                "!isQuantity(string(self)) || quantity(string(self)).isGreaterThan(quantity('0'))",
                "weights.size must be more than 0: set it to the size of all weight files, for "
                "example 17Gi",
            ),
        ),
    )
    staging: Staging | None = Field(
        default=None,
        description="Where downloads of huggingFace, s3 and http are put. Default: the node's "
        "disk, /var/lib/warmpod/weights (needs hostPath).",
    )
    scrub_seconds: Annotated[int, Field(ge=600, le=31536000)] | None = Field(
        default=None,
        description="Read all files again and compare them with their digests, once in so many "
        "seconds. Default: never; files that change are noticed all the same.",
    )
    loader: Loader = Field(
        default="Auto",
        description="How vLLM reads the weights. Auto: as it does by itself. The others are given "
        "to it as --load-format or --model-loader-extra-config where the engine image has what "
        "they need; else the engine starts as with Auto, and the start-up timeline says why. An "
        "argument of engine.args about loading wins.",
    )

    @model_validator(mode="after")
    def _size_is_usable(self) -> Self:
        """The same as the CEL rules: the builders compute with the size."""
        if self.medium != "Image" and self.size is None:
            raise ValueError(f"size is needed for the medium {self.medium}")
        if self.size is not None and to_bytes(self.size) <= 0:
            raise ValueError("size must be more than 0")
        return self


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


BucketName = Annotated[
    str,
    Field(min_length=1, max_length=128),
    Form(
        r"^[A-Za-z0-9*?][A-Za-z0-9*?._/+-]*$",
        "warmup.skip: names of buckets have letters, digits and . _ / + -, and * or ? for any "
        "text: use a name that `kubectl warm plan` prints, or one such as sampler/*",
    ),
]
Text = Annotated[str, Field(min_length=1, max_length=8192)]
Decimal = Annotated[
    str,
    Field(max_length=24),
    Form(
        r"^-?[0-9]{1,6}([.][0-9]{1,12})?$",
        "numbers that are text have at most six digits before the point and twelve after it, and "
        'no exponent: use for example "-0.25"',
    ),
]
"""A number as text: the API's conventions avoid floating point."""


class WarmupPrompt(StrictBase):
    """One request of the user's own; exactly one of `text` and `body` is given."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.text) != has(self.body)",
                "warmup.prompts: each prompt needs either text or body: set one of them",
            )
        )
    )

    name: ItemName = Field(description="Name of the prompt; user/<name> is its bucket.")
    endpoint: Literal["Chat", "Completion", "Embeddings"] | None = Field(
        default=None,
        description="Where it is sent. Default: what the body shows (messages, prompt or input); "
        "for a text, Chat where the engine serves it.",
    )
    text: Text | None = Field(default=None, description="A prompt.")
    body: Opaque | None = Field(
        default=None,
        description="An OpenAI request body, sent as it is but for the model's name; an answer "
        "that it does not bound is cut to 16 tokens.",
    )

    @model_validator(mode="after")
    def _is_one_request(self) -> Self:
        """The same as the CEL rule: a plan is made from it."""
        if (self.text is None) == (self.body is None):
            raise ValueError("needs either text or body: set one of them")
        return self


class ConfigMapSource(StrictBase):
    config_map: SubdomainName = Field(
        description="ConfigMap of the namespace. Each key is a text, or, where it ends in .jsonl, "
        "OpenAI request bodies, one a line. A change of it is exercised without a restart."
    )


class Prefix(StrictBase):
    name: ItemName = Field(description="Name of the prefix; prefix/<name> is its bucket.")
    text: Text = Field(
        description="A system prompt that is put into the prefix cache; that it is hit is checked."
    )


class Golden(StrictBase):
    """A prompt with the answer that the engine must give to it at temperature 0."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.text) || has(self.tokens)",
                "warmup.golden: set text, tokens or both of each item; `kubectl warm golden "
                "record` writes them",
            )
        )
    )

    name: ItemName = Field(description="Name that a mismatch is reported by.")
    endpoint: Literal["Chat", "Completion"] = Field(
        default="Chat", description="Where the prompt is sent."
    )
    prompt: Text = Field(description="The prompt, or the user's message.")
    max_tokens: Annotated[int, Field(ge=1, le=256)] = Field(
        default=16, description="Length of the answer that is asked for, in tokens."
    )
    text: Text | None = Field(default=None, description="What the answer must begin with.")
    tokens: (
        Annotated[
            tuple[Annotated[str, Field(max_length=256)], ...], Field(min_length=1, max_length=256)
        ]
        | None
    ) = Field(
        default=None,
        description="The tokens that the answer must begin with.",
        json_schema_extra=ATOMIC,
    )
    logprobs: Annotated[tuple[Decimal, ...], Field(min_length=1, max_length=256)] | None = Field(
        default=None,
        description="Log probabilities of the answer's first tokens.",
        json_schema_extra=ATOMIC,
    )
    logprob_tolerance: Decimal = Field(
        default="0.2", description="How far a log probability may be from the recorded one."
    )


class CompareVariable(StrictBase):
    name: Annotated[str, Field(min_length=1, max_length=256)] = Field(
        description="Name of the variable."
    )
    value: Annotated[str, Field(max_length=16384)] = Field(description="Its value.")


class Compare(StrictBase):
    """Answers of the engine are compared with those of the same engine under other settings."""

    args: Annotated[tuple[Argument, ...], Field(max_length=256)] = Field(
        description="Arguments of `vllm serve` for the other setting, in place of engine.args.",
        json_schema_extra=ATOMIC,
    )
    env: Annotated[tuple[CompareVariable, ...], Field(max_length=100)] = Field(
        default=(),
        description="Variables of the other setting, over those of engine.env.",
        json_schema_extra=keyed("name"),
    )
    samples: Annotated[int, Field(ge=1, le=64)] = Field(
        default=8, description="Number of prompts that are compared."
    )


class Warmup(StrictBase):
    stall_seconds: Annotated[int, Field(ge=10, le=86400)] = Field(
        default=300,
        description="Seconds without any progress after which warm-up counts as stalled.",
    )
    tolerance_percent: Annotated[int, Field(ge=5, le=200)] = Field(
        default=25,
        description="Latency has settled when the last rounds differ from their median by at "
        "most this much.",
    )
    max_rounds: Annotated[int, Field(ge=3, le=100)] = Field(
        default=20, description="Rounds after which latency must have settled."
    )
    round_seconds: Annotated[int, Field(ge=1, le=3600)] = Field(
        default=60,
        description="Longest round. Buckets that do not fit, the least used ones, are played "
        "twice but not measured further.",
    )
    canary_period_seconds: Annotated[int, Field(ge=5, le=3600)] = Field(
        default=30,
        description="Seconds between the small requests that prove a warm engine still answers. "
        "An engine that answers users in that time is not asked.",
    )
    evidence_seconds: Annotated[int, Field(ge=60, le=604800)] = Field(
        default=3600,
        description="Age at which the evidence of an idle engine is renewed by one more warm-up.",
    )
    on_failure: Literal["Block", "Open", "Restart"] = Field(
        default="Block",
        description="What follows when warm-up fails. Block: the pod stays out of the Service. "
        "Open: it takes traffic and is reported as unproven. Restart: the engine is started "
        "again in place, at most maxRestarts times; then as Block.",
    )
    max_restarts: Annotated[int, Field(ge=1, le=10)] = Field(
        default=3, description="Restarts of the engine in a row with onFailure Restart."
    )
    prompt_tokens: Annotated[
        tuple[Annotated[int, Field(ge=1, le=1048576)], ...], Field(max_length=16)
    ] = Field(
        default=(),
        description="Prompt lengths to exercise, in tokens. Default: the lengths at which engines "
        "change kernels, from 1 up to one chunked prefill.",
        json_schema_extra=ATOMIC,
    )
    concurrency: Annotated[
        tuple[Annotated[int, Field(ge=1, le=1024)], ...], Field(max_length=16)
    ] = Field(
        default=(),
        description="Numbers of simultaneous requests to exercise. Default: 1, 2, 8 and so on up "
        "to what the engine runs at once.",
        json_schema_extra=ATOMIC,
    )
    skip: Annotated[tuple[BucketName, ...], Field(max_length=64)] = Field(
        default=(),
        description="Buckets to leave out, by name; * and ? stand for any text. "
        "`kubectl warm plan` prints the names.",
        json_schema_extra=ATOMIC,
    )
    prompts: Annotated[tuple[WarmupPrompt, ...], Field(max_length=32)] = Field(
        default=(),
        description="Requests of your own, each a bucket.",
        json_schema_extra=keyed("name"),
    )
    prompts_from: Annotated[tuple[ConfigMapSource, ...], Field(max_length=4)] = Field(
        default=(),
        description="ConfigMaps with requests of your own.",
        json_schema_extra=keyed("configMap"),
    )
    prefixes: Annotated[tuple[Prefix, ...], Field(max_length=16)] = Field(
        default=(),
        description="System prompts to keep in the prefix cache.",
        json_schema_extra=keyed("name"),
    )
    golden: Annotated[tuple[Golden, ...], Field(max_length=16)] = Field(
        default=(),
        description="Prompts with the answers that the engine must give before it takes traffic.",
        json_schema_extra=keyed("name"),
    )
    compare: Compare | None = Field(
        default=None,
        description="Compare answers with another setting of the engine, which each pod then "
        "starts first. For trials: it makes a start twice as long.",
    )


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


def _is_remote(model: str) -> str:
    return "(" + " || ".join(f"has({model}.{kind})" for kind in ("huggingFace", "s3", "http")) + ")"


class WarmModelSpec(StrictBase):
    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.engine.volumeMounts) || self.engine.volumeMounts.all(m, "
                "has(self.pod.volumes) && self.pod.volumes.exists(v, v.name == m.name))",
                "engine.volumeMounts: each name must be the name of a volume of pod.volumes",
            ),
            rule(
                f"!has(self.weights.staging) || {_is_remote('self.model')} || "
                "(has(self.additionalModels) && self.additionalModels.exists(m, "
                f"{_is_remote('m')}))",
                "weights.staging is for downloads: leave it out where no model has the source "
                "huggingFace, s3 or http",
            ),
        )
    )

    replicas: Annotated[int, Field(ge=0, le=10000)] = Field(
        default=1,
        description="Serving pods. Leave it out where an autoscaler sets it.",
    )
    profile: ProfileName | None = Field(
        default=None,
        description="What the model is for, as a set of defaults for the engine, standby and "
        "compileCache; what is stated wins. HighThroughput: many requests at once. MultiModel: "
        "several models or adapters that share GPUs. Serverless: load that comes and goes. "
        "CostSaving: as few GPUs as possible. Default: none.",
    )
    model: Model = Field(description="The model to serve.")
    additional_models: Annotated[tuple[AdditionalModel, ...], Field(max_length=16)] = Field(
        default=(),
        description="What the engine reads beside the model, each at /models/<name>: a draft "
        "model, adapters, a tokenizer.",
        json_schema_extra=keyed("name"),
    )
    weights: Weights = Field(default=Weights(), description="How the weights are kept in memory.")
    engine: Engine = Field(description="The inference engine.")
    warmup: Warmup = Field(
        default=Warmup(), description="How an engine is exercised before it takes traffic."
    )
    compile_cache: CompileCache = Field(
        default=CompileCache(), description="Where compiled kernels are kept."
    )
    standby: Standby = Field(
        default=Standby(), description="Warm pods that are held back for the next scale-out."
    )
    schedule: Annotated[tuple[ScheduleEntry, ...], Field(max_length=MAX_ENTRIES)] = Field(
        default=(),
        description="When more pods are kept than replicas and standby ask for.",
        json_schema_extra=keyed("name"),
    )
    forecast: Forecast = Field(
        default=Forecast(), description="Pods for load that has not come yet."
    )
    rollout: Rollout = Field(
        default=Rollout(), description="How a new revision takes the place of the one before."
    )
    cost: Cost = Field(default=Cost(), description="What a GPU costs.")
    pod: Pod = Field(
        default=Pod(), description="Scheduling, volumes and security, as in a PodSpec."
    )

    @property
    def models(self) -> tuple[ModelSource, ...]:
        """The model first."""
        return (self.model, *self.additional_models)

    @property
    def has_downloads(self) -> bool:
        return any(model.remote is not None for model in self.models)

    @property
    def staging_claim(self) -> str | None:
        """The claim that downloads are put into; None: there are none, or they are put on the
        node's disk."""
        staging = self.weights.staging
        if staging is None or not self.has_downloads:
            return None
        return staging.persistent_volume_claim.claim_name

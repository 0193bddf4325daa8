"""The status of a WarmModel: observed, never desired. All of it can be observed again, except the
start-ups of pods that are gone."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from warmpod.api.base import ATOMIC, StrictBase, keyed
from warmpod.api.forecast import ForecastStatus
from warmpod.api.scalars import MAX_COUNT as MAX_COUNT
from warmpod.api.scalars import Count, Time
from warmpod.api.warm_now import WarmNowStatus

MAX_FAILED_NODES = 5
MAX_PROGRESS = 160
MAX_LAST_STARTUPS = 5
MAX_PHASES = 32
MAX_LOADER = 256
MAX_COMPILE_WHY = 256
MAX_ENGINE_START = 256

MAX_SUM = 2**53
MAX_SUMMARY = 200
MAX_SECONDS = 365 * 24 * 3600
MAX_MILLISECONDS = MAX_SECONDS * 1000

Sum = Annotated[int, Field(ge=0, le=MAX_SUM)]
Seconds = Annotated[int, Field(ge=0, le=MAX_SECONDS)]
Milliseconds = Annotated[int, Field(ge=0, le=MAX_MILLISECONDS)]
PodName = Annotated[str, Field(max_length=253)]
RevisionName = Annotated[str, Field(max_length=63)]
Message = Annotated[str, Field(max_length=4096)]
Reason = Annotated[
    str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
]


class Condition(StrictBase):
    type: Annotated[str, Field(min_length=1, max_length=316)] = Field(
        description="What the condition is about."
    )
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    observed_generation: Annotated[int, Field(ge=0, le=2**53)] = Field(
        default=0, description="Generation of the spec that the condition was computed from."
    )
    last_transition_time: Time = Field(description="When status last changed.")
    reason: Reason = Field(description="Why, as one CamelCase word.")
    message: Message = Field(description="Why, in a sentence that names field and remedy.")


class ModelStatus(StrictBase):
    source: Annotated[str, Field(max_length=4096)] | None = Field(
        default=None, description="Where its files come from, in one line."
    )
    digest: Annotated[str, Field(max_length=135)] | None = Field(
        default=None, description="Digest that the model image was resolved to."
    )


class FailedNode(StrictBase):
    node: Annotated[str, Field(max_length=253)] = Field(description="Name of the node.")
    reason: Reason = Field(description="Why the weights are not resident there.")
    message: Message = Field(default="", description="What was found and what helps.")


class Nodes(StrictBase):
    eligible: Count = Field(default=0, description="Nodes that should hold the model.")
    prefetched: Count = Field(default=0, description="Nodes that hold all its images.")
    resident: Count = Field(default=0, description="Nodes with the weights verified and in memory.")
    progress: Annotated[str, Field(max_length=MAX_PROGRESS)] | None = Field(
        default=None, description="How many are resident, and how far the slowest node is."
    )
    failed: Annotated[tuple[FailedNode, ...], Field(max_length=MAX_FAILED_NODES)] = Field(
        default=(), description="Some of the nodes that failed.", json_schema_extra=keyed("node")
    )


class StartupPhase(StrictBase):
    name: Annotated[str, Field(min_length=1, max_length=32)] = Field(
        description="What was done, for example images, import, load-weights or rounds."
    )
    milliseconds: Milliseconds = Field(description="How long it took.")
    silent: bool = Field(default=False, description="Whether the engine logs nothing about it.")


class Startup(StrictBase):
    pod: PodName = Field(description="Name of the pod.")
    revision: RevisionName | None = Field(default=None, description="Revision that it ran.")
    boot: Annotated[str, Field(max_length=64)] | None = Field(
        default=None, description="Identity of the boot."
    )
    cause: Annotated[str, Field(max_length=64)] | None = Field(
        default=None, description="Why the engine was started."
    )
    compile: Annotated[str, Field(max_length=64)] | None = Field(
        default=None, description="Whether the compile cache was hit."
    )
    compile_why: Annotated[str, Field(max_length=MAX_COMPILE_WHY)] | None = Field(
        default=None, description="Why the compile cache was missed, where it is known."
    )
    cache: Annotated[str, Field(max_length=64)] | None = Field(
        default=None,
        description="What the store of compiled code did for it: filled, miss, damaged, set-aside "
        "or kept.",
    )
    warm_time: Time = Field(description="When the gate opened.")
    start_seconds: Seconds | None = Field(
        default=None, description="From creation of the pod to the open gate."
    )
    weights_seconds: Seconds | None = Field(
        default=None, description="Waiting for the weights to be there."
    )
    engine_seconds: Seconds | None = Field(
        default=None, description="From the start of the engine to its first answer."
    )
    warmup_seconds: Seconds | None = Field(
        default=None, description="From the first answer to the open gate."
    )
    loader: Annotated[str, Field(max_length=MAX_LOADER)] | None = Field(
        default=None,
        description="How the weights were read, where weights.loader asks for it, and why it is "
        "another loader.",
    )
    engine_start: Annotated[str, Field(max_length=MAX_ENGINE_START)] | None = Field(
        default=None,
        description="forked, or plain and why it was no fork, where engine.start asks for forks.",
    )
    rounds: Count | None = Field(default=None, description="Rounds of warm-up.")
    first_token_milliseconds: Milliseconds | None = Field(
        default=None, description="Time to first token of the first request."
    )
    steady_token_milliseconds: Milliseconds | None = Field(
        default=None, description="Time to first token after warm-up."
    )
    phases: Annotated[tuple[StartupPhase, ...], Field(max_length=MAX_PHASES)] = Field(
        default=(),
        description="Where the time went; one after another, they make up the whole.",
        json_schema_extra=ATOMIC,
    )


class StandbyUse(StrictBase):
    warm_hits: Count = Field(
        default=0, description="Times that a pod was needed and a warm one stood ready."
    )
    sleeping_hits: Count = Field(default=0, description="Times that one was woken for it.")
    cold_starts: Count = Field(default=0, description="Times that one had to be started.")
    seconds_saved: Sum = Field(
        default=0, description="What the hits would have taken as cold starts, less the waking."
    )
    awake_gpu_seconds: Sum = Field(
        default=0, description="GPUs times seconds of warm pods that did not serve."
    )
    asleep_gpu_seconds: Sum = Field(default=0, description="The same of pods that slept.")
    cost: Annotated[str, Field(max_length=32)] | None = Field(
        default=None, description="Price of these GPU seconds; absent without a price."
    )
    summary: Annotated[str, Field(max_length=MAX_SUMMARY)] = Field(
        default="", description="All of it in one line."
    )
    updated: Time | None = Field(default=None, description="When these sums were written.")


class WarmModelStatus(StrictBase):
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = Field(
        default=(),
        description="Ready, Prefetched, WeightsResident, Warm, StandbyReady, ScaledAhead, "
        "Reconciling, Stalled.",
        json_schema_extra=keyed("type"),
    )
    observed_generation: Annotated[int, Field(ge=0, le=2**53)] | None = Field(
        default=None, description="Generation of the spec that the status was computed from."
    )
    replicas: Count | None = Field(default=None, description="Serving pods, ready or not.")
    ready_replicas: Count | None = Field(
        default=None, description="Serving pods that take traffic."
    )
    warm_replicas: Count | None = Field(default=None, description="Pods with a warm engine.")
    standby_replicas: Count | None = Field(default=None, description="Pods that are held back.")
    standby: StandbyUse | None = Field(
        default=None,
        description="What warm pods were good for since the WarmModel was made, and their cost.",
    )
    selector: Annotated[str, Field(max_length=512)] | None = Field(
        default=None, description="Label selector of the serving pods, for autoscalers."
    )
    revision: RevisionName | None = Field(
        default=None, description="Revision that the spec asks for."
    )
    model: ModelStatus | None = Field(default=None, description="The model, resolved.")
    nodes: Nodes | None = Field(default=None, description="The model on the nodes.")
    last_startups: Annotated[tuple[Startup, ...], Field(max_length=MAX_LAST_STARTUPS)] = Field(
        default=(),
        description="The last start-ups that ended warm, newest first.",
        json_schema_extra=ATOMIC,
    )
    forecast: ForecastStatus | None = Field(default=None, description="The last forecast.")
    warm_now: WarmNowStatus | None = Field(
        default=None, description="The last request to play warm-up again."
    )

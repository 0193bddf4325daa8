"""`spec.profile`: what a model is for, as a set of defaults.

What a profile holds is, once released, part of what revisions are computed from, as any default.

Everything here was looked up in vLLM 0.26.0, 0.32.0 and 0.33.0 (`engine/arg_utils.py`, `envs.py`,
`config/vllm.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from warmpod.api.base import StrictBase
from warmpod.api.v1alpha1 import ProfileName, WarmModelSpec

_Part = TypeVar("_Part", bound=StrictBase)


@dataclass(frozen=True)
class Profile:
    """The first five are for the engine, the others stand for fields of the spec."""

    throughput: bool = False
    """--performance-mode=throughput: vLLM doubles the budget of a batch, in tokens and in
    sequences, that it would choose for this GPU. Numbers of ours would fit one GPU only; and too
    small a budget ends an engine that cannot prefill in chunks."""

    max_num_seqs: int | None = None
    """Most requests that run at once. vLLM chooses 256, or 1024 on GPUs of 70 GiB and more."""

    few_graphs: bool = False
    """CUDA graphs for powers of two up to max_num_seqs, 9 for 256, instead of 51 up to 512. A batch
    in between is padded to the next size; a larger one runs without a graph."""

    lora_slots: int | None = None
    """Adapters in one batch, where the engine has adapters at all. vLLM takes one."""

    startup_plan: bool = False
    """VLLM_ENABLE_STARTUP_PLAN=1: the measurement of memory is taken over from an earlier start,
    if the GPU has at least as much free memory as then. Where models share a GPU it seldom has."""

    standby: Mapping[str, Any] = field(default_factory=dict)
    compile_cache: Mapping[str, Any] = field(default_factory=dict)


_CACHED: Mapping[str, Any] = {"store": "Node"}

PROFILES: Mapping[ProfileName, Profile] = {
    "HighThroughput": Profile(
        throughput=True, standby={"replicas": 1, "state": "Awake"}, compile_cache=_CACHED
    ),
    # An engine can sleep only if it was started so: the pods of a pool, however large it is, are to
    # leave the GPU to other models.
    "MultiModel": Profile(
        max_num_seqs=128,
        few_graphs=True,
        lora_slots=4,
        standby={"state": "Sleeping"},
        compile_cache=_CACHED,
    ),
    "Serverless": Profile(
        max_num_seqs=256,
        few_graphs=True,
        startup_plan=True,
        standby={"replicas": 1, "state": "Sleeping"},
        compile_cache=_CACHED,
    ),
    "CostSaving": Profile(throughput=True, startup_plan=True, compile_cache=_CACHED),
}

STATED_ONLY = (("standby", "replicas"), ("standby", "state"), ("compileCache", "store"))
"""Fields that a profile may set. The API server must not fill them in: a filled-in default cannot
be told from a stated one."""


def expanded(spec: WarmModelSpec) -> WarmModelSpec:
    """The spec with what its profile says about standby and compileCache, where it says nothing
    itself. What the profile says about the engine is for `warmpod.engine.profile`."""
    if spec.profile is None:
        return spec
    profile = PROFILES[spec.profile]
    return spec.model_copy(
        update={
            "standby": _filled(spec.standby, profile.standby),
            "compile_cache": _filled(spec.compile_cache, profile.compile_cache),
        }
    )


def _filled(part: _Part, defaults: Mapping[str, Any]) -> _Part:
    stated = part.model_fields_set
    return part.model_copy(update={k: v for k, v in defaults.items() if k not in stated})

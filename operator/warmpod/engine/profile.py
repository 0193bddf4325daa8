"""What a profile adds to an engine's command line and environment, beside what the user states.

The launcher adds it: only inside the image can be seen what its vLLM has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from warmpod.api.profiles import PROFILES, Profile
from warmpod.api.v1alpha1 import WarmModelSpec
from warmpod.engine.arguments import options_of
from warmpod.engine.options import (
    CAPTURE_SIZES,
    COMPILATION,
    GPU_MEMORY,
    MAX_CAPTURE_SIZE,
    MAX_CPU_LORAS,
    MAX_LORAS,
    MAX_NUM_SEQS,
    PERFORMANCE_MODE,
    Option,
    json_of,
)
from warmpod.engine.traits import EngineTraits, read_traits

STARTUP_PLAN = "VLLM_ENABLE_STARTUP_PLAN"

LARGEST_GRAPH = 512
"""vLLM's own largest size of a batch with a graph, but for Blackwell."""

_ASSUMED_SEQS = 256
_GRAPHS = (CAPTURE_SIZES, MAX_CAPTURE_SIZE, "--enforce-eager")
_GRAPH_ENTRIES = ("cudagraph_capture_sizes", "max_cudagraph_capture_size")
_LORA = ("--enable-lora", "--lora-modules")


@dataclass(frozen=True)
class EngineDefaults:
    """Each argument with its values as words of their own; variables by name."""

    arguments: tuple[tuple[str, ...], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> list[str]:
        return [word for argument in self.arguments for word in argument]


def engine_defaults(spec: WarmModelSpec) -> EngineDefaults:
    """What the profile adds; nothing to a command of the user's own, and no argument beside a
    config file: arguments win over what is in it, and it may say the same."""
    if spec.profile is None or spec.engine.command:
        return EngineDefaults()
    profile = PROFILES[spec.profile]
    options = options_of(spec.engine.args, spec.engine.env)
    given = {option.name for option in options}
    planned = profile.startup_plan and not _decides_memory(spec, given)
    return EngineDefaults(
        () if "--config" in given else tuple(_arguments(profile, options, given)),
        {STARTUP_PLAN: "1"} if planned else {},
    )


def ignored_profile(spec: WarmModelSpec) -> str:
    """Why the profile adds no argument of the engine, in a sentence; empty where it may."""
    if spec.profile is None:
        return ""
    options = options_of(spec.engine.args, spec.engine.env)
    if spec.engine.command:
        why = "nothing is added to spec.engine.command"
    elif any(option.name == "--config" for option in options):
        why = "arguments would win over what the file of --config in spec.engine.args says"
    else:
        return ""
    return (
        f"spec.profile {spec.profile} adds no argument of the engine, because {why}: state there "
        "what you want of it, or take out spec.profile"
    )


def _arguments(
    profile: Profile, options: Sequence[Option], given: set[str]
) -> Iterator[tuple[str, ...]]:
    traits = read_traits(options)
    if profile.throughput and PERFORMANCE_MODE not in given:
        yield (f"{PERFORMANCE_MODE}=throughput",)
    seqs = traits.max_num_seqs
    if profile.max_num_seqs and MAX_NUM_SEQS not in given and _fit(profile.max_num_seqs, traits):
        seqs = profile.max_num_seqs
        yield (f"{MAX_NUM_SEQS}={seqs}",)
    if profile.few_graphs and not _decides_graphs(options, given, traits):
        yield (CAPTURE_SIZES, *map(str, graph_sizes(seqs or _ASSUMED_SEQS)))
    # More adapters than vLLM is to keep in host memory would end it, too.
    if profile.lora_slots and given.intersection(_LORA) and not given & {MAX_LORAS, MAX_CPU_LORAS}:
        yield (f"{MAX_LORAS}={profile.lora_slots}",)


def _decides_memory(spec: WarmModelSpec, given: set[str]) -> bool:
    """Whether the user has, or a file of theirs may.

    A plan holds bytes of KV cache, and vLLM takes one that was made with another share of the
    GPU's memory for its own (0.26 to 0.33: `CacheConfig.compute_hash` leaves the share out). So
    there is no plan where the share is stated, and all that are kept were made with vLLM's own."""
    stated = given.intersection((*GPU_MEMORY, "--config"))
    return bool(stated) or any(variable.name == STARTUP_PLAN for variable in spec.engine.env)


def _fit(max_num_seqs: int, traits: EngineTraits) -> bool:
    """vLLM ends if the budget in tokens is below the number of sequences."""
    budget = traits.max_num_batched_tokens
    return budget is None or budget >= max_num_seqs


def graph_sizes(max_num_seqs: int) -> list[int]:
    """Powers of two, the last one not below the number of sequences, if it is small enough."""
    sizes = [1]
    while sizes[-1] < min(max_num_seqs, LARGEST_GRAPH):
        sizes.append(2 * sizes[-1])
    return sizes


def _decides_graphs(options: Sequence[Option], given: set[str], traits: EngineTraits) -> bool:
    """Whether the user has: vLLM refuses sizes that are given twice. With speculative decoding
    useful sizes are multiples of the number of tokens in a step."""
    if traits.speculative or given.intersection(_GRAPHS):
        return True
    return any(option.name == COMPILATION and _has_graphs(option) for option in options)


def _has_graphs(option: Option) -> bool:
    """Also if it cannot be read."""
    if option.entry:
        return option.entry in _GRAPH_ENTRIES
    value = json_of(option.value)
    return not isinstance(value, dict) or any(name in value for name in _GRAPH_ENTRIES)

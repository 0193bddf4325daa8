"""What the operator must know about an engine, read from its arguments."""

from __future__ import annotations

from warmpod.api.engine import DEFAULT_ENGINE_PORT
from warmpod.api.v1alpha1 import WarmModelSpec
from warmpod.engine.arguments import EngineFacts, read
from warmpod.engine.loading import ignored_loader
from warmpod.engine.nonexistent import UnknownArgument
from warmpod.engine.profile import EngineDefaults, engine_defaults, ignored_profile
from warmpod.engine.traits import EngineTraits

__all__ = [
    "EngineDefaults",
    "EngineFacts",
    "EngineTraits",
    "UnknownArgument",
    "engine_defaults",
    "facts_of",
    "ignored_loader",
    "ignored_profile",
    "port_of",
    "read",
]


def facts_of(spec: WarmModelSpec) -> EngineFacts:
    """What the engine of a WarmModel is known to do."""
    args = [*engine_defaults(spec).words, *spec.engine.args]
    return read(spec.engine.command, args, spec.engine.env)


def port_of(spec: WarmModelSpec) -> int:
    """The port of the engine: what the spec states wins over what the arguments show."""
    return spec.engine.port or facts_of(spec).port or DEFAULT_ENGINE_PORT

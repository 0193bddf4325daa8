"""What the operator must know about an engine, read from its arguments."""

from __future__ import annotations

from warmpod.api.v1alpha1 import DEFAULT_ENGINE_PORT, WarmModelSpec
from warmpod.engine.arguments import EngineFacts, read
from warmpod.engine.loading import ignored_loader
from warmpod.engine.nonexistent import UnknownArgument
from warmpod.engine.traits import EngineTraits

__all__ = [
    "EngineFacts",
    "EngineTraits",
    "UnknownArgument",
    "facts_of",
    "ignored_loader",
    "port_of",
    "read",
]


def facts_of(spec: WarmModelSpec) -> EngineFacts:
    """What the engine of a WarmModel is known to do."""
    return read(spec.engine.command, spec.engine.args, spec.engine.env)


def port_of(spec: WarmModelSpec) -> int:
    """The port of the engine: what the spec states wins over what the arguments show."""
    return spec.engine.port or facts_of(spec).port or DEFAULT_ENGINE_PORT

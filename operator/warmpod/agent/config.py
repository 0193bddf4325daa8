"""The agent's settings: one JSON document in an environment variable, written by the operator."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from warmpod import protocol
from warmpod.agent.sources.lookup import Lookup
from warmpod.agent.sources.origin import Origin
from warmpod.protocol import AGENT_CONFIG_VARIABLE, AGENT_PORT


class Medium(StrEnum):
    IMAGE = "Image"
    NODE_MEMORY = "NodeMemory"
    POD_MEMORY = "PodMemory"


class ConfigError(Exception):
    """The environment variable is absent or wrong; the message names the field."""


@dataclass(frozen=True)
class WeightSet:
    """The files of one model. They lie in `source`, where the agent brings them first when they
    are `remote`; `key` names their directory among the node's copies, `target` the pod's copy
    (fill). `credentials` is a folder that may appear later; `verify` asks for a signature.
    `origin` is where the files come from; None in templates from before it was rendered.
    `lookup`: how the path of `source` is looked up again; None where that is not done."""

    name: str
    source: Path
    key: str = ""
    target: Path = Path(protocol.FILL_MOUNT)
    remote: Mapping[str, Any] | None = None
    credentials: Path | None = None
    verify: Mapping[str, Any] | None = None
    origin: Origin | None = None
    lookup: Lookup | None = None


@dataclass(frozen=True)
class CacheConfig:
    """The store of compiled code: where it is, the most that it may hold in bytes, and where those
    of all WarmModels of the namespace are, by uid."""

    root: Path
    bytes: int
    stores: Path

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        return cls(Path(document["root"]), int(document["bytes"]), Path(document["stores"]))


@dataclass(frozen=True)
class AgentConfig:
    """`node_root` holds the node's copies in memory, `stage_root` those on disk; `state_dir` is a
    folder that outlives the container but not the pod. `scrub_seconds`: read everything again
    that often, None: never. `compile_cache` is None where this agent keeps none."""

    model: str
    model_uid: str
    medium: Medium
    sets: tuple[WeightSet, ...]
    node_root: Path = Path(protocol.NODE_ROOT_MOUNT)
    stage_root: Path = Path(protocol.STAGE_ROOT_MOUNT)
    state_dir: Path = Path(protocol.AGENT_STATE_MOUNT)
    port: int = AGENT_PORT
    look_seconds: float = 10.0
    scrub_seconds: float | None = None
    compile_cache: CacheConfig | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        text = environment.get(AGENT_CONFIG_VARIABLE)
        if text is None:
            raise ConfigError(f"environment variable {AGENT_CONFIG_VARIABLE} is not set")
        try:
            document = json.loads(text)
        except ValueError as error:
            raise ConfigError(f"{AGENT_CONFIG_VARIABLE} is not JSON: {error}") from error
        return cls.from_document(document)

    @classmethod
    def from_document(cls, document: object) -> Self:
        """Unknown fields are ignored: a newer operator may run beside an older agent."""
        config = cls(**_read(cls, document, AGENT_CONFIG_VARIABLE))
        if len({weights.name for weights in config.sets}) != len(config.sets):
            raise ConfigError(f"{AGENT_CONFIG_VARIABLE}.sets: a name occurs twice")
        for index, weights in enumerate(config.sets):
            where = f"{AGENT_CONFIG_VARIABLE}.sets[{index}]"
            shared = weights.remote is not None or config.medium is Medium.NODE_MEMORY
            if shared and not _is_plain_name(weights.key):
                raise ConfigError(f"{where}.key: must be one plain directory name")
            if weights.remote is not None and weights.source != config.stage_root / weights.key:
                raise ConfigError(f"{where}.source: must be the key below stage_root")
        return config


def _read(kind: type, document: object, where: str) -> dict[str, Any]:
    """The fields of a dataclass; an absent one has its default."""
    if not isinstance(document, Mapping):
        raise ConfigError(f"{where}: must be a JSON object")
    values: dict[str, Any] = {}
    for field in fields(kind):
        value = document.get(field.name)
        if value is not None:
            values[field.name] = _convert(field.name, value, f"{where}.{field.name}")
        if _is_needed(field) and not values.get(field.name):
            raise ConfigError(f"{where}.{field.name}: is missing")
    return values


def _is_needed(field: Field[Any]) -> bool:
    return field.default is MISSING


def _convert(name: str, value: object, where: str) -> object:
    try:
        return _CONVERSIONS.get(name, str)(value)
    except ConfigError as error:
        raise ConfigError(f"{where}{error}") from error
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{where}: {error}") from error


def _sets(value: Any) -> tuple[WeightSet, ...]:
    if not isinstance(value, list):
        raise ConfigError(": must be a list")
    return tuple(
        WeightSet(**_read(WeightSet, item, f"[{index}]")) for index, item in enumerate(value)
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(": must be a JSON object")
    return value


def _document(parse: Callable[[Mapping[str, Any]], object]) -> Callable[[Any], object]:
    def convert(value: Any) -> object:
        try:
            return parse(_mapping(value))
        except KeyError as error:
            raise ConfigError(f": {error} is missing") from error

    return convert


_CONVERSIONS: Mapping[str, Callable[[Any], object]] = {
    "medium": Medium,
    "sets": _sets,
    "port": int,
    "look_seconds": float,
    "scrub_seconds": float,
    "remote": _mapping,
    "verify": _mapping,
    "origin": _document(Origin.from_document),
    "lookup": _document(Lookup.from_document),
    "compile_cache": _document(CacheConfig.from_document),
    "source": Path,
    "node_root": Path,
    "stage_root": Path,
    "state_dir": Path,
    "target": Path,
    "credentials": Path,
}


def _is_plain_name(key: str) -> bool:
    return bool(key) and not key.startswith(".") and "/" not in key and "\0" not in key

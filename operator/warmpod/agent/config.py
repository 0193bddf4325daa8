"""The agent's settings: one JSON document in an environment variable, written by the operator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from warmpod import protocol
from warmpod.protocol import AGENT_CONFIG_VARIABLE, AGENT_PORT


class Medium(StrEnum):
    IMAGE = "Image"
    NODE_MEMORY = "NodeMemory"
    POD_MEMORY = "PodMemory"


class ConfigError(Exception):
    """The environment variable is absent or wrong; the message names the field."""


@dataclass(frozen=True)
class AgentConfig:
    """`source` is the weights image; `node_root`/`key` the node's copy (NodeMemory); `target`
    the pod's copy (fill); `state_dir` a folder that outlives the container but not the pod."""

    model: str
    model_uid: str
    revision: str
    medium: Medium
    source: Path
    node_root: Path = Path(protocol.NODE_ROOT_MOUNT)
    key: str = ""
    target: Path = Path(protocol.FILL_MOUNT)
    state_dir: Path = Path(protocol.AGENT_STATE_MOUNT)
    port: int = AGENT_PORT
    scrub_seconds: float = 30.0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> AgentConfig:
        text = environment.get(AGENT_CONFIG_VARIABLE)
        if text is None:
            raise ConfigError(f"environment variable {AGENT_CONFIG_VARIABLE} is not set")
        try:
            document = json.loads(text)
        except ValueError as error:
            raise ConfigError(f"{AGENT_CONFIG_VARIABLE} is not JSON: {error}") from error
        if not isinstance(document, dict):
            raise ConfigError(f"{AGENT_CONFIG_VARIABLE} must be a JSON object")
        return cls.from_document(document)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> AgentConfig:
        """Unknown fields are ignored: a newer operator may run beside an older agent."""
        values: dict[str, Any] = {}
        for field in fields(cls):
            value = document.get(field.name)
            if value is not None:
                values[field.name] = _convert(field.name, value)
        for name in ("model", "model_uid", "revision", "medium", "source"):
            if not values.get(name):
                raise ConfigError(f"{AGENT_CONFIG_VARIABLE}: {name} is missing")
        config = cls(**values)
        if config.medium is Medium.NODE_MEMORY and not _is_plain_name(config.key):
            raise ConfigError(f"{AGENT_CONFIG_VARIABLE}: key must be one plain directory name")
        return config


def _convert(name: str, value: object) -> object:
    try:
        match name:
            case "medium":
                return Medium(str(value))
            case "source" | "node_root" | "target" | "state_dir":
                return Path(str(value))
            case "port":
                return int(str(value))
            case "scrub_seconds":
                return float(str(value))
            case _:
                return str(value)
    except ValueError as error:
        raise ConfigError(f"{AGENT_CONFIG_VARIABLE}: {name}: {error}") from error


def _is_plain_name(key: str) -> bool:
    return bool(key) and not key.startswith(".") and "/" not in key and "\0" not in key

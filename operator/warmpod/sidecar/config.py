"""What the sidecar is told, as one JSON object in its environment."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from warmpod.api.warmup import Warmup
from warmpod.engine import EngineTraits
from warmpod.protocol import PROMPTS_MOUNT, SIDECAR_CONFIG_VARIABLE


class ConfigError(Exception):
    """The configuration cannot be used; the message names the field."""


@dataclass(frozen=True, slots=True)
class SidecarConfig:
    model: str
    revision: str
    base_url: str
    served_name: str
    run_dir: Path
    port: int
    api_key: str | None
    tls_verify: bool
    warmup: Warmup
    # Where the ConfigMaps of spec.warmup.promptsFrom are mounted.
    prompts_dir: Path = Path(PROMPTS_MOUNT)
    engine: EngineTraits = field(default_factory=EngineTraits)
    # The user of the API server that may give orders: the operator's service account.
    caller: str = ""


def read_config(environment: Mapping[str, str]) -> SidecarConfig:
    """Raises ConfigError."""
    try:
        given = json.loads(environment[SIDECAR_CONFIG_VARIABLE])
    except KeyError:
        raise ConfigError(f"environment variable {SIDECAR_CONFIG_VARIABLE} is not set") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"{SIDECAR_CONFIG_VARIABLE} is not JSON: {error}") from error
    try:
        return _config(given, environment)
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{SIDECAR_CONFIG_VARIABLE}: missing or wrong field: {error!r}"
        ) from error


def _config(given: Mapping[str, Any], environment: Mapping[str, str]) -> SidecarConfig:
    key_variable = given["api_key_env"]
    return SidecarConfig(
        model=given["model"],
        revision=given["revision"],
        base_url=given["base_url"].rstrip("/"),
        served_name=given["served_name"],
        run_dir=Path(given["run_dir"]),
        port=int(given["port"]),
        api_key=environment.get(key_variable) if key_variable else None,
        tls_verify=bool(given["tls_verify"]),
        warmup=Warmup.model_validate_json(json.dumps(given["warmup"])),
        engine=_traits(given["engine"]),
        caller=given.get("caller") or "",
    )


def _traits(given: Mapping[str, Any]) -> EngineTraits:
    values = {each.name: given[each.name] for each in fields(EngineTraits)}
    return EngineTraits(**values | {"lora_modules": tuple(values["lora_modules"])})

"""What the sidecar is told, as one JSON object in its environment."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from warmpod.protocol import SIDECAR_CONFIG_VARIABLE


class ConfigError(Exception):
    """The configuration cannot be used; the message names the field."""


@dataclass(frozen=True, slots=True)
class WarmupSettings:
    """`spec.warmup` of the WarmModel. The defaults stand in the resource's schema, not here."""

    stall_seconds: int
    tolerance_percent: int
    max_rounds: int
    canary_period_seconds: int
    on_failure: Literal["Block", "Open"]
    prompt_tokens: tuple[int, ...]
    concurrency: tuple[int, ...]


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
    warmup: WarmupSettings


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
        warmup=_warmup(given["warmup"]),
    )


def _warmup(given: Mapping[str, Any]) -> WarmupSettings:
    if given["onFailure"] not in ("Block", "Open"):
        raise ValueError(f"warmup.onFailure is {given['onFailure']!r}, not Block or Open")
    return WarmupSettings(
        stall_seconds=int(given["stallSeconds"]),
        tolerance_percent=int(given["tolerancePercent"]),
        max_rounds=int(given["maxRounds"]),
        canary_period_seconds=int(given["canaryPeriodSeconds"]),
        on_failure=given["onFailure"],
        prompt_tokens=tuple(int(length) for length in given["promptTokens"]),
        concurrency=tuple(int(count) for count in given["concurrency"]),
    )

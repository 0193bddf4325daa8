"""Engines as the sidecar finds them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from warmpod.api.warmup import Warmup
from warmpod.engine import EngineTraits
from warmpod.sidecar.planning import Plan, Served, TokenCost, candidates, make_plan, waves_for
from warmpod.sidecar.planning.model import Bucket, Endpoint

BASE = {"completion": TokenCost(1.0)}
BOTH = {**BASE, "chat": TokenCost(1.0, 8.0)}
WARMUP = Warmup()


def served(costs: Any = None, *, refuses: tuple[str, ...] = (), **fields: Any) -> Served:
    """An engine that refuses nothing but what is named; `traits` come as a dict."""
    traits = EngineTraits(**fields.pop("traits", {}))
    found = Served(
        **{"model": "tiny", "max_model_len": 32768, "token_ids": (7, 8, 9)} | fields,
        costs=BOTH if costs is None else costs,
        traits=traits,
    )
    names = {bucket.name for bucket in candidates(found, WARMUP)} | {"system-prompt"}
    kept = {name for name in names if not name.startswith(refuses)} if refuses else names
    return replace(found, features=frozenset(kept))


def plan(found: Served, **warmup: Any) -> Plan:
    return make_plan(found, Warmup(**warmup))


def names(made: Plan) -> list[str]:
    return [bucket.name for bucket in made.buckets]


def bucket(made: Plan, name: str) -> Bucket:
    (found,) = [each for each in made.buckets if each.name == name]
    return found


def bodies(made: Plan, name: str) -> list[dict[str, Any]]:
    """Of the wave that is measured."""
    return waves_for(bucket(made, name))[-1]


def at(endpoint: Endpoint, made: Plan) -> list[str]:
    return [each.name for each in made.buckets if each.endpoint == endpoint]

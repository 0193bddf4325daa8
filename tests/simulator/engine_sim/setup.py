"""Everything that a simulated engine was told, in one piece."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine_sim.arguments import Arguments, parse_arguments
from engine_sim.knobs import Knobs, Switches, read_knobs, read_switches
from engine_sim.model import Model, describe


@dataclass(frozen=True)
class Setup:
    """Arguments, knobs, switches, and the model they make."""

    arguments: Arguments
    knobs: Knobs
    switches: Switches
    model: Model


def read_setup(argv: Sequence[str], environment: Mapping[str, str]) -> Setup:
    """Read the arguments after `serve`, and the environment. Raises ValueError and TypeError."""
    arguments = parse_arguments(argv, environment.get("VLLM_API_KEY", ""))
    knobs = read_knobs(environment)
    return Setup(arguments, knobs, read_switches(environment), describe(arguments, knobs))

"""The table of profiles says what the profiles hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit.resources.samples import warm_model
from warmpod.api.profiles import PROFILES
from warmpod.engine import engine_defaults

PAGE = Path(__file__).resolve().parents[3] / "docs" / "fast-start.md"


def column(profile: str) -> dict[str, str]:
    """By the first cell of each row."""
    lines = PAGE.read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("| | `HighThroughput`"))
    heads = [cell.strip(" `") for cell in lines[first].split("|")]
    rows = (line.split("|") for line in lines[first + 2 : lines.index("", first)])
    return {cells[1].strip(" `"): cells[heads.index(profile)].strip() for cells in rows}


@pytest.mark.parametrize("profile", PROFILES)
def test_it_does(profile: str) -> None:
    told = column(profile)
    spec = warm_model(profile=profile).spec
    assert told["spec.standby.replicas"] == str(spec.standby.replicas)
    assert told["spec.standby.state"] == f"`{spec.standby.state}`"
    assert told["spec.compileCache.store"] == f"`{spec.compile_cache.store}`"
    plan = engine_defaults(spec).environment
    assert (told["[start-up plan](#start-options)"] == "yes") is bool(plan)
    for option, *sizes in engine_defaults(spec).arguments:
        if sizes:
            assert told["CUDA graphs"] == f"{len(sizes)} sizes, 1 to {sizes[-1]}"
        elif option != "--performance-mode=throughput":
            assert option in told["batch"]

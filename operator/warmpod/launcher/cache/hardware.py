"""What hardware the container sees, as far as compiled code depends on it."""

from __future__ import annotations

import hashlib
import platform
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from warmpod.launcher.files import text_of
from warmpod.launcher.gpus import gpus
from warmpod.launcher.nvidia import KernelModule, kernel_module

CPUS = Path("/proc/cpuinfo")
_QUERY = ("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
_QUERY_SECONDS = 20.0
LONGEST_NAME = 100


@dataclass(frozen=True)
class Hardware:
    """`cpu` is a hash of the CPU's features, where there is no GPU."""

    gpu: tuple[str, ...] = ()
    driver: str = ""
    cpu: str = ""


def hardware(environment: Mapping[str, str]) -> Hardware:
    """Ask the kernel, else nvidia-smi, which takes a second on a real machine."""
    found = from_kernel(kernel_module(), gpus(environment))
    if not found.gpu:
        found = from_query(_nvidia_smi(environment))
    return found if found.gpu else Hardware(cpu=features(text_of(CPUS), platform.machine()))


def from_kernel(module: KernelModule, given: Iterable[str]) -> Hardware:
    """Some runtimes show all cards of the node, so those that were given by UUID are picked."""
    uuids = set(given)
    picked = {card.model for card in module.cards if card.uuid in uuids}
    names = picked or {card.model for card in module.cards}
    return Hardware(tuple(sorted(map(_clean, names))), module.driver)


def from_query(output: str) -> Hardware:
    """Lines of `name, driver version`; anything else says that there is no GPU."""
    rows = [line.rpartition(",") for line in output.splitlines()]
    found = [(_clean(name), version.strip()) for name, _, version in rows if name]
    names = sorted({name for name, _ in found})
    return Hardware(tuple(names), found[0][1][:LONGEST_NAME] if found else "")


def features(cpus: str, machine: str) -> str:
    """Of the first CPU; they may stand in any order."""
    lines = (line.partition(":") for line in cpus.splitlines())
    flags = next((value for name, _, value in lines if name.strip() in ("flags", "Features")), "")
    text = " ".join([machine, *sorted(flags.split())])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _clean(name: str) -> str:
    return "".join(each for each in name.strip() if each.isprintable())[:LONGEST_NAME]


def _nvidia_smi(environment: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(
            _QUERY,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_QUERY_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace") if done.returncode == 0 else ""

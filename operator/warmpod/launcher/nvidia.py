"""What NVIDIA's kernel module tells: the fastest to read, and there without any program."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from warmpod.launcher.files import text_of

# "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue …", and of the open module
# "… NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build …".
_VERSION = re.compile(r"^NVRM version:.*?\bKernel Module(?: +for +\S+)? +(\d+(?:\.\d+)+)", re.M)
_MODEL = re.compile(r"^Model:\s*(\S.*?)\s*$", re.M)
_UUID = re.compile(r"^GPU UUID:\s*(\S+)\s*$", re.M)


@dataclass(frozen=True)
class Card:
    model: str
    uuid: str


@dataclass(frozen=True)
class KernelModule:
    """Of the node: a container sees all of its cards here, also those that it was not given."""

    driver: str = ""
    cards: tuple[Card, ...] = ()


def kernel_module(root: Path = Path("/")) -> KernelModule:
    """Empty where there is none, or none can be read. `root` is the container's."""
    directory = root / "proc/driver/nvidia"
    cards = sorted(directory.glob("gpus/*/information"))
    return parse(text_of(directory / "version"), map(text_of, cards))


def parse(version: str, cards: Iterable[str]) -> KernelModule:
    """`version` and `cards` as the module's files have them."""
    driver = _VERSION.search(version)
    models = ((_MODEL.search(card), _UUID.search(card)) for card in cards)
    found = tuple(Card(model[1], uuid[1]) for model, uuid in models if model and uuid)
    return KernelModule(driver[1] if driver else "", found)

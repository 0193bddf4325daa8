"""Which GPU, driver and CPU, from what kernel and nvidia-smi say."""

from __future__ import annotations

import pytest

from warmpod.launcher.cache.hardware import Hardware, features, from_kernel, from_query
from warmpod.launcher.nvidia import parse

CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n"
OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build  (dvs)\n"
    "GCC version:  gcc version 12.3.0\n"
)


def card(model: str, uuid: str) -> str:
    return f"Model: \t\t {model}\nIRQ:   \t\t 99\nGPU UUID: \t {uuid}\nVideo BIOS: \t ?\n"


H200, B200 = card("NVIDIA H200", "GPU-a"), card("NVIDIA B200", "GPU-b")


@pytest.mark.parametrize(
    ("version", "cards", "given", "seen"),
    [
        (CLOSED, [H200], [], Hardware(("NVIDIA H200",), "550.54.15")),
        (OPEN, [H200, H200], ["GPU-a"], Hardware(("NVIDIA H200",), "580.82.07")),
        (OPEN, [H200, B200], ["GPU-b"], Hardware(("NVIDIA B200",), "580.82.07")),
        (OPEN, [H200, B200], ["0"], Hardware(("NVIDIA B200", "NVIDIA H200"), "580.82.07")),
        (CLOSED, [], [], Hardware((), "550.54.15")),
        ("", ["Model: ?"], [], Hardware()),
    ],
)
def test_what_the_kernel_says(
    version: str, cards: list[str], given: list[str], seen: Hardware
) -> None:
    assert from_kernel(parse(version, cards), given) == seen


@pytest.mark.parametrize(
    ("output", "seen"),
    [
        ("NVIDIA H200, 550.1\n", Hardware(("NVIDIA H200",), "550.1")),
        ("B, 1\nA, 1\nA, 1\n", Hardware(("A", "B"), "1")),
        ("Odd, name\x1b, 2\n", Hardware(("Odd, name",), "2")),
        ("", Hardware()),
        ("No devices were found\n", Hardware()),
    ],
)
def test_what_nvidia_smi_says(output: str, seen: Hardware) -> None:
    assert from_query(output) == seen


def test_features_of_the_cpu_may_stand_in_any_order() -> None:
    one = features("processor : 0\nflags\t\t: avx2 amx\nflags : x\n", "x86_64")
    assert one == features("flags\t: amx avx2\n", "x86_64")
    assert one != features("Features\t: amx avx2\n", "aarch64")
    assert one != features("flags\t: amx\n", "x86_64")

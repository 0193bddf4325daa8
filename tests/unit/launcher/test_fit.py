"""Driver, GPU, CUDA, torch and vLLM: combinations that exist, and what is said of them."""

from __future__ import annotations

import pytest

from warmpod import reasons
from warmpod.launcher.fit.rules import Misfit, Parts, capability, misfits, numbers

H200 = ("NVIDIA H200",)


def parts(
    driver: str = "580.159.03",
    cuda: str = "13.0",
    gpus: tuple[str, ...] = H200,
    libcuda: str = "as the driver",
    machine: str = "x86_64",
    torch: str = "2.11.0",
    vllm: str = "0.26.0",
    vllm_torch: str = "2.11.0",
) -> Parts:
    return Parts(
        driver=driver,
        machine=machine,
        gpus=gpus,
        libcuda=driver if libcuda == "as the driver" else libcuda,
        torch=f"{torch}+cu{cuda.replace('.', '')}",
        built_with=f"CUDA {cuda}",
        vllm=vllm,
        vllm_torch=vllm_torch,
    )


# Each of these runs: on the driver that came with its CUDA, on a later one, or by minor version
# compatibility.
FITTING = [
    parts(),
    parts("580.65.06", "13.0"),
    parts("590.44.01", "13.0"),
    parts("580.82.07", "13.2"),
    parts("610.12", "12.4"),
    parts("535.104.05", "12.8"),
    parts("535.216.03", "12.1", ("NVIDIA A100-SXM4-80GB",)),
    parts("525.60.13", "12.9", ("Tesla T4",)),
    parts("550.54.15", "12.4", ("NVIDIA L40S", "NVIDIA L4")),
    parts("470.256.02", "11.8", ("Tesla V100-SXM2-16GB",)),
    parts("570.86.15", "12.8", ("NVIDIA B200",)),
    parts("575.57.08", "12.8", ("NVIDIA B300 SXM6 AC",)),
    parts("570.133.20", "12.8", ("NVIDIA GeForce RTX 5090",)),
    parts("575.57.08", "12.9", ("NVIDIA RTX PRO 6000 Blackwell Server Edition",)),
    parts("580.95.05", "13.0", ("NVIDIA GB10",), machine="aarch64"),
    parts("580.95.05", "13.0", ("NVIDIA GB200",), machine="aarch64"),
    parts("535.183.01", "12.4", ("NVIDIA GH200 480GB",), machine="aarch64"),
    # Jetson Orin: NVIDIA counts the drivers of its modules apart.
    parts("540.4.0", "13.0", (), machine="aarch64"),
    # A GPU that nobody here has heard of, and a CUDA from the future.
    parts("700.10", "13.0", ("NVIDIA R300",)),
    parts("580.65.06", "14.0"),
    # One of the GPUs is too old; it need not be the container's.
    parts("580.65.06", "13.0", ("Tesla V100-PCIE-32GB", "NVIDIA A100 80GB PCIe")),
    parts(torch="2.11.1"),
    parts(vllm="0.26.0+cu130"),
    parts(vllm="0.26.0+cu129", cuda="12.8", driver="550.54.15"),
    # Built against the torch that was there: vLLM's metadata asks for none.
    parts(torch="2.9.0a0+50eac811a6.nv25.09", vllm="0.11.0rc1", vllm_torch=""),
    parts(torch="2.9.0a0", vllm_torch="2.9.0"),
    # No GPU was given: nothing is known of the driver.
    parts(driver="", libcuda="", gpus=()),
    # Without a part there is nothing to compare.
    Parts(),
    Parts(driver="535.104.05", gpus=H200, vllm="0.26.0", vllm_torch="2.11.0"),
    Parts(torch="2.13.0+cpu", built_with="none", vllm="0.32.0+cpu", vllm_torch=""),
    # Other accelerators.
    Parts(torch="2.10.0+rocm7.1", built_with="ROCm 7.1", vllm="0.26.0+rocm710"),
    Parts(torch="2.10.0+xpu", built_with="none", vllm="0.26.0+xpu"),
]


@pytest.mark.parametrize("found", FITTING)
def test_no_false_alarm(found: Parts) -> None:
    assert misfits(found) == []


SURE, PERHAPS = True, False
MISFITS = [
    (parts("550.54.15", "13.0"), "DriverMismatch", SURE, "550.54.15 is older than 580"),
    (parts("575.57.08", "13.0"), "DriverMismatch", SURE, "the first for CUDA 13"),
    (parts("515.105.01", "12.1", ("NVIDIA A10G",)), "DriverMismatch", SURE, "older than 525"),
    (parts("470.256.02", "12.4"), "DriverMismatch", SURE, "was built with CUDA 12.4"),
    (parts("418.226.00", "11.8", ("Tesla T4",)), "DriverMismatch", SURE, "older than 450"),
    # With a package for forward compatibility, which upstream's images have, nothing is sure.
    (parts("535.104.05", "13.0", libcuda="580.65.06"), "DriverMismatch", PERHAPS, "580.65.06"),
    (parts("470.256.02", "12.8", ("Tesla T4",), "570.26"), "DriverMismatch", PERHAPS, "570.26"),
    (parts("550.54.15", "13.0", libcuda=""), "DriverMismatch", PERHAPS, "older than 580"),
    # But GeForce cards do not have it.
    (
        parts("550.54.15", "13.0", ("NVIDIA GeForce RTX 4090",), "580.65.06"),
        "DriverMismatch",
        SURE,
        "does not work on NVIDIA GeForce RTX 4090",
    ),
    (
        parts("580.65.06", "13.0", ("Tesla V100-SXM2-32GB", "Tesla V100-SXM2-32GB")),
        "UnsupportedGpu",
        SURE,
        "only for 7.5 and newer",
    ),
    (parts("570.26", "12.4", ("NVIDIA B200",)), "UnsupportedGpu", PERHAPS, "came with 12.8"),
    (
        parts("570.133.20", "12.6", ("NVIDIA GeForce RTX 5090",)),
        "UnsupportedGpu",
        PERHAPS,
        "(compute capability 12.0)",
    ),
    (parts("535.104.05", "12.4", ("Tesla P100-PCIE-16GB",)), "UnsupportedGpu", PERHAPS, "6.0"),
    (parts(torch="2.10.0"), "EngineImageMismatch", PERHAPS, "built for torch 2.11.0"),
    (parts(torch="2.12.0a0"), "EngineImageMismatch", PERHAPS, "torch is 2.12.0a0+cu130"),
    (parts(vllm="0.26.0+cu129"), "EngineImageMismatch", PERHAPS, "built with CUDA 12, and"),
    (
        Parts(
            driver="580.65.06",
            gpus=H200,
            torch="2.13.0+cpu",
            built_with="none",
            vllm="0.32.0+cpu",
        ),
        "EngineImageMismatch",
        PERHAPS,
        "uses no GPU",
    ),
]


@pytest.mark.parametrize(("found", "reason", "sure", "words"), MISFITS)
def test_misfits(found: Parts, reason: str, sure: bool, words: str) -> None:
    (misfit,) = misfits(found)
    assert misfit == Misfit(reason, misfit.text, sure)
    assert words in misfit.text
    assert reason in reasons.ALL


@pytest.mark.parametrize(
    ("product", "expected"),
    [
        ("NVIDIA A100-SXM4-80GB", (8, 0)),
        ("NVIDIA A10-24Q", (8, 6)),
        ("NVIDIA A10G", (8, 6)),
        ("NVIDIA A2", (8, 6)),
        ("NVIDIA RTX A6000", (8, 6)),
        ("NVIDIA RTX 5000 Ada Generation", (8, 9)),
        ("Quadro RTX 5000", (7, 5)),
        ("NVIDIA GeForce RTX 4090", (8, 9)),
        ("NVIDIA L4", (8, 9)),
        ("NVIDIA H100 80GB HBM3", (9, 0)),
        ("NVIDIA H20-3e", (9, 0)),
        ("NVIDIA GB200", (10, 0)),
        ("NVIDIA GB300", (10, 3)),
        ("NVIDIA TITAN V", (7, 0)),
        ("NVIDIA TITAN RTX", (7, 5)),
        ("Tesla P40", (6, 1)),
        ("Quadro T1000", None),
        ("NVIDIA Graphics Device", None),
    ],
)
def test_capability(product: str, expected: tuple[int, int] | None) -> None:
    assert capability(product) == expected


@pytest.mark.parametrize(
    ("version", "expected"),
    [("580.159.03", (580, 159, 3)), ("CUDA 13.0", (13, 0)), ("2.9.0a0+x", (2, 9, 0)), ("", ())],
)
def test_numbers(version: str, expected: tuple[int, ...]) -> None:
    assert numbers(version) == expected

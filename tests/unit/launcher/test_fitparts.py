"""What an engine stands on, as the files of a container tell it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from warmpod.launcher.fit.parts import read_parts

# Of torch 2.11.0 from PyPI.
TORCH = """from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'xpu']
__version__ = '2.11.0+cu130'
debug = False
cuda: Optional[str] = '13.0'
git_version = '449b1768410104d3ed79d3bcfe4ba1d65c7f22c0'
hip: Optional[str] = None
xpu: Optional[str] = None
"""
VLLM = """Metadata-Version: 2.4
Name: vllm
Version: 0.26.0
Requires-Dist: numpy
Requires-Dist: torch==2.11.0
Requires-Dist: torchaudio==2.11.0
Requires-Dist: flashinfer-python==0.6.14

The version of torch==1.0 is no requirement here.
"""
OPEN = """NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.03  Release Build  (b@h)
GCC version:  gcc version 13.3.0
"""
GPU = """Model: \t\t NVIDIA H100 80GB HBM3
IRQ:   \t\t 0
GPU UUID: \t GPU-6a7c1b8e-0000-0000-0000-000000000000
Bus Location: \t 0000:0f:00.0
"""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the interpreter finds torch and vLLM."""
    directory = tmp_path / "dist-packages"
    write(directory / "torch/version.py", TORCH)
    write(directory / "vllm-0.26.0.dist-info/METADATA", VLLM)
    monkeypatch.setattr(sys, "path", ["", str(directory)])
    return directory


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A container with a GPU."""
    directory = tmp_path / "root"
    write(directory / "dev/nvidiactl", "")
    write(directory / "proc/driver/nvidia/version", OPEN)
    write(directory / "proc/driver/nvidia/gpus/0000:0f:00.0/information", GPU)
    write(directory / "usr/lib/x86_64-linux-gnu/libcuda.so.580.159.03", "")
    write(directory / "usr/lib/x86_64-linux-gnu/libcuda.so.1", "")
    return directory


def test_all_of_it(packages: Path, root: Path) -> None:
    parts = read_parts({}, root)
    assert (parts.torch, parts.built_with) == ("2.11.0+cu130", "CUDA 13.0")
    assert (parts.vllm, parts.vllm_torch) == ("0.26.0", "2.11.0")
    assert (parts.driver, parts.libcuda) == ("580.159.03", "580.159.03")
    assert parts.gpus == ("NVIDIA H100 80GB HBM3",)


def test_a_container_without_gpu_on_a_node_with_some(packages: Path, root: Path) -> None:
    (root / "dev/nvidiactl").unlink()
    parts = read_parts({}, root)
    assert (parts.driver, parts.gpus, parts.libcuda) == ("", (), "")
    assert parts.vllm == "0.26.0"


@pytest.mark.parametrize(
    ("place", "environment"),
    [
        ("usr/local/cuda-13.1/compat", {}),
        ("usr/local/cuda/compat/lib.real", {}),
        ("opt/compat", {"LD_LIBRARY_PATH": "/usr/lib:/opt/compat"}),
        ("opt/compat", {"VLLM_CUDA_COMPATIBILITY_PATH": "/opt/compat"}),
    ],
)
def test_a_package_for_forward_compatibility(
    packages: Path, root: Path, place: str, environment: dict[str, str]
) -> None:
    write(root / place / "libcuda.so.590.44.01", "")
    assert read_parts(environment, root).libcuda == "590.44.01"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("cuda: Optional[str] = '13.0'", "cuda = '12.4'", "CUDA 12.4"),
        ("cuda: Optional[str] = '13.0'", "cuda: str | None = None", "none"),
        ("cuda: Optional[str] = '13.0'", 'cuda: Optional[str] = "12.8"', "CUDA 12.8"),
        (
            "cuda: Optional[str] = '13.0'\n",
            "cuda: Optional[str] = None\nhip: Optional[str] = '7.1.25424'\n",
            "ROCm 7.1.25424",
        ),
        ("cuda: Optional[str] = '13.0'\n", "", ""),
    ],
)
def test_what_torch_was_built_with(
    packages: Path, root: Path, old: str, new: str, expected: str
) -> None:
    text = TORCH if "hip" not in new else TORCH.replace("hip: Optional[str] = None\n", "")
    write(packages / "torch/version.py", text.replace(old, new))
    assert read_parts({}, root).built_with == expected


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ("torch (==2.4.0)", "2.4.0"),
        ("torch==2.11.0; platform_machine == 'x86_64'", "2.11.0"),
        ("torch>=2.4", ""),
        ("torchvision==0.26.0", ""),
        ("torch==2.11.0\nRequires-Dist: torch==2.10.0; platform_machine == 's390x'", ""),
    ],
)
def test_the_torch_that_vllm_asks_for(
    packages: Path, root: Path, requirement: str, expected: str
) -> None:
    text = VLLM.replace("torch==2.11.0\nRequires-Dist: torchaudio==2.11.0", requirement)
    write(packages / "vllm-0.26.0.dist-info/METADATA", text)
    assert read_parts({}, root).vllm_torch == expected


def test_a_virtual_environment_of_its_own(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [])
    venv = root / "opt/venv"
    write(venv / "lib/python3.12/site-packages/torch/version.py", TORCH)
    write(venv / "lib/python3.12/site-packages/vllm-0.26.0.dist-info/METADATA", VLLM)
    command = tmp_path / "bin/vllm"
    write(command, f"#!{venv}/bin/python3\nimport sys\n")
    write(venv / "bin/python3", "")
    for program in (command, venv / "bin/python3"):
        program.chmod(0o755)
    parts = read_parts({"PATH": str(command.parent)}, root)
    assert (parts.torch, parts.vllm) == ("2.11.0+cu130", "0.26.0")


def test_no_vllm(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    parts = read_parts({"PATH": ""}, root)
    assert (parts.torch, parts.built_with, parts.vllm) == ("", "", "")

"""Reads what an engine stands on, out of files alone: nothing is imported, and no GPU is opened."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from warmpod.launcher.files import text_of
from warmpod.launcher.fit.rules import Parts, numbers
from warmpod.launcher.invocation.vllm_command import NoForkError, first_line, interpreter_of
from warmpod.launcher.nvidia import kernel_module

# Of driver packages, of the toolkit for containers, and of the compatibility packages in images.
_LIBRARY_DIRECTORIES = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/local/nvidia/lib64",
    "usr/local/cuda*/compat/**",
    "opt/conda/cuda-compat",
)
_LIBRARY_VARIABLES = ("LD_LIBRARY_PATH", "VLLM_CUDA_COMPATIBILITY_PATH")
# Of torch/version.py: `cuda: Optional[str] = '13.0'`, with or without the annotation.
_TORCH = re.compile(
    r"^(__version__|cuda|hip)\b[^=\n]*=\s*(?:['\"]([^'\"\n]*)['\"]|None)", re.MULTILINE
)
_PIN = re.compile(r"^Requires-Dist:\s*torch\s*\(?==\s*([^\s;,)]+)", re.MULTILINE | re.IGNORECASE)
_VERSION = re.compile(r"^Version:\s*(\S+)", re.MULTILINE | re.IGNORECASE)


def read_parts(environment: Mapping[str, str], root: Path = Path("/")) -> Parts:
    """Read them all. `root` is the container's, for tests."""
    packages = list(_package_directories(environment))
    torch = _torch(packages)
    vllm = _vllm_metadata(packages)
    module = kernel_module(root) if _gpus_given(root) else None
    return Parts(
        driver=module.driver if module else "",
        machine=os.uname().machine,
        gpus=tuple(card.model for card in module.cards) if module else (),
        libcuda=_libcuda(environment, root) if module else "",
        torch=torch.get("__version__") or "",
        built_with=_built_with(torch),
        vllm=_found(_VERSION, vllm),
        vllm_torch=_only(_PIN, vllm),
    )


def _gpus_given(root: Path) -> bool:
    """/proc shows driver and GPUs of the node to every container; this only where it has some."""
    return (root / "dev/nvidiactl").exists()


def _libcuda(environment: Mapping[str, str], root: Path) -> str:
    """The newest, which need not be the one that is loaded."""
    directories = [path for pattern in _LIBRARY_DIRECTORIES for path in root.glob(pattern)]
    for variable in _LIBRARY_VARIABLES:
        named = environment.get(variable, "").split(":")
        directories += [root / name.lstrip("/") for name in named if name.startswith("/")]
    found = (path.name for directory in directories for path in directory.glob("libcuda.so.*.*"))
    versions = [name.removeprefix("libcuda.so.") for name in found]
    return max(versions, key=numbers, default="")


def _package_directories(environment: Mapping[str, str]) -> Iterator[Path]:
    """Where the engine's Python looks: this one's path, and that of the vllm command if it has
    another (a virtual environment)."""
    yield from (Path(entry) for entry in sys.path if entry)
    path = environment.get("PATH", os.defpath)
    script = shutil.which("vllm", path=path)
    interpreter = _interpreter(Path(script), path) if script else None
    if interpreter:
        yield from Path(interpreter).parent.parent.glob("lib/python3*/site-packages")


def _interpreter(script: Path, path: str) -> str | None:
    try:
        return interpreter_of(first_line(script), path, str(script))[0]
    except (OSError, NoForkError):
        return None


def _torch(packages: Iterable[Path]) -> dict[str, str]:
    """The constants of torch/version.py; None is an empty text, what is not there is missing."""
    for directory in packages:
        text = text_of(directory / "torch/version.py")
        if text:
            return {name: value or "" for name, value in _TORCH.findall(text)}
    return {}


def _built_with(torch: Mapping[str, str]) -> str:
    if torch.get("cuda"):
        return f"CUDA {torch['cuda']}"
    if torch.get("hip"):
        return f"ROCm {torch['hip']}"
    return "none" if "cuda" in torch else ""


def _vllm_metadata(packages: Iterable[Path]) -> str:
    for directory in packages:
        for metadata in sorted(directory.glob("vllm-*.dist-info/METADATA")):
            return text_of(metadata)
    return ""


def _found(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""


def _only(pattern: re.Pattern[str], text: str) -> str:
    """Empty also if several are found that differ: they are for different machines."""
    found = set(pattern.findall(text))
    return found.pop() if len(found) == 1 else ""

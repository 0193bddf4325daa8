"""Whether driver, GPU, CUDA, torch and vLLM fit together. Pure.

An engine that does not fit its node says so after half a minute of imports, or in words that hide
the cause. What can be known from version numbers alone is known at once. It never keeps an engine
from starting: what is sure is told as the boot's failure, and the engine's own words follow.

Sources: docs.nvidia.com/deploy/cuda-compatibility (minor version and forward compatibility),
the CUDA release notes (architectures that CUDA 13 dropped), vLLM's installation guide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Version = tuple[int, ...]


@dataclass(frozen=True)
class Parts:
    """What an engine stands on. What could not be read is empty."""

    driver: str = ""
    """Of the kernel module, such as 580.159.03."""
    machine: str = ""
    gpus: tuple[str, ...] = ()
    """Product names of all GPUs of the node, the container's among them."""
    libcuda: str = ""
    """The newest user mode driver in the container. Newer than `driver`: it comes from a package
    for forward compatibility. Empty: it lies where nobody looked, maybe beside such a package."""
    torch: str = ""
    """With its label, such as 2.11.0+cu130."""
    built_with: str = ""
    """What torch was built with: `CUDA 13.0`, `ROCm 7.1`, or `none`."""
    vllm: str = ""
    """With its label, where it has one."""
    vllm_torch: str = ""
    """The torch that vLLM's metadata asks for, such as 2.11.0."""

    @property
    def cuda(self) -> Version:
        """The version of CUDA that torch was built with; empty for every other torch."""
        return numbers(self.built_with) if self.built_with.startswith("CUDA") else ()


@dataclass(frozen=True)
class Misfit:
    """Two parts that do not go together. Not `sure`: it may work all the same."""

    reason: str
    text: str
    sure: bool


# From this branch on a driver runs what any minor version of a CUDA release was built for.
LEAST_DRIVER = {11: 450, 12: 525, 13: 580}
# Jetson modules have drivers of their own; these do not follow the table.
_OF_JETSON = ("aarch64", 540)
# The release that first made code for GPUs of a generation. Older code runs there only if it
# contains PTX, which the driver compiles.
FIRST_CUDA: dict[int, Version] = {8: (11, 0), 9: (11, 8), 10: (12, 8), 11: (13, 0), 12: (12, 8)}
# CUDA 13 compiles for nothing older; what vLLM's own kernels are made for.
LEAST_CAPABILITY: dict[int, Version] = {13: (7, 5)}
LEAST_CAPABILITY_OF_VLLM: Version = (7, 0)
# NVIDIA supports forward compatibility on data center GPUs and some RTX cards only.
_FOR_GAMES = re.compile(r"\b(GeForce|TITAN)\b")

# Names of products, as the driver writes them; the first that is found counts.
_CAPABILITIES: tuple[tuple[str, Version], ...] = (
    (r"RTX \d000 Ada", (8, 9)),
    (r"RTX PRO \d+ Blackwell|GeForce RTX 50\d0", (12, 0)),
    (r"GB10", (12, 1)),
    (r"GB300|B300", (10, 3)),
    (r"GB200|B200|B100", (10, 0)),
    (r"GH200|H200|H100|H800|H20", (9, 0)),
    (r"L40S|L40|L20|L4|L2|GeForce RTX 40\d0", (8, 9)),
    (r"A10G?|A10M|A16|A2|A40|RTX A\d000|GeForce RTX 30\d0", (8, 6)),
    (r"A100|A800|A30", (8, 0)),
    (r"T4G?|Quadro RTX \d000|GeForce RTX 20\d0|GeForce GTX 16\d0|TITAN RTX", (7, 5)),
    (r"V100|V100S|TITAN V|GV100", (7, 0)),
    (r"P40|P4|P6|GeForce GTX 10\d0|TITAN Xp", (6, 1)),
    (r"P100", (6, 0)),
)


def misfits(parts: Parts) -> list[Misfit]:
    """What does not go together; empty if all fits, or if too little is known."""
    rules: tuple[Callable[[Parts], Iterator[Misfit]], ...] = (
        _driver_for_cuda,
        _gpu_for_cuda,
        _torch_for_gpu,
        _torch_for_vllm,
        _cuda_for_vllm,
    )
    return [misfit for rule in rules for misfit in rule(parts)]


def numbers(version: str) -> Version:
    """Of the first version in a text: `CUDA 13.0` is (13, 0), and 2.9.0a0+x is (2, 9, 0)."""
    found = re.search(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def label(version: str) -> str:
    """What follows the plus sign: `cu130`, `cpu`; empty without one."""
    return version.partition("+")[2]


def capability(product: str) -> Version | None:
    """The compute capability of a GPU by its name; None for one that is not known here."""
    for names, found in _CAPABILITIES:
        if re.search(rf"\b(?:{names})\b", product):
            return found
    return None


def _driver_for_cuda(parts: Parts) -> Iterator[Misfit]:
    least = LEAST_DRIVER.get(parts.cuda[0]) if parts.cuda else None
    driver = numbers(parts.driver)
    if least is None or not driver or driver[0] >= least:
        return
    if (parts.machine, driver[0]) == _OF_JETSON:
        return
    text = (
        f"the node's driver {parts.driver} is older than {least}, the first for "
        f"CUDA {parts.cuda[0]}, and torch {parts.torch} was built with {parts.built_with}"
    )
    if not parts.libcuda:
        yield Misfit("DriverMismatch", text, sure=False)
        return
    if numbers(parts.libcuda) <= driver:
        yield Misfit("DriverMismatch", text, sure=True)
        return
    package = f"the container's package for forward compatibility ({parts.libcuda})"
    if parts.gpus and all(_FOR_GAMES.search(gpu) for gpu in parts.gpus):
        text += f"; {package} does not work on {parts.gpus[0]}"
        yield Misfit("DriverMismatch", text, sure=True)
        return
    yield Misfit("DriverMismatch", f"{text}; it depends on {package}", sure=False)


def _gpu_for_cuda(parts: Parts) -> Iterator[Misfit]:
    """Told only if it holds of each GPU of the node: which are the container's is not known."""
    found = [(gpu, capability(gpu)) for gpu in parts.gpus]
    verdicts = [_of_gpu(gpu, known, parts) for gpu, known in found if known]
    told = [verdict for verdict in verdicts if verdict]
    if told and len(told) == len(found):
        yield Misfit("UnsupportedGpu", told[0].text, all(verdict.sure for verdict in told))


def _of_gpu(gpu: str, known: Version, parts: Parts) -> Misfit | None:
    if not parts.cuda:
        return None
    name = f"{gpu} (compute capability {_dotted(known)})"
    least = LEAST_CAPABILITY.get(parts.cuda[0], ())
    if known < least:
        text = f"CUDA {parts.cuda[0]}, which torch {parts.torch} was built with, has no code for "
        return Misfit("UnsupportedGpu", f"{text}{name}, only for {_dotted(least)} and newer", True)
    if known < LEAST_CAPABILITY_OF_VLLM:
        text = f"vLLM is made for compute capability {_dotted(LEAST_CAPABILITY_OF_VLLM)} and newer"
        return Misfit("UnsupportedGpu", f"{text}, and the node has {name}", False)
    first = FIRST_CUDA.get(known[0], ())
    if parts.cuda < first:
        text = f"torch {parts.torch} was built with {parts.built_with}, before there was code for "
        return Misfit("UnsupportedGpu", f"{text}{name}: that came with {_dotted(first)}", False)
    return None


def _torch_for_gpu(parts: Parts) -> Iterator[Misfit]:
    """Both parts of an image for the CPU fit, but hardly on purpose on a GPU."""
    if parts.gpus and parts.built_with == "none":
        text = f"torch {parts.torch} was built without CUDA, so the engine uses no GPU"
        yield Misfit("EngineImageMismatch", text, sure=False)


def _torch_for_vllm(parts: Parts) -> Iterator[Misfit]:
    """Patch releases of torch keep its binary interface, minor ones need not. Not sure: of the
    libraries of vLLM ever more use only the stable part of that interface."""
    wanted, found = numbers(parts.vllm_torch)[:2], numbers(parts.torch)[:2]
    if wanted and found and wanted != found:
        text = f"vLLM {parts.vllm} was built for torch {parts.vllm_torch}, and torch is"
        yield Misfit("EngineImageMismatch", f"{text} {parts.torch}", sure=False)


def _cuda_for_vllm(parts: Parts) -> Iterator[Misfit]:
    """vLLM's label names its CUDA where that is not the usual one of its release."""
    wanted = re.fullmatch(r"cu(\d+)\d", label(parts.vllm))
    if wanted and parts.cuda and int(wanted[1]) != parts.cuda[0]:
        text = f"vLLM {parts.vllm} was built with CUDA {wanted[1]}, and torch {parts.torch} with"
        yield Misfit("EngineImageMismatch", f"{text} {parts.built_with}", sure=False)


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))

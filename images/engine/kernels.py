"""Installs the kernels that FlashInfer would otherwise download or compile when an engine starts.

That takes minutes of nvcc in each new pod, of which vLLM's log says nothing. vLLM 0.32 and newer
have a command for it; for older ones the same two packages are installed.
"""

import argparse
import importlib.util
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version

CUBINS, COMPILED = "flashinfer-cubin", "flashinfer-jit-cache"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--index", required=True, help="where FlashInfer's packages are")
    index = parser.parse_args().index
    flashinfer = public_version("flashinfer-python")
    cuda = cuda_of_torch() if flashinfer else ""
    if not cuda:
        print("No kernels: the image has no FlashInfer, or torch was built without CUDA.")
        return 0
    if public_version(CUBINS) == public_version(COMPILED) == flashinfer:
        print(f"The kernels of FlashInfer {flashinfer} are there.")
        return 0
    for command in commands(flashinfer, cuda, index):
        print(*command, flush=True)
        subprocess.run(command, check=True)
    return 0


def commands(flashinfer: str, cuda: str, index: str) -> list[list[str]]:
    """What installs the kernels."""
    if importlib.util.find_spec("vllm.entrypoints.cli.download_kernels"):
        return [["vllm", "download-kernels"]]
    # The container is the environment, whatever Debian's Python says about others.
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-compile", "--no-cache-dir"]
    pip += ["--break-system-packages", "--root-user-action=ignore"]
    compiled_for = f"{index}/cu{cuda.replace('.', '')}"
    return [
        [*pip, f"{CUBINS}=={flashinfer}"],
        [*pip, f"{COMPILED}=={flashinfer}", f"--index-url={compiled_for}"],
    ]


def public_version(package: str) -> str:
    """Without its label; empty if the package is not installed."""
    try:
        return version(package).partition("+")[0]
    except PackageNotFoundError:
        return ""


def cuda_of_torch() -> str:
    """The version that torch was built with; empty for a torch without CUDA."""
    import torch

    return torch.version.cuda or ""


if __name__ == "__main__":
    sys.exit(main())

"""Places on the machine with the GPU, and what programs there find in their environment."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
ROOT = Path(os.environ.get("WARMPOD_GPU_ROOT", "/var/lib/warmpod-gpu"))

STORE = ROOT / "pieces"
STEPS = ROOT / "steps"  # what each step did: NAME.json and NAME.log
CACHE = ROOT / "cache"  # as ~/.cache is where the cluster was built
PROGRAMS = ROOT / "programs"  # a root file system of Debian packages
WRAPPERS = ROOT / "bin"
PACKAGES = ROOT / "packages"  # of Python, for this harness
WHEELS = ROOT / "wheels"
ENGINE = ROOT / "engine"  # what the engine's pods see as /engine
MODELS = ROOT / "models"

CLUSTER = TREE / "hack" / "cluster" / "cluster"
KUBECONFIG = Path("/var/lib/warmpod-cluster/config/admin.kubeconfig")
CLUSTER_LOGS = Path("/var/lib/warmpod-cluster/logs")

# Programs of the cluster that such machines may lack.
WRAPPED = ("ip", "nft", "runc", "openssl")
_FOLDERS = ("usr/sbin", "usr/bin", "sbin", "bin")
_LIBRARIES = ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")


def environment() -> dict[str, str]:
    """For all that runs here: the harness, the cluster and its tools."""
    # Packages of the engine last: they have what the cluster's client needs of compiled ones.
    python_path = [TREE / "operator", TREE / "hack", TREE / "tests", PACKAGES, ENGINE / "site"]
    return os.environ | {
        "PATH": f"{WRAPPERS}:{CACHE}/warmpod/bin:{os.environ['PATH']}",
        "PYTHONPATH": ":".join(map(str, python_path)),
        "PYTHONUNBUFFERED": "1",
        "XDG_CACHE_HOME": str(CACHE),
        "KUBECONFIG": str(KUBECONFIG),
        "WARMPOD_CLUSTER_WITHOUT": "kwok metrics-server",
    }


def python(*arguments: str | Path) -> list[str]:
    return [sys.executable, *map(str, arguments)]


def write_wrappers() -> list[str]:
    """Makes what the machine lacks callable by name; gives those names.

    The programs run with the libraries that they came with.
    """
    WRAPPERS.mkdir(parents=True, exist_ok=True)
    lacking = [name for name in WRAPPED if not shutil.which(name)]
    for name in lacking:
        path = WRAPPERS / name
        path.write_text(_wrapper(_program(name)))
        path.chmod(0o755)
    return lacking


def _program(name: str) -> Path:
    """Links are passed over: those in the packages lead out of them."""
    for folder in _FOLDERS:
        path = PROGRAMS / folder / name
        if path.is_file() and not path.is_symlink():
            return path
    raise FileNotFoundError(f"{name} is neither on PATH nor below {PROGRAMS}")


def _wrapper(program: Path) -> str:
    libraries = ":".join(str(PROGRAMS / folder) for folder in _LIBRARIES)
    variables = f"LD_LIBRARY_PATH={libraries} OPENSSL_CONF={PROGRAMS}/etc/ssl/openssl.cnf"
    return f'#!/bin/sh\nexport {variables}\nexec {program} "$@"\n'

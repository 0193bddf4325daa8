"""Places and names that the developer tools share."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "warmpod"
BIN = CACHE / "bin"
CLUSTER = ROOT / "hack" / "cluster" / "cluster"
LOCAL_KUBECONFIG = Path("/var/lib/warmpod-cluster/config/admin.kubeconfig")

LOCAL_REGISTRY = "127.0.0.1:5000/warmpod"
LOCAL_REGISTRY_BLOBS = CACHE / "registry" / "sha256"


def registry() -> str:
    """Where images are pushed to and pulled from, without a slash at the end."""
    return os.environ.get("REGISTRY", LOCAL_REGISTRY).rstrip("/")


def kubeconfig() -> Path:
    """The cluster in use: the user's own (KUBECONFIG), else the local one."""
    return Path(os.environ.get("KUBECONFIG", LOCAL_KUBECONFIG))


def is_local_cluster() -> bool:
    return kubeconfig() == LOCAL_KUBECONFIG


def program(name: str) -> str:
    """The program built for the local cluster, else the one on PATH."""
    built = BIN / name
    return str(built) if built.exists() else name


def environment() -> dict[str, str]:
    """For programs that talk to the cluster: no proxy gets their traffic."""
    return {**os.environ, "KUBECONFIG": str(kubeconfig())}

"""Renders the install with the programs of the local cluster, and reads what comes out."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "charts" / "warmpod"
CACHED_PROGRAMS = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "warmpod/bin"

# (kind, namespace or "", name) → object
Objects = dict[tuple[str, str, str], dict[str, Any]]


def program(name: str) -> str:
    """The local cluster's program, or else the user's own; without any, the test is skipped."""
    cached = CACHED_PROGRAMS / name
    found = str(cached) if cached.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is needed; `make cluster` builds it into {CACHED_PROGRAMS}")
    return found


def kustomize(folder: Path) -> Objects:
    return by_name(_output([program("kubectl"), "kustomize", str(folder)]))


def helm_template(*options: str, namespace: str = "warmpod-system") -> Objects:
    command = [program("helm"), "template", "warmpod", str(CHART), "--namespace", namespace]
    return by_name(_output([*command, *options]))


def by_name(text: str) -> Objects:
    objects: Objects = {}
    for item in yaml.safe_load_all(text):
        if item is None:
            continue
        metadata = item["metadata"]
        key = (item["kind"], metadata.get("namespace", ""), metadata["name"])
        assert key not in objects, f"rendered twice: {key}"
        objects[key] = item
    return objects


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stderr}"
    return done.stdout

"""kubectl for the cluster in use."""

import json
import os
from pathlib import Path
from typing import Any

from devtools import places
from devtools.steps import run

JsonObject = dict[str, Any]


def kubectl(*arguments: str | Path, standard_input: str | None = None) -> str:
    return run(
        places.program("kubectl"),
        *arguments,
        env=places.environment(),
        standard_input=standard_input,
    )


def get(kind: str, namespace: str, name: str = "", selector: str = "") -> JsonObject:
    """One object, or a list of objects; an empty one if it does not exist."""
    words = ["get", kind, "--namespace", namespace, "--output=json", "--ignore-not-found"]
    words += [name] if name else []
    words += ["--selector", selector] if selector else []
    output = kubectl(*words)
    document: JsonObject = json.loads(output) if output else {}
    return document


def apply_kustomization(directory: Path) -> None:
    """Takes over fields that a test or a user has changed by hand."""
    kubectl("apply", "--server-side", "--force-conflicts", "--kustomize", directory)


def with_registry(manifest: str) -> str:
    """The tree's manifests name the local registry."""
    return manifest.replace(f"{places.LOCAL_REGISTRY}/", f"{places.registry()}/")


def relative(target: Path, start: Path) -> str:
    """kustomize takes other directories by relative paths only."""
    return os.path.relpath(target.resolve(), start.resolve())

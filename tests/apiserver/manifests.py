"""What `manifests/` renders to, and how it gets into the cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import yaml

from support.api import JsonObject

ROOT = Path(__file__).resolve().parents[2]

Kubectl = Callable[..., str]


def kustomize(kubectl: Kubectl, folder: Path) -> list[JsonObject]:
    return list(yaml.safe_load_all(kubectl("kustomize", str(folder))))


def kustomize_into(
    kubectl: Kubectl, folder: Path, namespace: str, overlay: Path
) -> list[JsonObject]:
    """Renders `folder` for another namespace, by an overlay as a user would write it."""
    body = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": namespace,
        "resources": [os.path.relpath(folder, overlay)],  # kustomize refuses absolute paths
    }
    (overlay / "kustomization.yaml").write_text(yaml.dump(body))
    return kustomize(kubectl, overlay)


def apply(kubectl: Kubectl, objects: list[JsonObject]) -> None:
    text = yaml.safe_dump_all(objects)
    kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", stdin=text)

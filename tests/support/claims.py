"""Volumes of the local node behind PersistentVolumeClaims."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.api import Api
from support.waiting import wait_until

ROOM: dict[str, Any] = {"storageClassName": "", "accessModes": ["ReadWriteMany"]}


@contextmanager
def claim(api: Api, name: str, namespace: str, directory: Path) -> Iterator[str]:
    """A bound claim of a directory of this machine; gives its name."""
    volume = f"{namespace}-{name}"
    api.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": ROOM
            | {
                "capacity": {"storage": "1Gi"},
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": str(directory)},
                "claimRef": {"name": name, "namespace": namespace},
            },
        }
    )
    try:
        api.create(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name, "namespace": namespace},
                "spec": ROOM
                | {"volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}},
            }
        )
        wait_until(
            f"claim {name} is bound",
            lambda: (
                api.get("PersistentVolumeClaim", name, namespace)["status"].get("phase") == "Bound"
            ),
            timeout_s=60,
        )
        yield name
    finally:
        api.delete("PersistentVolume", volume)

"""What the agent looks a source's path up in again: the directory that the path begins in.

A container keeps the directory that it was started with; see warmpod.agent.sources.lookup.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from warmpod.protocol import LOOKUP_MOUNT
from warmpod.resources.rendering import mount
from warmpod.resources.weight_sets import WeightSet

#: Never mounted for a look at one name in them: a mount has all that is mounted below it, and would
#: keep the volumes and root file systems of other pods busy.
_CROWDED = ("/", "/dev", "/media", "/proc", "/run", "/sys", "/var", "/var/lib", "/var/run")


@dataclass(frozen=True)
class Lookup:
    """`place`: the directory of the node that is mounted; None where it is the claim's root."""

    mount_path: str
    path: str
    place: str | None

    def document(self) -> dict[str, str]:
        """In the agent's settings."""
        return {"root": self.mount_path, "path": self.path, "place": self.place or ""}


def of(item: WeightSet) -> Lookup | None:
    """None where nothing else can come to lie at the path, or where nobody may look."""
    claim, node = item.source.persistent_volume_claim, item.source.node_path
    where = f"{LOOKUP_MOUNT}/{item.name}"
    if claim is not None and claim.path:
        return Lookup(where, claim.path.rstrip("/"), None)
    if node is not None:
        path = PurePosixPath(node.path)
        if str(path.parent) not in _CROWDED:
            return Lookup(where, path.name, str(path.parent))
    return None


def volumes(item: WeightSet, name: str) -> list[dict[str, Any]]:
    """A claim's volume is there already. The type is what the API server would put there: whether
    the directory exists is checked by the volume of the files."""
    lookup = of(item)
    if lookup is None or lookup.place is None:
        return []
    return [{"name": name, "hostPath": {"path": lookup.place, "type": ""}}]


def mounts(item: WeightSet, name: str, files: str) -> list[dict[str, Any]]:
    """`files`: the name of the volume that holds the files."""
    lookup = of(item)
    if lookup is None:
        return []
    volume = files if lookup.place is None else name
    return [mount(volume, lookup.mount_path, read_only=True)]

"""What the nodes mean for one WarmModel: the part of a reconcile's input that is about nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from warmpod.controller.nodes.preflight import Refusal


@dataclass(frozen=True)
class NodesSeen:
    """Pods are given by uid."""

    limit: int
    """Nodes that may pull from one registry at a time."""
    eligible: frozenset[str] = frozenset()
    """Names of the nodes on which an engine could land."""
    unfit: Mapping[str, int] = field(default_factory=dict)
    """Why nodes are not eligible, with how many; only where none is."""
    returning: bool = False
    """Whether one of those is merely cordoned or not ready."""
    turn: frozenset[str] = frozenset()
    """Prefetch pods that may go to their nodes now."""
    waiting: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Prefetch pods whose turn will come, with the registries that they wait for."""
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    """Prefetch pods that do not fit onto their nodes."""
    removed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Prefetch pods whose images somebody took from the node, with these images."""

"""Images as a node lists them in `status.images`.

The kubelet lists the largest images, at most 50 (its nodeStatusMaxImages), each with at most five
names. So an image that is listed is there; one that is not listed may still be there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from warmpod.controller.objects.node_view import NodeView
from warmpod.registry.reference import parse_reference

#: Entries at which the kubelet cuts the list, unless it was told otherwise.
MOST_LISTED = 50


@lru_cache(maxsize=4096)
def listed_name(image: str) -> str:
    """The name under which the container runtime lists an image that was pulled as `image`."""
    reference = parse_reference(image)
    repository = f"{reference.host}/{reference.repository}"
    if reference.digest:
        return f"{repository}@{reference.digest}"
    return f"{repository}:{reference.tag}"


@lru_cache(maxsize=4096)
def registry_of(image: str) -> str:
    return parse_reference(image).host


def missing(images: Iterable[str], node: NodeView) -> tuple[str, ...]:
    """Those that the node does not list, so that they have to be pulled for all that is known."""
    return tuple(image for image in images if listed_name(image) not in node.images)


def removed(before: NodeView, after: NodeView) -> frozenset[str]:
    """Names that were listed and are not any more; none when the list may have been cut."""
    if before.images == after.images or after.images_listed >= MOST_LISTED:
        return frozenset()
    return frozenset(before.images) - frozenset(after.images)


def differ_elsewhere(before: NodeView, after: NodeView) -> bool:
    """Whether more than the images of a node is different."""
    same = replace(
        after, meta=before.meta, images=before.images, images_listed=before.images_listed
    )
    return before.meta.labels != after.meta.labels or before != same


def with_known(before: NodeView, after: NodeView) -> NodeView:
    """A kubelet that has just started, or does not reach its runtime, lists nothing at all: then
    what it listed before is the better knowledge."""
    if after.images or before.meta.uid != after.meta.uid:
        return after
    return replace(after, images=before.images, images_listed=before.images_listed)

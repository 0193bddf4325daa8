"""Where engines keep what they compile: the pod's own copy, and the store that it is filled from.

The agent is the only one that writes what others read: an engine pod puts what it offers into a
directory that it cannot list, and the agent takes it over when it has checked it.
"""

from __future__ import annotations

from typing import Any

from warmpod.protocol import CACHE_MOUNT, CACHE_ROOT, CACHE_STORE_MOUNT, CACHE_STORES_MOUNT
from warmpod.resources import images
from warmpod.resources.rendering import Rendering, image_volume, mount
from warmpod.resources.source_volumes import host_path

_PRIVATE = "warmpod-cache"
_STORE = "warmpod-cache-store"
_STORES = "warmpod-cache-stores"
_PUBLISHED = "warmpod-cache-published"
_INCOMING = "warmpod-cache-incoming"
_IMAGE = "warmpod-cache-image"


def scratch(rendering: Rendering) -> list[tuple[str, str, dict[str, Any]]]:
    """The pod's own copy (volume, path, emptyDir)."""
    if rendering.model.spec.compile_cache.store == "None":
        return []
    return [(_PRIVATE, CACHE_MOUNT, {})]


def has_store(rendering: Rendering) -> bool:
    """Whether there is one beside the pod's own copy."""
    return rendering.model.spec.compile_cache.store in ("Node", "Image")


def known_factors(rendering: Rendering) -> dict[str, str]:
    """What decides whether an entry fits and only the operator knows. Also where there is no store:
    the engine's image may bring entries."""
    engine = rendering.model.spec.engine.image
    return {
        "image": images.identity(engine, rendering.digests.engine),
        "model": rendering.sets[0].key,
    }


def engine_volumes(rendering: Rendering) -> list[dict[str, Any]]:
    match rendering.model.spec.compile_cache.store:
        case "Node":
            root = _root(rendering)
            return [
                host_path(_PUBLISHED, f"{root}/published"),
                host_path(_INCOMING, f"{root}/incoming"),
            ]
        case "Image":
            return _image_volumes(rendering)
        case _:
            return []


def engine_mounts(rendering: Rendering) -> list[dict[str, Any]]:
    match rendering.model.spec.compile_cache.store:
        case "Node":
            return [
                mount(_PUBLISHED, f"{CACHE_STORE_MOUNT}/published", read_only=True),
                mount(_INCOMING, f"{CACHE_STORE_MOUNT}/incoming"),
            ]
        case "Image":
            return [mount(_IMAGE, CACHE_STORE_MOUNT, read_only=True)]
        case _:
            return []


def agent_volumes(rendering: Rendering) -> list[dict[str, Any]]:
    if rendering.model.spec.compile_cache.store == "Node":
        return [host_path(_STORE, _root(rendering)), host_path(_STORES, _stores(rendering))]
    return _image_volumes(rendering)


def agent_mounts(rendering: Rendering) -> list[dict[str, Any]]:
    """An image is mounted so that the node has it and keeps it; the agent does not read it."""
    match rendering.model.spec.compile_cache.store:
        case "Node":
            return [mount(_STORE, CACHE_STORE_MOUNT), mount(_STORES, CACHE_STORES_MOUNT)]
        case "Image":
            return [mount(_IMAGE, "/images/compile-cache", read_only=True)]
        case _:
            return []


def _image_volumes(rendering: Rendering) -> list[dict[str, Any]]:
    image = rendering.model.spec.compile_cache.image
    if image is None:
        return []
    return [image_volume(_IMAGE, images.pin(image, rendering.digests.cache))]


def _root(rendering: Rendering) -> str:
    """One WarmModel's own: what is in it is code that engines run."""
    return f"{_stores(rendering)}/{rendering.model.uid}"


def _stores(rendering: Rendering) -> str:
    """Of the namespace, so that one agent can clear away what another has left over."""
    return f"{CACHE_ROOT}/{rendering.model.namespace}"

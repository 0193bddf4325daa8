"""A model directory becomes an image in a registry, without a copy on the disk.

A shard is hashed and sent in one go, so that it is sent from memory as far as it fits there; a few
shards at a time. The registry's digest check covers what was sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from warmpod.registry.client import Client
from warmpod.registry.errors import RegistryError
from warmpod.registry.upload import push_blob
from warmpod.weights.image import (
    Descriptor,
    Document,
    ImageDocuments,
    document,
    documents,
    layer_descriptor,
    weights_documents,
)
from warmpod.weights.layer import Layer
from warmpod.weights.manifest import Entry
from warmpod.weights.pack import Model, PackedImage, check_same

Result = TypeVar("Result")

#: What the layer of the small files is called.
FIRST_LAYER = "configuration and manifest"
#: Layers that are sent at a time. More hardly fill a line better, and registries limit them.
PARALLEL = 4


class Observer(Protocol):
    """Hears how far the work is. Called from any thread."""

    def read(self, count: int) -> None:
        """Bytes of files were read and hashed."""

    def sent(self, count: int) -> None:
        """Bytes of layers are in the registry; less than 0 when it lost some."""

    def layer(self, name: str, size: int, pushed: bool) -> None:
        """A layer is complete there; `pushed` is False when the registry had it before."""


class _Memory:
    """A small blob."""

    def __init__(self, content: bytes) -> None:
        self.size = len(content)
        self._content = content

    def read(self, start: int) -> Iterator[bytes]:
        yield self._content[start:]


async def push(model: Model, client: Client, observer: Observer) -> PackedImage:
    """Push `model` under the tag of the client's reference.

    Raises WeightsError when a file cannot be read or changed meanwhile, RegistryError (all layers
    that the registry has by then are not sent again by a repetition)."""
    slots = asyncio.Semaphore(PARALLEL)
    hashing = _Hashing(observer)

    async def shard(path: str) -> tuple[Descriptor, list[Entry]]:
        async with slots:
            return await _push_layer(client, path, model.shard_layer(path), observer, hashing)

    try:
        packed = await _all([shard(path) for path in model.shards])
        shards = [entry for _, entries in packed for entry in entries]
        first, manifest = await asyncio.to_thread(model.first_layer, shards)
        descriptor, small = await _push_layer(client, FIRST_LAYER, first, observer, hashing)
        check_same(manifest, small)
    finally:
        hashing.over = True
    layers = [descriptor, *(descriptor for descriptor, _ in packed)]
    image = weights_documents(layers, manifest.digest)
    await _push_documents(client, image)
    return PackedImage(image.index.digest, len(layers), manifest)


async def push_layers(layers: Mapping[str, Layer], client: Client, observer: Observer) -> str:
    """Push an image of just these layers, by the names that `observer` hears, and return its
    digest. Raises as `push` does."""
    slots = asyncio.Semaphore(PARALLEL)
    hashing = _Hashing(observer)

    async def one(name: str, layer: Layer) -> Descriptor:
        async with slots:
            descriptor, _ = await _push_layer(client, name, layer, observer, hashing)
            return descriptor

    try:
        pushed = await _all([one(name, layer) for name, layer in layers.items()])
    finally:
        hashing.over = True
    image = documents(pushed, {})
    await _push_documents(client, image)
    return image.index.digest


async def check_push(client: Client) -> None:
    """Raises RegistryError where nothing can be pushed: to be asked before work that takes long.

    It pushes the blob `{}`, which the OCI's image specification has for empty documents."""
    empty = document("application/vnd.oci.empty.v1+json", {})
    await push_blob(client, empty.digest, _Memory(empty.content), lambda count: None)


class _Over(Exception):
    """Nobody waits for this digest any more."""


class _Hashing:
    """Threads cannot be cancelled: without this, an error would wait for a shard's digest."""

    def __init__(self, observer: Observer) -> None:
        self.over = False
        self._observer = observer

    def heard(self, count: int) -> None:
        if self.over:
            raise _Over
        self._observer.read(count)


async def _push_layer(
    client: Client, name: str, layer: Layer, observer: Observer, hashing: _Hashing
) -> tuple[Descriptor, list[Entry]]:
    digest, entries = await asyncio.to_thread(layer.digest, watch=hashing.heard)
    pushed = await push_blob(client, digest, layer, observer.sent)
    observer.layer(name, layer.size, pushed)
    return layer_descriptor(digest, layer.size), entries


async def _push_documents(client: Client, image: ImageDocuments) -> None:
    """The tag comes last: it never names an image that is not whole."""
    for config in image.configs:
        await push_blob(client, config.digest, _Memory(config.content), lambda count: None)
    for manifest in image.manifests:
        await _put(client, manifest.digest, manifest)
    await _put(client, client.reference.tag, image.index)


async def _put(client: Client, which: str, document: Document) -> None:
    await client.put_manifest(which, document.media_type, document.content)
    # What nodes will get is what was packed, or the digest that is printed is wrong.
    if await client.manifest(which) != document.content:
        raise RegistryError(f"{client.reference.name}: the registry has changed the manifest")


async def _all(work: Sequence[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Results in order; the first error ends the rest."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(item) for item in work]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    return [task.result() for task in tasks]

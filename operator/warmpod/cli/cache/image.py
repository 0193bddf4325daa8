"""Entries of compile caches become an image: `published/<key>/…`, one layer an entry.

The digest depends on nothing but the entries. A layer an entry lets a registry keep what it has
when an entry for another GPU comes to it.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import tarfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.markup import escape

from warmpod.cli import destination
from warmpod.cli.cache.entries import CacheError
from warmpod.cli.pushing import PushProgress, explained
from warmpod.compilecache import entry as entries
from warmpod.compilecache.entry import Entry, EntryError
from warmpod.compilecache.files import directory, open_file
from warmpod.compilecache.layout import PUBLISHED
from warmpod.compilecache.manifest import MANIFEST
from warmpod.registry import client, credentials
from warmpod.registry.client import Client
from warmpod.registry.errors import RegistryError
from warmpod.registry.reference import parse_reference
from warmpod.weights.findings import WeightsError
from warmpod.weights.layer import Layer, layer_of
from warmpod.weights.push import check_push, push_layers

Result = TypeVar("Result")

#: A node mounts one directory a layer, and the mount has room for about this many.
MOST_LAYERS = 100


def reference(text: str) -> str:
    """Raises CacheError for what is no reference with registry and tag."""
    try:
        found = destination.parse(text)
    except destination.DestinationError as error:
        raise CacheError(str(error)) from error
    if isinstance(found, Path):
        raise CacheError(f"{text}: name a registry, as in registry.example.com/caches/name:1.0")
    return found


def unpack(archive: Path, root: Path, key: str) -> Entry:
    """Put an entry that an agent exported below `root`, and verify it. Raises CacheError."""
    published = root / PUBLISHED
    try:
        with tarfile.open(archive, "r:") as opened:
            opened.extractall(published, filter="data")
        entry = entries.read(published / key)
        _verify(entry)
    except (tarfile.TarError, EntryError, OSError) as error:
        raise CacheError(
            f"entry {key} did not come whole from the node: {error}; try again, and if it stays "
            "so, remove it there with cache rm"
        ) from error
    return entry


def _verify(entry: Entry) -> None:
    """Raises EntryError, OSError."""
    with directory(entry.directory) as folder:
        for file in entry.files:
            with io.FileIO(open_file(f"{entries.FILES}/{file.path}", folder)) as opened:
                digest = hashlib.file_digest(opened, "sha256").hexdigest()
            if digest != file.sha256:
                raise EntryError(f"{file.path} is not what was stored")


def layers_of(root: Path, found: Sequence[Entry]) -> dict[str, Layer]:
    """A layer for each entry below `root`, by key. Raises CacheError, OSError."""
    if len(found) > MOST_LAYERS:
        raise CacheError(
            f"{len(found)} entries are more than an image can have layers: choose at most "
            f"{MOST_LAYERS} with --key"
        )
    return {
        entry.key: layer_of(root, _names(entry))
        for entry in sorted(found, key=lambda entry: entry.key)
    }


def _names(entry: Entry) -> list[str]:
    folder = f"{PUBLISHED}/{entry.key}"
    files = sorted(file.path for file in entry.files)
    return [f"{folder}/{MANIFEST}", *(f"{folder}/{entries.FILES}/{path}" for path in files)]


def push(layers: Mapping[str, Layer], image: str, errors: Console) -> str:
    """Push an image with the credentials of docker login, and return it with its digest; how far
    it is goes to `errors`. Raises CacheError."""
    with PushProgress(errors, sum(layer.size for layer in layers.values())) as progress:
        digest = _asked(image, lambda registry: push_layers(layers, registry, progress))
    return f"{image}@{digest}"


def check(image: str) -> None:
    """Raises CacheError where nothing can be pushed."""
    _asked(image, check_push)


def _asked(image: str, ask: Callable[[Client], Awaitable[Result]]) -> Result:
    async def answer() -> Result:
        credential = credentials.of_user(parse_reference(image).name)
        async with client.opened(image, credential, "pull,push") as registry:
            return await ask(registry)

    try:
        return asyncio.run(answer())
    except RegistryError as error:
        raise CacheError(explained(error, image)) from error
    except (WeightsError, OSError) as error:
        raise CacheError(str(error)) from error


def say_how_to_use(pinned: str, console: Console, errors: Console) -> None:
    """Only the reference goes to standard output, for scripts."""
    console.print(escape(pinned), soft_wrap=True)
    lines = (
        "In a WarmModel with the same engine, weights, arguments, GPU and driver:",
        "  spec:",
        "    compileCache:",
        "      store: Image",
        f"      image: {pinned}",
    )
    for line in lines:
        errors.print(escape(line), soft_wrap=True)

"""`kubectl warm cache`: what engines have compiled, on the nodes and as images."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.filesize import decimal
from rich.markup import escape

from warmpod.cli import temporary
from warmpod.cli.cache import build, image, store, table
from warmpod.cli.cache.entries import CacheError, Stored, resolve, to_push
from warmpod.cli.cache.store import Stores
from warmpod.cli.cluster import Cluster, ClusterError
from warmpod.cli.pod_exec import ExecError
from warmpod.cli.terminal import (
    Context,
    Kubeconfig,
    Name,
    Namespace,
    complain,
    console,
    errors,
    fail,
    say,
    show,
)
from warmpod.compilecache.entry import Entry

app = typer.Typer(
    help="Compile caches: on the nodes of a WarmModel, and as images for other clusters.",
    no_args_is_help=True,
)

Node = Annotated[str | None, typer.Option(help="Only on this node. Default: on all.")]
Reference = Annotated[
    str, typer.Argument(metavar="REGISTRY/REPOSITORY:TAG", help="Where the image goes.")
]
_ERRORS = (CacheError, ClusterError, ExecError, OSError)


@dataclass(frozen=True)
class Place:
    """A WarmModel, and the node of it that is meant; None: all."""

    cluster: Cluster
    namespace: str
    name: str
    node: str | None = None
    failures: list[str] = field(default_factory=list)
    """Of nodes, all of which have been said."""

    def stores(self) -> AbstractAsyncContextManager[Stores]:
        """Raises CacheError, ClusterError, ExecError."""
        return store.opened(self.cluster, self.namespace, self.name, self.node, self._failed)

    def _failed(self, text: str) -> None:
        complain(text)
        self.failures.append(text)


@app.command("ls")
def list_entries(
    name: Name,
    node: Node = None,
    output: Annotated[Literal["table", "json"], typer.Option("--output", "-o")] = "table",
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """List what the nodes of a WarmModel keep (spec.compileCache.store: Node).

    Needs the right to get and create pods/exec in its namespace.
    """
    try:
        place = _place(name, node, namespace, kubeconfig, context)
        found = asyncio.run(_entries(place))
    except _ERRORS as error:
        fail(str(error))
    if output == "json":
        typer.echo(json.dumps([asdict(entry) for entry in found], indent=2))
    else:
        show(table.of(found, datetime.now(UTC)))
        if not found and not place.failures:
            say("nothing is kept yet: a pod publishes what it compiled after it became warm")
    _end(place)


@app.command("rm")
def remove_entries(
    name: Name,
    keys: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY", help="Its beginning is enough. Default: all."),
    ] = None,
    node: Node = None,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Remove entries from the nodes of a WarmModel: the next start there compiles again.

    Pods that run keep what they have. Needs the right to get and create pods/exec.
    """
    try:
        place = _place(name, node, namespace, kubeconfig, context)
        removed = asyncio.run(_remove(place, keys or []))
    except _ERRORS as error:
        fail(str(error))
    for each_node, key in removed:
        console.print(escape(f"removed {key} from node {each_node}"), soft_wrap=True)
    if not removed and not place.failures:
        say("there was nothing to remove")
    _end(place)


@app.command("push")
def push_entries(
    name: Name,
    reference: Reference,
    key: Annotated[
        list[str] | None,
        typer.Option(help="Only this entry, by the beginning of its key; may be repeated."),
    ] = None,
    node: Node = None,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Push what the nodes of a WarmModel have published as an image, for spec.compileCache.image.

    Entries come through this machine, which needs room for them in its temporary directory, and go
    with the credentials of docker login (or podman, crane, a credential helper). Needs the right to
    get and create pods/exec.
    """
    try:
        target = image.reference(reference)
        place = _place(name, node, namespace, kubeconfig, context)
        _push(place, key or [], target)
    except _ERRORS as error:
        fail(str(error))


@app.command("build")
def build_image(
    reference: Reference,
    file: Annotated[
        Path, typer.Option("--file", "-f", help="The WarmModel that the cache is for.")
    ],
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Compile what the WarmModel in a file needs, and push it as an image.

    A temporary WarmModel NAME-cache-build runs until one pod is warm, on a node that the file's
    selectors and resources ask for; it is removed however this ends. Needs the right to create and
    delete WarmModels, and to get and create pods/exec.
    """
    try:
        target = image.reference(reference)
        document = build.read(file)
        cluster = Cluster(kubeconfig, context)
        own = document["metadata"].get("namespace")
        where = namespace or own or cluster.default_namespace
        wanted = build.temporary(document, where)
        image.check(target)
        with temporary.applied(cluster, wanted):
            place = Place(cluster, where, wanted["metadata"]["name"])
            build.wait(cluster, where, place.name, say)
            _push(place, [], target)
    except _ERRORS as error:
        fail(str(error))


def _place(
    name: str,
    node: str | None,
    namespace: str | None,
    kubeconfig: Path | None,
    context: str | None,
) -> Place:
    """Raises ClusterError."""
    cluster = Cluster(kubeconfig, context)
    return Place(cluster, namespace or cluster.default_namespace, name, node)


async def _entries(place: Place) -> list[Stored]:
    async with place.stores() as stores:
        return await stores.entries()


async def _remove(place: Place, wanted: Sequence[str]) -> list[tuple[str, str]]:
    """Nodes and keys of what is gone."""
    async with place.stores() as stores:
        if not wanted:
            return await stores.remove(None)
        found = await stores.entries()
        keys = resolve(wanted, found)
        by_node: dict[str, list[str]] = defaultdict(list)
        for entry in found:
            if entry.key in keys:
                by_node[entry.node].append(entry.key)
        return await stores.remove(by_node)


def _push(place: Place, wanted: Sequence[str], target: str) -> None:
    """Raises CacheError, ClusterError, ExecError, OSError."""
    with tempfile.TemporaryDirectory(prefix="warmpod-cache-") as folder:
        root = Path(folder)
        found = asyncio.run(_fetch(place, wanted, root))
        pinned = image.push(image.layers_of(root, found), target, errors)
    image.say_how_to_use(pinned, console, errors)


async def _fetch(place: Place, wanted: Sequence[str], root: Path) -> list[Entry]:
    """Bring the entries that are wanted below `root`."""
    async with place.stores() as stores:
        found = await stores.entries()
        return [await _bring(stores, stored, root) for stored in to_push(found, wanted)]


async def _bring(stores: Stores, stored: Stored, root: Path) -> Entry:
    say(f"entry {stored.key} ({decimal(stored.size)}) from node {stored.node}")
    archive = root / f"{stored.key}.tar"
    await stores.export(stored.node, [stored.key], archive)
    entry = await asyncio.to_thread(image.unpack, archive, root, stored.key)
    archive.unlink()
    return entry


def _end(place: Place) -> None:
    if place.failures:
        raise typer.Exit(1)

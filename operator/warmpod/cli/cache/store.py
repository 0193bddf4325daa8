"""The compile caches that a WarmModel keeps on its nodes, through the agents there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from warmpod.cli import pod_exec
from warmpod.cli.cache.entries import CacheError, Stored, document_of, read_listing
from warmpod.cli.cluster import Cluster, Document
from warmpod.cli.pod_exec import Container, ExecError, PodExec
from warmpod.protocol import CACHE_STORE_MOUNT
from warmpod.resources.names import AGENT_CONTAINER, COMPONENT_LABEL

#: Agents that are asked at a time.
PARALLEL = 8

Result = TypeVar("Result")

Tell = Callable[[str], object]
"""Takes a line about a node that failed."""


@dataclass(frozen=True)
class Agent:
    node: str
    container: Container


def agents_of(pods: Iterable[Document], model: str, node: str | None) -> list[Agent]:
    """The newest running agent with a store on each node, or on that one. Raises CacheError."""
    running = [pod for pod in pods if _runs_agent(pod, node)]
    place = f" on node {node}" if node else ""
    if not running:
        raise CacheError(
            f"no prefetch pod of WarmModel {model} runs{place}: see kubectl warm status"
        )
    # Two templates can have a pod on one node, of which an older one may lack the store.
    by_node = {
        pod["spec"]["nodeName"]: Agent(pod["spec"]["nodeName"], _container(pod))
        for pod in sorted(running, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
        if _has_store(pod)
    }
    if not by_node:
        raise CacheError(
            f"WarmModel {model} keeps no compile cache{place or ' on its nodes'}: set "
            "spec.compileCache.store to Node, and wait until its prefetch pods are replaced"
        )
    return [by_node[name] for name in sorted(by_node)]


def _runs_agent(pod: Document, node: str | None) -> bool:
    metadata = pod["metadata"]
    return (
        metadata.get("labels", {}).get(COMPONENT_LABEL) == "prefetch"
        and "deletionTimestamp" not in metadata
        and pod.get("status", {}).get("phase") == "Running"
        and node in (None, pod["spec"].get("nodeName"))
    )


def _has_store(pod: Document) -> bool:
    return any(
        mount["mountPath"] == CACHE_STORE_MOUNT
        for container in pod["spec"]["containers"]
        if container["name"] == AGENT_CONTAINER
        for mount in container.get("volumeMounts") or []
    )


def _container(pod: Document) -> Container:
    return Container(pod["metadata"]["namespace"], pod["metadata"]["name"], AGENT_CONTAINER)


@asynccontextmanager
async def opened(
    cluster: Cluster, namespace: str, model: str, node: str | None, tell: Tell
) -> AsyncIterator[Stores]:
    """Raises CacheError, ClusterError, ExecError."""
    pods = cluster.snapshot(namespace, model).pods
    agents = agents_of(pods, f"{namespace}/{model}", node)
    async with pod_exec.opened(cluster.kubeconfig, cluster.context) as executor:
        yield Stores(executor, agents, tell)


class Stores:
    """What cannot be done on a node is told, and the others go on."""

    def __init__(self, executor: PodExec, agents: Sequence[Agent], tell: Tell) -> None:
        self._executor = executor
        self._agents = {agent.node: agent for agent in agents}
        self._tell = tell
        self._slots = asyncio.Semaphore(PARALLEL)

    async def entries(self) -> list[Stored]:
        """Of all nodes, in order."""

        async def of(agent: Agent) -> list[Stored]:
            return read_listing(agent.node, await self._asked(agent, "ls"))

        return [
            entry for entries in await self._on_each(self._agents, of) for entry in entries or ()
        ]

    async def remove(self, keys_of: dict[str, list[str]] | None) -> list[tuple[str, str]]:
        """The nodes and keys of what is gone. `keys_of` a node; None: everything on all nodes."""

        async def of(agent: Agent) -> list[tuple[str, str]]:
            keys = [] if keys_of is None else keys_of[agent.node]
            removed = document_of(agent.node, await self._asked(agent, "rm", *keys))["removed"]
            return [(agent.node, str(key)) for key in removed]

        nodes = self._agents if keys_of is None else keys_of
        return [item for items in await self._on_each(nodes, of) for item in items or ()]

    async def export(self, node: str, keys: Sequence[str], archive: Path) -> None:
        """Write the entries of a node into a tar archive. Raises ExecError, OSError."""
        agent = self._agents[node]
        with archive.open("xb") as file:
            await self._executor.run(agent.container, _command("export", *keys), file.write)

    async def _asked(self, agent: Agent, *arguments: str) -> bytes:
        answer = bytearray()
        await self._executor.run(agent.container, _command(*arguments), answer.extend)
        return bytes(answer)

    async def _on_each(
        self, nodes: Iterable[str], work: Callable[[Agent], Awaitable[Result]]
    ) -> list[Result | None]:
        async def one(node: str) -> Result | None:
            async with self._slots:
                try:
                    return await work(self._agents[node])
                except (ExecError, CacheError) as error:
                    self._tell(f"node {node}: {error}")
                    return None

        return list(await asyncio.gather(*(one(node) for node in nodes)))


def _command(*arguments: str) -> list[str]:
    return ["warmpod-agent", "cache", *arguments]

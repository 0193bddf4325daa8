"""How long a dead engine stays in the endpoints, and how long a warm one stays out."""

from __future__ import annotations

import time

from support.api import Api
from support.endpoints import EndpointWatch
from support.models import ModelView
from support.node import Node, kill

KILLS = 20
SERVING_S = 3


def measure_kills(api: Api, node: Node, view: ModelView) -> list[float]:
    """Seconds from SIGKILL of the engine to the pod's absence from the endpoints."""
    pod = view.engine_pod()
    uid, address = pod["metadata"]["uid"], pod["status"]["podIP"]
    watch = EndpointWatch(api, view)
    delays = []
    for _ in range(KILLS):
        watch.wait_for_lasting(address, seconds=SERVING_S, timeout_s=120)
        pid = node.engine_main(uid)
        killed = time.monotonic()
        kill(pid)
        delays.append(watch.wait_for(address, ready=False, timeout_s=10) - killed)
    return delays

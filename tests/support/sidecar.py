"""What the sidecar of an engine pod tells about itself."""

from __future__ import annotations

import requests

from support.api import JsonObject
from warmpod.protocol import WARMUP_PORT


def status(pod: JsonObject) -> JsonObject:
    """Its page /status."""
    url = f"http://{pod['status']['podIP']}:{WARMUP_PORT}/status"
    with requests.Session() as session:
        session.trust_env = False  # no proxy between the tests and the cluster
        response = session.get(url, timeout=10)
        response.raise_for_status()
        found: JsonObject = response.json()
        return found

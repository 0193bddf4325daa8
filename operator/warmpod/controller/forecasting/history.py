"""Load from before the operator recorded any: from a Prometheus, where the operator is told of one.

Which one is a setting of the operator and not of a WarmModel: whoever may write those could have
the operator send requests anywhere.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from math import isfinite

import aiohttp

from warmpod.api import WarmModel
from warmpod.controller.forecasting.series import Shape

#: Seconds for one query over weeks.
TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=5)


class HistoryError(Exception):
    """Prometheus gave no answer, or none that can be read."""


class History:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        """`url`: such as `http://prometheus.monitoring:9090`; empty for none."""
        self._session = session
        self._url = url.rstrip("/")

    async def read(
        self, model: WarmModel, shape: Shape, now: datetime
    ) -> list[tuple[datetime, float]]:
        """Oldest first. Raises HistoryError."""
        if not self._url:
            return []
        parameters = {
            "query": query(model, shape),
            "start": f"{(now - timedelta(seconds=shape.step * shape.kept)).timestamp():.0f}",
            "end": f"{now.timestamp():.0f}",
            "step": str(shape.step),
        }
        try:
            async with self._session.get(
                f"{self._url}/api/v1/query_range", params=parameters, timeout=TIMEOUT
            ) as answer:
                if answer.status != 200:
                    raise HistoryError(f"{self._url}: {answer.status}")
                return _read(await answer.read())
        except (aiohttp.ClientError, TimeoutError) as error:
            raise HistoryError(f"{self._url}: {error or type(error).__name__}") from error


def query(model: WarmModel, shape: Shape) -> str:
    """By the series that `manifests/monitoring` records. The names of a Deployment's pods have two
    more parts than its own."""
    pods = f'{{namespace="{model.namespace}",pod=~"{model.name}-[a-z0-9]+-[a-z0-9]+"}}'
    both = " + ".join(
        f"sum(pod:vllm_num_requests_{state}:users{pods})" for state in ("running", "waiting")
    )
    return f"max_over_time(({both})[{shape.step}s:60s])"


def _read(body: bytes) -> list[tuple[datetime, float]]:
    """https://prometheus.io/docs/prometheus/latest/querying/api/#range-vectors"""
    try:
        results = json.loads(body)["data"]["result"]
        values = [(float(at), float(value)) for found in results for at, value in found["values"]]
        return [(datetime.fromtimestamp(at, UTC), value) for at, value in values if isfinite(value)]
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise HistoryError(f"an answer that cannot be read: {error}") from error

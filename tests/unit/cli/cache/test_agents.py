"""Which agents are asked for the stores of a WarmModel."""

from __future__ import annotations

from typing import Any

import pytest

from support.cache_pods import prefetch_pod
from warmpod.cli.cache.entries import CacheError
from warmpod.cli.cache.store import agents_of


def asked(pods: list[dict[str, Any]], node: str | None = None) -> dict[str, str]:
    return {agent.node: agent.container.pod for agent in agents_of(pods, "demo/tiny", node)}


def test_the_newest_running_one_with_a_store_on_each_node() -> None:
    pods = [
        prefetch_pod("new", "n1", created="2026-01-02T00:00:00Z"),
        prefetch_pod("old", "n1", created="2026-01-01T00:00:00Z"),
        prefetch_pod("without", "n1", created="2026-01-03T00:00:00Z", store=False),
        prefetch_pod("pending", "n1", created="2026-01-04T00:00:00Z", phase="Pending"),
        prefetch_pod("leaving", "n1", created="2026-01-05T00:00:00Z", leaving=True),
        prefetch_pod("other", "n2"),
        prefetch_pod("engine", "n3", component="engine"),
    ]
    assert asked(pods) == {"n1": "new", "n2": "other"}
    assert asked(pods, "n2") == {"n2": "other"}


@pytest.mark.parametrize(
    ("pods", "node", "says"),
    [
        ([], None, "no prefetch pod of WarmModel demo/tiny runs: see kubectl warm status"),
        ([prefetch_pod("a", "n1")], "n2", "no prefetch pod of WarmModel demo/tiny runs on node n2"),
        (
            [prefetch_pod("a", "n1", store=False)],
            None,
            "demo/tiny keeps no compile cache on its nodes: set spec.compileCache.store to Node",
        ),
    ],
)
def test_nobody_to_ask(pods: list[dict[str, Any]], node: str | None, says: str) -> None:
    with pytest.raises(CacheError, match=says):
        asked(pods, node)

"""What the tests of weights say about losing them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from support import history
from support.events import times_told, wait_event
from support.models import ModelView

# Users were promised 30 s. The kubelet reports the node's images every 30 s or so; what a test
# waits for is that it happens at all, and in this order.
NOTICE_S = 120
BACK_S = 180


@contextmanager
def lost_and_back(view: ModelView, *reasons: str) -> Iterator[None]:
    """The block takes the weights away: they are not resident, an event says why (one of the
    reasons), and then they are resident again."""
    said = history.of_model(view)
    mark = said.wait_for("True", after=0, timeout_s=30)
    told = times_told(view, reasons)
    yield
    mark = said.wait_for("False", after=mark, timeout_s=NOTICE_S)
    said.wait_for("True", after=mark, timeout_s=BACK_S)
    wait_event(view, *reasons, before=told)


@contextmanager
def kept(view: ModelView) -> Iterator[None]:
    """The block cannot take them away: they are resident all along, by the same agent."""
    said = history.of_model(view)
    mark = said.wait_for("True", after=0, timeout_s=30)
    agent = view.prefetch_pod()["metadata"]["uid"]
    yield
    assert [state for state in said.since(mark) if state.status != "True"] == []
    assert view.prefetch_pod()["metadata"]["uid"] == agent


@contextmanager
def looked_at_again(view: ModelView) -> Iterator[None]:
    """After the block the agent reads everything again before it calls the weights resident.

    As its pod tells it: an operator that was on the same node does not see all of it.
    """
    said = history.of_agents(view)
    mark = said.wait_for("True", after=0, timeout_s=30)
    yield
    mark = said.wait_for("False", after=mark, timeout_s=NOTICE_S, reasons=["Verifying"])
    said.wait_for("True", after=mark, timeout_s=BACK_S)
    view.wait_resident()

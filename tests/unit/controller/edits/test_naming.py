"""What is said of an object that is left as somebody else wants it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unit.controller.builders import World, engine, prefetch
from warmpod import reasons
from warmpod.controller.diagnosis.refused import Failure

LEFT = Failure(reasons.CHILD_EDITED, "Service models/llama", "spec.x (set by somebody)")
STORED = World().store()
SERVING = STORED.prefetching(1, prefetch().resident()).deployed(engine().warm())


def test_ready_and_an_event_say_so() -> None:
    world = replace(SERVING, failures=(LEFT,))
    ready = world.conditions()["Ready"]
    told = "Service models/llama: spec.x (set by somebody) — Set what is needed there"
    assert ready["status"] == "True"
    assert told in ready["message"]
    (advice,) = world.plan().advice
    assert (advice.type, advice.reason) == ("Warning", "ChildEdited")
    assert advice.message.startswith(told)


@pytest.mark.parametrize("world", [STORED, STORED.prefetching(1, prefetch()), SERVING])
def test_it_stands_in_the_way_of_nothing(world: World) -> None:
    def states(found: World) -> dict[str, tuple[str, str]]:
        return {name: (c["status"], c["reason"]) for name, c in found.conditions().items()}

    assert states(replace(world, failures=(LEFT,))) == states(world)


def test_it_is_looked_at_again() -> None:
    assert replace(SERVING, failures=(LEFT,)).plan().requeue_after is not None

"""A message has one remedy, which fits the source and the case."""

from __future__ import annotations

import pytest

from unit.controller.builders import NOW, engine, prefetch
from warmpod import reasons
from warmpod.controller.diagnosis import problems
from warmpod.protocol import REMEDY

NO_SPACE = "write /x: no space left on device"


def of_agent(reason: str, message: str) -> str:
    (found,) = problems.of_prefetch_pod(prefetch().not_resident(reason, message).view(), NOW)
    return found.message


def test_the_agents_remedy_stands_alone() -> None:
    text = of_agent("DigestMismatch", "/data/a: altered — put the right files there on the node")
    assert text.endswith(": /data/a: altered — put the right files there on the node")


def test_the_agents_remedy_is_not_cut_off() -> None:
    text = of_agent("DigestMismatch", f"{'a' * 600} — put the right files there on the node")
    assert text.endswith("— put the right files there on the node")


def test_the_reason_has_a_remedy_for_what_the_agent_has_none_for() -> None:
    text = of_agent("SourceUnreachable", "https://example.com: refused")
    assert text.endswith(f"refused — {reasons.SOURCE_UNREACHABLE.remedy}")


def test_the_init_containers_remedy_stands_alone() -> None:
    said = f"DigestMismatch: claim models: {'a' * 300}: altered — put the right files into it"
    pod = engine().terminated("weights", 1, message=said, init=True).view()
    (found,) = problems.of_engine_pod(pod, NOW)
    assert found.reason == reasons.WEIGHTS_INIT_FAILED
    assert found.message.endswith(said)


@pytest.mark.parametrize(
    "pod",
    [
        prefetch().waiting("agent", "ErrImagePull", NO_SPACE),
        engine().waiting("engine", "CreateContainerError", NO_SPACE),
    ],
)
def test_a_full_image_disk_is_the_nodes(pod) -> None:
    (found,) = [*problems.of_prefetch_pod(pod.view(), NOW)]
    assert found.reason == reasons.DISK_FULL
    assert "crictl rmi IMAGE" in found.message
    assert "/dev/shm" not in found.message


def test_a_full_volume_of_an_engine_is_no_matter_of_images() -> None:
    (found,) = problems.of_engine_pod(engine().not_warm("DiskFull", NO_SPACE).view(), NOW)
    assert "crictl" not in found.message
    assert "/dev/shm" in found.message


def test_no_remedy_takes_images_away_that_pods_use() -> None:
    for reason in reasons.ALL.values():
        assert "--prune" not in reason.remedy
        assert REMEDY not in reason.remedy


def test_the_scheduler_is_not_quoted_twice() -> None:
    said = 'persistentvolumeclaim "models" not found. not found'
    pod = prefetch().condition("PodScheduled", "False", "Unschedulable", said).view()
    (found,) = problems.of_prefetch_pod(pod, NOW)
    assert 'persistentvolumeclaim "models" not found — ' in found.message

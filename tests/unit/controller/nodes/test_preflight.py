"""Disk and memory, and what is said about them."""

from __future__ import annotations

import pytest

from unit.controller.builders import GIB
from warmpod import reasons
from warmpod.controller.nodes.preflight import Disk, Layers, of_disk, of_memory


@pytest.mark.parametrize(
    ("layers", "available", "capacity", "fits"),
    [
        ([], 0, 100, True),
        ([Layers(10, 0)], 25, 100, True),  # just so: 15 must stay free
        ([Layers(10, 0)], 24, 100, False),
        ([Layers(0, 10)], 34, 100, False),
        ([Layers(0, 10)], 35, 100, True),
        ([Layers(5, 5), Layers(4, 2)], 37, 100, False),
        ([Layers(5, 5), Layers(4, 2)], 38, 100, True),
        ([Layers(0, 0)], 5, 100, True),  # nothing to pull, however full
    ],
)
def test_disk(layers: list[Layers], available: int, capacity: int, fits: bool) -> None:
    disk = Disk(available * GIB, capacity * GIB)
    images = [Layers(each.plain * GIB, each.compressed * GIB) for each in layers]
    assert (of_disk("n", images, disk) is None) is fits


def test_a_full_disk_is_told_with_numbers() -> None:
    found = of_disk("n", [Layers(16 * GIB, 5 * GIB)], Disk(40 * GIB, 200 * GIB))
    assert found is not None
    assert (found.node, found.reason) == ("n", reasons.DISK_FULL)
    assert found.message == (
        "node n: the images that are missing need 26.0Gi unpacked, and the node's image disk can "
        "take 10.0Gi (40.0Gi free of 200.0Gi, less the 15 % below which the kubelet removes "
        "images) — remove images that no WarmModel uses (crictl rmi IMAGE) and what else fills "
        "it, or choose nodes with larger disks in spec.pod.nodeSelector"
    )


def test_a_kubelet_that_removes_no_images_leaves_the_whole_disk() -> None:
    disk = Disk(20 * GIB, 200 * GIB, gc_percent=100)
    assert of_disk("n", [Layers(20 * GIB, 0)], disk) is None
    found = of_disk("n", [Layers(21 * GIB, 0)], disk)
    assert found is not None
    assert "can take 20.0Gi (20.0Gi free of 200.0Gi) —" in found.message


def test_memory() -> None:
    assert of_memory("n", 32 * GIB, 32 * GIB) is None
    found = of_memory("n", 32 * GIB + GIB // 5, 31 * GIB)
    assert found is not None
    assert found.reason == reasons.MEMORY_TOO_SMALL
    assert found.message == (
        "node n: the prefetch pod requests 32.2Gi of memory, and the node has 31.0Gi for pods "
        "— lower spec.weights.size, or choose larger nodes in spec.pod.nodeSelector"
    )

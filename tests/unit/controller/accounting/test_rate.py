"""GPUs of a pod, and what one costs."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from unit.controller.builders import warm_model
from warmpod.api import WarmModel
from warmpod.controller.accounting.rate import rate_of


def gpus(**engine: Any) -> int:
    return rate_of(WarmModel.parse(warm_model(engine=engine)).spec, None).gpus


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"nvidia.com/gpu": 2}, 2),
        ({"nvidia.com/gpu": "1", "cpu": "8", "memory": "64Gi"}, 1),
        ({"nvidia.com/mig-1g.10gb": 1}, 1),
        ({"amd.com/gpu": 8, "rdma/hca": 4}, 8),
        ({"habana.ai/gaudi": 1}, 1),
        ({"aws.amazon.com/neuron": 2}, 2),
        ({"google.com/tpu": 4}, 4),
        ({"huawei.com/Ascend910": 8}, 8),
        ({"cpu": "8"}, 0),
        ({"rdma/hca": 1}, 0),
    ],
)
def test_gpus_are_the_devices_that_engines_compute_on(limits, expected) -> None:
    assert gpus(resources={"limits": limits}) == expected
    # Requests of devices equal their limits: not counted twice.
    assert gpus(resources={"limits": limits, "requests": limits}) == expected


def test_an_engine_without_resources_has_none() -> None:
    assert gpus() == 0


def test_of_a_claim_the_arguments_tell() -> None:
    claim = {"claims": [{"name": "gpu"}]}
    assert gpus(resources=claim) == 1
    assert gpus(resources=claim, args=["-tp", "4", "--pipeline-parallel-size=2"]) == 8


def test_the_models_price_wins_over_the_operators() -> None:
    plain, priced = warm_model(), warm_model(cost={"perGpuHour": "2.50"})
    default = Decimal("1.25")
    assert rate_of(WarmModel.parse(plain).spec, None).per_gpu_hour is None
    assert rate_of(WarmModel.parse(plain).spec, default).per_gpu_hour == default
    assert rate_of(WarmModel.parse(priced).spec, default).per_gpu_hour == Decimal("2.5")

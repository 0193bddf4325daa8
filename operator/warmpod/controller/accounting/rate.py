"""What a pod of a WarmModel takes while it waits: GPUs, and their price."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from warmpod.api.v1alpha1 import WarmModelSpec
from warmpod.engine import facts_of
from warmpod.quantity import to_bytes
from warmpod.resources.placement import is_extended

#: Names of devices that engines compute on: nvidia.com/gpu, nvidia.com/mig-1g.10gb, amd.com/gpu,
#: gpu.intel.com/xe, habana.ai/gaudi, aws.amazon.com/neuron, google.com/tpu, huawei.com/Ascend910.
#: Others, such as network adapters (rdma/hca), cost nothing here.
_COMPUTES = re.compile(r"gpu|/mig-|gaudi|neuron|/tpu|npu|ascend", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Rate:
    gpus: int = 0
    """Of one pod; 0 on processors alone."""
    per_gpu_hour: Decimal | None = None
    """None: nobody has named a price."""

    def cost(self, gpu_seconds: float) -> float:
        return gpu_seconds / 3600 * float(self.per_gpu_hour or 0)


def rate_of(spec: WarmModelSpec, default: Decimal | None) -> Rate:
    """`default`: the operator's price of a GPU for an hour."""
    price = spec.cost.per_gpu_hour
    return Rate(_gpus(spec), default if price is None else Decimal(price))


def _gpus(spec: WarmModelSpec) -> int:
    """As the pod asks for them. How many devices a resource claim gives stands elsewhere, so there
    it is what the engine's arguments spread it over."""
    resources = spec.engine.resources
    if resources is None:
        return 0
    asked = {**(resources.requests or {}), **(resources.limits or {})}
    named = [amount for name, amount in asked.items() if is_extended(name) and _computes(name)]
    if named or not resources.claims:
        return sum(map(to_bytes, named))
    facts = facts_of(spec)
    return facts.tensor_parallel * facts.pipeline_parallel


def _computes(name: str) -> bool:
    return _COMPUTES.search(name) is not None

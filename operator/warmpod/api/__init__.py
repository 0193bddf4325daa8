"""The resource: models of spec and status, reading, and the CRD made from them."""

from warmpod.api.engine import DEFAULT_ENGINE_PORT
from warmpod.api.status import WarmModelStatus
from warmpod.api.v1alpha1 import WarmModelSpec
from warmpod.api.warmmodel import InvalidSpec, WarmModel

__all__ = [
    "DEFAULT_ENGINE_PORT",
    "InvalidSpec",
    "WarmModel",
    "WarmModelSpec",
    "WarmModelStatus",
]

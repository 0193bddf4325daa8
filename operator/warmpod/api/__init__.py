"""The resource: models of spec and status, reading, and the CRD made from them."""

from warmpod.api.status import WarmModelStatus
from warmpod.api.v1alpha1 import (
    API_VERSION,
    DEFAULT_ENGINE_PORT,
    GROUP,
    KIND,
    PLURAL,
    VERSION,
    WarmModelSpec,
)
from warmpod.api.warmmodel import InvalidSpec, WarmModel

__all__ = [
    "API_VERSION",
    "DEFAULT_ENGINE_PORT",
    "GROUP",
    "KIND",
    "PLURAL",
    "VERSION",
    "InvalidSpec",
    "WarmModel",
    "WarmModelSpec",
    "WarmModelStatus",
]

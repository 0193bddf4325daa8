"""A pod reports conditions about itself, with a token that may patch nothing else."""

from warmpod.podstatus.errors import PodStatusError
from warmpod.podstatus.own_pod import OwnPod
from warmpod.podstatus.reporter import ConditionReporter
from warmpod.podstatus.wish import ConditionStatus, Wish

__all__ = ["ConditionReporter", "ConditionStatus", "OwnPod", "PodStatusError", "Wish"]

"""`kubectl warm now`: has the warm pods of a WarmModel play their warm-up again.

It sets the annotation, as a pipeline would, and does not call the operator: that goes through the
API server with the caller's own rights, is in its audit log, needs no way into the cluster's
network, and is not lost when the operator is being restarted.
"""

from __future__ import annotations

from datetime import UTC, datetime

from warmpod.cli.cluster import Cluster
from warmpod.protocol import WARM_NOW_ANNOTATION


def ask(cluster: Cluster, namespace: str, name: str) -> str:
    """Returns what was asked for, as status.warmNow.id will have it. Raises ClusterError."""
    text = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    cluster.annotate(namespace, name, WARM_NOW_ANNOTATION, text)
    return text

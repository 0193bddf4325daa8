"""Whether an engine could land on a node: the scheduler's own rules, but for what is free there.

https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from warmpod.controller.nodes.placement import Placement, Requirement, Term, Toleration
from warmpod.controller.objects.node_view import NodeView, Taint

#: What `kubectl cordon` sets, besides spec.unschedulable.
_CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
#: Begins the taints that Kubernetes itself puts there and takes away.
_PASSING = "node.kubernetes.io/"
_REPELLING = ("NoSchedule", "NoExecute")


def why_not(placement: Placement, node: NodeView) -> str | None:
    """Why no engine could land on the node, as the end of "a node …"; None if it could.

    Without numbers that differ from node to node, so that a hundred nodes are one line.
    """
    labels = node.meta.labels
    if any(labels.get(key) != value for key, value in placement.selector):
        return "without the labels of nodeSelector"
    if placement.terms is not None and not any(_matches(t, node) for t in placement.terms):
        return "outside the required nodeAffinity"
    cordoned = (_CORDONED,) if node.unschedulable else ()
    for taint in (*cordoned, *node.taints):
        if taint.effect in _REPELLING and not _tolerated(placement.tolerations, taint):
            return "cordoned" if taint == _CORDONED else f"with the taint {_named(taint)}"
    for name, wanted in placement.devices:
        if node.devices.get(name, 0) < wanted:
            return f"with fewer than {wanted} {name}"
    return None


def undisturbed(node: NodeView) -> NodeView:
    """The node as it is when nobody cordons it, and it is ready and not under pressure."""
    lasting = tuple(t for t in node.taints if not t.key.startswith(_PASSING))
    return replace(node, unschedulable=False, taints=lasting)


def _matches(term: Term, node: NodeView) -> bool:
    if not term.labels and not term.fields:
        return False
    fields = {"metadata.name": node.meta.name}
    return all(_holds(wanted, node.meta.labels) for wanted in term.labels) and all(
        _holds(wanted, fields) for wanted in term.fields
    )


def _holds(wanted: Requirement, found: Mapping[str, str]) -> bool:
    value = found.get(wanted.key)
    match wanted.operator:
        case "In":
            return value in wanted.values
        case "NotIn":
            return value not in wanted.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(wanted, value)
        case _:
            return False


def _compares(wanted: Requirement, value: str | None) -> bool:
    """Both sides are whole numbers, or the requirement does not hold."""
    try:
        (bound,) = map(int, wanted.values)
        number = int(value or "")
    except ValueError:
        return False
    return number > bound if wanted.operator == "Gt" else number < bound


def _tolerated(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", taint.key)
    return (toleration.operator, toleration.key, toleration.value) == (
        "Equal",
        taint.key,
        taint.value,
    )


def _named(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"

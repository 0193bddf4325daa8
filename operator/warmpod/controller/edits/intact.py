"""Whether our part of an object is still as we wrote it."""

from __future__ import annotations

from typing import Any

from warmpod.controller.objects.views import ChildView, Meta, Object, View, WorkloadView


def intact(obj: Object, live: View, written: Meta) -> bool:
    """`written`: what the object was when we last wrote it."""
    if written.uid != live.meta.uid:
        return False
    if written.resource_version == live.meta.resource_version:
        # Nobody has touched it since. It may still differ from what we want, where an admission
        # webhook has the last word; writing again would not change that.
        return True
    owners = {owner["uid"] for owner in obj["metadata"].get("ownerReferences", ())}
    if owners and live.meta.owner_uid not in owners:
        return False
    if not _within(obj["metadata"]["labels"], live.meta.labels):
        return False
    if not _within(obj["metadata"].get("annotations", {}), live.meta.annotations):
        return False
    if isinstance(live, WorkloadView):
        return written.generation == live.meta.generation
    if isinstance(live, ChildView):
        return _within(obj, live.body)
    return True  # a ControllerRevision, which nobody can change


def _within(wanted: Any, found: Any) -> bool:
    """Whether all that is wanted is found; defaults that the API server added do not count."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            key in found and _within(value, found[key]) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(wanted) == len(found)
            and all(map(_within, wanted, found))
        )
    return bool(wanted == found)

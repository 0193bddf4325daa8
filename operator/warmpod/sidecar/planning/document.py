"""A plan as people see it: the sidecar's page /plan and `kubectl warm plan`."""

from typing import Any

from warmpod.sidecar.planning.model import Plan


def plan_document(plan: Plan) -> dict[str, Any]:
    """As JSON. `requests` and `tokens` are those of one round, the tokens about."""
    return {
        "buckets": [
            {
                "name": bucket.name,
                "endpoint": bucket.endpoint,
                "stream": bucket.stream,
                "concurrency": bucket.concurrency,
                "requests": bucket.requests,
                "tokens": bucket.tokens,
                "what": bucket.what,
            }
            for bucket in plan.buckets
        ],
        "notes": list(plan.notes),
    }

"""The page /status: for people and for finding out why; not an interface."""

from collections.abc import Sequence
from typing import Any

from warmpod.sidecar.exercise import Record
from warmpod.sidecar.lifecycle import Verdict


def status_page(verdict: Verdict | None, boot: str | None, record: Record) -> dict[str, Any]:
    return {
        "open": verdict.open if verdict else False,
        "reason": verdict.reason if verdict else None,
        "message": verdict.message if verdict else "looking at a boot that was warm",
        "boot": boot,
        "engine_version": record.version,
        "notes": list(record.plan.notes),
        "rounds": record.played,
        "judgement": record.judgement,
        "late_compiles": record.late_compiles,
        "canary_failures": record.canary_failures,
        "first_token_ms": {
            bucket.name: [
                _milliseconds(each.first_token.get(bucket.name, ())) for each in record.rounds
            ]
            for bucket in record.plan.buckets
        },
    }


def _milliseconds(seconds: Sequence[float]) -> list[float]:
    return [round(value * 1000, 1) for value in seconds]

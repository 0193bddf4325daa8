"""The page /status: for people and for finding out why; not an interface."""

from collections.abc import Mapping
from typing import Any

from warmpod.sidecar import steady
from warmpod.sidecar.lifecycle import Verdict
from warmpod.sidecar.record import Record
from warmpod.sidecar.steady import BucketFigures


def status_page(
    verdict: Verdict | None, boot: str | None, record: Record, replay: Mapping[str, Any]
) -> dict[str, Any]:
    figures = steady.bucket_figures(record.rounds)
    return {
        "open": verdict.open if verdict else False,
        "reason": verdict.reason if verdict else None,
        "message": verdict.message if verdict else "looking at a boot that was warm",
        "boot": boot,
        "engine_version": record.version,
        "notes": record.notes,
        "rounds": record.played,
        "judgement": record.judgement,
        "late_compiles": record.late_compiles,
        "cache_growth": record.cache_growth,
        "canary_failures": record.canary_failures,
        "comparison": str(record.comparison) if record.comparison else None,
        "added": record.added,
        "renewed": record.renewed,
        "replay": dict(replay),
        "buckets": [
            _bucket(bucket.name, figures[bucket.name])
            for bucket in record.plan.buckets
            if bucket.name in figures
        ],
    }


def _bucket(name: str, figures: BucketFigures) -> dict[str, Any]:
    return {
        "name": name,
        "first_ms": _milliseconds(figures.first),
        "steady_ms": _milliseconds(figures.steady),
        "ratio": round(figures.ratio, 2),
        "rounds": figures.rounds,
        "inter_token_ms": _milliseconds(figures.inter_token),
    }


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)

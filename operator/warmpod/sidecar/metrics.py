"""The sidecar's own metrics.

Label values that come from outside are few: buckets are cut to a number, phases and reasons are
closed sets."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from warmpod.sidecar.engine import Reply
from warmpod.sidecar.lifecycle import Evidence, Verdict
from warmpod.sidecar.record import Record
from warmpod.sidecar.timeline import Figures
from warmpod.startup import phases
from warmpod.startup.record import read

FIRST_TOKEN_BUCKETS = (0.1, 0.5, 1, 2, 5, 10)

# The most used ones; the page /status has all.
MOST_BUCKETS = 64

NO_GPU = "none"


class Metrics:
    def __init__(self, model: str) -> None:
        self.registry = CollectorRegistry()
        self._model = model
        self._gpus = NO_GPU
        self._open = False
        self._status = self._gauge(
            "warmpod_warmup_status", "1 while the gate is open, else 0.", "gpu_id"
        )
        self._gate_changes = self._counter(
            "warmpod_gate_changes",
            "Times that the gate opened or closed, by reason.",
            "to",
            "reason",
        )
        self._canary_failures = self._gauge(
            "warmpod_canary_failures", "Canaries that failed in a row."
        ).labels(model)
        self._patch_errors = self._gauge(
            "warmpod_condition_patch_errors",
            "Attempts to report a pod condition that failed since the sidecar started.",
        ).labels(model)
        self._prefix_hit_rate = self._gauge(
            "warmpod_cache_hit_rate",
            "Share of the prompt tokens of the current boot that were found in the prefix cache.",
            "cache_type",
        )
        self._declare_warmup(model)
        self._declare_requests(model)

    def _declare_warmup(self, model: str) -> None:
        self._rounds = self._gauge(
            "warmpod_warmup_rounds", "Rounds that the current boot's warm-up has played."
        ).labels(model)
        self._buckets = self._gauge(
            "warmpod_warmup_buckets", "Buckets of the plan of the current boot's warm-up."
        ).labels(model)
        self._first_token = self._gauge(
            "warmpod_warmup_first_token_seconds",
            "Time to first token of the current boot: its very first request, and once steady.",
            "when",
        )
        self._bucket_seconds = self._gauge(
            "warmpod_warmup_bucket_seconds",
            "Time to first token of a bucket in the current boot: first, and once steady.",
            "bucket",
            "when",
        )
        self._phase_seconds = self._gauge(
            "warmpod_boot_phase_seconds",
            "What each phase took of the current boot's way to the open gate.",
            "phase",
        )

    def _declare_requests(self, model: str) -> None:
        self._latency = Histogram(
            "warmpod_first_token_latency_seconds",
            "Time to first token of each warm-up request.",
            ("model_name",),
            buckets=FIRST_TOKEN_BUCKETS,
            registry=self.registry,
        ).labels(model)
        self._requests = self._counter(
            "warmpod_warmup_requests",
            "Requests of the sidecar, canaries among them, that ended.",
            "outcome",
        )
        self._tokens = self._counter(
            "warmpod_warmup_tokens",
            "Tokens of the sidecar's requests, as far as the engine told them.",
            "type",
        )
        self._running = self._gauge(
            "warmpod_warmup_requests_running", "Requests of the sidecar that are under way."
        ).labels(model)

    def launcher_started(self, gpus: object) -> None:
        """`gpus` as the launcher's event has them: what identifies the GPUs of the container."""
        names = [str(gpu) for gpu in gpus] if isinstance(gpus, list) else []
        self._gpus = ",".join(names) or NO_GPU

    def gate_changed(self, verdict: Verdict) -> None:
        self._open = verdict.open
        to = "open" if verdict.open else "closed"
        self._gate_changes.labels(self._model, to, verdict.reason).inc()

    @contextmanager
    def request(self, canary: bool) -> Iterator[Callable[[Reply], None]]:
        """Around each request to the engine; what it yields takes the answer."""
        outcome = "failed"

        def answered(reply: Reply) -> None:
            nonlocal outcome
            outcome = "answered"
            self._count(reply, canary)

        self._running.inc()
        try:
            yield answered
        finally:
            self._running.dec()
            self._requests.labels(self._model, outcome).inc()

    def new_boot(self) -> None:
        """Nothing of the one before is left."""
        for gauge in (
            self._first_token,
            self._bucket_seconds,
            self._phase_seconds,
            self._prefix_hit_rate,
        ):
            gauge.clear()

    def warmed(self, evidence: Evidence, figures: Mapping[str, Figures] | None = None) -> None:
        """`figures`: by bucket, the most used first."""
        self._first_token.labels(self._model, "first").set(evidence.first_token)
        self._first_token.labels(self._model, "steady").set(evidence.steady)
        self._bucket_seconds.clear()
        for name, found in islice((figures or {}).items(), MOST_BUCKETS):
            self._bucket_seconds.labels(self._model, name, "first").set(found.first)
            self._bucket_seconds.labels(self._model, name, "steady").set(found.steady)

    def started(self, timeline: str) -> None:
        """The start-up is over; `timeline` is the message of its condition."""
        self._phase_seconds.clear()
        found = read(timeline)
        for share in phases.shares(phases.build(found)) if found else ():
            self._phase_seconds.labels(self._model, share.name).inc(share.seconds)

    def prefix_cache(self, hits: float, queries: float) -> None:
        """The engine's own counters of prompt tokens."""
        if queries > 0:
            self._prefix_hit_rate.labels(self._model, "prefix").set(hits / queries)

    def render(self, record: Record, patch_errors: int) -> bytes:
        self._status.clear()
        self._status.labels(self._model, self._gpus).set(self._open)
        self._rounds.set(record.played)
        self._buckets.set(len(record.plan.buckets))
        self._canary_failures.set(record.canary_failures)
        self._patch_errors.set(patch_errors)
        return generate_latest(self.registry)

    def _count(self, reply: Reply, canary: bool) -> None:
        if not canary:
            self._latency.observe(reply.first_token)
        self._tokens.labels(self._model, "prompt").inc(reply.answer.prompt_tokens or 0)
        self._tokens.labels(self._model, "generation").inc(reply.answer.completion_tokens or 0)

    def _gauge(self, name: str, what: str, *labels: str) -> Gauge:
        return Gauge(name, what, ("model_name", *labels), registry=self.registry)

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(name, what, ("model_name", *labels), registry=self.registry)

"""The sidecar's own metrics."""

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from warmpod.sidecar.lifecycle import Evidence, Verdict


class Metrics:
    def __init__(self, model: str) -> None:
        self.registry = CollectorRegistry()
        labels = ["model_name"]
        self._status = Gauge(
            "warmpod_warmup_status",
            "1 while the gate is open, else 0.",
            labels,
            registry=self.registry,
        ).labels(model)
        self._rounds = Gauge(
            "warmpod_warmup_rounds",
            "Rounds that the current boot's warm-up has played.",
            labels,
            registry=self.registry,
        ).labels(model)
        self._first_token = Gauge(
            "warmpod_warmup_first_token_seconds",
            "Time to first token of the current boot: its first request, and once steady.",
            [*labels, "when"],
            registry=self.registry,
        )
        self._gate_changes = Counter(
            "warmpod_gate_changes",
            "Times that the gate opened or closed, by reason.",
            [*labels, "to", "reason"],
            registry=self.registry,
        )
        self._canary_failures = Gauge(
            "warmpod_canary_failures",
            "Canaries that failed in a row.",
            labels,
            registry=self.registry,
        ).labels(model)
        self._patch_errors = Gauge(
            "warmpod_condition_patch_errors",
            "Attempts to report a pod condition that failed since the sidecar started.",
            labels,
            registry=self.registry,
        ).labels(model)
        self._model = model

    def gate_changed(self, verdict: Verdict) -> None:
        self._status.set(verdict.open)
        to = "open" if verdict.open else "closed"
        self._gate_changes.labels(self._model, to, verdict.reason).inc()

    def warmed(self, evidence: Evidence) -> None:
        self._first_token.labels(self._model, "first").set(evidence.first_token)
        self._first_token.labels(self._model, "steady").set(evidence.steady)

    def render(self, rounds: int, canary_failures: int, patch_errors: int) -> bytes:
        self._rounds.set(rounds)
        self._canary_failures.set(canary_failures)
        self._patch_errors.set(patch_errors)
        return generate_latest(self.registry)

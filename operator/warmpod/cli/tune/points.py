"""What `tune` tries and how it chooses. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from warmpod.api import InvalidSpec, WarmModel
from warmpod.cli.cluster import Document
from warmpod.cli.temporary import one_pod
from warmpod.load.summary import Summary

SUFFIX = "-tune"

#: Of requests that failed, in percent of all: more make a point useless.
FAILED_PERCENT = 1

# What decides how many pods there are and when, and a boot more before each engine.
_LEFT_OUT = ("schedule", "forecast", "cost")


class TuneError(Exception):
    """One line that says why nothing can be measured and what helps."""


@dataclass(frozen=True, order=True)
class Point:
    max_num_batched_tokens: int
    max_num_seqs: int

    def __str__(self) -> str:
        return f"{self.max_num_batched_tokens} tokens, {self.max_num_seqs} sequences"

    @property
    def arguments(self) -> list[str]:
        return [
            f"--max-num-batched-tokens={self.max_num_batched_tokens}",
            f"--max-num-seqs={self.max_num_seqs}",
        ]


@dataclass(frozen=True)
class Result:
    """`summary` is None where the engine never became warm, or the load did not run; `why`."""

    point: Point
    summary: Summary | None
    why: str = ""


def grid(tokens: Iterable[int], seqs: Iterable[int]) -> list[Point]:
    """All pairs that vLLM takes: the budget in tokens is not below the number of sequences.

    Raises TuneError."""
    wanted = {(budget, most) for budget in tokens for most in seqs}
    if any(number < 1 for pair in wanted for number in pair):
        raise TuneError("--batched-tokens and --seqs take numbers from 1")
    points = sorted(Point(budget, most) for budget, most in wanted if budget >= most)
    if not points:
        raise TuneError("no number of --batched-tokens is as large as one of --seqs")
    return points


def temporary(model: Document, point: Point) -> Document:
    """The WarmModel that a point is measured with: one pod, and last the arguments of the point.

    Raises TuneError."""
    name, namespace = model["metadata"]["name"], model["metadata"]["namespace"]
    if model["spec"]["engine"].get("command"):
        raise TuneError(
            f"WarmModel {namespace}/{name} has spec.engine.command, to which nothing is added: "
            "tune a WarmModel that starts vllm serve by spec.engine.args alone"
        )
    made = one_pod(model, namespace, SUFFIX, _LEFT_OUT)
    spec = made["spec"]
    spec.get("warmup", {}).pop("compare", None)
    # A point that is slow is what is to be found out.
    spec["rollout"] = {"onRegression": "Proceed"}
    spec["engine"]["args"] = [*spec["engine"].get("args", []), *point.arguments]
    _check(made)
    return made


def _check(document: Document) -> None:
    try:
        WarmModel.parse({**document, "metadata": {**document["metadata"], "uid": "none"}})
    except InvalidSpec as error:
        raise TuneError(str(error)) from error


def best(results: Sequence[Result], ttft_ms: float | None) -> Result | None:
    """The most tokens a second among those that keep the limit at the 99th percentile."""
    fitting = [
        (result.summary.tokens_per_second, result)
        for result in results
        if result.summary and _counts(result.summary, ttft_ms)
    ]
    return max(fitting, key=lambda each: each[0])[1] if fitting else None


def _counts(summary: Summary, ttft_ms: float | None) -> bool:
    if summary.ttft_p99_ms is None:
        return False
    asked = summary.requests + summary.failed
    if summary.failed * 100 > FAILED_PERCENT * asked:
        return False
    return ttft_ms is None or summary.ttft_p99_ms <= ttft_ms


def table(results: Sequence[Result], ttft_ms: float | None) -> RenderableType:
    """All points, and what to write for the best one."""
    chosen = best(results, ttft_ms)
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column("BATCHED TOKENS", justify="right")
    shown.add_column("SEQS", justify="right")
    for heading in ("TOKENS/S", "REQUESTS/S", "TTFT P50", "TTFT P99", "TPOT P50", "TPOT P99"):
        shown.add_column(heading, justify="right")
    shown.add_column("FAILED", justify="right")
    shown.add_column("")
    for result in results:
        point = (result.point.max_num_batched_tokens, result.point.max_num_seqs)
        shown.add_row(*map(str, point), *_cells(result.summary), _remark(result, chosen))
    return Group(shown, Text(), Text(_advice(chosen, ttft_ms)))


def _cells(summary: Summary | None) -> list[str]:
    if summary is None:
        return ["-"] * 7
    times = (summary.ttft_p50_ms, summary.ttft_p99_ms, summary.tpot_p50_ms, summary.tpot_p99_ms)
    return [
        f"{summary.tokens_per_second:.0f}",
        f"{summary.requests_per_second:.1f}",
        *("-" if value is None else f"{value:.1f} ms" for value in times),
        str(summary.failed),
    ]


def _remark(result: Result, chosen: Result | None) -> str:
    if result is chosen:
        return "best"
    return result.why or (result.summary.error if result.summary else "")


def _advice(chosen: Result | None, ttft_ms: float | None) -> str:
    limit = "" if ttft_ms is None else f" with a time to first token of at most {ttft_ms:g} ms"
    if chosen is None:
        return f"No point answers{limit}."
    return f"Most tokens a second{limit}: {' '.join(chosen.point.arguments)}"

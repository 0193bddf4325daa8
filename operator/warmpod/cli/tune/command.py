"""`kubectl warm tune`: which batch budget and how many sequences suit one's own requests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from warmpod.cli.cluster import Cluster, ClusterError, Document
from warmpod.cli.terminal import Context, Kubeconfig, Name, Namespace, fail, say, show
from warmpod.cli.tune import load
from warmpod.cli.tune.load import Play
from warmpod.cli.tune.points import Point, Result, TuneError, best, grid, table
from warmpod.cli.tune.run import Tuning
from warmpod.cli.waiting import Waiting

_TOKENS = "2048,8192"
_SEQS = "64,256"


def tune(
    name: Name,
    prompts: Annotated[
        Path | None,
        typer.Option(help="OpenAI request bodies, one a line. Default: those of spec.warmup."),
    ] = None,
    batched_tokens: Annotated[
        str, typer.Option(help="Values of --max-num-batched-tokens to try.")
    ] = _TOKENS,
    seqs: Annotated[str, typer.Option(help="Values of --max-num-seqs to try.")] = _SEQS,
    ttft_ms: Annotated[
        float | None,
        typer.Option(min=1, help="Longest time to first token that the best one may have, at p99."),
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Requests at a time. Default: the largest of --seqs.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=1, help="That each point is measured.")] = 60,
    ramp_seconds: Annotated[float, typer.Option(min=0, help="Of load before that.")] = 10,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Measure a WarmModel's engine with several batch budgets on requests of your own.

    For each pair of values a temporary WarmModel NAME-tune runs with one pod, which needs the GPU
    of an engine; it is removed however this ends. Needs the right to create and delete WarmModels,
    pods and ConfigMaps, and to read logs.
    """
    try:
        points = grid(_numbers(batched_tokens), _numbers(seqs))
        cluster = Cluster(kubeconfig, context)
        model = cluster.snapshot(namespace or cluster.default_namespace, name).warm_model
        most = max(point.max_num_seqs for point in points)
        play = Play(_prompts(cluster, model, prompts), concurrency or most, seconds, ramp_seconds)
        results = _measure(Tuning(Waiting(cluster, say), model, play), points, ttft_ms)
    except (ClusterError, TuneError, OSError) as error:
        fail(str(error))
    if best(results, ttft_ms) is None:
        raise typer.Exit(1)


def _measure(tuning: Tuning, points: Sequence[Point], ttft_ms: float | None) -> list[Result]:
    """What was measured is shown also where the rest could not be."""
    results: list[Result] = []
    try:
        for result in tuning.run(points):
            results.append(result)
    finally:
        if results:
            show(table(results, ttft_ms))
    return results


def _prompts(cluster: Cluster, model: Document, file: Path | None) -> str:
    """Raises TuneError, ClusterError, OSError."""
    if file is not None:
        try:
            return load.check(file.read_text())
        except UnicodeDecodeError as error:
            raise TuneError(f"{file} is not text: {error}") from error
    namespace = model["metadata"]["namespace"]
    warmup = model["spec"].get("warmup") or {}
    names = [source["configMap"] for source in warmup.get("promptsFrom") or []]
    found = [(name, cluster.core_object(namespace, "configmaps", name)) for name in names]
    return load.own_prompts(model, found)


def _numbers(text: str) -> list[int]:
    """Raises TuneError."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise TuneError(f"{text!r} is no list of numbers: write 2048,8192") from None

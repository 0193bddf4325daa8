"""The command line: arguments in, one line on failure, no traceback for what users can cause."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from warmpod.cli import golden, now, packing, plans, render, timeline, waterfall
from warmpod.cli.cache.commands import app as cache_app
from warmpod.cli.cluster import Cluster, ClusterError, Document, Snapshot
from warmpod.cli.terminal import (
    Context,
    Kubeconfig,
    Name,
    Namespace,
    complain,
    console,
    errors,
    fail,
    plain,
    show,
)
from warmpod.cli.tune.command import tune

app = typer.Typer(
    help="Look at WarmModels, record golden answers, pack models and compile caches into images.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
golden_app = typer.Typer(help="Answers that an engine must give.", no_args_is_help=True)
app.add_typer(golden_app, name="golden")
app.add_typer(cache_app, name="cache")
app.command("tune")(tune)


class Output(StrEnum):
    TEXT = "text"
    SVG = "svg"
    HTML = "html"
    JSON = "json"


@app.command()
def status(
    name: Name,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show conditions, nodes and pods of a WarmModel."""
    snapshot = _snapshot(name, namespace, kubeconfig, context)
    show(render.status(snapshot, datetime.now(UTC)))


@app.command("now")
def warm_now(
    name: Name,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Have the warm pods of a WarmModel play their warm-up again, beside what they serve."""
    try:
        cluster = Cluster(kubeconfig, context)
        asked = now.ask(cluster, namespace or cluster.default_namespace, name)
    except ClusterError as error:
        fail(str(error))
    console.print(f"asked for as {asked}; status.warmNow says when all pods have been told")


@app.command("timeline")
def show_timeline(
    name: Name,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="How to show it.")] = Output.TEXT,
    output_file: Annotated[Path | None, typer.Option(help="Default: standard output.")] = None,
) -> None:
    """Show where the time of the last start-ups went."""
    snapshot = _snapshot(name, namespace, kubeconfig, context)
    found = timeline.startups(snapshot.warm_model, snapshot.pods)
    match output:
        case Output.TEXT if output_file is None:
            show(render.startups(found))
            return
        case Output.TEXT:
            drawn = plain(render.startups(found))
        case Output.SVG:
            drawn = waterfall.svg(found)
        case Output.HTML:
            drawn = waterfall.html(found, name)
        case Output.JSON:
            drawn = waterfall.as_json(found)
    _write(drawn, output_file)


@golden_app.command("record")
def record_golden(
    engine: Annotated[str, typer.Argument(help="URL of an engine, or name of a WarmModel.")],
    prompt: Annotated[
        list[str] | None, typer.Option(help="A prompt; may be given several times.")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="File with one prompt a line.")] = None,
    endpoint: Annotated[
        golden.EndpointName, typer.Option(help="Where the prompts are sent.")
    ] = "chat",
    max_tokens: Annotated[int, typer.Option(min=1, max=256, help="Length of an answer.")] = 16,
    logprobs: Annotated[bool, typer.Option(help="Record tokens and log probabilities.")] = True,
    api_key: Annotated[
        str | None,
        typer.Option(envvar="WARMPOD_API_KEY", help="Key of the engine, where a URL is given."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Default: the first one served.")] = None,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Print the block for spec.warmup.golden that expects what a running engine answers."""
    try:
        items = golden.wanted(
            [*(prompt or []), *(_lines(file) if file else [])], endpoint, max_tokens
        )
        if not items:
            fail("nothing to record: give --prompt or --file")
        if "://" in engine:
            ask = golden.engine_at(engine, api_key)
        else:
            ask = _service(engine, namespace, kubeconfig, context)
        recorded, refused = golden.record_all(
            ask, model or golden.served_model(ask), items, logprobs
        )
    except (golden.RecordError, OSError) as error:
        fail(str(error))
    if recorded:
        typer.echo(golden.as_yaml(recorded), nl=False)
    for reason in refused:
        complain(reason)
    if refused:
        raise typer.Exit(1)


@app.command()
def plan(
    name: Annotated[str | None, typer.Argument(help="Name of a running WarmModel.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="A WarmModel that need not exist yet.")
    ] = None,
    output: Annotated[Literal["table", "json"], typer.Option("--output", "-o")] = "table",
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show which requests warm an engine up: of a file, or of a running pod."""
    if (name is None) == (file is None):
        fail("give either the name of a running WarmModel or -f FILE")
    try:
        if file is not None:
            document = plans.of_file(file)
        else:
            document = _running_plan(str(name), namespace, Cluster(kubeconfig, context))
    except (ClusterError, plans.PlanError) as error:
        fail(str(error))
    if output == "json":
        typer.echo(json.dumps(document, indent=2))
    else:
        show(plans.table(document))


@app.command()
def pack(
    source: Annotated[
        str,
        typer.Argument(help="A model's directory, or hf://ORGANISATION/NAME\\[@REVISION]."),
    ],
    destination: Annotated[
        str,
        typer.Argument(
            help="REGISTRY/REPOSITORY:TAG, or a new directory for an OCI layout (./DIR or oci:DIR)."
        ),
    ],
    include: Annotated[
        list[str] | None, typer.Option(help="Pattern of files to take; may be given several times.")
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            help="Pattern of files to leave out (original/*); may be given several times."
        ),
    ] = None,
) -> None:
    """Make a weights image of a model, one layer a shard, and push it.

    Credentials are those of docker login (or podman, crane, a credential helper). Layers that the
    registry has are not sent again, so an interrupted push is continued by the same command.
    """
    try:
        packing.run(source, destination, include or [], exclude or [], console, errors)
    except packing.PackError as error:
        fail(str(error))


def _running_plan(name: str, namespace: str | None, cluster: Cluster) -> Document:
    where = namespace or cluster.default_namespace
    pod = plans.pod_to_ask(cluster.snapshot(where, name).pods, name)
    return cluster.sidecar_page(where, pod, "plan")


def _snapshot(
    name: str, namespace: str | None, kubeconfig: Path | None, context: str | None
) -> Snapshot:
    try:
        cluster = Cluster(kubeconfig, context)
        return cluster.snapshot(namespace or cluster.default_namespace, name)
    except ClusterError as error:
        fail(str(error))


def _service(
    name: str, namespace: str | None, kubeconfig: Path | None, context: str | None
) -> golden.Ask:
    try:
        cluster = Cluster(kubeconfig, context)
    except ClusterError as error:
        fail(str(error))

    def ask(path: str, body: Mapping[str, Any] | None) -> Any:
        try:
            return cluster.ask_engine(namespace or cluster.default_namespace, name, path, body)
        except ClusterError as error:
            raise golden.RecordError(str(error)) from error

    return ask


def _lines(path: Path) -> list[str]:
    return [line.strip() for line in path.read_text().splitlines() if line.strip()]


def _write(text: str, path: Path | None) -> None:
    if path is None:
        typer.echo(text, nl=False)
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"{path} cannot be written: {error.strerror}")


if __name__ == "__main__":
    app()

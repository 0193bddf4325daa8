"""The command line: arguments in, one line on failure, no traceback for what users can cause."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from io import StringIO
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console, RenderableType
from rich.markup import escape

from warmpod.cli import render, timeline, waterfall
from warmpod.cli.cluster import Cluster, ClusterError, Snapshot
from warmpod.weights.findings import WeightsError
from warmpod.weights.pack import pack as pack_directory

app = typer.Typer(
    help="Look at WarmModels, and pack model directories into images.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
console = Console(highlight=False)
errors = Console(stderr=True, highlight=False, soft_wrap=True)

# Of text that is written to a file, where no terminal tells.
PAGE_COLUMNS = 120

Name = Annotated[str, typer.Argument(help="Name of the WarmModel.")]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Default: the context's namespace.")
]
Kubeconfig = Annotated[Path | None, typer.Option(help="Default: as kubectl finds it.")]
Context = Annotated[str | None, typer.Option(help="Context in the kubeconfig.")]


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
    console.print(render.status(snapshot, datetime.now(UTC)))


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
            console.print(render.startups(found))
            return
        case Output.TEXT:
            drawn = _plain(render.startups(found))
        case Output.SVG:
            drawn = waterfall.svg(found)
        case Output.HTML:
            drawn = waterfall.html(found, name)
        case Output.JSON:
            drawn = waterfall.as_json(found)
    _write(drawn, output_file)


@app.command()
def pack(
    directory: Annotated[Path, typer.Argument(help="A model as Hugging Face lays it out.")],
    output: Annotated[Path, typer.Argument(help="New directory for the OCI layout.")],
) -> None:
    """Make a weights image of a model directory, one layer a shard."""

    def progress(path: str, size: int) -> None:
        console.print(f"packed {escape(path)} ({size} bytes)", soft_wrap=True)

    try:
        packed = pack_directory(directory, output, progress)
    except (WeightsError, OSError) as error:
        _fail(str(error))
    console.print(
        f"{packed.digest}: {packed.layers} layers, {packed.manifest.size} bytes of model",
        soft_wrap=True,
    )
    console.print("Push it with one of:")
    console.print(f"  crane push {escape(str(output))} REGISTRY/REPOSITORY:TAG", soft_wrap=True)
    console.print(
        f"  skopeo copy --all oci:{escape(str(output))} docker://REGISTRY/REPOSITORY:TAG",
        soft_wrap=True,
    )


def _snapshot(
    name: str, namespace: str | None, kubeconfig: Path | None, context: str | None
) -> Snapshot:
    try:
        cluster = Cluster(kubeconfig, context)
        return cluster.snapshot(namespace or cluster.default_namespace, name)
    except ClusterError as error:
        _fail(str(error))


def _plain(drawn: RenderableType) -> str:
    page = StringIO()
    Console(file=page, width=PAGE_COLUMNS, highlight=False).print(drawn)
    return page.getvalue()


def _write(text: str, path: Path | None) -> None:
    if path is None:
        typer.echo(text, nl=False)
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        _fail(f"{path} cannot be written: {error.strerror}")


def _fail(message: str) -> NoReturn:
    errors.print(f"[red]error:[/red] {escape(message)}")
    raise typer.Exit(1)


if __name__ == "__main__":
    app()

"""The command line: arguments in, one line on failure, no traceback for what users can cause."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from warmpod.cli import plans, render, timeline
from warmpod.cli.cluster import Cluster, ClusterError, Document, Snapshot
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

Name = Annotated[str, typer.Argument(help="Name of the WarmModel.")]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Default: the context's namespace.")
]
Kubeconfig = Annotated[Path | None, typer.Option(help="Default: as kubectl finds it.")]
Context = Annotated[str | None, typer.Option(help="Context in the kubeconfig.")]


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
) -> None:
    """Show where the time of the last start-ups went."""
    snapshot = _snapshot(name, namespace, kubeconfig, context)
    console.print(render.startups(timeline.startups(snapshot.warm_model, snapshot.pods)))


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
        _fail("give either the name of a running WarmModel or -f FILE")
    try:
        if file is not None:
            document = plans.of_file(file)
        else:
            document = _running_plan(str(name), namespace, Cluster(kubeconfig, context))
    except (ClusterError, plans.PlanError) as error:
        _fail(str(error))
    if output == "json":
        typer.echo(json.dumps(document, indent=2))
    else:
        console.print(plans.table(document))


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
        _fail(str(error))


def _fail(message: str) -> NoReturn:
    errors.print(f"[red]error:[/red] {escape(message)}")
    raise typer.Exit(1)


if __name__ == "__main__":
    app()

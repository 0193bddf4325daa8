"""What every command writes to, how it ends in an error, and the options that all of them have."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console, RenderableType
from rich.markup import escape

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False, soft_wrap=True)

# Where no terminal tells, nothing is wrapped: what reads it looks for whole names and messages.
PAGE_COLUMNS = 10_000

Name = Annotated[str, typer.Argument(help="Name of the WarmModel.")]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Default: the context's namespace.")
]
Kubeconfig = Annotated[Path | None, typer.Option(help="Default: as kubectl finds it.")]
Context = Annotated[str | None, typer.Option(help="Context in the kubeconfig.")]


def show(drawn: RenderableType) -> None:
    """To standard output."""
    if console.is_terminal:
        console.print(drawn)
    else:
        typer.echo(plain(drawn), nl=False)


def plain(drawn: RenderableType) -> str:
    page = StringIO()
    Console(file=page, width=PAGE_COLUMNS, highlight=False).print(drawn)
    return "".join(f"{line.rstrip()}\n" for line in page.getvalue().splitlines())


def say(text: str) -> None:
    """Progress, which is not the result."""
    errors.print(escape(text))


def complain(message: str) -> None:
    """One line, no traceback."""
    errors.print(f"[red]error:[/red] {escape(message)}")


def fail(message: str) -> NoReturn:
    """The same, and the end."""
    complain(message)
    raise typer.Exit(1)

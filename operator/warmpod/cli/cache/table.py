"""How `cache ls` shows entries. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from rich.console import RenderableType
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from warmpod.cli.cache.entries import Stored
from warmpod.cli.render import age
from warmpod.compilecache.factors import KEY_CHARACTERS


def of(entries: Iterable[Stored], now: datetime) -> RenderableType:
    """One row an entry and node, those that were used last first."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("KEY", min_width=KEY_CHARACTERS)  # to be copied
    for name in ("NODE", "STATE"):
        table.add_column(name)
    for name in ("SIZE", "FILES"):
        table.add_column(name, justify="right")
    for name in ("CREATED", "USED", "GPU", "DRIVER", "WHY"):
        table.add_column(name)
    for entry in sorted(entries, key=lambda entry: (-entry.used, entry.key, entry.node)):
        table.add_row(*map(Text, _row(entry, now)))
    return table


def _row(entry: Stored, now: datetime) -> tuple[str, ...]:
    return (
        entry.key,
        entry.node,
        entry.state,
        decimal(entry.size),
        str(entry.files),
        _ago(entry.created, now),
        _ago(entry.used, now),
        ", ".join(map(str, entry.factors.get("gpu") or [])) or "-",
        str(entry.factors.get("driver") or "-"),
        entry.why,
    )


def _ago(seconds: float, now: datetime) -> str:
    return age(datetime.fromtimestamp(seconds, UTC).isoformat(), now)

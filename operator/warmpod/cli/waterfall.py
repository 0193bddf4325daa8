"""Start-ups as a waterfall: one SVG, one HTML page, or JSON. Pure; nothing is loaded from outside.

Both follow the reader's light or dark colours. Every text comes from a cluster, so it is escaped,
and what XML cannot hold at all is taken out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any
from xml.sax.saxutils import escape

from warmpod.cli.timeline import Shown
from warmpod.startup.phases import Phase
from warmpod.startup.pod import RESOLUTION_SECONDS

# Pixels.
WIDTH = 960
NAMES = 290
SECONDS = 70
ROW = 20
TITLE = 34
GAP = 18
MARGIN = 12

NARROWEST_BAR = 1.0
TICKS = 5

_LEGEND = (
    ("logged", "logged or measured"),
    ("silent", "the engine logs nothing"),
    ("kubernetes", "Kubernetes, in whole seconds"),
    ("beside", "ran beside the critical path"),
)

_STYLE = """
svg { --text: #1f2328; --faint: #59636e; --line: #d1d9e0; --paper: #ffffff;
  --logged: #2f6fd0; --silent: #c4711b; --kubernetes: #6e7781; }
@media (prefers-color-scheme: dark) {
  svg { --text: #e6edf3; --faint: #9198a1; --line: #3d444d; --paper: #0d1117;
    --logged: #58a6ff; --silent: #e3a04f; --kubernetes: #9198a1; }
}
text { font: 12px system-ui, sans-serif; fill: var(--text); }
.title { font-weight: 600; }
.faint { fill: var(--faint); }
.end { text-anchor: end; }
.paper { fill: var(--paper); }
.line { stroke: var(--line); }
.logged { fill: var(--logged); }
.silent { fill: var(--silent); }
.kubernetes { fill: var(--kubernetes); }
.beside { opacity: 0.4; }
"""

_PAGE_STYLE = """
:root { color-scheme: light dark; }
body { font: 14px system-ui, sans-serif; margin: 24px auto; max-width: 1000px; padding: 0 16px;
  background: #ffffff; color: #1f2328; }
svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; margin: 8px 0 24px; }
th, td { padding: 2px 12px 2px 0; text-align: left; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
@media (prefers-color-scheme: dark) { body { background: #0d1117; color: #e6edf3; } }
"""

# What no XML document may hold, escaped or not.
_NOT_XML = re.compile(r"[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def svg(found: Sequence[Shown]) -> str:
    """One picture of all start-ups, each on a time axis of its own."""
    rows: list[str] = []
    y = MARGIN
    for shown in found:
        rows += _startup(shown, y)
        y += _height(shown)
    if not found:
        rows.append(_text(MARGIN, y + 14, "No start-up has been reported yet."))
        y += ROW
    rows += _legend(y)
    height = y + ROW + MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img">'
    )
    paper = f'<rect class="paper" width="{WIDTH}" height="{height}"/>'
    title = "<title>Start-ups</title>"
    return "\n".join([head, title, f"<style>{_STYLE}</style>", paper, *rows, "</svg>"]) + "\n"


def html(found: Sequence[Shown], name: str) -> str:
    """A page of its own, with the numbers of the picture as tables."""
    title = f"Start-ups of {_clean(name)}"
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en" xmlns="http://www.w3.org/1999/xhtml">',
        f'<head><meta charset="utf-8"/><title>{title}</title><style>{_PAGE_STYLE}</style></head>',
        f"<body><h1>{title}</h1>",
        svg(found),
    ]
    for shown in found:
        parts += _table(shown)
    return "\n".join([*parts, "</body></html>"]) + "\n"


def as_json(found: Sequence[Shown]) -> str:
    """Seconds from the beginning of each start-up; `begin` is null where only lengths are known."""
    return json.dumps([_document(shown) for shown in found], indent=2) + "\n"


def _startup(shown: Shown, y: int) -> Iterator[str]:
    startup = shown.startup
    yield _text(MARGIN, y + 16, shown.title, "title")
    top, bottom = y + TITLE, y + TITLE + ROW * len(startup.phases)
    yield from _axis(startup.seconds, top, bottom)
    for number, phase in enumerate(startup.phases):
        yield from _row(phase, startup.begin, startup.seconds, top + number * ROW)
    for number, remark in enumerate(shown.remarks):
        yield _text(MARGIN, bottom + 16 + number * ROW, remark, "faint")


def _height(shown: Shown) -> int:
    return TITLE + ROW * (len(shown.startup.phases) + len(shown.remarks)) + GAP


def _axis(total: float, top: int, bottom: int) -> Iterator[str]:
    for tick in range(TICKS + 1):
        x = _x(tick / TICKS)
        yield f'<line class="line" x1="{x:.1f}" y1="{top - 4}" x2="{x:.1f}" y2="{bottom}"/>'
        yield _text(x, top - 7, f"{total * tick / TICKS:.3g} s", "faint end" if tick else "faint")


def _row(phase: Phase, begin: float, total: float, y: int) -> Iterator[str]:
    left, right = _x(_share(phase.start - begin, total)), _x(_share(phase.end - begin, total))
    width = max(NARROWEST_BAR, right - left)
    beside = "" if phase.critical else " beside"
    yield _text(MARGIN, y + 14, _shortened(phase.label))
    yield _text(NAMES + SECONDS - 8, y + 14, f"{phase.seconds:.2f} s", "end")
    yield (
        f'<rect class="{phase.kind}{beside}" x="{left:.1f}" y="{y + 3}" width="{width:.1f}" '
        f'height="{ROW - 6}" rx="2"><title>{_clean(_explained(phase, begin))}</title></rect>'
    )


def _legend(y: int) -> Iterator[str]:
    for number, (kind, words) in enumerate(_LEGEND):
        x = MARGIN + number * 235
        shade = "logged beside" if kind == "beside" else kind
        yield f'<rect class="{shade}" x="{x}" y="{y + 5}" width="12" height="12" rx="2"/>'
        yield _text(x + 18, y + 15, words, "faint")


def _table(shown: Shown) -> Iterator[str]:
    yield f"<h2>{_clean(shown.title)}</h2>"
    yield "<table><tr><th>Phase</th><th>Seconds</th><th>From</th><th></th></tr>"
    for phase in shown.startup.phases:
        start = phase.start - shown.startup.begin
        yield (
            f'<tr><td>{_clean(phase.label)}</td><td class="number">{phase.seconds:.2f}</td>'
            f'<td class="number">{start:.2f}</td><td>{_clean(_words(phase))}</td></tr>'
        )
    yield "</table>"
    for remark in shown.remarks:
        yield f"<p>{_clean(remark)}</p>"


def _explained(phase: Phase, begin: float) -> str:
    return f"{phase.label}: {phase.seconds:.2f} s from {phase.start - begin:.2f} s; {_words(phase)}"


def _words(phase: Phase) -> str:
    words = dict(_LEGEND)
    return words[phase.kind] if phase.critical else f"{words[phase.kind]}; {words['beside']}"


def _document(shown: Shown) -> dict[str, Any]:
    startup = shown.startup
    return {
        "pod": shown.pod,
        "boot": shown.boot,
        "cause": shown.cause,
        "begin": datetime.fromtimestamp(startup.begin, UTC).isoformat() if startup.begin else None,
        "seconds": round(startup.seconds, 3),
        "kubernetesResolutionSeconds": RESOLUTION_SECONDS,
        "phases": [
            {
                "name": phase.name,
                "label": phase.label,
                "start": round(phase.start - startup.begin, 3),
                "end": round(phase.end - startup.begin, 3),
                "kind": phase.kind,
                "critical": phase.critical,
            }
            for phase in startup.phases
        ],
        "remarks": list(shown.remarks),
    }


def _text(x: float, y: int, words: str, style: str = "") -> str:
    class_ = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y}"{class_}>{_clean(words)}</text>'


def _x(share: float) -> float:
    left = NAMES + SECONDS
    return left + share * (WIDTH - MARGIN - left)


def _share(seconds: float, total: float) -> float:
    return min(1.0, max(0.0, seconds / total)) if total > 0 else 0.0


def _shortened(words: str, most: int = 44) -> str:
    return words if len(words) <= most else f"{words[: most - 1]}…"


def _clean(words: str) -> str:
    return escape(_NOT_XML.sub("�", words), {'"': "&quot;"})

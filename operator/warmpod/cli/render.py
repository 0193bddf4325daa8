"""Documents of the cluster become tables. Pure: takes the clock as an argument."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from warmpod.api.profiles import PROFILES
from warmpod.cli.cluster import Document, Snapshot
from warmpod.cli.timeline import Shown
from warmpod.protocol import GROUP, RESIDENT_CONDITION, WARM_CONDITION
from warmpod.startup.phases import Phase

BAR_COLUMNS = 40
BARS = {"logged": ("█", "cyan"), "silent": ("▒", "yellow"), "kubernetes": ("▓", "blue")}
BESIDE = "░"
LEGEND = (
    "* critical path  █ logged or measured  ▒ the engine logs nothing  "
    "▓ Kubernetes, in whole seconds  ░ ran beside the critical path"
)
COLOURS = {"True": "green", "False": "red", "Unknown": "yellow"}
# Good news for these two is False.
INVERTED = ("Reconciling", "Stalled")
STANDBY = "standby"
# Reasons of engines that sleep, or are about to be awake.
SLEEPING = ("Asleep", "Waking")


def status(snapshot: Snapshot, now: datetime) -> RenderableType:
    """Everything about one WarmModel: summary, conditions, nodes, pods."""
    model = snapshot.warm_model
    engines = [pod for pod in snapshot.pods if _label(pod, "component") == "engine"]
    parts: list[RenderableType] = [_summary(model, engines), Text(), _conditions(model, now)]
    failed = model.get("status", {}).get("nodes", {}).get("failed", [])
    if failed:
        parts += [Text(), _failed_nodes(failed)]
    for component, title, version, condition in (
        ("engine", "Engine pods", "revision", WARM_CONDITION),
        ("prefetch", "Nodes", "prefetch", RESIDENT_CONDITION),
    ):
        pods = [pod for pod in snapshot.pods if _label(pod, "component") == component]
        parts += [Text(), _pods(title, pods, version, condition, now)]
    return Group(*parts)


def startups(found: list[Shown]) -> RenderableType:
    if not found:
        return Text("No start-up has been reported yet.")
    parts = [_startup(shown) for shown in found]
    return Group(*_with_gaps([*parts, Text(LEGEND, style="dim")]))


def age(then: str | None, now: datetime) -> str:
    """As kubectl writes it: the two largest units at most."""
    if not then:
        return ""
    seconds = max(0, int((now - datetime.fromisoformat(then)).total_seconds()))
    if seconds < 120:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m"
    if seconds < 48 * 3600:
        return f"{seconds // 3600}h{seconds % 3600 // 60}m"
    return f"{seconds // 86400}d"


def _summary(model: Document, engines: list[Document]) -> Table:
    found, spec, metadata = model.get("status", {}), model.get("spec", {}), model["metadata"]
    nodes, resolved = found.get("nodes", {}), found.get("model", {})
    image = spec.get("model", {}).get("image", "")
    rows = [
        ("WarmModel", f"{metadata['namespace']}/{metadata['name']}"),
        ("Model", resolved.get("source") or image),
        *([("Digest", resolved.get("digest") or "not resolved")] if image or not resolved else []),
        ("Revision", found.get("revision", "none yet")),
        (
            "Pods",
            f"{found.get('readyReplicas', 0)} of {spec.get('replicas', 1)} ready, "
            f"{found.get('warmReplicas', 0)} warm, {found.get('standbyReplicas', 0)} standby",
        ),
        *_pool(_standby(spec), found.get("standby", {}), engines),
        (
            "Nodes",
            f"{nodes.get('eligible', 0)} eligible, {nodes.get('prefetched', 0)} prefetched, "
            f"{nodes.get('resident', 0)} resident",
        ),
    ]
    if found.get("observedGeneration") != metadata.get("generation"):
        rows.append(("Note", "the operator has not seen the latest spec yet"))
    table = Table.grid(padding=(0, 2))
    for name, value in rows:
        table.add_row(Text(name, style="bold"), Text(value))
    return table


def _standby(spec: Document) -> Document:
    """As it is stated, else as the profile has it."""
    profile = PROFILES.get(spec.get("profile"))  # type: ignore[arg-type] # any text, or none
    return {**(profile.standby if profile else {}), **spec.get("standby", {})}


def _pool(asked: Document, used: Document, engines: list[Document]) -> Iterator[tuple[str, str]]:
    """What is asked for, what stands there, and what it was good for."""
    held = Counter(_doing(pod) for pod in engines if _label(pod, "role") == STANDBY)
    replicas = asked.get("replicas", 0)
    if replicas or held:
        states = ", ".join(f"{held[state]} {state}" for state in ("awake", "asleep", "starting"))
        sleeping = " (Sleeping)" if asked.get("state") == "Sleeping" else ""
        yield "Standby", f"{replicas} asked for{sleeping}: {states}"
    if used.get("summary"):
        yield "Pool", used["summary"]


def _doing(pod: Document) -> str:
    warm = _condition(pod, WARM_CONDITION)
    if warm.get("reason") in SLEEPING:
        return "asleep"
    return "awake" if warm.get("status") == "True" else "starting"


def _conditions(model: Document, now: datetime) -> Table:
    table = _table(None, "Condition", "Status", "Reason", "Age", "Message")
    for condition in model.get("status", {}).get("conditions", []):
        table.add_row(
            Text(condition["type"]),
            _coloured(condition["type"], condition["status"]),
            Text(condition.get("reason", "")),
            Text(age(condition.get("lastTransitionTime"), now)),
            Text(condition.get("message", "")),
        )
    return table


def _failed_nodes(failed: list[Document]) -> Table:
    table = _table("Failed nodes", "Node", "Reason", "Message")
    for node in failed:
        table.add_row(
            Text(node["node"]), Text(node.get("reason", "")), Text(node.get("message", ""))
        )
    return table


def _pods(title: str, pods: list[Document], version: str, condition: str, now: datetime) -> Table:
    """`version`: the label that tells apart what the pods of two specs are."""
    short, column = condition.removeprefix(f"{GROUP}/"), version.capitalize()
    table = _table(title, "Pod", "Node", column, "Role", short, "Reason", "Age", "Message")
    for pod in sorted(pods, key=lambda item: (_label(item, "role"), str(item["metadata"]["name"]))):
        found = _condition(pod, condition)
        table.add_row(
            Text(pod["metadata"]["name"]),
            Text(pod.get("spec", {}).get("nodeName") or "none"),
            Text(_label(pod, version)),
            Text(_label(pod, "role")),
            _warmth(short, found),
            Text(found.get("reason", "")),
            Text(age(pod["metadata"].get("creationTimestamp"), now)),
            Text(found.get("message") or str(pod.get("status", {}).get("phase", ""))),
        )
    return table


def _startup(shown: Shown) -> RenderableType:
    name, _, rest = shown.title.partition("  ")
    title = Text(name, style="bold")
    title.append(f"  {rest}", style="none")
    table = Table.grid(padding=(0, 1))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(no_wrap=True)
    for phase in shown.startup.phases:
        table.add_row(
            Text(f"{'*' if phase.critical else ' '} {phase.label}"),
            Text(f"{phase.seconds:.2f} s"),
            _bar(phase, shown.startup.begin, shown.startup.seconds),
        )
    remarks = [Text(f"  {remark}", style="dim") for remark in shown.remarks]
    return Group(title, table, *remarks)


def _bar(phase: Phase, begin: float, total: float) -> Text:
    shade, colour = BARS[phase.kind]
    drawn = bar(phase.start - begin, phase.end - begin, total)
    return Text(drawn.replace("█", shade if phase.critical else BESIDE), style=colour)


def bar(start: float, end: float, total: float) -> str:
    """A bar at its place on the axis, at least one column wide."""
    if total <= 0:
        return "█"
    left = min(max(0, round(start / total * BAR_COLUMNS)), BAR_COLUMNS - 1)
    right = min(max(left + 1, round(end / total * BAR_COLUMNS)), BAR_COLUMNS)
    return " " * left + "█" * (right - left)


def _table(title: str | None, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _coloured(type_: str, value: str) -> Text:
    good = {"True": "False", "False": "True"}.get(value, value) if type_ in INVERTED else value
    return Text(value, style=COLOURS.get(good, ""))


def _warmth(type_: str, found: Document) -> Text:
    """A pod that sleeps is no fault."""
    if found.get("reason") in SLEEPING:
        return Text(found["status"], style="cyan")
    return _coloured(type_, found.get("status", "Unknown"))


def _condition(pod: Document, type_: str) -> Document:
    for condition in pod.get("status", {}).get("conditions", []):
        if condition["type"] == type_:
            return dict(condition)
    return {}


def _label(pod: Document, name: str) -> str:
    return str(pod["metadata"].get("labels", {}).get(f"{GROUP}/{name}", ""))


def _with_gaps(parts: list[RenderableType]) -> Iterator[RenderableType]:
    for index, part in enumerate(parts):
        if index:
            yield Text()
        yield part

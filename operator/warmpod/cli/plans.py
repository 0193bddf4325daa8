"""Warm-up plans: derived from a file, or fetched from the sidecar of a running pod."""

from __future__ import annotations

from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from warmpod.api import InvalidSpec, WarmModel
from warmpod.cli import files
from warmpod.cli.cluster import Document
from warmpod.resources.names import COMPONENT_LABEL
from warmpod.sidecar.planning import inline_prompts, make_plan, plan_document
from warmpod.sidecar.planning.assumed import assumed


class PlanError(Exception):
    """One line that says what cannot be planned and what helps."""


def of_file(path: Path) -> Document:
    """The plan of the one WarmModel in a file of YAML documents. Raises PlanError."""
    try:
        return _of_model(WarmModel.parse(files.as_admitted(files.warm_model(path))))
    except files.FileError as error:
        raise PlanError(str(error)) from error
    except InvalidSpec as error:
        raise PlanError(f"{path}: {error}") from error


def _of_model(model: WarmModel) -> Document:
    warmup = model.spec.warmup
    document = plan_document(make_plan(assumed(model), warmup, inline_prompts(warmup.prompts)))
    document["notes"] += [
        f"prompts of ConfigMap {source.config_map} are known to the pods only"
        for source in warmup.prompts_from
    ]
    return document


def pod_to_ask(pods: list[Document], name: str) -> str:
    """Name of an engine pod whose sidecar runs: the newest. Raises PlanError."""
    running = [
        pod["metadata"]
        for pod in pods
        if pod["metadata"].get("labels", {}).get(COMPONENT_LABEL) == "engine"
        and pod.get("status", {}).get("phase") == "Running"
    ]
    if not running:
        raise PlanError(
            f"no engine pod of {name} runs: see `kubectl warm status {name}`, or plan from its "
            "file with -f"
        )
    return str(max(running, key=lambda metadata: metadata.get("creationTimestamp", ""))["name"])


def table(document: Document) -> RenderableType:
    """Buckets, the most used first, and notes."""
    buckets = document["buckets"]
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column("BUCKET", no_wrap=True)  # to be copied into spec.warmup.skip
    shown.add_column("REQUESTS", justify="right")
    shown.add_column("TOKENS", justify="right")
    shown.add_column("WHAT")
    for bucket in buckets:
        numbers = (str(bucket["requests"]), str(bucket["tokens"]))
        shown.add_row(Text(bucket["name"]), *numbers, Text(bucket["what"]))
    requests, tokens = (sum(bucket[key] for bucket in buckets) for key in ("requests", "tokens"))
    total = Text(f"A round has {requests} requests and about {tokens} tokens.")
    notes = [Text(f"Note: {note}") for note in document["notes"]]
    return Group(shown, Text(), total, *notes)

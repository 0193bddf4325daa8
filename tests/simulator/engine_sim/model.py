"""What the simulated model is: its tasks, its chat template, its labels.

A real model directory is read where there is one, so that a simulator beside a model serves what
that model would."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine_sim.arguments import Arguments
from engine_sim.knobs import Knobs

GENERATIVE = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
# What `--task` still means, from when it named a task instead of a runner.
OLD_TASKS = {
    "embed": "embed",
    "embedding": "embed",
    "classify": "classify",
    "score": "classify",
    "reward": "token_classify",
}


@dataclass(frozen=True)
class Model:
    """The model as the server sees it. `pooling` is the one task of a pooling model."""

    architecture: str
    pooling: str | None
    transcribes: bool
    images: bool
    chat_template: bool
    labels: int

    @property
    def generates(self) -> bool:
        """Whether it has completions and chat."""
        return self.pooling is None and not self.transcribes

    @property
    def scores(self) -> bool:
        """Whether it has the scoring routes: embeddings, and classifiers with one label."""
        return self.pooling == "embed" or (self.pooling == "classify" and self.labels == 1)

    @property
    def tasks(self) -> tuple[str, ...]:
        """As in vLLM's line `Supported tasks`."""
        if self.transcribes:
            return ("transcription",)
        if self.pooling == "embed":
            return ("token_embed", "embed")
        return (self.pooling,) if self.pooling else ("generate",)


def describe(arguments: Arguments, knobs: Knobs) -> Model:
    """Find out what the model is, from the arguments, the knobs and its own files."""
    directory = Path(arguments.model)
    config = _read(directory / "config.json")
    architecture = knobs.architecture or (config.get("architectures") or ["LlamaForCausalLM"])[0]
    pooling = _pooling(arguments, architecture)
    return Model(
        architecture=architecture,
        pooling=pooling,
        transcribes=pooling is None and "Whisper" in architecture,
        images=architecture.endswith("ForConditionalGeneration"),
        chat_template=_has_chat_template(arguments, knobs, directory),
        labels=knobs.labels or _labels(arguments, config),
    )


def _pooling(arguments: Arguments, architecture: str) -> str | None:
    if arguments.task in OLD_TASKS:
        return OLD_TASKS[arguments.task]
    generative = architecture.endswith(GENERATIVE)
    if arguments.convert in ("embed", "classify"):
        return arguments.convert
    if arguments.runner == "generate" or (arguments.runner != "pooling" and generative):
        return None
    if "ForTokenClassification" in architecture:
        return "token_classify"
    return "classify" if "ForSequenceClassification" in architecture else "embed"


def _has_chat_template(arguments: Arguments, knobs: Knobs, directory: Path) -> bool:
    if arguments.chat_template is not None:
        return True
    if knobs.chat_template == "none" or knobs.fault.name == "no-chat-template":
        return False
    tokenizer = directory / "tokenizer_config.json"
    if not tokenizer.exists() or (directory / "chat_template.jinja").exists():
        return True
    return "chat_template" in _read(tokenizer)


def _labels(arguments: Arguments, config: Mapping[str, Any]) -> int:
    if "num_labels" in config or "id2label" in config:
        return int(config.get("num_labels") or len(config["id2label"]))
    return 1 if arguments.task == "score" else 2


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}

"""What the arguments say about an engine that decides which requests exercise it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from warmpod.engine.options import SPECULATIVE, Option, json_of

LARGEST = 2**31

_SUFFIXES = {
    **{letter: 1000**power for power, letter in enumerate("kmgt", 1)},
    **{letter: 1024**power for power, letter in enumerate("KMGT", 1)},
}
_NUMBER = re.compile(r"(\d{1,12})(\.\d{1,12})?([kKmMgGtT]?)")
_SPECULATING = (SPECULATIVE, "--spec-method", "--spec-model", "--spec-tokens")


@dataclass(frozen=True, slots=True)
class EngineTraits:
    """A value that the arguments do not state is None, False or empty.

    `config_file`: there may be more in a file that only the engine reads."""

    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    max_logprobs: int | None = None
    priority_scheduling: bool = False
    tool_parser: str | None = None
    auto_tool_choice: bool = False
    reasoning_parser: str | None = None
    speculative: bool = False
    lora_modules: tuple[str, ...] = ()
    images_per_prompt: int | None = None
    task: str | None = None
    config_file: bool = False


def read_traits(options: Sequence[Option]) -> EngineTraits:
    """Tolerant: what cannot be read stays at its default."""
    last = {option.name: option.values for option in options if not option.entry and option.values}
    first = {name: values[0] for name, values in last.items()}
    present = {option.name for option in options}
    return EngineTraits(
        max_model_len=tokens(first.get("--max-model-len")),
        max_num_batched_tokens=tokens(first.get("--max-num-batched-tokens")),
        max_num_seqs=tokens(first.get("--max-num-seqs")),
        max_logprobs=tokens(first.get("--max-logprobs")),
        priority_scheduling=first.get("--scheduling-policy") == "priority",
        tool_parser=first.get("--tool-call-parser") or None,
        auto_tool_choice="--enable-auto-tool-choice" in present,
        reasoning_parser=first.get("--reasoning-parser") or None,
        speculative=any(name in present for name in _SPECULATING),
        lora_modules=tuple(_adapters(last.get("--lora-modules", ()))),
        images_per_prompt=_images(options),
        task=_task(first),
        config_file="--config" in first,
    )


def tokens(text: str | None) -> int | None:
    """A number as vLLM takes it: 8192, 8k (thousands), 8K (of 1024), 25.6k. None for `auto`, -1
    and what is no number from 1 to 2**31."""
    match = _NUMBER.fullmatch((text or "").strip())
    if match is None:
        return None
    whole, fraction, suffix = match.groups()
    if fraction and (not suffix or suffix.isupper()):
        return None
    value = int(float(whole + (fraction or "")) * _SUFFIXES.get(suffix, 1))
    return value if 1 <= value <= LARGEST else None


def _task(first: Mapping[str, str]) -> str | None:
    """The most specific of three options; `auto` and `none` leave it to the model."""
    given = (first.get(name, "") for name in ("--convert", "--task", "--runner"))
    return next((task for task in given if task not in ("", "auto", "none")), None)


def _adapters(values: Iterable[str]) -> Iterable[str]:
    """Names of `name=path`, of a JSON object, or of a JSON list of objects."""
    for value in values:
        name, equals, _ = value.partition("=")
        if equals and "," not in value and not value.lstrip().startswith(("{", "[")):
            if name:
                yield name
            continue
        parsed = json_of(value)
        for entry in parsed if isinstance(parsed, list) else [parsed]:
            found = entry.get("name") if isinstance(entry, dict) else None
            if isinstance(found, str) and found:
                yield found


def _images(options: Iterable[Option]) -> int | None:
    """The last word on images in a prompt: a JSON value, an entry of it, or `image=2,video=1`."""
    images: int | None = None
    for option in options:
        if option.name != "--limit-mm-per-prompt" or not option.values:
            continue
        value = option.values[0]
        if option.entry in ("image", "image.count"):
            found: Any = json_of(value)
        elif option.entry:
            continue
        else:
            parsed = json_of(value)
            found = parsed.get("image") if isinstance(parsed, dict) else _old_image_limit(value)
        if isinstance(found, dict):
            found = found.get("count")
        if isinstance(found, int) and not isinstance(found, bool) and found >= 0:
            images = found
    return images


def _old_image_limit(value: str) -> int | None:
    match = re.search(r"(?:^|,)\s*image=(\d{1,9})(?:,|$)", value)
    return int(match.group(1)) if match else None

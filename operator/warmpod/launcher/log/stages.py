"""What the engine's log lines mean: start-up stages, late compilations, sleep, and failures.

Pure. The texts are those of vLLM 0.26 to 0.33. A line is first searched for a fixed piece of text,
because a regular expression on every line of a busy server costs CPU that the engine needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from warmpod.launcher.log.failures import rule_for

LINE_CHARACTERS = 300
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Stage:
    """A start-up stage was passed; `seconds` and `detail` are what the line says about it."""

    name: str
    seconds: float | None = None
    detail: str | None = None


@dataclass(frozen=True)
class LateCompile:
    """A kernel was compiled while a request waited for it."""

    kernel: str


@dataclass(frozen=True)
class Slept:
    """A worker has given memory of its GPU back; it still holds `held_gib`."""

    freed_gib: float
    held_gib: float


@dataclass(frozen=True)
class Failure:
    """A line that names the cause of an engine's death, or that only follows from a cause.

    `depth` is 0 for a cause; a failure follows from those of its own depth and less.
    """

    reason: str
    line: str
    depth: int = 0


Finding = Stage | LateCompile | Slept | Failure


@dataclass(frozen=True)
class _StageRule:
    name: str
    text: str
    pattern: re.Pattern[str]


def _stage(name: str, text: str, pattern: str) -> _StageRule:
    return _StageRule(name, text, re.compile(pattern))


# Groups named `seconds` and `detail` go into the event.
_STAGES = (
    _stage("version", "version", r"version (?P<detail>\d+\.\d+\.[^\s,]+)(?:$|, serving model)"),
    _stage("args", "non-default args: ", r"non-default args: (?P<detail>.*)"),
    _stage("config", "Using max model len", r"Using max model len (?P<detail>\d+)"),
    _stage(
        "engine_start",
        "Initializing a V1 LLM engine",
        r"Initializing a V1 LLM engine \(v(?P<detail>[^)]+)\)",
    ),
    _stage("dist", "world_size=", r"(?P<detail>world_size=\d+ rank=\d+) local_rank=\d+"),
    _stage("load_start", "oad", r"Starting to load model |Loading model from scratch"),
    _stage("weights", "Loading weights took", r"Loading weights took (?P<seconds>[\d.]+) seconds"),
    _stage(
        "model_loaded",
        "Model loading took",
        r"Model loading took (?P<detail>[\d.]+ GiB)(?: memory)? and (?P<seconds>[\d.]+) seconds",
    ),
    _stage(
        "aot_hit",
        "Directly load AOT compilation",
        r"Directly load AOT compilation from path (?P<detail>\S+)",
    ),
    _stage(
        "aot_fail",
        "Compiling model again due to a load failure",
        r"Compiling model again due to a load failure from \S+, reason: (?P<detail>.*)",
    ),
    _stage("compile", "torch.compile took", r"torch\.compile took (?P<seconds>[\d.]+) s in total"),
    _stage(
        "compile_nonaot",
        "torch.compile and initial profiling",
        r"torch\.compile and initial profiling/warmup run together took (?P<seconds>[\d.]+) s",
    ),
    _stage(
        "profile",
        "Initial profiling/warmup run took",
        r"Initial profiling/warmup run took (?P<seconds>[\d.]+) s",
    ),
    _stage("kv_size", "KV cache size: ", r"(?:GPU|CPU) KV cache size: (?P<detail>[\d,]+ tokens)"),
    _stage(
        "jit",
        "JIT kernel warmup",
        r"JIT kernel warmup (?P<detail>finished|failed) (?:in|after) (?P<seconds>[\d.]+)s",
    ),
    _stage("graphs_start", "Capturing ", r"Capturing (?:[\w -]+ )?CUDA graphs\b"),
    _stage(
        "graphs",
        "Graph capturing finished",
        r"Graph capturing finished in (?P<seconds>[\d.]+) secs, took (?P<detail>-?[\d.]+ GiB)",
    ),
    _stage(
        "engine_ready",
        "init engine (profile",
        r"init engine \(profile, create kv cache, warmup model\) took (?P<seconds>[\d.]+) s"
        r"(?: \((?P<detail>compilation: .*)\))?",
    ),
    _stage("http", "Starting vLLM server on", r"Starting vLLM server on (?P<detail>\S+)"),
    _stage("ready", "Application startup complete.", r"Application startup complete\."),
)

_LATE_COMPILE_TEXT = "kernel JIT compilation during inference: "
_LATE_COMPILE = re.compile(
    r"(?:Triton|CuTeDSL|TileLang) kernel JIT compilation during inference: "
    r"(?P<kernel>\S+?)\.(?:\s|$)"
)

# One line a worker (v1/worker/gpu_worker.py).
_SLEPT_TEXT = "Sleep mode freed "
_SLEPT = re.compile(
    r"Sleep mode freed (?P<freed>[\d.]+) GiB memory, (?P<held>[\d.]+) GiB memory is still in use"
)


# These lines hold the words of users, which may be any text of the rules: of a prompt, an answer, a
# stop word, a body that was refused.
_OF_REQUESTS = (
    "Received request ",
    " details: prompt: ",
    " JSON body: ",
    "Generated response ",
    "response_body={",
    "Input prompt: ",
    "Received messages request ",
    "Convert to OpenAI request ",
    " failed (bad request): ",
    "Chat template rejected the request: ",
)


def clean(line: str) -> str:
    """The line without terminal colours, at most LINE_CHARACTERS long."""
    return _COLOURS.sub("", line).rstrip()[:LINE_CHARACTERS]


def findings(line: str) -> Iterator[Finding]:
    """What one line of the engine's output says; nothing if a user may have written it."""
    text = _COLOURS.sub("", line).rstrip()
    for finding in _search(text):
        if not any(piece in text for piece in _OF_REQUESTS):
            yield finding


def _search(text: str) -> Iterator[Finding]:
    stage = _find_stage(text)
    if stage is not None:
        yield stage
        return
    if _LATE_COMPILE_TEXT in text:
        late = _LATE_COMPILE.search(text)
        if late is not None:
            yield LateCompile(late["kernel"][:LINE_CHARACTERS])
            return
    if _SLEPT_TEXT in text:
        yield from _find_slept(text)
        return
    rule = rule_for(text)
    if rule is not None:
        yield Failure(rule.reason, clean(text), rule.depth)


def _number(digits: str | None) -> float | None:
    """None also for dots that are no number: anybody may write a line that looks like vLLM's, for
    example into a prompt that is logged."""
    try:
        return None if digits is None else float(digits)
    except ValueError:
        return None


def _find_slept(text: str) -> Iterator[Slept]:
    found = _SLEPT.search(text)
    if found is None:
        return
    freed, held = _number(found["freed"]), _number(found["held"])
    if freed is not None and held is not None:
        yield Slept(freed, held)


def _find_stage(text: str) -> Stage | None:
    for rule in _STAGES:
        if rule.text not in text:
            continue
        found = rule.pattern.search(text)
        if found is not None:
            groups = found.groupdict()
            seconds, detail = groups.get("seconds"), groups.get("detail")
            return Stage(
                rule.name,
                _number(seconds),
                detail[:LINE_CHARACTERS] if detail is not None else None,
            )
    return None

"""The tables of docs/benchmarks.md, from the records of a pass."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from warmpod.startup.names import PHASES, known

JsonObject = dict[str, Any]

STARTS = {
    "plain-first": "plain Deployment, nothing in any cache",
    "plain": "plain Deployment, page cache and what it compiled before",
    "warm-first": "WarmModel, first pod, nothing in any cache",
    "warm-second": "WarmModel, second pod on the node",
    "forked": "WarmModel, next boot, forked",
    "forked-profile": "the same, and the options below",
}
KINDS = {
    "fp8": "FP8, made as it is read",
    "gptq": "GPTQ, 4 bits",
    "awq": "AWQ, 4 bits",
    "lora": "LoRA adapter",
    "two-gpus": "two GPUs",
}
SWITCHES = {
    "one_after_the_other": "one after the other",
    "weights_beside": "weights of one come while those of the other go",
}
WAKE = {
    "label_s": "label",
    "endpoint_s": "endpoint",
    "answer_s": "first token through the Service",
    "asleep_again_s": "from the write that sends it back until it sleeps again",
}


def markdown(records: Mapping[str, JsonObject]) -> str:
    """`records`: by step, as the report has them; what is not there is left out."""
    found = {name: record.get("result") or {} for name, record in records.items()}
    parts = (_starts, _phases, _kinds_of_engines, _wakes, _switches, _cycles, _features)
    return "\n\n".join("\n".join(lines) for part in parts if (lines := list(part(found))))


def _starts(found: Mapping[str, JsonObject]) -> Iterator[str]:
    rows = {name: starts for name in STARTS if (starts := _list(found, name, "starts"))}
    if not rows:
        return
    yield "| start | to the first answer, s | each | to traffic, s | compile | engine | GPU, MiB |"
    yield "|---|---:|---|---:|---|---|---:|"
    for name, starts in rows.items():
        answers = _values(starts, "to_answer_s")
        traffic = _values(starts, "to_traffic_s") or _values(starts, "kill_to_gate_s")
        compiled = _kinds(_told(start["compile"], start.get("compile_why")) for start in starts)
        engine = _kinds(_engine(start) for start in starts)
        cells = (_median(answers), _each(answers), _median(traffic), compiled, engine)
        yield f"| {STARTS[name]} | {' | '.join(cells)} | {_memory(starts)} |"


def _engine(start: JsonObject) -> str:
    """forked, or plain and why."""
    told = start.get("engine") or {"how": "plain"}
    return _told(told["how"], told.get("why"))


def _told(what: str, why: str | None) -> str:
    return f"{what}: {why}" if why else what


def _kinds(values: Iterable[str]) -> str:
    """Each with its number, where there are several."""
    counts = Counter(values)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{number} {value}" for value, number in counts.items())


def _memory(starts: Sequence[JsonObject]) -> str:
    """Before the warm-up and after it, or just what it is."""
    moments = dict.fromkeys(name for start in starts for name in start["gpu_memory_mib"])
    values = (_values([start["gpu_memory_mib"] for start in starts], name) for name in moments)
    return " → ".join(f"{statistics.median(each):.0f}" for each in values if each)


def _phases(found: Mapping[str, JsonObject]) -> Iterator[str]:
    columns = {name: starts for name in STARTS if (starts := _list(found, name, "starts"))}
    if not columns:
        return
    yield f"| phase, s | {' | '.join(f'`{name}`' for name in columns)} |"
    yield "|---|" + len(columns) * "---:|"
    lengths = {name: _lengths(starts) for name, starts in columns.items()}
    for phase in PHASES:
        if any(phase in each for each in lengths.values()):
            cells = (f"{each[phase]:.1f}" if phase in each else "" for each in lengths.values())
            yield f"| {PHASES[phase].label} | {' | '.join(cells)} |"


def _lengths(starts: Sequence[JsonObject]) -> dict[str, float]:
    """Median seconds of each phase, logged and silent parts together; one that a start had not took
    it none."""
    sums: list[dict[str, float]] = []
    for start in starts:
        sums.append({})
        for phase in start["phases"]:
            name = known(phase["phase"])
            sums[-1][name] = sums[-1].get(name, 0.0) + phase["seconds"]
    names = {name for each in sums for name in each}
    return {name: statistics.median(each.get(name, 0.0) for each in sums) for name in names}


def _kinds_of_engines(found: Mapping[str, JsonObject]) -> Iterator[str]:
    rows = {name: starts for name in KINDS if (starts := _list(found, name, "starts"))}
    if not rows:
        return
    yield "| engine | first pod: first answer, s | compile | next boots, s | compile | engine |"
    yield "|---|---:|---|---|---|---|"
    for name, (first, *_) in rows.items():
        boots = _list(found, name, "boots")
        compiled = _kinds(_told(start["compile"], start.get("compile_why")) for start in boots)
        yield (
            f"| {KINDS[name]} | {_each([first['to_answer_s']])} | {first['compile']} "
            f"| {_each(_values(boots, 'to_answer_s'))} | {compiled} "
            f"| {_kinds(_engine(start) for start in boots)} |"
        )


def _wakes(found: Mapping[str, JsonObject]) -> Iterator[str]:
    wakes = _list(found, "sleep", "wakes")
    if not wakes:
        return
    yield "| wake-up, from the write to /scale | median, s | each |"
    yield "|---|---:|---|"
    yield from _rows(wakes, WAKE)
    memory = {"asleep_mib": "GPU memory asleep, MiB", "awake_mib": "awake, MiB"}
    yield from _rows(wakes, memory, digits=0)


def _switches(found: Mapping[str, JsonObject]) -> Iterator[str]:
    ways = {way: each for way in SWITCHES if (each := _list(found, "switch", way))}
    if not ways:
        return
    yield "| switch, from the call | asleep, s | awake, s | first token, s | each |"
    yield "|---|---:|---:|---:|---|"
    for way, each in ways.items():
        cells = [_median(_values(each, key), 2) for key in ("slept_s", "woken_s", "first_token_s")]
        cells.append(_each(_values(each, "first_token_s"), 2))
        yield f"| {SWITCHES[way]} | {' | '.join(cells)} |"


def _cycles(found: Mapping[str, JsonObject]) -> Iterator[str]:
    cycles = _list(found, "cycles", "cycles")
    if not cycles:
        return
    asleep, awake = _values(cycles, "asleep_mib"), _values(cycles, "awake_mib")
    yield f"| GPU memory, MiB | first | after {len(cycles)} cycles | growth |"
    yield "|---|---:|---:|---:|"
    for name, values in (("asleep", asleep), ("awake", awake)):
        growth = values[-1] - values[0]
        yield f"| {name} | {values[0]:.0f} | {values[-1]:.0f} | {growth:.0f} |"


def _features(found: Mapping[str, JsonObject]) -> Iterator[str]:
    names = (*STARTS, *KINDS)
    columns = {name: times for name in names if (times := found.get(name, {}).get("features"))}
    if not columns:
        return
    heads = (f"`{name}`: first | later | ratio" for name in columns)
    yield f"| feature, ms | {' | '.join(heads)} |"
    yield "|---|" + 3 * len(columns) * "---:|"
    for feature in next(iter(columns.values())):
        cells = (_compared(times[feature]) for times in columns.values())
        yield f"| {feature} | {' | '.join(cells)} |"


def _compared(times: JsonObject) -> str:
    first, steady = times["first"], times["steady"]
    return f"{1000 * first:.0f} | {1000 * steady:.0f} | {first / steady:.2f}"


def _rows(items: Sequence[JsonObject], names: Mapping[str, str], digits: int = 2) -> Iterator[str]:
    for key, label in names.items():
        values = _values(items, key)
        yield f"| {label} | {_median(values, digits)} | {_each(values, digits)} |"


def _list(found: Mapping[str, JsonObject], step: str, series: str) -> list[JsonObject]:
    items: list[JsonObject] = found.get(step, {}).get(series, [])
    return items


def _values(items: Sequence[JsonObject], key: str) -> list[float]:
    return [item[key] for item in items if item.get(key) is not None]


def _median(values: Sequence[float], digits: int = 1) -> str:
    return f"{statistics.median(values):.{digits}f}" if values else ""


def _each(values: Sequence[float], digits: int = 1) -> str:
    return ", ".join(f"{value:.{digits}f}" for value in values)

"""Works through steps, each as soon as what it needs is there, and remembers what was done.

The machine can be left and returned to at any time: a step that is done is not done again.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu import machine, stream

JsonObject = dict[str, Any]

DONE, FAILED, RUNNING = "done", "failed", "running"
_POLL_S = 0.2


@dataclass(frozen=True)
class Step:
    """`needs` are steps that have to be done before, `bundles` archives that have to be there.

    Nothing else runs beside a step that is `alone`: it measures. One that takes longer than
    `limit_s` seconds has failed."""

    name: str
    run: Callable[[], JsonObject]
    needs: tuple[str, ...] = ()
    bundles: tuple[str, ...] = ()
    alone: bool = False
    limit_s: int | None = None


def next_step(
    steps: Sequence[Step], states: Mapping[str, str], arrived: Callable[[str], bool]
) -> Step | None:
    """The first step that can run now, beside those that run."""
    running = [step for step in steps if states.get(step.name) == RUNNING]
    if any(step.alone for step in running):
        return None
    for step in steps:
        ready = all(states.get(name) == DONE for name in step.needs)
        if step.name in states or not ready or not all(map(arrived, step.bundles)):
            continue
        if not (step.alone and running):
            return step
    return None


def is_over(steps: Sequence[Step], states: Mapping[str, str]) -> bool:
    """Whether nothing can run any more, whatever arrives: all is done, or has failed before it."""
    lost = {name for name, state in states.items() if state == FAILED}
    for step in steps:
        if lost.intersection(step.needs):
            lost.add(step.name)
    return all(states.get(step.name) == DONE or step.name in lost for step in steps)


def states(steps: Sequence[Step]) -> dict[str, str]:
    return {step.name: known["state"] for step in steps if (known := read(step.name))}


def read(name: str) -> JsonObject:
    """What is known of a step; {} before it has begun."""
    try:
        found: JsonObject = json.loads(_record(name).read_text())
    except FileNotFoundError:
        return {}
    return found


def write(name: str, record: JsonObject) -> None:
    machine.STEPS.mkdir(parents=True, exist_ok=True)
    unfinished = _record(name).with_suffix(".new")
    unfinished.write_text(json.dumps(record))
    unfinished.rename(_record(name))


def forget(names: Sequence[str]) -> None:
    """Lets steps be done again."""
    for name in names:
        _record(name).unlink(missing_ok=True)


def log_of(name: str) -> Path:
    return machine.STEPS / f"{name}.log"


def run_one(step: Step) -> None:
    """Does a step in this process. What it has written of its result stays if it fails."""
    started = time.monotonic()
    write(step.name, {"state": RUNNING})
    record: JsonObject = {"state": FAILED}
    try:
        with _at_most(step.limit_s):
            record = {"state": DONE, "result": step.run()}
    finally:
        seconds = round(time.monotonic() - started, 2)
        write(step.name, read(step.name) | record | {"seconds": seconds})


@contextmanager
def _at_most(seconds: int | None) -> Iterator[None]:
    """Ends the block by a TimeoutError, so that it can tidy up."""

    def over(*_: object) -> None:
        raise TimeoutError(f"not done within {seconds} s")

    if seconds is not None:
        signal.signal(signal.SIGALRM, over)
        signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def run_all(steps: Sequence[Step]) -> None:
    """Each step is a process of its own, so that it runs the code of the latest transfer."""
    with _only_one() as is_only:
        if is_only:
            forget([name for name, state in states(steps).items() if state == RUNNING])
            _work(steps)


def _work(steps: Sequence[Step]) -> None:
    with ThreadPoolExecutor(len(steps)) as pool:
        while not is_over(steps, states(steps)):
            step = next_step(steps, states(steps), _has_arrived)
            if step is None:
                time.sleep(_POLL_S)
            else:
                write(step.name, {"state": RUNNING})
                pool.submit(_run, step)


def _has_arrived(bundle: str) -> bool:
    return stream.has_arrived(stream.read_index(machine.STORE), bundle, machine.STORE)


def stop() -> None:
    """Ends `run_all` and the steps that run; fine if none does."""
    with _only_one() as is_only:
        if not is_only:
            os.killpg(int(_lock().read_text()), signal.SIGTERM)
    with _only_one(wait=True):
        pass  # all of them have let go of it


def start() -> None:
    """Lets `run_all` go on behind the scenes, in a session that outlives this process."""
    machine.STEPS.mkdir(parents=True, exist_ok=True)
    with (machine.ROOT / "runner.log").open("ab") as log:
        subprocess.Popen(
            machine.python("-m", "gpu", "run"),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=machine.environment(),
            start_new_session=True,
        )


def _run(step: Step) -> None:
    with log_of(step.name).open("wb") as log:
        code = subprocess.run(
            machine.python("-m", "gpu", "step", step.name),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=machine.environment(),
            check=False,
        ).returncode
    if read(step.name).get("state") != DONE:
        write(step.name, read(step.name) | {"state": FAILED, "exit_code": code})


@contextmanager
def _only_one(wait: bool = False) -> Iterator[bool]:
    """Whether no other process runs the steps. The lock's file has the id of the one that does,
    which is also that of its session."""
    with _lock().open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield True


def _lock() -> Path:
    return machine.ROOT / "runner.lock"


def _record(name: str) -> Path:
    return machine.STEPS / f"{name}.json"

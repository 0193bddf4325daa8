"""What the engine's development endpoints do and tell: sleep, wake-up, pause; and its load."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from warmpod.protocol import DEV_KEY_FILE, DEV_KEY_HEADER
from warmpod.sidecar import lifecycle
from warmpod.sidecar.engine import Engine, EngineError, refusal

# Seconds. Level 1 copies the weights into pinned host memory, which is allocated for it.
SLEEP_SECONDS = 300.0

# Weights to host memory, KV cache dropped; and what runs yet may end. Level 2 drops the weights,
# and an engine that wakes from it without reloading them answers garbage (vllm#54235).
SLEEP = "/sleep?level=1&mode=wait"
WAKE_UP = "/wake_up"

# A sleeping engine keeps its CUDA context and graphs. One that gives back less than this share of
# what it held has kept its weights (vllm#32714: 6 of 20 GiB).
LEAST_FREED = 0.4

_GAUGE = re.compile(
    r"^vllm:(?P<name>num_requests_running|num_requests_waiting|engine_sleep_state)"
    r"(?P<labels>\{[^}]*\})?\s+(?P<value>[-+.\dEe]+)",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Load:
    """Requests, over all ranks of the engine."""

    running: int
    waiting: int

    @property
    def idle(self) -> bool:
        return not self.running and not self.waiting


class Power:
    """Raises EngineError."""

    def __init__(self, engine: Engine, run_dir: Path) -> None:
        self._engine = engine
        self._key_file = run_dir / DEV_KEY_FILE

    async def is_sleeping(self) -> bool | None:
        """Whether somebody put the engine to sleep or paused it; None when it does not tell: vLLM
        has these pages only with VLLM_SERVER_DEV_MODE=1."""
        states = [await self._state(name) for name in ("is_sleeping", "is_paused")]
        known = [state for state in states if state is not None]
        return any(known) if known else None

    async def sleep(self) -> None:
        await self._post(SLEEP, SLEEP_SECONDS)

    async def wake_up(self) -> None:
        await self._post(WAKE_UP, lifecycle.WAKE_SECONDS)

    async def load(self) -> Load | None:
        """None when the engine does not tell."""
        return read_load(await self._engine.metrics())

    async def offloaded(self) -> bool | None:
        """Whether the engine's metrics say that its weights are in host memory; None when they say
        nothing."""
        return read_offloaded(await self._engine.metrics())

    async def _post(self, path: str, seconds: float) -> None:
        status, body = await self._engine.call("POST", path, seconds, self._headers())
        if status != 200:
            raise refusal(path, status, body)

    async def _state(self, name: str) -> bool | None:
        """None where there is no such page; one that fails says nothing about that."""
        status, body = await self._engine.call("GET", f"/{name}", headers=self._headers())
        if status == 404:
            return None
        if status != 200:
            raise refusal(f"/{name}", status, body)
        try:
            return bool(json.loads(body)[name])
        except (ValueError, TypeError, KeyError):
            return None  # of another server than vLLM

    def _headers(self) -> dict[str, str]:
        """Read each time: a launcher that starts anew writes another one. There is none where the
        user himself has set the development mode."""
        try:
            return {DEV_KEY_HEADER: self._key_file.read_text()}
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise EngineError(f"{self._key_file} cannot be read: {error!r}") from error


def read_load(page: str) -> Load | None:
    """Of a metrics page."""
    sums: dict[str, float] = {}
    for found in _GAUGE.finditer(page):
        sums[found["name"]] = sums.get(found["name"], 0.0) + float(found["value"])
    running, waiting = sums.get("num_requests_running"), sums.get("num_requests_waiting")
    if running is None or waiting is None:
        return None
    return Load(round(running), round(waiting))


def read_offloaded(page: str) -> bool | None:
    """Of a metrics page."""
    states = [
        float(found["value"]) > 0
        for found in _GAUGE.finditer(page)
        if 'sleep_state="weights_offloaded"' in (found["labels"] or "")
    ]
    return all(states) if states else None


def memory_problem(freed_gib: float, held_gib: float) -> str:
    """Of all workers together, as the engine's log has it; empty when it is as it should be."""
    before = freed_gib + held_gib
    if not before or freed_gib >= LEAST_FREED * before:
        return ""
    return f"it gave back only {freed_gib:.1f} of {before:.1f} GiB of GPU memory"

"""A whole sidecar in this process, between a simulated engine, a fake launcher and a fake API."""

import asyncio
import fcntl
import json
import os
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from simulator import harness as simulator
from support.cluster_tokens import OPERATOR
from support.pod_api import FakeApi, fake_api
from support.until import until
from warmpod.api.warmup import Warmup
from warmpod.protocol import TIMELINE_CONDITION, WARM_CONDITION
from warmpod.sidecar.config import SidecarConfig
from warmpod.sidecar.main import run_until

# Small, so that a warm-up takes a second.
WARMUP = Warmup(
    stall_seconds=300,
    tolerance_percent=25,
    max_rounds=20,
    canary_period_seconds=5,
    on_failure="Block",
    prompt_tokens=(16,),
    concurrency=(1,),
    skip=("sampler/*", "structured/*", "repeat", "prefill-while-decoding"),
)


@dataclass
class FakeLauncher:
    """Writes events and holds locks as the launcher does."""

    run_dir: Path
    _locks: dict[str, int] = field(default_factory=dict)

    def write(self, event: str, boot: str = "", **fields: Any) -> None:
        record = {"ts": time.time(), "boot": boot, "event": event, **fields}
        with (self.run_dir / "events.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")

    def start_boot(self, boot: str, number: int = 1, **fields: Any) -> None:
        lock = self.run_dir / f"boot-{boot}.lock"
        self._locks[boot] = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        fcntl.flock(self._locks[boot], fcntl.LOCK_EX)
        self.write("boot-started", boot, number=number, lock=lock.name, argv=["vllm"], **fields)

    def release(self, boot: str) -> None:
        os.close(self._locks.pop(boot))

    def end_boot(self, boot: str, **fields: Any) -> None:
        self.release(boot)
        ended = {"exit_code": 1, "signal": None, "cause": "exited", "last_lines": ["bye"]}
        self.write("boot-ended", boot, **(ended | fields))

    def close(self) -> None:
        for descriptor in self._locks.values():
            os.close(descriptor)


@dataclass
class Stage:
    """Everything around a sidecar, and the sidecar itself once started."""

    api: FakeApi
    launcher: FakeLauncher
    run_dir: Path
    tmp_path: Path
    engine_port: int
    port: int
    client: aiohttp.ClientSession
    warmup: Warmup = WARMUP
    api_key: str | None = None
    scheme: str = "http"
    caller: str = OPERATOR
    engine: simulator.Simulator | None = None
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _sidecar: asyncio.Task[None] | None = None

    async def start_engine(self, *arguments: str, **knobs: object) -> None:
        if self.engine is not None:
            self.engine.stop()
        knobs = {"first_seconds": 0.05, "load_seconds": 0.0} | knobs
        log = self.tmp_path / "engine.log"
        self.engine = simulator.start_simulator(log, *arguments, port=self.engine_port, **knobs)

    def start_sidecar(self) -> None:
        config = SidecarConfig(
            model="tiny",
            revision="0123456789",
            base_url=f"{self.scheme}://127.0.0.1:{self.engine_port}",
            served_name="tiny",
            run_dir=self.run_dir,
            port=self.port,
            api_key=self.api_key,
            tls_verify=False,
            warmup=self.warmup,
            prompts_dir=self.tmp_path / "prompts",
            caller=self.caller,
        )
        self._stop = asyncio.Event()
        pod = self.api.own_pod(self.tmp_path / "service-account")
        self._sidecar = asyncio.create_task(run_until(self._stop, config, pod))

    async def stop_sidecar(self) -> None:
        """As SIGTERM does."""
        self._stop.set()
        if self._sidecar is not None:
            await self._sidecar
        self._sidecar = None

    async def sidecar_ended(self) -> None:
        """Wait until it ends by itself."""
        assert self._sidecar is not None
        async with asyncio.timeout(20):
            await self._sidecar
        self._sidecar = None

    async def kill_sidecar(self) -> None:
        """As SIGKILL does, as far as others can see: nothing more is reported."""
        if self._sidecar is not None:
            self._sidecar.cancel()
            await asyncio.gather(self._sidecar, return_exceptions=True)
        self._sidecar = None

    def warm(self) -> dict[str, Any]:
        return self.api.last(WARM_CONDITION)

    def warm_reasons(self) -> list[str]:
        reasons: list[str] = []
        for patch in self.api.of_type(WARM_CONDITION):
            if reasons[-1:] != [patch["reason"]]:
                reasons.append(patch["reason"])
        return reasons

    def timeline(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.api.last(TIMELINE_CONDITION)["message"])
        return found

    async def reason(self, reason: str) -> dict[str, Any]:
        """Wait until the condition was reported with this reason."""
        if self._sidecar is None:
            raise RuntimeError("the sidecar does not run")

        def reached() -> bool:
            if self._sidecar is not None and self._sidecar.done():
                self._sidecar.result()
            return self.warm().get("reason") == reason

        await until(reached, lambda: f"{reason}, but {self.api.patches}")
        return self.warm()

    async def until_engine_runs(self, requests: int) -> None:
        """Wait until the engine's own metrics show this many requests."""
        url = f"{self.scheme}://127.0.0.1:{self.engine_port}/metrics"
        page = ""
        while not re.search(rf"^vllm:num_requests_running\{{.*\}} {requests}\.0$", page, re.M):
            await asyncio.sleep(0.02)
            try:
                async with self.client.get(url) as answer:
                    page = await answer.text()
            except aiohttp.ClientConnectionError:
                continue  # not up yet

    async def readyz(self) -> int:
        url = f"http://127.0.0.1:{self.port}/readyz"
        try:
            async with self.client.get(url) as answer:
                return answer.status
        except aiohttp.ClientConnectionError:
            return 0

    async def page(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await self.get(path))
        return found

    async def until_bucket(self, name: str, *, there: bool = True) -> None:
        """Wait until the plan has a bucket whose name begins so, or has it no more."""

        def holds(plan: dict[str, Any]) -> bool:
            return any(bucket["name"].startswith(name) for bucket in plan["buckets"]) is there

        await self._until_page("/plan", holds)

    async def until_status(self, holds: Callable[[dict[str, Any]], bool]) -> None:
        """Wait until the sidecar's status page is as it should be."""
        await self._until_page("/status", holds)

    async def _until_page(self, path: str, holds: Callable[[dict[str, Any]], bool]) -> None:
        held = False
        async with asyncio.timeout(20):
            while not held:
                await asyncio.sleep(0.02)
                held = holds(await self.page(path))

    async def order(self, action: str) -> tuple[int, dict[str, Any]]:
        """As the operator does."""
        url = f"http://127.0.0.1:{self.port}/v1/{action}"
        headers = {"Authorization": f"Bearer {self.api.signer.sign()}"}
        method = "GET" if action == "load" else "POST"
        async with self.client.request(method, url, headers=headers) as answer:
            return answer.status, await answer.json()

    async def post(self, path: str, **body: str) -> int:
        """To the engine, as anybody may."""
        url = f"{self.scheme}://127.0.0.1:{self.engine_port}{path}"
        async with self.client.post(url, json=body) as answer:
            return answer.status

    async def requests(self) -> int:
        """That the sidecar has sent, by its own metrics."""
        page = await self.get("/metrics")
        found = re.search(r"^warmpod_warmup_requests_total\{.*answered.*\} ([0-9.]+)$", page, re.M)
        return int(float(found[1])) if found else 0

    async def get(self, path: str) -> str:
        async with self.client.get(f"http://127.0.0.1:{self.port}{path}") as answer:
            return await answer.text()


@asynccontextmanager
async def staged(tmp_path: Path) -> AsyncIterator[Stage]:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    launcher = FakeLauncher(run_dir)
    async with fake_api() as api, aiohttp.ClientSession() as client:
        ports = simulator.free_port(), simulator.free_port()
        stage = Stage(api, launcher, run_dir, tmp_path, *ports, client)
        try:
            yield stage
        finally:
            await stage.kill_sidecar()
            if stage.engine is not None:
                stage.engine.stop()
            launcher.close()

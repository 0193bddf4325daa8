"""Launcher, simulated engine and sidecar as processes, as in a pod; only the API server is fake."""

import asyncio
import json
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from processes.launcher.launcher_process import ENVIRONMENT, LAUNCHER, Launcher, start_launcher
from simulator.harness import SIMULATOR, free_port
from support.certificates import make_certificates
from support.pod_api import IDENTITY, FakeApi, fake_api
from support.until import until
from warmpod.engine import EngineTraits
from warmpod.protocol import WARM_CONDITION

# The entry point, but with the service account of the test.
SIDECAR = """
import asyncio, os, sys
from pathlib import Path
from warmpod.podstatus import OwnPod
from warmpod.sidecar.config import read_config
from warmpod.sidecar.main import serve
pod = OwnPod.from_environment(service_account=Path(sys.argv[1]))
asyncio.run(serve(read_config(os.environ), pod))
"""


@dataclass
class Pod:
    api: FakeApi
    launcher: Launcher
    run_dir: Path
    engine_port: int
    port: int
    folder: Path
    client: aiohttp.ClientSession

    async def reason(self, reason: str, message: str = "") -> None:
        def reached() -> bool:
            warm = self.api.last(WARM_CONDITION)
            return warm.get("reason") == reason and message in warm["message"]

        await until(reached, lambda: f"{reason}: {self.api.last(WARM_CONDITION)}")

    async def readyz(self) -> int:
        try:
            async with self.client.get(f"http://127.0.0.1:{self.port}/readyz") as answer:
                return answer.status
        except aiohttp.ClientConnectionError:
            return 0

    def core_pid(self) -> int:
        main = self.launcher.engine_pid()
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        return int(children[0])

    @contextmanager
    def sidecar(self) -> Iterator[subprocess.Popen[bytes]]:
        config: dict[str, Any] = {
            "model": "tiny",
            "revision": "0123456789",
            "base_url": f"http://127.0.0.1:{self.engine_port}",
            "served_name": "tiny",
            "run_dir": str(self.run_dir),
            "port": self.port,
            "warmup": {
                "stallSeconds": 300,
                "tolerancePercent": 25,
                "maxRounds": 20,
                "canaryPeriodSeconds": 30,
                "onFailure": "Block",
                "promptTokens": [16],
                "concurrency": [1],
                "skip": ["sampler/*", "structured/*"],
            },
            "engine": asdict(EngineTraits()),
            "api_key_env": None,
            "tls_verify": False,
        }
        host, port = self.api.url.removeprefix("https://").split(":")
        process = subprocess.Popen(
            [sys.executable, "-c", SIDECAR, str(self.folder)],
            env=ENVIRONMENT
            | {
                "WARMPOD_SIDECAR_CONFIG": json.dumps(config),
                "KUBERNETES_SERVICE_HOST": host,
                "KUBERNETES_SERVICE_PORT_HTTPS": port,
                "POD_NAMESPACE": IDENTITY.namespace,
                "POD_NAME": IDENTITY.name,
                "POD_UID": IDENTITY.uid,
            },
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


@asynccontextmanager
async def pod(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pod]:
    make_certificates(folder, "api")
    (folder / "ca.crt").write_bytes((folder / "api.crt").read_bytes())
    (folder / "token").write_text("token")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "api.crt", folder / "api.key")
    run_dir = folder / "run"
    run_dir.mkdir()
    engine_port = free_port()
    monkeypatch.setitem(ENVIRONMENT, "SIM_LOAD_SECONDS", "0.1")
    monkeypatch.setitem(ENVIRONMENT, "SIM_FIRST_SECONDS", "0.05")
    engine = [sys.executable, str(SIMULATOR), "serve", "/models/tiny"]
    engine += ["--served-model-name", "tiny", "--port", str(engine_port)]
    async with fake_api(context) as api, aiohttp.ClientSession() as client:
        launcher = start_launcher(run_dir, engine, f"--port={engine_port}")
        try:
            yield Pod(api, launcher, run_dir, engine_port, free_port(), folder, client)
        finally:
            launcher.process.terminate()
            launcher.exit_code()


async def test_life_of_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with pod(tmp_path, monkeypatch) as tiny:
        with tiny.sidecar() as first:
            await tiny.reason("Warm")
            assert await tiny.readyz() == 200
            stages = json.loads(tiny.api.last("warmpod.io/StartupTimeline")["message"])["stages"]
            assert {"weights", "ready"} <= stages.keys()

            os.kill(tiny.core_pid(), 9)
            await tiny.reason("EngineDied")
            assert await tiny.readyz() == 503
            await tiny.reason("Warm")

            first.kill()
            first.wait()
            assert await tiny.readyz() == 0
        closed_before = len(tiny.api.of_type(WARM_CONDITION))
        with tiny.sidecar():
            await until(lambda: len(tiny.api.of_type(WARM_CONDITION)) > closed_before)
            assert tiny.api.of_type(WARM_CONDITION)[closed_before]["status"] == "True"
            hook = await asyncio.create_subprocess_exec(
                *LAUNCHER, "pre-stop", f"--run-dir={tiny.run_dir}", env=ENVIRONMENT
            )
            await tiny.reason("Stopping")
            assert await tiny.readyz() == 503
            assert await hook.wait() == 0
            assert (tiny.run_dir / "gate-closed").exists()

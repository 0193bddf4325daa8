"""Launcher, simulated engine and sidecar as processes, as in a pod; only the API server is fake."""

import asyncio
import json
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aiohttp

from processes.launcher.launcher_process import ENVIRONMENT, Launcher, start_launcher
from simulator.harness import SIMULATOR, free_port
from support.certificates import make_certificates
from support.cluster_tokens import OPERATOR
from support.pod_api import IDENTITY, FakeApi, fake_api
from support.until import LIMIT_SECONDS, until
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


# A plan of a few buckets: most tests are about what follows from it.
WARMUP = {
    "promptTokens": [16],
    "concurrency": [1],
    "skip": ["sampler/*", "structured/*", "repeat", "prefill-while-decoding"],
}


@dataclass
class Pod:
    api: FakeApi
    launcher: Launcher
    run_dir: Path
    engine_port: int
    port: int
    folder: Path
    client: aiohttp.ClientSession
    traits: EngineTraits
    warmup: dict[str, Any]

    def warm(self) -> dict[str, Any]:
        return self.api.last(WARM_CONDITION)

    def reasons(self) -> set[str]:
        """All that the condition has said so far."""
        return {patch["reason"] for patch in self.api.of_type(WARM_CONDITION)}

    async def page(self, path: str) -> dict[str, Any]:
        async with self.client.get(f"http://127.0.0.1:{self.port}{path}") as answer:
            found: dict[str, Any] = await answer.json()
            return found

    async def order(self, action: str, token: str | None = None) -> tuple[int, dict[str, Any]]:
        """As the operator does, or with another token."""
        url = f"http://127.0.0.1:{self.port}/v1/{action}"
        bearer = self.api.signer.sign() if token is None else token
        headers = {"Authorization": f"Bearer {bearer}"}
        method = "GET" if action == "load" else "POST"
        async with self.client.request(method, url, headers=headers) as answer:
            return answer.status, await answer.json()

    async def post(self, path: str) -> int:
        """To the engine, as anybody may."""
        url = f"http://127.0.0.1:{self.engine_port}{path}"
        async with self.client.post(url) as answer:
            return answer.status

    async def get_of_engine(self, path: str) -> int:
        url = f"http://127.0.0.1:{self.engine_port}{path}"
        async with self.client.get(url) as answer:
            return answer.status

    async def wait_patches(self, count: int) -> None:
        await until(lambda: len(self.api.patches) >= count)

    async def replayed(self, times: int) -> None:
        """Wait until the plan was played again as often, and without a problem."""
        replay = {"times": 0}
        async with asyncio.timeout(LIMIT_SECONDS):
            while replay["times"] < times:
                await asyncio.sleep(0.05)
                replay = (await self.page("/status"))["replay"]
        assert replay == {"times": times, "problem": "", "running": False}

    async def reason(self, reason: str, message: str = "", limit: float = LIMIT_SECONDS) -> None:
        def reached() -> bool:
            warm = self.warm()
            return warm.get("reason") == reason and message in warm["message"]

        await until(reached, lambda: f"{reason}: {self.warm()}", limit)

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
            "warmup": WARMUP | self.warmup,
            "engine": asdict(self.traits),
            "caller": OPERATOR,
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
async def pod(
    folder: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    warmup: Mapping[str, Any] | None = None,
    traits: EngineTraits | None = None,
    reference: Sequence[str] = (),
    sleep_mode: bool = False,
) -> AsyncIterator[Pod]:
    """A pod whose engine runs already. `arguments` are the engine's; `reference` are those of
    spec.warmup.compare; `sleep_mode`: as with spec.standby.state Sleeping."""
    api_files(folder)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "api.crt", folder / "api.key")
    run_dir = folder / "run"
    run_dir.mkdir()
    engine_port = free_port()
    engine = [sys.executable, str(SIMULATOR), "serve", "/models/tiny"]
    engine += ["--served-model-name", "tiny", "--port", str(engine_port)]
    options = [f"--port={engine_port}", "--max-failed-boots=2"]
    if sleep_mode:
        options.append("--sleep-mode")
    if reference:
        options.append(f"--reference-argv={json.dumps([*engine, *reference])}")
    knobs = {"SIM_LOAD_SECONDS": "0.1", "SIM_FIRST_SECONDS": "0.05", "SIM_TOKEN_SECONDS": "0.001"}
    async with fake_api(context) as api, aiohttp.ClientSession() as client:
        launcher = start_launcher(
            run_dir, [*engine, *arguments], *options, environment=knobs | dict(environment or {})
        )
        try:
            yield Pod(
                api,
                launcher,
                run_dir,
                engine_port,
                free_port(),
                folder,
                client,
                traits or EngineTraits(),
                dict(warmup or {}),
            )
        finally:
            launcher.process.terminate()
            launcher.exit_code()


def api_files(folder: Path) -> None:
    """What the kubelet mounts for a service account, and the API server's own certificate."""
    make_certificates(folder, "api")
    (folder / "ca.crt").write_bytes((folder / "api.crt").read_bytes())
    (folder / "token").write_text("token")

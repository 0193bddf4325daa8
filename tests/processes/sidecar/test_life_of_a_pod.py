"""The life of a pod: engine killed, sidecar killed, stopped."""

import asyncio
import json
import os
from pathlib import Path

from processes.launcher.launcher_process import ENVIRONMENT, LAUNCHER
from processes.sidecar.pod import pod
from support.until import until
from warmpod.protocol import TIMELINE_CONDITION, WARM_CONDITION


async def test_life_of_a_pod(tmp_path: Path) -> None:
    async with pod(tmp_path) as tiny:
        with tiny.sidecar() as first:
            await tiny.reason("Warm")
            assert await tiny.readyz() == 200
            # A condition of its own, which may be told after the other.
            await until(lambda: tiny.api.last(TIMELINE_CONDITION))
            stages = json.loads(tiny.api.last(TIMELINE_CONDITION)["message"])["stages"]
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

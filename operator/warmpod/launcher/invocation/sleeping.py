"""Makes an engine that can be put to sleep, by the sidecar alone."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from warmpod.launcher.console import say
from warmpod.launcher.invocation.command import Command, with_options
from warmpod.protocol import DEV_KEY_FILE, RUN_DIR_VARIABLE

DEV_MODE_VARIABLE = "VLLM_SERVER_DEV_MODE"
_SLEEP_MODE = "--enable-sleep-mode"
_GUARD = "--middleware=warmpod.launcher.guard.DevGuard"
# Where the package `warmpod` lies, for the engine's own Python.
_PACKAGES = Path(__file__).parents[3]


def able_to_sleep(command: Command, run_dir: Path) -> Command:
    """`vllm serve MODEL …` with sleep mode, and with its development endpoints behind a guard.

    A user who has set VLLM_SERVER_DEV_MODE himself has decided about these endpoints: they stay as
    he has them. Raises OSError if the key cannot be written.
    """
    if DEV_MODE_VARIABLE in command.environment:
        say(f"{DEV_MODE_VARIABLE} is set already, so its endpoints are not guarded")
        return replace(command, argv=with_options(command.argv, _SLEEP_MODE))
    write_key(run_dir)
    return replace(
        command,
        argv=with_options(command.argv, _SLEEP_MODE, _GUARD),
        environment=_guarded(command.environment, run_dir),
    )


def write_key(run_dir: Path) -> None:
    """A new one for each life of the launcher.

    Readable by all, as the locks are: the sidecar is another user, and nobody but it and the
    engine's container has the run directory. Raises OSError.
    """
    temporary = run_dir / f".{DEV_KEY_FILE}.new"
    temporary.write_text(secrets.token_urlsafe(32))
    temporary.chmod(0o644)
    os.replace(temporary, run_dir / DEV_KEY_FILE)


def _guarded(environment: Mapping[str, str], run_dir: Path) -> dict[str, str]:
    paths = [environment["PYTHONPATH"]] if environment.get("PYTHONPATH") else []
    return {
        **environment,
        DEV_MODE_VARIABLE: "1",
        RUN_DIR_VARIABLE: str(run_dir),
        "PYTHONPATH": os.pathsep.join([*paths, str(_PACKAGES)]),
    }

"""What the `vllm` command does: arguments, port, engine process, and then one life."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Sequence

from engine_sim import core, logs
from engine_sim.knobs import VERSION
from engine_sim.setup import Setup, read_setup

USAGE = "usage: vllm serve MODEL [options] | vllm --version"
# Faults that end the API server before it starts an engine: what it prints, and its exit code.
EARLY_DEATHS = {
    "crash-at-start": ("RuntimeError: simulated crash at start", 1),
    "unsupported-argument": ("vllm serve: error: unrecognized arguments: --no-such-flag", 2),
    "missing-token": (
        "huggingface_hub.errors.GatedRepoError: 401 Client Error. Cannot access gated repo for "
        "url https://huggingface.co/gated/model/resolve/main/config.json.",
        1,
    ),
}


def main(argv: Sequence[str]) -> int:
    """Do what the `vllm` command would do; returns the exit code."""
    if list(argv[:1]) in (["--version"], ["-v"]):
        logs.plain(VERSION)
        return 0
    if list(argv[:1]) != ["serve"]:
        sys.stderr.write(f"{USAGE}\n")
        return 2
    return serve(read_setup(argv[1:], os.environ), argv)


def serve(setup: Setup, argv: Sequence[str]) -> int:
    """Start the engine process and serve until told to stop, or until it dies."""
    arguments = setup.arguments
    if "vllm" not in sys.modules:  # a fork server has imported it
        time.sleep(setup.knobs.import_seconds)
    say("api_utils.py:325", f"vLLM server version {VERSION}, serving model {arguments.model}")
    say("api_utils.py:260", f"non-default args: {{'argv': {list(argv)!r}}}")
    if setup.knobs.fault.name in EARLY_DEATHS:
        cause, code = EARLY_DEATHS[setup.knobs.fault.name]
        logs.plain(cause)
        return code
    try:
        listener = bind(arguments.host, arguments.port)
    except OSError as failed:
        logs.plain(f"OSError: {failed}")
        return 1
    say("model.py:620", f"Resolved architecture: {setup.model.architecture}")
    say("model.py:1845", f"Using max model len {arguments.max_model_len}")
    # Slow to import, and needed from here on only. Not later: a signal during the engine's start
    # has to find its handler.
    from engine_sim.life import live

    engine_core = core.start(setup)
    return live(setup, engine_core, listener)


def say(where: str, message: str) -> None:
    """Print a line of the API server."""
    logs.line("APIServer", where, message)


def bind(host: str, port: int) -> socket.socket:
    """Take the port, as vLLM does before it loads, without listening on it yet."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    return listener

"""An engine that tells what it sees of its process, and exits with 7. A test puts it where vLLM's
command line is looked for."""

from __future__ import annotations

import atexit
import json
import multiprocessing
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE)


def seen() -> dict[str, Any]:
    """What a program can see, and may depend on."""
    lines = Path("/proc/self/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return {
        "argv": sys.argv,
        "environment": dict(os.environ),
        "executable": sys.executable,
        "path": sys.path,
        "flags": str(sys.flags),
        "main": getattr(sys.modules["__main__"], "__file__", None),
        "cwd": os.getcwd(),
        "status": [status[name] for name in ("SigBlk", "SigIgn", "SigCgt", "Umask", "Threads")],
        "handlers": [str(signal.getsignal(each)).partition(" at ")[0] for each in SIGNALS],
        "leads its group": os.getpgid(0) == os.getpid(),
        "session": os.getsid(0),
        "nice": os.nice(0),
        "files": {fd: os.readlink(f"/proc/self/fd/{fd}").partition(":")[0] for fd in "012"},
        "open": len(os.listdir("/proc/self/fd")),
    }


def send(queue: Any) -> None:
    """What a process sees that the engine starts anew."""
    queue.put(seen())


def main() -> int:
    own = seen()
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=send, args=(queue,))
    child.start()
    spawned = queue.get()
    child.join()
    atexit.register(sys.stdout.write, "at exit\n")
    told = {"own": own, "spawned": spawned, "random": random.random(), "parent": os.getppid()}
    sys.stdout.write(json.dumps(told) + "\n")
    return 7

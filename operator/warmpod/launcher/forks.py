"""Keeps a fork server: a process that has imported vLLM, from which engines are forked.

The server's own program is warmpod.launcher.forkserver, which tells what is said over the sockets.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from warmpod.launcher import forkserver, processes
from warmpod.launcher.boot import RESTORED_SIGNALS, Ends
from warmpod.launcher.invocation.vllm_command import NoForkError, Program
from warmpod.launcher.log.output import Output

SERVER = Path(forkserver.__file__).parent
# All times are seconds. Importing vLLM took 16 on a machine with a GPU, and 130 on two busy cores
# from a cold disk.
IMPORT_SECONDS = 300.0
# A fork takes milliseconds; a machine under load a second.
FORK_SECONDS = 10.0
# A later vLLM may initialise CUDA when some of its modules are imported. Each costs one more try.
MOST_LEFT_OUT = 4
CONTROL = 3  # the server's descriptor
MAX_MESSAGE_BYTES = 65536


class _Process:
    """Known by a descriptor where the kernel has that: another one may get its number."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._pidfd = processes.open_pidfd(pid)

    def alive(self) -> bool:
        if self._pidfd is not None:
            return not select.select([self._pidfd], [], [], 0)[0]
        found = processes.read_process(self.pid)
        return found is not None and found.alive and found.parent == os.getpid()

    def kill(self) -> None:
        if self.alive():
            processes.send(self.pid, signal.SIGKILL)


class ForkServer:
    """One server, from its start on: it imports, then it is ready, or of no use, and says why."""

    def __init__(
        self, program: Program, environment: Mapping[str, str], wake: Callable[[], None]
    ) -> None:
        self._program = program
        self._environment = environment
        self._wake = wake
        self._settled = threading.Event()
        self._starting = threading.Lock()
        self._process: _Process | None = None
        self._control: socket.socket | None = None
        self._last_lines: deque[str] = deque(maxlen=1)
        self.import_seconds: float | None = None  # once it is ready
        self.why = ""  # it is of no use
        self.lost = False  # after it had been ready

    def start(self) -> None:
        """Begin; `wake` is called when it is settled whether there is a server."""
        threading.Thread(target=self._prepare, name="fork-server", daemon=True).start()

    def settled(self) -> bool:
        """Whether it is ready or of no use."""
        return self._settled.is_set()

    def pid(self) -> int:
        """0 if there is no process."""
        with self._starting:
            process = self._process
        return process.pid if process is not None and process.alive() else 0

    def fork(self, arguments: Sequence[str], ends: Ends) -> int:
        """Have an engine forked, which becomes a child of this process; returns its pid.

        Raises NoForkError. A server that fails once is ended, for what it may still do.
        """
        try:
            pid = self._fork(arguments, ends)
        except OSError as failed:
            self._lose(f"the fork server does not answer: {failed.strerror or failed}")
            raise NoForkError(self.why) from failed
        if pid == 0:
            self._lose("the fork server ended, or had no memory for a fork")
            raise NoForkError(self.why)
        return pid

    def _fork(self, arguments: Sequence[str], ends: Ends) -> int:
        assert self._control is not None  # noqa: S101 - callers wait until it is ready
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            ours.settimeout(FORK_SECONDS)
            with theirs:
                descriptors = [end for end, _ in sorted(ends, key=lambda pair: pair[1])]
                request = json.dumps(list(arguments)).encode()
                socket.send_fds(self._control, [request], [*descriptors, theirs.fileno()])
            pid = int(ours.recv(32) or 0)
            if pid:
                ours.send(b"g")
            return pid

    def _lose(self, why: str) -> None:
        self.why, self.lost = why, True
        self._end()

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()

    def _prepare(self) -> None:
        deadline = time.monotonic() + IMPORT_SECONDS
        left_out: list[str] = []
        answer = self._begin(left_out, deadline)
        while answer.get("module") and len(left_out) < MOST_LEFT_OUT:
            left_out.append(str(answer["module"]))
            answer = self._begin(left_out, deadline)
        if "seconds" in answer:
            self.import_seconds = float(answer["seconds"])
        else:
            self.why = str(answer.get("why"))
        self._settled.set()
        self._wake()

    def _begin(self, left_out: Sequence[str], deadline: float) -> Any:
        """Start a process; returns what it says of its imports."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(max(0.1, deadline - time.monotonic()))
        if self._control is not None:
            self._control.close()
        self._control = ours
        try:
            with theirs:
                self._spawn(theirs.fileno(), left_out)
            return self._first_message(ours)
        except OSError as failed:
            return {"why": f"the fork server cannot be started: {failed.strerror or failed}"}

    def _spawn(self, control: int, left_out: Sequence[str]) -> None:
        """Raises OSError."""
        output = Output(self._last_lines.append)
        ends = [*output.ends_for_engine(), (control, CONTROL)]
        argv = [*self._program.interpreter, str(SERVER), str(CONTROL), self._program.script]
        try:
            with self._starting:
                pid = os.posix_spawn(
                    argv[0],
                    [*argv, *left_out],
                    self._environment,
                    file_actions=[(os.POSIX_SPAWN_DUP2, end, target) for end, target in ends],
                    setpgroup=0,
                    setsigdef=RESTORED_SIGNALS,
                )
                self._process = _Process(pid)
        finally:
            output.start()

    def _first_message(self, control: socket.socket) -> Any:
        """Raises OSError."""
        try:
            message = control.recv(MAX_MESSAGE_BYTES)
        except TimeoutError:
            self._end()
            return {"why": f"importing vLLM takes longer than {IMPORT_SECONDS:g} s"}
        if not message:
            last = f": {self._last_lines[0].strip()}" if self._last_lines else ""
            return {"why": f"the fork server ended while it imported vLLM{last}"}
        control.settimeout(FORK_SECONDS)
        return json.loads(message)

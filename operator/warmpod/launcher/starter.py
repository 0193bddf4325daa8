"""Starts the engine of each boot: by a fork where that is wanted and possible, else plainly."""

from __future__ import annotations

from functools import partial

from warmpod.launcher.boot import Boot, Ends
from warmpod.launcher.console import say
from warmpod.launcher.forks import ForkServer
from warmpod.launcher.invocation.command import Command
from warmpod.launcher.invocation.vllm_command import NoForkError, changed, program_of
from warmpod.launcher.mainloop import MainLoop

# One that was killed is replaced, but not for ever.
MAX_SERVERS = 5


class Starter:
    """Holds the fork server. Runs in the main thread."""

    def __init__(self, template: Command | None, loop: MainLoop) -> None:
        """`template` is what most boots run: the server has its environment. None: no forks."""
        self._template = template
        self._loop = loop
        self._server: ForkServer | None = None
        self._servers = 0
        self._why = ""  # there is no server
        self._forked = False  # the last boot
        self._doubtful = False  # whether engines live as forks

    def prepare(self) -> None:
        """Have a server import vLLM, so that it is ready when the weights are."""
        if self._template is None:
            return
        try:
            program = program_of(self._template)
        except NoForkError as none:
            self._why = str(none)
            return
        self._servers += 1
        environment = self._template.environment
        self._server = ForkServer(program, environment, self._loop.wakeups.wake)
        self._server.start()

    def start(self, boot: Boot, command: Command) -> None:
        """Raises BootFailedError. Tells `boot-forked` or `start-plain`, where forks are wanted."""
        self._forked = False
        if self._template is None:
            boot.start(command)
        else:
            boot.start(command, partial(self._fork, boot, command))

    def learn(self, warm: bool) -> None:
        """What became of the last boot.

        If engines cannot live as forks that costs one start: others are plain until one was warm.
        """
        if warm:
            self._doubtful = False
        elif self._forked:
            self._doubtful = True

    def spared(self) -> int:
        """The process that stays when those of a boot are ended; 0 without one."""
        return self._server.pid() if self._server is not None else 0

    def _fork(self, boot: Boot, command: Command, ends: Ends) -> int:
        """The engine's pid; 0: it has to be started plainly."""
        try:
            server = self._server_for(command)
            pid = server.fork(command.argv[1:], ends)
        except NoForkError as none:
            say(f"the engine is started plainly, not forked: {none}")
            boot.tell("start-plain", why=str(none))
            self._replace_lost()
            return 0
        boot.tell("boot-forked", import_seconds=server.import_seconds)
        self._forked = True
        return pid

    def _server_for(self, command: Command) -> ForkServer:
        """Waits for its imports, which a plain start would have to wait for as well.

        Raises NoForkError.
        """
        assert self._template is not None  # noqa: S101 - else nothing is forked
        if self._server is None:
            raise NoForkError(self._why)
        if self._doubtful:
            raise NoForkError("a forked boot ended before it was warm")
        if command.argv[0] != self._template.argv[0]:
            raise NoForkError(f"it is started by {command.argv[0]}")
        if name := changed(self._template.environment, command.environment):
            raise NoForkError(f"its variable {name} is not what it is for other boots")
        server = self._server
        self._loop.wait(None, lambda: server.settled() or self._loop.stop_requests > 0)
        if not server.settled():
            raise NoForkError("the launcher was told to stop")
        if server.why:
            raise NoForkError(server.why)
        return server

    def _replace_lost(self) -> None:
        """The next boot can be forked again."""
        if self._server is not None and self._server.lost and self._servers < MAX_SERVERS:
            self.prepare()

"""The launcher's life: boots one after another until told to stop, or until it gives up."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from warmpod.launcher.boot import Boot, BootFailedError, BootLock, was_warm
from warmpod.launcher.cache.growth import CacheWatch, cache_directories
from warmpod.launcher.cache.podcache import CacheOptions, compile_cache
from warmpod.launcher.cache.state import blames_cache
from warmpod.launcher.console import say
from warmpod.launcher.drain import EngineClient
from warmpod.launcher.events import EventLog
from warmpod.launcher.fit.check import check_fit
from warmpod.launcher.gpus import gpus
from warmpod.launcher.invocation.command import Command
from warmpod.launcher.invocation.loaders import Choice, choose
from warmpod.launcher.mainloop import MainLoop
from warmpod.launcher.policy import Ending, GiveUp, after_boot
from warmpod.launcher.requests import EndRequests
from warmpod.launcher.shutdown import Shutdown
from warmpod.launcher.starter import Starter
from warmpod.launcher.wakeups import Wakeups
from warmpod.launcher.weights import Weights
from warmpod.protocol import (
    END_BOOT_FILE,
    EVENTS_FILE,
    REFERENCE_DONE,
    REFERENCE_FILE,
    STOPPING_FILE,
    WARMUP_FAILED,
)

WEIGHTS_PERIOD_SECONDS = 0.2
WEIGHTS_GONE = 1  # exit code
# Until what was written before a death is heard and passed on. Only a machine under load, or a log
# that nobody reads, takes this long.
OUTPUT_SECONDS = 5.0


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    run_dir: Path
    command: Command
    reference: Command | None
    port: int
    scheme: str
    fork: bool
    wait_for: tuple[Path, ...]
    drain_seconds: float
    max_failed_boots: int
    cache: CacheOptions | None = None


class Supervisor:
    """Runs in the main thread."""

    def __init__(self, options: Options, wakeups: Wakeups) -> None:
        run_dir = options.run_dir
        self._options = options
        self._events = EventLog(run_dir / EVENTS_FILE)
        self._requests = EndRequests(run_dir / END_BOOT_FILE)
        self._client = EngineClient(options.scheme, options.port)
        self._loop = MainLoop(wakeups, run_dir)
        self._weights = Weights(options.wait_for)
        self._starter = Starter(options.command if options.fork else None, self._loop)
        self._shutdown = Shutdown(
            self._loop, self._client, run_dir, options.drain_seconds, self._starter.spared
        )
        self._cache = compile_cache(options.cache, options.command, run_dir, self._events.write)

    def run(self) -> int:
        """Supervise; returns the container's exit code."""
        (self._options.run_dir / STOPPING_FILE).unlink(missing_ok=True)
        self._events.make_room()
        facts = self._options.command.facts
        self._events.write("launcher-started", pid=os.getpid(), gpus=gpus(os.environ), **facts)
        # First: the import goes on beside the copying of the cache.
        self._starter.prepare()
        self._cache.prepare()
        self._run_reference()
        number = failed_boots = 0
        while self._wait_for_weights():
            number += 1
            boot, ending = self._run_boot(number, self._options.command)
            if self._loop.stop_requests:
                return 0
            warm = was_warm(self._options.run_dir, boot)
            self._starter.learn(warm)
            step = after_boot(ending, warm, failed_boots, self._options.max_failed_boots)
            failed_boots = step.failed_boots
            if isinstance(step, GiveUp):
                self._events.write(
                    "gave-up", boot, failed_boots=failed_boots, exit_code=step.exit_code
                )
                say(f"gave up after {failed_boots} boots in a row that never became warm")
                return step.exit_code
            if not self._loop.sleep_unless_stopped(step.delay_seconds):
                return 0
        return WEIGHTS_GONE if self._weights.gone() else 0

    def _run_reference(self) -> None:
        """One boot that others are compared with; however it ends, the real ones follow."""
        reference = self._options.reference
        if reference is None or (self._options.run_dir / REFERENCE_FILE).exists():
            return
        if self._wait_for_weights():
            self._run_boot(0, reference)

    def _wait_for_weights(self) -> bool:
        """Wait for the files that say that the weights are complete; False when told to stop, or
        when they will never come.

        Before every boot: the agent takes such a file away while it puts a copy right.
        """
        if self._loop.stop_requests or not self._options.wait_for:
            return self._loop.stop_requests == 0
        shown: list[Path] = []
        while missing := self._weights.missing():
            if missing != shown:
                say(f"waiting for the weights: {', '.join(map(str, missing))}")
                shown = missing
            if self._weights.gone():
                say("the directory of the weights was removed; the container has to start anew")
                return False
            if not self._loop.sleep_unless_stopped(WEIGHTS_PERIOD_SECONDS):
                return False
        self._events.write("weights-ready")
        return True

    def _run_boot(self, number: int, command: Command) -> tuple[str, Ending]:
        """One boot from its lock to the end of its last process."""
        boot_id = secrets.token_hex(6)
        self._events.make_room()
        try:
            lock = BootLock(self._options.run_dir, boot_id)
        except OSError as failed:
            # Without the lock nobody would notice the engine's death, so it must not start.
            say(f"a boot lock cannot be made in {self._options.run_dir}: {failed.strerror}")
            return boot_id, Ending("exited")
        boot = Boot(boot_id, lock, self._events)
        choice = choose(command.loader, command.argv) if command.loader else None
        if choice:
            command = replace(command, argv=choice.argv)
        facts: dict[str, Any] = {"reference": True} if command.reference else {}
        boot.tell(
            "boot-started", number=number, lock=lock.path.name, argv=list(command.argv), **facts
        )
        if choice:
            _tell_loader(boot, choice)
        if self._events.is_full():
            self._tell_full(boot)
        if not command.reference:
            self._cache.boot_starts(boot_id)
            boot.listener.when_passed = self._cache.hear
        ending = self._live(boot, command)
        self._loop.boot = None
        self._judge_cache(boot, ending)
        return boot_id, ending

    def _judge_cache(self, boot: Boot, ending: Ending) -> None:
        """An engine that could not be started at all has not looked into it."""
        warm = was_warm(self._options.run_dir, boot.id)
        stopped = self._loop.stop_requests > 0
        blamed = blames_cache(ending, stopped, warm, boot.listener.reasons())
        self._cache.boot_ended(boot.id, str(ending), blamed and boot.pid > 0)

    def _tell_full(self, boot: Boot) -> None:
        """The engine starts all the same, but the sidecar cannot write down what it finds."""
        line = f"{self._options.run_dir} is full"
        say(f"RunDirectoryFull: {line}: remove what is not warmpod's")
        boot.tell("failure", reason="RunDirectoryFull", line=line)

    def _live(self, boot: Boot, command: Command) -> Ending:
        try:
            self._starter.start(boot, command)
        except BootFailedError as failed:
            boot.end(Ending("exited"))
            say(str(failed))
            boot.tell("failure", reason=failed.reason, line=str(failed))
            return self._tell_end(boot, [str(failed)])
        self._loop.boot = boot
        check_fit(boot, command.environment)
        caches = self._watch_caches(boot, command)
        self._wait_for_end(boot, command)
        if boot.ending is None:
            self._shutdown.end(boot)
        caches.end()
        boot.hear_out(OUTPUT_SECONDS)
        ending = self._tell_end(boot, boot.listener.last_lines())
        self._shutdown.clear_leftovers()
        boot.finish_output(OUTPUT_SECONDS)
        return ending

    def _watch_caches(self, boot: Boot, command: Command) -> CacheWatch:
        caches = CacheWatch(
            cache_directories(command.environment),
            boot.tell,
            answers=lambda: boot.listener.ready.is_set() or self._client.answers(),
            is_warm=lambda: was_warm(self._options.run_dir, boot.id),
            when_warm=lambda: self._cache.boot_is_warm(boot.id),
        )
        caches.start()
        return caches

    def _wait_for_end(self, boot: Boot, command: Command) -> None:
        """Wait until the boot is over or is to be ended."""

        def over() -> bool:
            if boot.ending is not None or self._loop.stop_requests > 0:
                return True
            return self._asked_to_end(boot, command)

        self._loop.wait(None, over)

    def _asked_to_end(self, boot: Boot, command: Command) -> bool:
        request = self._requests.take(boot.id)
        if request is None:
            return False
        say(f"boot {boot.id} is ended as the sidecar asks: {request.why or 'no reason given'}")
        boot.asked = REFERENCE_DONE if command.reference else WARMUP_FAILED
        return True

    def _tell_end(self, boot: Boot, last_lines: list[str]) -> Ending:
        boot.listener.silence()
        assert boot.ending is not None  # noqa: S101 - callers end the boot first
        ending = boot.ending
        boot.tell(
            "boot-ended",
            exit_code=ending.exit_code,
            signal=ending.signal,
            cause=ending.cause,
            last_lines=last_lines,
        )
        say(f"boot {boot.id} ended: {ending}")
        return ending


def _tell_loader(boot: Boot, choice: Choice) -> None:
    boot.tell("loader", wanted=choice.wanted, used=choice.used, why=choice.why)
    if choice.used != choice.wanted:
        say(f"the weights are not loaded by {choice.wanted}: {choice.why}")

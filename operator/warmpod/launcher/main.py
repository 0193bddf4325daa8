"""The launcher's command line: `run` is PID 1 of the engine container, `pre-stop` its hook."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from warmpod.launcher import processes
from warmpod.launcher.console import say
from warmpod.launcher.loaders import LOADERS
from warmpod.launcher.prestop import pre_stop
from warmpod.launcher.reference import Command, read_argv, read_environment, reference_command
from warmpod.launcher.sleeping import able_to_sleep
from warmpod.launcher.supervisor import Options, Supervisor
from warmpod.launcher.wakeups import Wakeups

USAGE_ERROR = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the launcher; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    own, engine = split_at_dashes(words)
    arguments = parser().parse_args(own)
    run_dir: Path = arguments.run_dir
    if arguments.action == "pre-stop":
        return pre_stop(run_dir)
    if not (run_dir.is_dir() and os.access(run_dir, os.W_OK | os.X_OK)):
        say(
            f"--run-dir={run_dir} is not a writable directory: mount the pod's shared emptyDir "
            "there"
        )
        return USAGE_ERROR
    if not engine:
        say("no engine command: give it after --, for example: -- vllm serve /models/m")
        return USAGE_ERROR
    wakeups = Wakeups()
    wakeups.install()
    processes.adopt_orphans()
    options = Options(
        run_dir=run_dir,
        command=command_of(arguments, engine),
        reference=reference_of(arguments),
        port=arguments.port,
        scheme=arguments.scheme,
        wait_for=tuple(arguments.wait_for),
        drain_seconds=arguments.drain_seconds,
        max_failed_boots=arguments.max_failed_boots,
    )
    return Supervisor(options, wakeups).run()


def command_of(arguments: argparse.Namespace, engine: list[str]) -> Command:
    """What the boots run."""
    command = Command(engine, os.environ, loader=arguments.loader)
    if not arguments.sleep_mode:
        return command
    try:
        return able_to_sleep(command, arguments.run_dir)
    except OSError as failed:
        say(f"the engine will not be able to sleep: no key in {arguments.run_dir}: {failed}")
        return command


def reference_of(arguments: argparse.Namespace) -> Command | None:
    """The boot to compare with, if there is to be one."""
    if arguments.reference_argv is None:
        return None
    return reference_command(
        arguments.reference_argv,
        arguments.reference_env,
        os.environ,
        arguments.reference_loader,
    )


def split_at_dashes(words: list[str]) -> tuple[list[str], list[str]]:
    """The launcher's own arguments, and the engine's command after the first `--`."""
    if "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def parser() -> argparse.ArgumentParser:
    """The command line."""
    root = argparse.ArgumentParser(prog="launch.py", description=__doc__, allow_abbrev=False)
    actions = root.add_subparsers(dest="action", required=True)
    run = actions.add_parser("run", help="start the engine, and start it again when it dies")
    run.add_argument("--run-dir", type=Path, required=True, help="directory shared with warmup")
    run.add_argument("--port", type=int, default=8000, help="the engine's port")
    run.add_argument("--scheme", choices=("http", "https"), default="http")
    run.add_argument(
        "--wait-for",
        type=Path,
        action="append",
        default=[],
        help="start no engine before this file exists; may be given several times",
    )
    run.add_argument(
        "--drain-seconds", type=float, default=60.0, help="longest wait for running requests"
    )
    run.add_argument(
        "--max-failed-boots",
        type=int,
        default=3,
        help="give up after this many boots in a row that never became warm",
    )
    run.add_argument(
        "--loader", choices=LOADERS, help="how vLLM loads the weights, where the image has that"
    )
    run.add_argument(
        "--sleep-mode",
        action="store_true",
        help="vllm serve that the sidecar, and nobody else, can put to sleep",
    )
    run.add_argument(
        "--reference-argv", type=read_argv, help="first run this engine, as a JSON list of words"
    )
    run.add_argument(
        "--reference-env", type=read_environment, default={}, help="its variables, as JSON object"
    )
    run.add_argument("--reference-loader", choices=LOADERS, help="its loader")
    hook = actions.add_parser("pre-stop", help="have the gate closed; the preStop hook")
    hook.add_argument("--run-dir", type=Path, required=True, help="directory shared with warmup")
    return root


if __name__ == "__main__":
    sys.exit(main())

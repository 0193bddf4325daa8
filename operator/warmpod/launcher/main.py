"""The launcher's command line: `run` is PID 1 of the engine container, `pre-stop` its hook."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from warmpod.launcher import processes
from warmpod.launcher.cache.directory import with_variables
from warmpod.launcher.cache.podcache import CacheOptions
from warmpod.launcher.console import say
from warmpod.launcher.invocation.command import Command
from warmpod.launcher.invocation.defaults import read_defaults, with_defaults
from warmpod.launcher.invocation.loaders import LOADERS
from warmpod.launcher.invocation.reference import read_argv, read_environment, reference_command
from warmpod.launcher.invocation.sleeping import able_to_sleep
from warmpod.launcher.prestop import pre_stop
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
    environment = environment_of(arguments)
    options = Options(
        run_dir=run_dir,
        command=command_of(arguments, engine, environment),
        reference=reference_of(arguments, environment),
        port=arguments.port,
        scheme=arguments.scheme,
        fork=arguments.fork,
        wait_for=tuple(arguments.wait_for),
        drain_seconds=arguments.drain_seconds,
        max_failed_boots=arguments.max_failed_boots,
        cache=cache_of(arguments),
    )
    return Supervisor(options, wakeups).run()


def environment_of(arguments: argparse.Namespace) -> Mapping[str, str]:
    """Of each engine."""
    if arguments.cache_dir is None:
        return os.environ
    return with_variables(os.environ, arguments.cache_dir)


def cache_of(arguments: argparse.Namespace) -> CacheOptions | None:
    """What is done about the compile cache."""
    if arguments.cache_dir is None:
        return None
    return CacheOptions(arguments.cache_dir, arguments.cache_store, arguments.cache_factors)


def command_of(
    arguments: argparse.Namespace, engine: list[str], environment: Mapping[str, str]
) -> Command:
    """What the boots run."""
    command = Command(engine, environment, loader=arguments.loader)
    if arguments.defaults is not None:
        command = with_defaults(command, arguments.defaults)
    if not arguments.sleep_mode:
        return command
    try:
        return able_to_sleep(command, arguments.run_dir)
    except OSError as failed:
        say(f"the engine will not be able to sleep: no key in {arguments.run_dir}: {failed}")
        return command


def reference_of(arguments: argparse.Namespace, environment: Mapping[str, str]) -> Command | None:
    """The boot to compare with, if there is to be one."""
    if arguments.reference_argv is None:
        return None
    return reference_command(
        arguments.reference_argv,
        arguments.reference_env,
        environment,
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
        "--fork",
        action="store_true",
        help="fork engines from a process that has imported vLLM, where that is possible",
    )
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
        "--defaults",
        type=read_defaults,
        help="arguments and variables for a vLLM that has them, as a JSON object: arguments (a "
        "list of lists of words), environment",
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
    add_cache_options(run)
    hook = actions.add_parser("pre-stop", help="have the gate closed; the preStop hook")
    hook.add_argument("--run-dir", type=Path, required=True, help="directory shared with warmup")
    return root


def add_cache_options(run: argparse.ArgumentParser) -> None:
    """Those of the compile cache."""
    run.add_argument(
        "--cache-dir",
        type=Path,
        help="directory of this pod for what engines compile, unless their variables say another",
    )
    run.add_argument(
        "--cache-store", type=Path, help="root of a store that other pods share; needs --cache-dir"
    )
    run.add_argument(
        "--cache-factors",
        type=read_environment,
        default={},
        help="digests of image and model, as a JSON object: what was compiled fits these only",
    )


if __name__ == "__main__":
    sys.exit(main())

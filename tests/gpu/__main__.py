"""Here: `pack`, `next`, `table`. On the machine with the GPU: `receive`, `wait`, `again`.

python -m gpu pack                    make all pieces, in ~/.cache/warmpod/gpu/pieces
python -m gpu next FIRST COUNT DIR    leave the tree and these pieces in DIR, for one transfer
python -m gpu receive DIR             take what has come, and go on with what can be done
python -m gpu wait SECONDS [OUT]      tell what is done, until all is; leave the report in OUT;
                                      --until STEP: until that one has ended
python -m gpu again STEP...           end what runs, and do these steps again
python -m gpu table REPORT            the tables of docs/benchmarks.md, from gpu.json of `wait`
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path


def main() -> int:
    arguments = _parser().parse_args()
    match arguments.command:
        case "pack":
            _pack(arguments.piece_mib)
        case "next":
            _next(arguments.first, arguments.count, arguments.directory)
        case "receive":
            return _receive(arguments.directory)
        case "wait":
            return _wait(arguments.seconds, arguments.out, arguments.until)
        case "table":
            _table(arguments.report)
        case "again" | "run" | "step":
            _work(arguments.command, arguments.step)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    pack = commands.add_parser("pack")
    pack.add_argument("--piece-mib", type=int, default=53)
    following = commands.add_parser("next")
    following.add_argument("first", type=int)
    following.add_argument("count", type=int)
    following.add_argument("directory", type=Path)
    commands.add_parser("receive").add_argument("directory", type=Path)
    wait = commands.add_parser("wait")
    wait.add_argument("seconds", type=float)
    wait.add_argument("out", type=Path, nargs="?")
    wait.add_argument("--until", default="", help="this step has ended")
    commands.add_parser("table").add_argument("report", type=Path)
    for name in ("again", "run", "step"):
        commands.add_parser(name).add_argument("step", nargs="*")
    return parser


def _pack(piece_mib: int) -> None:
    from gpu import bundles, pack

    index = pack.pack(list(bundles.RECIPES), piece_mib * 2**20)
    for bundle in index.bundles:
        print(f"{bundle.name:<10} {bundle.size / 1e6:6.1f} MB")
    print(f"{len(index.pieces)} pieces in {pack.PIECES}")


def _next(first: int, count: int, directory: Path) -> None:
    from gpu import pack

    pieces = pack.hand_out(range(first, first + count), directory)
    total = sum(path.stat().st_size for path in directory.iterdir())
    print(f"{len(pieces)} pieces, {total / 2**20:.1f} MiB in {directory}")


def _receive(directory: Path) -> int:
    from gpu import machine, runner, stream

    index = stream.read_index(directory)
    machine.STORE.mkdir(parents=True, exist_ok=True)
    (machine.STORE / stream.INDEX).write_text(index.text())
    wrong = stream.receive(index, directory, machine.STORE)
    for name in wrong:
        print(f"{name}: broken on the way, send it again")
    absent = {piece.sha256 for piece in stream.missing(index, machine.STORE)}
    numbers = [number for number, piece in enumerate(index.pieces) if piece.sha256 in absent]
    print(f"missing of {len(index.pieces)} pieces: {numbers or 'none'}")
    runner.start()
    return 1 if wrong else 0


def _wait(seconds: float, out: Path | None, until: str) -> int:
    from gpu import report, steps

    over = report.follow(steps.STEPS, seconds, until)
    if out:
        report.save(steps.STEPS, out)
    return 0 if over else 3


def _table(path: Path) -> None:
    from gpu import table

    print(table.markdown(json.loads(path.read_text())))


def _work(command: str, names: list[str]) -> None:
    from gpu import runner, steps

    known = {step.name: step for step in steps.STEPS}
    if unknown := sorted(set(names) - set(known)):
        sys.exit(f"no step {', '.join(unknown)}; choose from {', '.join(known)}")
    if command == "again":
        runner.stop()
        runner.forget(names)
        runner.start()
    elif command == "run":
        runner.run_all(steps.STEPS)
    else:
        for name in names:
            runner.run_one(known[name])
            print(json.dumps(runner.read(name)))


if __name__ == "__main__":
    sys.exit(main())

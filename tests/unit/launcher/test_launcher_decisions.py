"""The launcher's pure parts."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from warmpod import commandline, compilecache, inuse, protocol
from warmpod.launcher import events as events_module
from warmpod.launcher.boot import was_warm
from warmpod.launcher.drain import in_flight
from warmpod.launcher.events import EventLog
from warmpod.launcher.log import output as output_module
from warmpod.launcher.log.output import (
    MAX_FINDINGS,
    MAX_LATE_COMPILES,
    MAX_LINE_BYTES,
    LineSplitter,
    Listener,
    Output,
)
from warmpod.launcher.log.stages import LateCompile, Stage, clean, findings
from warmpod.launcher.policy import (
    Ending,
    GiveUp,
    StartAgain,
    Step,
    after_boot,
    worker_death_ends_boot,
)
from warmpod.launcher.processes import Process, below, is_engine_process, parse_stat, read_process
from warmpod.launcher.watch import EngineProcesses

PACKAGE = Path(events_module.__file__).parent
SHARED = (
    Path(protocol.__file__),
    Path(inuse.__file__),
    Path(commandline.__file__),
    *sorted(Path(compilecache.__file__).parent.glob("*.py")),
)
OURS = (
    "warmpod.launcher",
    "warmpod.protocol",
    "warmpod.inuse",
    "warmpod.commandline",
    "warmpod.compilecache",
)
PREFIX = "(EngineCore pid=97) INFO 11-30 02:47:13 [core.py:105] "


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("   █▄█▀ █     █     █  version 0.32.0", Stage("version", detail="0.32.0")),
        ("vLLM server version 0.33.0, serving model m", Stage("version", detail="0.33.0")),
        ("non-default args: {'port': 1}", Stage("args", detail="{'port': 1}")),
        ("Using max model len 256", Stage("config", detail="256")),
        (
            "Initializing a V1 LLM engine (v0.32.0) with config: model='/m'",
            Stage("engine_start", detail="0.32.0"),
        ),
        (
            "world_size=2 rank=1 local_rank=1 distributed_init_method=tcp://x backend=nccl",
            Stage("dist", detail="world_size=2 rank=1"),
        ),
        ("Starting to load model /m...", Stage("load_start")),
        ("Loading model from scratch...", Stage("load_start")),
        ("Loading weights took 3.25 seconds", Stage("weights", 3.25)),
        (
            "Model loading took 14.99 GiB memory and 4.100000 seconds",
            Stage("model_loaded", 4.1, "14.99 GiB"),
        ),
        ("Model loading took 14.99 GiB and 4.1 seconds", Stage("model_loaded", 4.1, "14.99 GiB")),
        (
            "Directly load AOT compilation from path /c/rank_0_0/model",
            Stage("aot_hit", detail="/c/rank_0_0/model"),
        ),
        (
            "Compiling model again due to a load failure from /c/model, reason: corrupted.",
            Stage("aot_fail", detail="corrupted."),
        ),
        ("[backbone] torch.compile took 24.5 s in total", Stage("compile", 24.5)),
        ("torch.compile took 24.5 s in total", Stage("compile", 24.5)),
        (
            "torch.compile and initial profiling/warmup run together took 30.00 s in total",
            Stage("compile_nonaot", 30.0),
        ),
        ("Initial profiling/warmup run took 6.00 s", Stage("profile", 6.0)),
        ("GPU KV cache size: 1,234 tokens", Stage("kv_size", detail="1,234 tokens")),
        (
            "CPU KV cache size: 65,536 tokens, Maximum concurrency for 256",
            Stage("kv_size", detail="65,536 tokens"),
        ),
        ("JIT kernel warmup finished in 2.10s.", Stage("jit", 2.1, "finished")),
        ("JIT kernel warmup failed after 2.10s.", Stage("jit", 2.1, "failed")),
        (
            "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):   0%|  | 0/67 [00:00<?]",
            Stage("graphs_start"),
        ),
        ("Capturing prefill CUDA graphs (FULL):   0%|", Stage("graphs_start")),
        (
            "Graph capturing finished in 15 secs, took 0.62 GiB",
            Stage("graphs", 15.0, "0.62 GiB"),
        ),
        (
            "init engine (profile, create kv cache, warmup model) took 12.34 s",
            Stage("engine_ready", 12.34),
        ),
        (
            "init engine (profile, create kv cache, warmup model) took 9 s (compilation: 2.0 s)",
            Stage("engine_ready", 9.0, "compilation: 2.0 s"),
        ),
        (
            "Starting vLLM server on http://0.0.0.0:8000",
            Stage("http", detail="http://0.0.0.0:8000"),
        ),
        ("INFO:     Application startup complete.", Stage("ready")),
    ],
)
def test_stage_lines(line: str, stage: Stage) -> None:
    assert list(findings(PREFIX + line)) == [stage]
    assert list(findings(f"\x1b[0;36m{PREFIX}\x1b[0;0m{line}\x1b[0m")) == [stage]


def test_a_line_that_cannot_be_understood_does_not_stop_the_output() -> None:
    heard: list[str] = []

    def hear(line: str) -> None:
        heard.append(line)
        raise RuntimeError(line)

    output = Output(hear)
    engine = os.dup(output.ends_for_engine()[0][0])
    output.start()
    os.write(engine, b"one\ntwo\n")
    os.close(engine)
    output.join(5)
    assert heard == ["one", "two"]


def test_a_line_with_dots_for_a_number_is_read_without_one() -> None:
    assert list(findings("Loading weights took ... seconds")) == [Stage("weights")]


def test_late_compilation() -> None:
    line = (
        "WARNING Triton kernel JIT compilation during inference: _fwd_kernel. "
        "This causes a latency spike; consider extending warmup"
    )
    assert list(findings(line)) == [LateCompile("_fwd_kernel")]


def test_late_compilation_is_told_on_when_there_was_much_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round in which kernels were compiled must not look as if none were."""
    file = tmp_path / "events.jsonl"
    listener = Listener("b", EventLog(file))

    def told() -> int:
        return len(file.read_text().splitlines())

    for number in range(MAX_FINDINGS + 100):
        listener.hear(f"Triton kernel JIT compilation during inference: k{number}. This")
    assert MAX_FINDINGS <= told() < MAX_FINDINGS + 100
    monkeypatch.setattr(output_module, "LATE_COMPILE_SECONDS", 0)
    before = told()
    listener.hear("Triton kernel JIT compilation during inference: one_more. This")
    assert told() == before + 1
    for number in range(MAX_LATE_COMPILES):
        listener.hear(f"Triton kernel JIT compilation during inference: k{number}. This")
    assert told() == MAX_LATE_COMPILES


@pytest.mark.parametrize(
    "line",
    [
        'INFO:     127.0.0.1:9 - "POST /v1/completions HTTP/1.1" 200 OK',
        "Engine 000: Avg prompt throughput: 0.0 tokens/s, Running: 0 reqs",
        "model version is fine",
        "",
    ],
)
def test_other_lines_say_nothing(line: str) -> None:
    assert list(findings(line)) == []


def test_clean_line_is_short_and_has_no_colours() -> None:
    assert clean("\x1b[31m" + "x" * 400 + "\n") == "x" * 300


@pytest.mark.parametrize(
    ("ending", "warm", "failed_before", "step"),
    [
        (Ending("exited", exit_code=0), True, 2, StartAgain(0, 0.0)),
        (Ending("exited", exit_code=0), False, 0, StartAgain(1, 1.0)),
        (Ending("exited", signal=9), False, 1, StartAgain(2, 2.0)),
        (Ending("exited", exit_code=0), False, 2, GiveUp(3, 1)),
        (Ending("exited", exit_code=3), False, 2, GiveUp(3, 3)),
        (Ending("engine-process-died"), False, 2, GiveUp(3, 1)),
    ],
)
def test_what_follows_a_boot(ending: Ending, warm: bool, failed_before: int, step: Step) -> None:
    assert after_boot(ending, warm, failed_before, max_failed=3) == step


def test_back_off_is_bounded() -> None:
    assert after_boot(Ending("exited"), False, 20, max_failed=99) == StartAgain(21, 30.0)


def test_worker_death_waits_for_the_main_process_only_while_starting() -> None:
    assert worker_death_ends_boot(up=True, seconds_since=0)
    assert not worker_death_ends_boot(up=False, seconds_since=14)
    assert worker_death_ends_boot(up=False, seconds_since=15)


def test_requests_in_flight_are_summed_over_ranks() -> None:
    metrics = """# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 1.0
vllm:num_requests_running{engine="1",model_name="m"} 2.0
vllm:num_requests_waiting{engine="0",model_name="m"} 4.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 9.0
"""
    assert in_flight(metrics) == 7
    assert in_flight("vllm:num_requests_running 1e+01\n") == 10
    assert in_flight("other 1.0\n") is None


def test_lines_across_chunks() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"one\ntw") == ["one"]
    assert splitter.feed(b"o\r\nthree\nfour") == ["two", "three"]
    assert splitter.feed(b"\n") == ["four"]


def test_progress_bar_is_a_line_though_nothing_ends_it() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"\rone 0%") == ["one 0%"]
    assert splitter.feed(b"\rone 50%\rone 100%\nnext") == ["one 50%", "one 100%"]
    assert splitter.feed(b"\n") == ["next"]


def test_long_line_is_cut_and_the_next_is_whole() -> None:
    splitter = LineSplitter()
    lines = splitter.feed(b"x" * MAX_LINE_BYTES + b"x")
    assert [len(line) for line in lines] == [MAX_LINE_BYTES]
    assert splitter.feed(b"x" * MAX_LINE_BYTES * 3) == []
    assert splitter.feed(b"xx\nnext\n") == ["next"]


def test_event_file_is_bounded_and_keeps_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path)
    log.make_room()
    path.write_text('{"event": "old"}\n' * 100_000)
    log.write("newest", "b", fact=None)
    log.make_room()
    assert path.stat().st_size <= events_module.KEPT_BYTES
    *_, newest = [json.loads(line) for line in path.read_text().splitlines()]
    assert (newest["event"], newest["boot"], newest["fact"]) == ("newest", "b", None)
    assert abs(newest["ts"] - time.time()) < 60


@pytest.mark.parametrize(
    ("content", "warm"),
    [
        ('{"boot": "b", "warm": true}', True),
        ('{"boot": "other", "warm": true}', False),
        ('{"boot": "b", "warm": false}', False),
        ("[]", False),
        ("{", False),
        (None, False),
    ],
)
def test_warm_mark_of_the_sidecar(tmp_path: Path, content: str | None, warm: bool) -> None:
    if content is not None:
        (tmp_path / "warm.json").write_text(content)
    assert was_warm(tmp_path, "b") is warm


def test_stat_line_with_a_strange_name() -> None:
    line = b"42 (a) b (c) Z 7 " + b" ".join(str(n).encode() for n in range(5, 52)) + b" 9\n"
    process = parse_stat(line)
    assert process == Process(42, 7, "Z", 9, "a) b (c")
    assert not process.alive


def test_descendants_at_any_depth() -> None:
    table = [Process(pid, parent, "S", 0) for pid, parent in ((2, 1), (3, 2), (4, 3), (9, 8))]
    assert {process.pid for process in below(1, table)} == {2, 3, 4}


def test_own_process_is_read_and_is_no_engine() -> None:
    process = read_process(os.getpid())
    assert process is not None
    assert process.alive
    assert not is_engine_process(os.getpid())


def test_worker_death_is_found_without_pidfd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warmpod.launcher.watch.open_pidfd", lambda _pid: None)
    monkeypatch.setattr("warmpod.launcher.watch.is_engine_process", lambda _pid: True)
    child = subprocess.Popen(["sleep", "3600"])
    watch = EngineProcesses(lambda _processes: None)
    assert watch.check(os.getpid()) is None
    assert watch.pidfds() == []
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    death = watch.check(os.getpid())
    child.wait()
    assert death is not None
    assert death.ending == Ending("engine-process-died", signal=9)


@pytest.mark.parametrize(
    "path", [*sorted(PACKAGE.rglob("*.py")), *SHARED], ids=lambda path: path.name
)
def test_runs_on_the_oldest_interpreter_with_the_standard_library_only(path: Path) -> None:
    # The fork server's interpreter does not find our packages.
    ours = () if path.parent.name == "forkserver" else OURS
    tree = ast.parse(path.read_text(), feature_version=(3, 10))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            assert name.startswith(ours) or name.partition(".")[0] in sys.stdlib_module_names, (
                f"{path.name} imports {name}"
            )


def test_imports_on_python_3_10() -> None:
    python = shutil.which("python3.10")
    if python is None or subprocess.run([python, "-V"], capture_output=True).returncode:
        pytest.skip("no Python 3.10 here")
    subprocess.run(
        [python, "-c", "import warmpod.launcher.main"],
        env={"PYTHONPATH": str(PACKAGE.parents[1])},
        check=True,
    )

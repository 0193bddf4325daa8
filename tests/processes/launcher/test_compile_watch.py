"""What the engine compiles without a word: processes and files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import launcher_process
import pytest
from launcher_process import Launcher, fake

from support.waiting import wait_for
from warmpod.launcher import policy
from warmpod.launcher.cache import compilers
from warmpod.launcher.cache.compilers import Compilers
from warmpod.launcher.cache.growth import CacheWatch, Size, cache_directories, measure
from warmpod.launcher.gpus import gpus
from warmpod.launcher.policy import cache_look_pause
from warmpod.launcher.processes import Process

Launch = Callable[..., Launcher]
SOON = {
    "policy.STARTING_LOOK_SECONDS": 0.05,
    "policy.UP_LOOK_SECONDS": 0.05,
    "mainloop.STEP_SECONDS": 0.1,
}


def processes(*names: str, state: str = "R") -> list[Process]:
    return [Process(pid, 1, state, 0, name) for pid, name in enumerate(names, 2)]


@pytest.mark.parametrize(
    ("looks", "events"),
    [
        ([["python3", "sh"]], []),
        ([["ninja", "sh", "nvcc"]], ["started ninja", "started nvcc"]),
        ([["cicc", "cicc"], ["cicc"], ["cicc"]], ["started cicc"]),
        ([["ptxas"], [], ["ptxas"], [], []], ["started ptxas", "ended ptxas"]),
        ([["g++"], [], [], ["g++"]], ["started g++", "ended g++", "started g++"]),
    ],
)
def test_compilers_are_told_once(looks: list[list[str]], events: list[str]) -> None:
    told: list[str] = []
    watch = Compilers(lambda event, name: told.append(f"{event.partition('-')[2]} {name}"))
    for names in looks:
        watch.look(processes(*names))
    assert told == events


def test_a_compiler_that_is_dead_does_not_run() -> None:
    told: list[str] = []
    watch = Compilers(lambda event, _name: told.append(event))
    watch.look(processes("nvcc", state="Z"))
    assert told == []


def test_compilers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilers, "MAX_STARTS", 3)
    told: list[str] = []
    watch = Compilers(lambda event, _name: told.append(event))
    for names in (["nvcc"], [], []) * 9:
        watch.look(processes(*names))
    assert told == ["compiler-started", "compiler-ended"] * 3


@pytest.mark.parametrize(
    ("environment", "directories"),
    [
        (
            {"HOME": "/h"},
            ["/h/.cache/flashinfer", "/h/.cache/vllm", "/h/.nv/ComputeCache", "/h/.triton/cache"],
        ),
        (
            {"HOME": "/h", "USER": "u", "XDG_CACHE_HOME": "/x", "TMPDIR": "/t"},
            [
                "/h/.cache/flashinfer",
                "/h/.nv/ComputeCache",
                "/h/.triton/cache",
                "/t/torchinductor_u",
                "/x/vllm",
            ],
        ),
        (
            {
                "HOME": "/h",
                "VLLM_CACHE_ROOT": "/c/vllm",
                "TRITON_CACHE_DIR": "/c/triton",
                "FLASHINFER_WORKSPACE_BASE": "/c/fi",
                "CUDA_CACHE_PATH": "/c/cuda",
                "TORCHINDUCTOR_CACHE_DIR": "/c/vllm/inductor",
            },
            ["/c/cuda", "/c/fi/.cache/flashinfer", "/c/triton", "/c/vllm"],
        ),
    ],
)
def test_where_the_caches_are(environment: dict[str, str], directories: list[str]) -> None:
    assert [str(path) for path in cache_directories(environment)] == directories


def test_files_are_counted_at_any_depth(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "one").write_bytes(b"123")
    (tmp_path / "a" / "b" / "two").write_bytes(b"45")
    (tmp_path / "a" / "round").symlink_to(tmp_path / "a")
    link = (tmp_path / "a" / "round").lstat().st_size
    assert measure([tmp_path / "a", tmp_path / "none"]) == Size(3, 5 + link)
    assert measure([]) == Size(0, 0)


@pytest.mark.parametrize(
    ("up", "growths", "took", "pause"),
    [
        (False, 0, 0.0, 2.0),
        (True, 0, 0.0, 0.3),
        (True, 999, 0.01, 0.3),
        (True, 0, 0.1, 0.9),
        (False, 0, 1.0, 9.0),
        (True, 1000, 0.0, 30.0),
    ],
)
def test_looks_take_at_most_a_tenth_of_a_core(
    up: bool, growths: int, took: float, pause: float
) -> None:
    assert cache_look_pause(up, growths, took) == pytest.approx(pause)


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({}, []),
        ({"NVIDIA_VISIBLE_DEVICES": "void"}, []),
        ({"NVIDIA_VISIBLE_DEVICES": "none", "CUDA_VISIBLE_DEVICES": ""}, []),
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, []),
        ({"NVIDIA_VISIBLE_DEVICES": "all", "CUDA_VISIBLE_DEVICES": "0,1"}, ["0", "1"]),
        ({"NVIDIA_VISIBLE_DEVICES": "GPU-a, GPU-b"}, ["GPU-a", "GPU-b"]),
        ({"NVIDIA_VISIBLE_DEVICES": "GPU-a", "CUDA_VISIBLE_DEVICES": "0"}, ["GPU-a"]),
        ({"NVIDIA_VISIBLE_DEVICES": "MIG-1,"}, ["MIG-1"]),
    ],
)
def test_which_gpus_are_given(environment: dict[str, str], named: list[str]) -> None:
    assert gpus(environment) == named


@pytest.fixture
def ninja(tmp_path: Path) -> Path:
    """A program of this name that sleeps."""
    sleep = shutil.which("sleep")
    assert sleep is not None
    return Path(shutil.copy(sleep, tmp_path / "ninja"))


def test_compilers_and_growth_are_events(
    launch: Launch, tmp_path: Path, ninja: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setitem(launcher_process.ENVIRONMENT, "TRITON_CACHE_DIR", str(cache))
    launcher = launch(fake("compiler", ninja, cache, tmp_path / "go"), times=SOON)
    before = launcher.wait_event("caches")
    (tmp_path / "go").touch()
    assert launcher.wait_event("compiler-started")["program"] == "ninja"
    assert launcher.wait_event("compiler-ended")["program"] == "ninja"
    grew = launcher.wait_event("cache-grew")
    assert (grew["files"], grew["bytes"]) == (1, 5)
    assert grew["boot"] == before["boot"]


@pytest.mark.parametrize("how", ["warm", "over"])
def test_caches_are_looked_at_until_the_boot_is_warm_or_over(how: str, tmp_path: Path) -> None:
    told: list[str] = []
    watch = CacheWatch(
        [tmp_path], lambda event, **_: told.append(event), lambda: True, lambda: how == "warm"
    )
    watch.start()
    if how == "over":
        watch.end()
    watch.join(20)
    assert not watch.is_alive()
    assert told == []


def test_what_the_caches_hold_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "STARTING_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(policy, "UP_LOOK_SECONDS", 0.01)
    (tmp_path / "old").write_bytes(b"123")
    told: list[tuple[str, dict[str, int]]] = []
    answers = iter([False, True])
    watch = CacheWatch(
        [tmp_path],
        lambda event, **fields: told.append((event, fields)),
        lambda: next(answers),
        lambda: False,
    )
    watch.start()
    wait_for(lambda: bool(told))
    assert told == [("caches", {"files": 1, "bytes": 3})]
    (tmp_path / "old").unlink()
    wait_for(lambda: watch.seen.files == 0)
    (tmp_path / "new").write_bytes(b"12")
    wait_for(lambda: len(told) > 1)
    assert told[1][0] == "cache-grew"
    watch.end()
    watch.join(20)

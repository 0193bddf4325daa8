#!/usr/bin/env python3
"""Loaders of weights against each other: seconds from files to tensors on the device.

    python tests/bench/loaders.py --disk /var/tmp/model --memory /dev/shm/model [--gigabytes 16]

Needs torch and safetensors, and for their loaders runai_model_streamer and fastsafetensors; those
that are missing are left out. Runs on a GPU where there is one. Of warmpod it needs nothing, so
that it runs on any machine with a GPU; the calls are those of vLLM 0.32
(`model_executor/model_loader/weight_utils.py`), into tensors that exist already, as a model's do.

The model has the shapes of a Llama 3 8B, in shards. Each run is a process of its own: what counts
is from the first call of the loader to the last byte on the device, not the imports and not the
beginning of CUDA. The order is mixed, so that noise of the machine meets all alike.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Tensors = Iterator[tuple[str, Any]]

GIGABYTE = 10**9
HIDDEN, INTERMEDIATE, KEY_VALUE, LAYERS = 4096, 14336, 1024, 32
# What vLLM's loader has when nothing else is said.
THREADS = 8


def shapes() -> Iterator[tuple[str, tuple[int, int]]]:
    """Of one layer, without the small ones."""
    for name, rows, columns in (
        ("q", HIDDEN, HIDDEN),
        ("k", KEY_VALUE, HIDDEN),
        ("v", KEY_VALUE, HIDDEN),
        ("o", HIDDEN, HIDDEN),
        ("gate", INTERMEDIATE, HIDDEN),
        ("up", INTERMEDIATE, HIDDEN),
        ("down", HIDDEN, INTERMEDIATE),
    ):
        yield name, (rows, columns)


def make(directory: Path, gigabytes: float, shards: int) -> None:
    """Random weights of 16 bits, as many layers as fit, spread over the shards."""
    torch, save = importlib.import_module("torch"), importlib.import_module("safetensors.torch")
    layer = sum(2 * rows * columns for _, (rows, columns) in shapes())
    layers = max(shards, round(gigabytes * GIGABYTE / layer))
    directory.mkdir(parents=True, exist_ok=True)
    # The same in each layer: no file system here looks for what it has already.
    content = {
        name: torch.randint(-(2**15), 2**15, shape, dtype=torch.int16).view(torch.bfloat16)
        for name, shape in shapes()
    }
    for shard in range(shards):
        tensors = {
            f"layers.{number}.{name}": tensor.clone()
            for number in range(shard, layers, shards)
            for name, tensor in content.items()
        }
        save.save_file(tensors, directory / f"model-{shard + 1:05}-of-{shards:05}.safetensors")


def auto(files: list[Path], _device: str) -> Tensors:
    safetensors = importlib.import_module("safetensors")
    for file in files:
        with safetensors.safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118 - it is no dict
                yield name, opened.get_tensor(name)


def multithread(files: list[Path], _device: str) -> Tensors:
    load_file = importlib.import_module("safetensors.torch").load_file
    with concurrent.futures.ThreadPoolExecutor(max_workers=THREADS) as executor:
        futures = [executor.submit(load_file, file, device="cpu") for file in files]
        for future in concurrent.futures.as_completed(futures):
            yield from future.result().items()


def runai_streamer(files: list[Path], _device: str) -> Tensors:
    streamer_type = importlib.import_module("runai_model_streamer").SafetensorsStreamer
    with streamer_type() as streamer:
        streamer.stream_files([str(file) for file in files], device="cpu", is_distributed=False)
        for name, tensor in streamer.get_tensors():
            yield name, tensor.clone()


def fastsafetensors(files: list[Path], device: str) -> Tensors:
    """Without GPU direct storage, which no container has by itself."""
    group = importlib.import_module("fastsafetensors").SingleGroup()
    parallel = importlib.import_module("fastsafetensors.parallel_loader").ParallelLoader
    loader = parallel(
        pg=group, hf_weights_files=[str(file) for file in files], device=device, nogds=True
    )
    try:
        yield from loader.iterate_weights()
    finally:
        loader.close()


LOADERS: dict[str, tuple[Callable[[list[Path], str], Tensors], str]] = {
    "Auto": (auto, "safetensors"),
    "Multithread": (multithread, "safetensors"),
    "RunaiStreamer": (runai_streamer, "runai_model_streamer"),
    "FastSafetensors": (fastsafetensors, "fastsafetensors"),
}


def load(directory: Path, loader: str) -> float:
    """Seconds of one load, in this process."""
    torch = importlib.import_module("torch")
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    files = sorted(directory.glob("*.safetensors"))
    parameters = {
        name: torch.zeros(shape, dtype=torch.bfloat16, device=device)
        for name, shape in parameters_of(files)
    }
    importlib.import_module(LOADERS[loader][1])
    synchronize(torch)
    started = time.perf_counter()
    loaded = {n: parameters.pop(n).copy_(t) for n, t in LOADERS[loader][0](files, device)}
    synchronize(torch)
    seconds = time.perf_counter() - started
    if parameters:
        raise AssertionError(f"{len(parameters)} tensors were not loaded")
    check(files[-1], loaded)
    return seconds


def check(file: Path, loaded: dict[str, Any]) -> None:
    """Of one shard, bit by bit: random bits make numbers that are none."""
    torch, safetensors = importlib.import_module("torch"), importlib.import_module("safetensors")
    with safetensors.safe_open(file, framework="pt") as opened:
        for name in opened.keys():  # noqa: SIM118 - it is no dict
            right, found = opened.get_tensor(name), loaded[name].cpu()
            if not torch.equal(right.view(torch.int16), found.view(torch.int16)):
                raise AssertionError(f"{name} was loaded with other content")


def parameters_of(files: list[Path]) -> Iterator[tuple[str, list[int]]]:
    for file in files:
        with file.open("rb") as opened:
            header = json.loads(opened.read(int.from_bytes(opened.read(8), "little")))
        yield from ((name, header[name]["shape"]) for name in header if name != "__metadata__")


def synchronize(torch: Any) -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def forget(directory: Path) -> None:
    """Drop the files from the page cache."""
    os.sync()
    for file in directory.iterdir():
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def remember(directory: Path) -> None:
    """Read the files, so that they are in the page cache."""
    for file in directory.iterdir():
        with file.open("rb", buffering=0) as opened:
            while opened.read(16 * 2**20):
                pass


PLACES: dict[str, Callable[[Path], None]] = {
    "disk, cold": forget,
    "page cache": remember,
    "tmpfs": lambda _: None,
}


def compare(disk: Path, memory: Path, repeats: int) -> dict[str, Any]:
    known = [name for name, (_, package) in LOADERS.items() if importlib.util.find_spec(package)]
    seconds: dict[str, dict[str, list[float]]] = {p: {n: [] for n in known} for p in PLACES}
    for _ in range(repeats):
        for place, prepare in PLACES.items():
            directory = memory if place == "tmpfs" else disk
            for name in known:
                prepare(directory)
                seconds[place][name].append(once(directory, name))
    size = sum(file.stat().st_size for file in disk.iterdir())
    return {
        "bytes": size,
        "shards": len(list(disk.iterdir())),
        "median_s": {
            place: {name: round(statistics.median(took), 2) for name, took in found.items()}
            for place, found in seconds.items()
        },
        "all_s": seconds,
    }


def once(directory: Path, loader: str) -> float:
    command = [sys.executable, __file__, "--once", loader, "--disk", str(directory)]
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    seconds = round(float(result.stdout.splitlines()[-1]), 3)
    print(f"{directory} {loader}: {seconds} s", file=sys.stderr, flush=True)
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--disk", type=Path, required=True)
    parser.add_argument("--memory", type=Path)
    parser.add_argument("--gigabytes", type=float, default=16.0)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--once", choices=LOADERS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.once:
        print(load(arguments.disk, arguments.once))
        return 0
    make(arguments.disk, arguments.gigabytes, arguments.shards)
    shutil.copytree(arguments.disk, arguments.memory)
    try:
        print(json.dumps(compare(arguments.disk, arguments.memory, arguments.repeats), indent=2))
    finally:
        shutil.rmtree(arguments.disk)
        shutil.rmtree(arguments.memory)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""How fast weights are verified, beside what else the machine can do with the same files.

In a tmpfs, so that no disk takes part. Everything uses all cores, in turns, so that noise of the
machine meets all alike.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.files import MEMORY, make_model
from support.api import JsonObject
from warmpod.weights.hashing import map_in_threads, unwatched, usable_cores
from warmpod.weights.receipt import Receipt
from warmpod.weights.verify import expectations, verify

FILES, FILE_BYTES = 4, 2**29
REPEATS = 5
# Three seconds of buffers that fit into a core's cache.
OPENSSL = ["openssl", "speed", "-mr", "-evp", "sha256", "-bytes", "16384", "-seconds", "3"]
BUFFER_BYTES = 2**20


def measure() -> JsonObject:
    """Medians in GB/s of 10**9 bytes."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        directory = Path(name, "model")
        files = make_model(directory, FILES, FILE_BYTES)
        works: dict[str, Callable[[], object]] = {
            "warmpod": lambda: ours(directory),
            "sha256sum": lambda: sha256sum(files),
            "read() into a buffer": lambda: map_in_threads(read, files),
            "hashing mapped pages": lambda: map_in_threads(hash_mapped, files),
        }
        rates: dict[str, list[float]] = {name: [] for name in [*works, "openssl speed"]}
        for _ in range(REPEATS):
            for what, work in works.items():
                rates[what].append(rate(work, FILES * FILE_BYTES))
            rates["openssl speed"].append(openssl_speed())
    medians = {name: statistics.median(found) for name, found in rates.items()}
    return {
        "cores": usable_cores(),
        "bytes": FILES * FILE_BYTES,
        "gigabytes_per_second": {name: round(value, 3) for name, value in medians.items()},
        "all": {name: [round(value, 3) for value in found] for name, found in rates.items()},
        "warmpod_of_openssl": round(medians["warmpod"] / medians["openssl speed"], 3),
        "warmpod_of_sha256sum": round(medians["warmpod"] / medians["sha256sum"], 3),
    }


def rate(work: Callable[[], object], size: int) -> float:
    started = time.perf_counter()
    work()
    return size / (time.perf_counter() - started) / 10**9


def ours(directory: Path) -> None:
    """What an agent does that has no receipt."""
    findings = verify(directory, expectations(directory), Receipt(), unwatched).findings
    if findings:
        raise AssertionError(f"the model is not right: {findings}")


def sha256sum(files: list[Path]) -> None:
    """One process a file, as many at once as there are cores."""
    names = "\0".join(map(str, files)).encode()
    command = ["xargs", "-0", "-n1", f"-P{usable_cores()}", "sha256sum"]
    subprocess.run(command, input=names, check=True, stdout=subprocess.DEVNULL)


def read(file: Path) -> None:
    """Memory to memory: all that a reader costs who does nothing with what it reads."""
    buffer = bytearray(BUFFER_BYTES)
    with file.open("rb", buffering=0) as opened:
        while opened.readinto(buffer):
            pass


def hash_mapped(file: Path) -> None:
    """Without a copy: all that hashing costs whose input comes from memory, not from a cache."""
    digest = hashlib.sha256()
    with (
        file.open("rb") as opened,
        mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as mapped,
        memoryview(mapped) as content,
    ):
        for offset in range(0, len(content), BUFFER_BYTES):
            digest.update(content[offset : offset + BUFFER_BYTES])


def openssl_speed() -> float:
    """Of all cores at once, out of their caches."""
    result = subprocess.run(
        [*OPENSSL, "-multi", str(usable_cores())],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"LC_ALL": "C"},
    )
    found = re.search(r"^\+F:\d+:[^:]+:([0-9.]+)$", result.stdout, re.MULTILINE)
    if found is None:
        raise AssertionError(f"openssl says something else: {result.stdout[-500:]}")
    return float(found[1]) / 10**9

"""Compiles all Python of the image that is not compiled yet.

pip compiles what it installs, uv does not unless it is told to. What is missing is compiled at each
start anew: pods may not write into the image.

Python checks the result by time and size of the source, as it does by default: both stay when an
image is pulled, in each format. That costs nothing, as Python asks for them anyway. With a hash
that Python checks, each source would have to be read as well; with one that it does not check,
whoever changes a file in an image built on this one would still run the old one.
"""

import importlib.util
import os
import py_compile
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

HEADER_BYTES = 16
HASH_FLAG = 1
TIMESTAMP = py_compile.PycInvalidationMode.TIMESTAMP


def main() -> int:
    missing = [str(path) for path in sources(sys.path) if not is_compiled(path)]
    with ProcessPoolExecutor() as pool:
        sizes = list(pool.map(compile_file, missing, chunksize=50))
    done = [size for size in sizes if size is not None]
    failed = len(sizes) - len(done)
    # Templates and examples of other Python versions; whoever imports one hears of it.
    print(f"Compiled {len(done)} files, {sum(done) / 2**20:.0f} MiB; {failed} are no Python.")
    return 0


def sources(entries: list[str]) -> Iterator[Path]:
    """Each source file below Python's path once."""
    seen = set()
    # The first entry is the directory of this file.
    for entry in dict.fromkeys(os.path.realpath(entry) for entry in entries[1:]):
        for directory, names, files in os.walk(entry):
            if directory in seen:
                names.clear()
                continue
            seen.add(directory)
            yield from (Path(directory, name) for name in files if name.endswith(".py"))


def is_compiled(source: Path) -> bool:
    """Whether Python would take what is there. Of a hash it is believed: images do not change."""
    try:
        with open(importlib.util.cache_from_source(source), "rb") as opened:
            header = opened.read(HEADER_BYTES)
    except OSError:
        return False
    if header[:4] != importlib.util.MAGIC_NUMBER or len(header) < HEADER_BYTES:
        return False
    if int.from_bytes(header[4:8], "little") & HASH_FLAG:
        return True
    found = source.stat()
    wanted = (int(found.st_mtime) & 0xFFFFFFFF, found.st_size & 0xFFFFFFFF)
    return wanted == (int.from_bytes(header[8:12], "little"), int.from_bytes(header[12:], "little"))


def compile_file(source: str) -> int | None:
    """Bytes of the result; None for a file that is no Python."""
    try:
        target = py_compile.compile(source, doraise=True, quiet=2, invalidation_mode=TIMESTAMP)
    except (py_compile.PyCompileError, OSError, ValueError, RecursionError):
        return None
    return os.path.getsize(target) if target else None


if __name__ == "__main__":
    sys.exit(main())

"""Which files make up a model directory, and which leftovers show that it is not whole.

Names that start with a dot are not part of a model: downloaders keep their state there
(`.cache/huggingface`, `.gitattributes`), and so does warmpod (`.warmpod-receipt.json`).
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from warmpod.reasons import WEIGHTS_MISSING, WEIGHTS_NOT_READABLE
from warmpod.weights.findings import Finding

# Downloaders give an unfinished file one of these endings until it is whole.
UNFINISHED_SUFFIXES = (".incomplete", ".part", ".aria2", ".crdownload")
# Endings of files that engines load tensors from, whether or not anything lists them.
WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
SHARD_INDEX_SUFFIXES = (".safetensors.index.json", ".bin.index.json")
# The largest models have indexes of 10 MB. The bound keeps others from filling the agent's memory.
MAX_INDEX_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True)
class Tree:
    """The regular files of a directory (paths relative, sorted) and what is wrong with it."""

    files: tuple[str, ...]
    findings: tuple[Finding, ...]


def scan(directory: Path) -> Tree:
    """List `directory`. Raises OSError when it cannot be listed at all."""
    files: list[str] = []
    findings: list[Finding] = []
    for path in walk(directory):
        finding = _judge(directory, path)
        if finding is None:
            files.append(path)
        else:
            findings.append(finding)
    files.sort()
    findings.extend(_missing_shards(directory, files))
    return Tree(tuple(files), tuple(sorted(findings)))


def walk(directory: Path, *, hidden: bool = False) -> Iterator[str]:
    """Paths of everything but folders, links unfollowed. `hidden`: names with a dot in front, too.
    Raises OSError when a folder cannot be listed."""

    def fail(error: OSError) -> None:
        raise error

    for parent, folders, names in os.walk(directory, onerror=fail):
        # os.walk does not descend into links to folders; they are judged like files.
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        folders[:] = [name for name in folders if _is_wanted(name, hidden) and name not in links]
        for name in [*names, *links]:
            if _is_wanted(name, hidden):
                yield PurePosixPath(
                    os.path.relpath(os.path.join(parent, name), directory)
                ).as_posix()


def _is_wanted(name: str, hidden: bool) -> bool:
    return hidden or not name.startswith(".")


def _judge(directory: Path, path: str) -> Finding | None:
    if path.endswith(UNFINISHED_SUFFIXES):
        return Finding(path, WEIGHTS_MISSING, "left over from an unfinished download")
    try:
        mode = os.stat(directory / path).st_mode
    except FileNotFoundError:
        target = os.readlink(directory / path)
        return Finding(path, WEIGHTS_MISSING, f"link to {target}, which does not exist")
    except OSError as error:
        return Finding(path, WEIGHTS_NOT_READABLE, f"cannot be examined: {error.strerror}")
    if stat.S_ISREG(mode):
        return None
    return Finding(path, WEIGHTS_MISSING, "not a regular file; put the file itself here")


def _missing_shards(directory: Path, files: Iterable[str]) -> Iterator[Finding]:
    present = set(files)
    for path in files:
        if not path.endswith(SHARD_INDEX_SUFFIXES):
            continue
        try:
            shards = _shards_of(directory / path)
        except PermissionError as error:
            yield Finding(path, WEIGHTS_NOT_READABLE, f"cannot be read: {error.strerror}")
            continue
        except (OSError, ValueError, RecursionError) as error:
            yield Finding(path, WEIGHTS_MISSING, f"not a shard index: {error}")
            continue
        folder = PurePosixPath(path).parent
        for shard in shards:
            needed = (folder / shard).as_posix()
            if needed not in present:
                yield Finding(needed, WEIGHTS_MISSING, f"missing, but {path} names it")


def _shards_of(index: Path) -> list[str]:
    """The shard names of a Hugging Face index: the values of its `weight_map`."""
    with index.open("rb") as file:
        content = file.read(MAX_INDEX_BYTES + 1)
    if len(content) > MAX_INDEX_BYTES:
        raise ValueError(f"larger than {MAX_INDEX_BYTES} bytes")
    document = json.loads(content)
    weight_map = document.get("weight_map") if isinstance(document, dict) else None
    if not isinstance(weight_map, dict) or not all(isinstance(v, str) for v in weight_map.values()):
        raise ValueError("it has no weight_map of file names")
    return sorted(set(weight_map.values()))

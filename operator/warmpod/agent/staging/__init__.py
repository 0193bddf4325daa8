"""Bring the files of a remote source (Hugging Face, S3, HTTP) into a directory of the node.

`stage` is all that others call. The clients are imported only by it: an agent whose weights
are in an image loads none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from warmpod.agent.staging.errors import SourceError
from warmpod.weights.hashing import Watch
from warmpod.weights.receipt import Receipt

__all__ = ["SourceError", "stage"]


def stage(
    remote: Mapping[str, Any],
    credentials: Path | None,
    directory: Path,
    watch: Watch,
    begin: Callable[[int], None],
) -> Receipt:
    """Make `directory` hold exactly the files of `remote`, verified, and its manifest last. The
    receipt is of what was brought by this call and is as it was then; the rest is to be read.

    `remote` has one key, `huggingFace`, `s3` or `http`, with the fields of the spec.
    `credentials` is a folder with a file a key of the Secret; it may be empty or absent.
    `begin` is called once with the number of bytes in all; `watch` with what is done of them,
    from several threads and at least every fraction of a second. What `watch` raises ends the work.
    A call after one that was cut off, in whatever way, goes on where that one was.

    The caller sees to it that there is one writer a directory. Files that are known from a
    call before this one are recognised by size, time and inode; a file found to be damaged
    has to be deleted to be fetched again.

    Raises SourceError, OSError, and what `watch` raises."""
    from warmpod.agent.staging.stager import stage as do_it

    return do_it(remote, credentials, directory, watch, begin)

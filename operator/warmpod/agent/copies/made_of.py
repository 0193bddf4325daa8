"""What the files of a source looked like when a copy was made of them.

Of a source with a manifest the copy says by itself whether it is right. Without one, only the
files' own sizes and times tell that they are not any more those that were copied. Inodes are left
out: file systems in user space number their files anew at each mount, and each pod has its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from warmpod.reasons import NOT_RESIDENT
from warmpod.weights.findings import Finding
from warmpod.weights.verify import Expectations

# Beside the receipt of the copy.
NAME = ".warmpod-made-of.json"

#: Path → size in bytes, modification time and time of change in nanoseconds.
Look = Mapping[str, list[int]]


def look_of(directory: Path, expected: Expectations) -> Look:
    """Of the files whose content nothing promises. Raises OSError when one is missing."""
    unpromised = (file.path for file in expected.files if file.sha256 is None)
    facts = ((path, (directory / path).stat()) for path in unpromised)
    return {path: [f.st_size, f.st_mtime_ns, f.st_ctime_ns] for path, f in facts}


def noted(copy: Path) -> Look:
    """Empty where nobody has noted it: an earlier version made the copy."""
    try:
        document = json.loads((copy / NAME).read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def note(copy: Path, look: Look) -> None:
    if not look:
        (copy / NAME).unlink(missing_ok=True)
        return
    temporary = copy / f"{NAME}.new"
    temporary.write_text(json.dumps(look))
    temporary.chmod(0o644)
    temporary.rename(copy / NAME)


def outdated(now: Look, then: Look) -> tuple[Finding, ...]:
    return tuple(
        Finding(path, NOT_RESIDENT, "its source was written to since it was copied")
        for path, facts in now.items()
        if then.get(path) != facts
    )

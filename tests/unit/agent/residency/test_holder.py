"""On the real kernel: what can be locked, and who is told the truth about pages in memory."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from warmpod.agent.residency.holder import Holder, mincore_tells_the_truth
from warmpod.weights.hashing import unwatched

MIB = 1024 * 1024
# More than RLIMIT_MEMLOCK's usual 8 MiB, so that it cannot be locked without the capability.
FILE_BYTES = 12 * MIB
OPERATOR = Path(__file__).parents[4] / "operator"

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
with_setpriv = pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")


@pytest.fixture
def weights() -> Iterator[Path]:
    """On a real disk, because pages of tmpfs cannot be dropped, and open to other users."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        os.chmod(directory, 0o755)
        path = Path(directory) / "model.safetensors"
        with path.open("wb") as file:
            file.write(os.urandom(MIB) * (FILE_BYTES // MIB))
            os.fsync(file.fileno())
        path.chmod(0o644)
        drop(path)
        yield path


def drop(path: Path) -> None:
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def hold(path: Path) -> Holder:
    holder = Holder()
    holder.map([path])
    return holder


def test_measures_before_and_after_loading(weights: Path) -> None:
    holder = hold(weights)
    try:
        before = holder.measure()
        assert before.trusted
        assert before.resident < FILE_BYTES
        holder.load(unwatched)
        after = holder.measure()
        assert (after.resident, after.total) == (FILE_BYTES, FILE_BYTES)
        assert after.complete
    finally:
        holder.close()


def test_a_replaced_file_is_held_anew(weights: Path) -> None:
    holder = hold(weights)
    try:
        holder.load(unwatched)
        new = weights.with_name("new")
        new.write_bytes(b"x" * 5000)
        new.rename(weights)
        holder.map([weights])
        holder.load(unwatched)
        assert holder.measure().total == 5000
    finally:
        holder.close()


def cut_and_fill_again(path: Path) -> None:
    """As `cat new > path` does it, and the time set back."""
    facts = path.stat()
    content = path.read_bytes()
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


@as_root
def test_a_file_that_was_cut_and_filled_again_is_locked_anew(weights: Path) -> None:
    holder = hold(weights)
    try:
        holder.load(unwatched)
        assert holder.measure().locked
        cut_and_fill_again(weights)
        holder.map([weights])
        holder.load(unwatched)
        drop(weights)
        after = holder.measure()
        assert after.locked
        assert after.complete
    finally:
        holder.close()


@as_root
def test_what_left_a_locked_mapping_is_brought_back(weights: Path) -> None:
    holder = hold(weights)
    try:
        holder.load(unwatched)
        cut_and_fill_again(weights)
        drop(weights)
        assert not holder.measure().complete
        holder.load(unwatched)
        assert holder.measure().complete
    finally:
        holder.close()


def test_a_file_that_is_not_wanted_any_more_is_let_go(weights: Path) -> None:
    holder = hold(weights)
    holder.load(unwatched)
    holder.map([])
    assert holder.measure().total == 0
    assert str(weights) not in Path("/proc/self/maps").read_text()


def test_an_empty_file_needs_nothing(weights: Path) -> None:
    weights.write_bytes(b"")
    holder = hold(weights)
    holder.load(unwatched)
    assert holder.measure().complete


def test_the_owner_is_told_the_truth(weights: Path) -> None:
    assert mincore_tells_the_truth(weights, weights.stat())


PROBE = """
import json, sys
from pathlib import Path
from warmpod.agent.residency import system
from warmpod.agent.residency.holder import Holder
from warmpod.weights.hashing import unwatched
path = Path(sys.argv[1])
holder = Holder()
holder.map([path])
held = next(iter(holder._held.values()))
naive = held.pages_in_core() * system.PAGE_BYTES
before = holder.measure()
holder.load(unwatched)
after = holder.measure()
import os
with path.open("rb") as file:
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
dropped = holder.measure()
print(json.dumps({
    "honest": held.mincore_is_true, "naive": naive, "before": before.resident,
    "after": after.resident, "trusted": after.trusted, "locked": after.locked,
    "dropped": dropped.resident,
}))
"""


def probe(path: Path, *privileges: str) -> dict:
    python = os.path.realpath(sys.executable)
    command = ["setpriv", *privileges, "--", python, "-c", PROBE, str(path)]
    done = subprocess.run(command, cwd=OPERATOR, capture_output=True, text=True, check=False)
    if "Permission denied" in done.stderr:
        pytest.skip(f"another user may not run {python}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@as_root
@with_setpriv
def test_root_with_the_capability_locks(weights: Path) -> None:
    keep = "-all,+ipc_lock,+fowner"
    seen = probe(weights, f"--bounding-set={keep}", "--inh-caps=-all")
    assert seen["honest"]
    assert seen["before"] < FILE_BYTES
    assert seen["locked"]
    assert seen["after"] == seen["dropped"] == FILE_BYTES


@as_root
@with_setpriv
def test_root_without_the_capability_holds_by_touching(weights: Path) -> None:
    seen = probe(weights, "--bounding-set=-all", "--inh-caps=-all")
    assert seen["honest"]
    assert not seen["locked"]
    assert seen["trusted"]
    assert seen["after"] == FILE_BYTES


@as_root
@with_setpriv
def test_a_stranger_does_not_believe_mincore(weights: Path) -> None:
    stranger = ["--reuid=65532", "--regid=65532", "--clear-groups"]
    seen = probe(weights, *stranger, "--bounding-set=-all", "--inh-caps=-all")
    # The trap: nothing has been read, and mincore says that everything is in memory.
    assert seen["naive"] == FILE_BYTES
    assert not seen["honest"]
    assert seen["before"] == 0
    assert seen["trusted"]
    assert seen["after"] == FILE_BYTES

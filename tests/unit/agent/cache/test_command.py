"""`warmpod-agent cache` on stores of real entries."""

from __future__ import annotations

import fcntl
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest

from support.compile_caches import publish, set_aside
from warmpod.agent.cache.command import USAGE, run
from warmpod.compilecache.layout import Store
from warmpod.compilecache.manifest import MANIFEST

OPERATOR = Path(__file__).parents[4] / "operator"


def listed(root: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert run(["ls"], root) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["entries"]
    return found


def test_entries_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = publish(tmp_path, created=1_700_000_000)
    os.utime(entry.directory, (1_700_000_500, 1_700_000_500))
    (row,) = listed(tmp_path, capsys)
    assert row == {
        "key": entry.key,
        "state": "published",
        "created": 1_700_000_000,
        "used": 1_700_000_500,
        "bytes": entry.bytes,
        "files": len(entry.files),
        "factors": row["factors"],
        "why": "",
    }
    assert row["factors"]["driver"] == "580.1"


def test_what_was_set_aside_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    set_aside(tmp_path, publish(tmp_path), "the engine died with it")
    (row,) = listed(tmp_path, capsys)
    assert (row["state"], row["why"]) == ("set-aside", "the engine died with it")


def test_an_entry_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = publish(tmp_path)
    (entry.directory / MANIFEST).write_text("{")
    (row,) = listed(tmp_path, capsys)
    assert row["state"] == "unreadable"
    assert "entry.json" in row["why"]


def test_a_new_store_is_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Store(tmp_path).published.mkdir()
    (Store(tmp_path).published / ".tmp-offer").mkdir()
    assert listed(tmp_path, capsys) == []


def test_some_are_removed_from_wherever_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, gone = publish(tmp_path), publish(tmp_path, driver="1")
    set_aside(tmp_path, publish(tmp_path, driver="2"), "")
    assert run(["rm", gone.key], tmp_path) == 0
    assert json.loads(capsys.readouterr().out) == {"removed": [gone.key]}
    states = {row["key"]: row["state"] for row in listed(tmp_path, capsys)}
    assert states.pop(kept.key) == "published"
    assert list(states.values()) == ["set-aside"]
    assert sorted(os.listdir(Store(tmp_path).published)) == [kept.key]


def test_all_are_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    set_aside(tmp_path, publish(tmp_path), "")
    publish(tmp_path)
    publish(tmp_path, driver="1")
    assert run(["rm"], tmp_path) == 0
    assert len(json.loads(capsys.readouterr().out)["removed"]) == 2
    assert listed(tmp_path, capsys) == []
    assert os.listdir(Store(tmp_path).published) == []


def test_a_removal_waits_for_the_agent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = publish(tmp_path)
    agent = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(agent, fcntl.LOCK_EX)
    thread = threading.Thread(target=run, args=(["rm"], tmp_path))
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    assert entry.directory.exists()
    os.close(agent)
    thread.join()
    assert not entry.directory.exists()


def exported(
    root: Path, capsysbinary: pytest.CaptureFixture[bytes], *keys: str
) -> dict[str, bytes]:
    assert run(["export", *keys], root) == 0
    with tarfile.open(fileobj=io.BytesIO(capsysbinary.readouterr().out)) as archive:
        return {
            member.name: file.read()
            for member in archive
            if (file := archive.extractfile(member)) is not None
        }


def test_an_export_is_what_the_entry_lists(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    entry = publish(tmp_path)
    (entry.directory / "files" / "stranger").write_bytes(b"not listed")
    publish(tmp_path, driver="1")
    found = exported(tmp_path, capsysbinary, entry.key)
    names = [MANIFEST, *(f"files/{file.path}" for file in entry.files)]
    assert found == {f"{entry.key}/{name}": (entry.directory / name).read_bytes() for name in names}


def test_an_export_of_everything(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    keys = {publish(tmp_path).key, publish(tmp_path, driver="1").key}
    set_aside(tmp_path, publish(tmp_path, driver="2"), "")
    assert {name.split("/")[0] for name in exported(tmp_path, capsysbinary)} == keys


def test_links_are_not_followed(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    entry = publish(tmp_path)
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(3_000))
    path = entry.directory / "files/triton/k.cubin"
    path.unlink()
    path.symlink_to(secret)
    assert run(["export"], tmp_path) == 1
    assert b"symbolic link" in capsysbinary.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        ([], 2, USAGE),
        (["list"], 2, USAGE),
        (["ls", "aa"], 2, USAGE),
        (["rm", "../x"], 1, "../x is not a key"),
        (["export", "0" * 32], 1, "has no entry.json"),
    ],
)
def test_what_is_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    status: int,
    says: str,
) -> None:
    publish(tmp_path)
    assert run(arguments, tmp_path) == status
    assert says in capsys.readouterr().err


def test_a_pod_without_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ls"], tmp_path / "none") == 1
    assert "set spec.compileCache.store to Node" in capsys.readouterr().err


def test_it_does_not_need_the_memory_of_an_agent() -> None:
    heavy = "{'aiohttp', 'prometheus_client', 'cryptography', 'pydantic'}"
    program = f"import sys, warmpod.agent.main; print({heavy} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(OPERATOR)},
    )
    assert done.stdout.strip() == "set()"

"""What somebody else writes to while files get their names: nobody vouches for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from warmpod.agent.staging.errors import SourceError
from warmpod.agent.staging.files import RemoteFile
from warmpod.agent.staging.workspace import Workspace

DIGEST = "0" * 64


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "model")


def downloaded(workspace: Workspace) -> Path:
    path = workspace.staging / "part"
    path.write_bytes(b"right")
    os.utime(path, (1, 1))
    return path


def publish(workspace: Workspace, temporary: Path, path: str) -> None:
    workspace.publish(temporary, path, "v1", DIGEST)


def put(path: Path) -> None:
    path.write_bytes(b"wrong")


def replace(path: Path) -> None:
    """As rsync does it."""
    other = path.with_name(".other")
    put(other)
    other.rename(path)


def test_what_is_published_is_vouched_for_under_all_of_its_names(workspace: Workspace) -> None:
    temporary = downloaded(workspace)
    second = workspace.staging / "link"
    second.hardlink_to(temporary)
    publish(workspace, temporary, "a")
    publish(workspace, second, "b")
    brought = workspace.finish([("a", DIGEST), ("b", DIGEST)])
    for path in ("a", "b"):
        assert brought.digest_of(path, (workspace.directory / path).stat()) == DIGEST


def test_what_was_there_before_is_not_vouched_for(workspace: Workspace) -> None:
    path = workspace.directory / "a"
    path.write_bytes(b"right")
    workspace.adopt(RemoteFile("a", 5, "v1"), path.stat(), DIGEST)
    assert workspace.finish([("a", DIGEST)]).files == ()


@pytest.mark.parametrize("change", [put, replace])
def test_a_change_as_it_gets_its_name(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    rename = Path.rename

    def renamed(path: Path, target: Path) -> None:
        rename(path, target)
        if target.name == "a":
            monkeypatch.undo()
            change(target)

    temporary = downloaded(workspace)
    monkeypatch.setattr(Path, "rename", renamed)
    publish(workspace, temporary, "a")
    assert workspace.finish([("a", DIGEST)]).files == ()


def test_a_change_between_the_first_name_and_the_second(workspace: Workspace) -> None:
    temporary = downloaded(workspace)
    second = workspace.staging / "link"
    second.hardlink_to(temporary)
    publish(workspace, temporary, "a")
    put(workspace.directory / "a")
    third = workspace.staging / "another"
    third.hardlink_to(second)
    publish(workspace, second, "b")
    publish(workspace, third, "c")
    assert workspace.finish((path, DIGEST) for path in "abc").files == ()


def test_another_file_in_its_place(workspace: Workspace) -> None:
    publish(workspace, downloaded(workspace), "a")
    replace(workspace.directory / "a")
    assert workspace.finish([("a", DIGEST)]).files == ()


def test_a_change_in_place_is_an_error(workspace: Workspace) -> None:
    publish(workspace, downloaded(workspace), "a")
    put(workspace.directory / "a")
    with pytest.raises(SourceError, match="a was written to"):
        workspace.finish([("a", DIGEST)])

"""What a path leads to, and whether that is still the directory that the agent was given."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from unit.weights.models import SHARDS, make_model
from warmpod import reasons
from warmpod.agent.config import AgentConfig, Medium, WeightSet
from warmpod.agent.copies.nodecopy import NodeCopies
from warmpod.agent.places.nodememory import NodeMemoryWeights
from warmpod.agent.places.weights import Untouched
from warmpod.agent.progress import Progress
from warmpod.agent.sets import Copies, place
from warmpod.agent.sources import lookup as lookup_module
from warmpod.agent.sources.lookup import Found, Lookup, SourceReplaced, Standing, find
from warmpod.agent.sources.origin import Kind, Origin
from warmpod.agent.staging import SourceError
from warmpod.protocol import RECEIPT_NAME
from warmpod.weights import manifest
from warmpod.weights.hashing import unwatched

ORIGIN = Origin(Kind.NODE_PATH, "", "/data/llama")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """What the node has at /data; the agent has it mounted elsewhere."""
    path = tmp_path / "mounted"
    (path / "v1" / "llama").mkdir(parents=True)
    (path / "v2" / "llama").mkdir(parents=True)
    return path


@pytest.fixture
def held(root: Path) -> Iterator[Callable[[Path], Path]]:
    """A directory as a container has it: that one, whatever becomes of its name."""
    opened: list[int] = []

    def hold(path: Path) -> Path:
        opened.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY))
        return Path(f"/proc/self/fd/{opened[-1]}")

    yield hold
    for descriptor in opened:
        os.close(descriptor)


def identity(path: Path) -> tuple[int, int]:
    return path.stat().st_dev, path.stat().st_ino


# --- what a path leads to -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("link", "text", "path"),
    [
        ("llama", "v1/llama", "llama"),
        ("llama", "v2/../v1/./llama/", "llama"),
        ("llama", "/data/v1/llama", "llama"),
        ("llama", "//data//v1/llama", "llama"),
        ("current", "v1", "current/llama"),
        ("v2/latest", "../v1/llama", "v2/latest"),
    ],
)
def test_links_are_followed_as_the_node_follows_them(
    root: Path, link: str, text: str, path: str
) -> None:
    (root / link).symlink_to(text)
    assert find(Lookup(root, path, "/data")) == Found((text,), identity(root / "v1" / "llama"))


def test_links_of_links_are_followed(root: Path) -> None:
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("/data/v1/llama")
    found = find(Lookup(root, "one", "/data"))
    assert found == Found(("two", "/data/v1/llama"), identity(root / "v1" / "llama"))


@pytest.mark.parametrize("text", ["/other/llama", "../other/llama", "v1/../../llama", "/database"])
def test_a_link_that_leads_out_is_not_followed_among_the_agents_own_files(
    root: Path, text: str
) -> None:
    (root.parent / "other" / "llama").mkdir(parents=True)
    (root / "llama").symlink_to(text)
    assert find(Lookup(root, "llama", "/data")) == Found((text,), None)


def test_an_absolute_link_leads_nowhere_in_a_claim(root: Path) -> None:
    (root / "llama").symlink_to("/data/v1/llama")
    assert find(Lookup(root, "llama")) == Found(("/data/v1/llama",), None)


# --- whether it is still that one -----------------------------------------------------------------


def standing(lookup: Lookup, directory: Path) -> Standing:
    found = Standing(lookup, directory, ORIGIN)
    found.check()
    return found


def test_a_directory_that_was_renamed_and_replaced(root: Path, held) -> None:
    stands = standing(Lookup(root, "v1", "/data"), held(root / "v1"))
    (root / "v1").rename(root / "v1.old")
    with pytest.raises(SourceError, match="no directory any more at /data/llama — ") as gone:
        stands.check()
    assert gone.value.reason == reasons.PATH_MISMATCH
    (root / "v2").rename(root / "v1")
    with pytest.raises(SourceReplaced, match="another directory is at /data/llama on the node"):
        stands.check()


def test_a_directory_that_was_moved_away_and_back_is_the_same(root: Path, held) -> None:
    stands = standing(Lookup(root, "v1", "/data"), held(root / "v1"))
    (root / "v1").rename(root / "elsewhere")
    with pytest.raises(SourceError):
        stands.check()
    (root / "elsewhere").rename(root / "v1")
    stands.check()


@pytest.mark.parametrize("before", ["v1", "/data/v1", "../mounted/v1", "/elsewhere/v1"])
@pytest.mark.parametrize("after", ["v2", "/data/v2", "../mounted/v2", "/elsewhere/v2"])
def test_a_link_that_was_flipped(root: Path, held, before: str, after: str) -> None:
    (root / "llama").symlink_to(before)
    stands = standing(Lookup(root, "llama", "/data"), held(root / "v1"))
    (root / "new").symlink_to(after)
    (root / "new").rename(root / "llama")
    with pytest.raises(SourceReplaced):
        stands.check()


def test_another_link_to_the_same_directory_replaces_nothing(root: Path, held) -> None:
    (root / "llama").symlink_to("v1")
    stands = standing(Lookup(root, "llama", "/data"), held(root / "v1"))
    (root / "llama").unlink()
    (root / "llama").symlink_to("/data/v1")
    stands.check()


def test_a_directory_further_up_inside_a_claim_counts_too(root: Path, held) -> None:
    stands = standing(Lookup(root, "v1/llama"), held(root / "v1" / "llama"))
    (root / "v1").rename(root / "v0")
    (root / "v2").rename(root / "v1")
    with pytest.raises(SourceReplaced):
        stands.check()


def test_what_was_replaced_before_the_first_look_is_noticed(root: Path, held) -> None:
    directory = held(root / "v1")
    shutil.rmtree(root / "v1")
    (root / "v2").rename(root / "v1")
    with pytest.raises(SourceReplaced):
        Standing(Lookup(root, "v1", "/data"), directory, ORIGIN).check()


@pytest.mark.parametrize("instead", ["nothing", "a file", "a link to itself"])
def test_what_is_no_directory(root: Path, held, instead) -> None:
    (root / "llama").symlink_to("v1")
    stands = standing(Lookup(root, "llama", "/data"), held(root / "v1"))
    (root / "llama").unlink()
    if instead == "a file":
        (root / "llama").touch()
    elif instead == "a link to itself":
        (root / "llama").symlink_to("llama")
    with pytest.raises(SourceError, match="no directory any more"):
        stands.check()


def test_where_the_agent_may_not_look_nothing_is_compared(root: Path, held, monkeypatch) -> None:
    stands = standing(Lookup(root, "v1", "/data"), held(root / "v1"))

    def forbidden(_: Lookup) -> Found:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(lookup_module, "find", forbidden)
    stands.check()


# --- what follows ---------------------------------------------------------------------------------


def replaced(root: Path) -> None:
    (root / "v1").rename(root / "v1.old")
    (root / "v2").rename(root / "v1")


def models(root: Path) -> None:
    """Two models that nothing but content tells apart."""
    for name, first in (("v1", 1), ("v2", 7)):
        shutil.rmtree(root / name)
        directory = make_model(root / name)
        (directory / SHARDS[0]).write_bytes(bytes([first]) * 9000)
        for path in directory.rglob("*"):
            os.utime(path, ns=(0, 0))


def test_the_receipt_of_a_replaced_directory_is_not_kept(root: Path, held, tmp_path: Path) -> None:
    models(root)
    (tmp_path / "state").mkdir()
    lookup = Lookup(root, "v1", "/data")
    weights = WeightSet("tiny", held(root / "v1"), "k", origin=ORIGIN, lookup=lookup)
    config = AgentConfig("tiny", "u", Medium.IMAGE, (weights,), state_dir=tmp_path / "state")
    placed = place(config, weights, Copies.of(config), unwatched)
    assert not placed.prepare(Progress()).findings
    assert list((tmp_path / "state").iterdir())
    replaced(root)
    for look in (placed.survey, lambda: placed.prepare(Progress())):
        with pytest.raises(SourceReplaced):
            look()
    assert not list((tmp_path / "state").iterdir())


def test_a_receipt_that_was_kept_is_one_directorys_alone(root: Path, held, tmp_path: Path) -> None:
    """The agent was not there to see that it was replaced."""
    models(root)
    (tmp_path / "state").mkdir()

    def agent() -> object:
        lookup = Lookup(root, "v1", "/data")
        weights = WeightSet("tiny", held(root / "v1"), "k", origin=ORIGIN, lookup=lookup)
        config = AgentConfig("tiny", "u", Medium.IMAGE, (weights,), state_dir=tmp_path / "state")
        return place(config, weights, Copies.of(config), unwatched)

    first = agent()
    first.prepare(Progress())
    assert agent().known() == first.known()
    replaced(root)
    assert agent().known() != first.known()


@pytest.mark.parametrize("with_manifest", [True, False])
def test_a_shared_copy_is_repaired_only_from_what_is_at_the_path(
    root: Path, held, tmp_path: Path, with_manifest: bool
) -> None:
    models(root)
    if with_manifest:
        for name in ("v1", "v2"):
            manifest.write(root / name, manifest.from_directory(root / name))
    (tmp_path / "memory").mkdir()

    def agent(uid: str) -> NodeMemoryWeights:
        origin = Untouched(held(root / "v1"), ORIGIN, lookup=Lookup(root, "v1", "/data"))
        return NodeMemoryWeights(origin, NodeCopies(tmp_path / "memory", uid, ["k"]), "k")

    shard = tmp_path / "memory" / "k" / SHARDS[0]
    old = agent("u-1")
    old.survey()
    old.prepare(Progress())
    assert shard.read_bytes()[0] == 1
    replaced(root)
    with pytest.raises(SourceReplaced):
        old.survey()
    assert not (shard.parent / RECEIPT_NAME).exists()
    new = agent("u-2")
    assert new.survey().findings
    assert not new.prepare(Progress()).findings
    assert shard.read_bytes()[0] == 7
    with pytest.raises(SourceReplaced):
        old.prepare(Progress())
    assert not new.survey().findings
    assert shard.read_bytes()[0] == 7

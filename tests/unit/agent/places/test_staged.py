"""Staged weights, with a source that copies from a folder."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from unit.weights.models import SHARDS, make_model, spoil_unseen
from warmpod import reasons
from warmpod.agent.copies.nodecopy import NodeCopies
from warmpod.agent.places import staged as staged_module
from warmpod.agent.places.staged import StagedWeights, fingerprint
from warmpod.agent.progress import Cancelled, Progress, Stage
from warmpod.agent.sources.origin import Kind, Origin
from warmpod.agent.staging import SourceError, commit
from warmpod.agent.staging.errors import DiskFull
from warmpod.protocol import RECEIPT_NAME, USERS_LOCK
from warmpod.weights import manifest, verify
from warmpod.weights.findings import Finding
from warmpod.weights.manifest import MANIFEST_NAME
from warmpod.weights.receipt import Receipt, Seen


class Source:
    """Does what `warmpod.agent.staging.stage` does: brings missing files, the manifest last."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.refusal: SourceError | None = None
        self.calls = 0
        self.brought: list[str] = []
        self.stop_after: int | None = None

    def __call__(
        self,
        remote: Mapping[str, Any],
        credentials: Path | None,
        directory: Path,
        watch: Callable[[int], None],
        begin: Callable[[int], None],
    ) -> Receipt:
        self.calls += 1
        if self.refusal is not None:
            raise self.refusal
        whole = manifest.from_directory(self.folder)
        begin(whole.size)
        brought = []
        for number, entry in enumerate(whole.files):
            if self.stop_after == number:
                raise Cancelled
            if not (directory / entry.path).exists():
                self.brought.append(entry.path)
                (directory / entry.path).parent.mkdir(exist_ok=True)
                shutil.copyfile(self.folder / entry.path, directory / entry.path)
                (directory / entry.path).chmod(0o644)
                facts = (directory / entry.path).stat()
                brought.append(Seen.of(entry.path, facts, entry.sha256))
            watch(entry.size)
        manifest.write(directory, whole)
        return Receipt(brought)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    source = Source(make_model(tmp_path / "remote"))
    monkeypatch.setattr("warmpod.agent.staging.stage", source)
    return source


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make(tmp_path: Path, source: Source, clock: Clock) -> Callable[..., StagedWeights]:
    def made(uid: str = "a") -> StagedWeights:
        copies = NodeCopies(tmp_path / "staged", uid, ["hf-1"])
        secret = tmp_path / "secret"
        return StagedWeights(copies, "hf-1", {"http": {"url": "u"}}, secret, clock=clock)

    return made


@pytest.fixture
def staged(make: Callable[..., StagedWeights], source: Source) -> StagedWeights:
    """Complete, and the source starts counting anew."""
    weights = make()
    assert weights.prepare(Progress()).findings == ()
    source.calls, source.brought = 0, []
    return weights


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that are read."""
    names: list[str] = []
    plain = verify.sha256_of_open

    def noted(file, *arguments, **options) -> str:
        names.append(Path(file.name).name)
        return plain(file, *arguments, **options)

    monkeypatch.setattr(verify, "sha256_of_open", noted)
    return names


def test_nothing_is_there_at_first(make, source) -> None:
    found = make().survey().findings
    assert [(f.path, f.reason) for f in found] == [(MANIFEST_NAME, reasons.WEIGHTS_MISSING)]
    assert source.calls == 0


def test_what_was_just_downloaded_is_not_read_again(make, source, hashed) -> None:
    weights = make()
    assert weights.prepare(Progress()).findings == ()
    assert len(source.brought) == 5
    assert hashed == []
    assert (weights.directory / RECEIPT_NAME).exists()
    assert weights.survey().findings == ()


def test_a_complete_directory_is_used_as_it_is(staged, make, source, hashed) -> None:
    for uid in ("a", "b"):
        other = make(uid)
        assert other.survey().findings == ()
        assert other.prepare(Progress()).findings == ()
    assert (source.calls, hashed) == (0, [])


def test_what_an_agent_before_this_one_left_is_read_before_it_counts(make, source, hashed) -> None:
    source.stop_after = 3
    with pytest.raises(Cancelled):
        make().prepare(Progress())
    left = set(source.brought)
    source.stop_after, source.brought = None, []
    weights = make()
    assert weights.survey().findings
    assert weights.prepare(Progress()).findings == ()
    assert {Path(path).name for path in left} == set(hashed)
    assert not left & set(source.brought)


def test_what_was_left_damaged_is_fetched_again(make, source, monkeypatch) -> None:
    source.stop_after = 3
    with pytest.raises(Cancelled):
        make().prepare(Progress())
    spoilt = next(path for path in source.brought if path in SHARDS)
    spoil_unseen(make().directory / spoilt, monkeypatch)
    source.stop_after, source.brought = None, []
    assert make().prepare(Progress()).findings == ()
    assert spoilt in source.brought
    assert (make().directory / spoilt).read_bytes() == (source.folder / spoilt).read_bytes()


def remove(path: Path) -> None:
    path.unlink()


def alter(path: Path) -> None:
    path.write_bytes(b"\x09" * path.stat().st_size)


def cut(path: Path) -> None:
    os.truncate(path, 10)


def close(path: Path) -> None:
    path.chmod(0o600)


@pytest.mark.parametrize("spoil", [remove, alter, cut, close])
def test_only_the_bad_file_is_fetched_again(staged, source, spoil) -> None:
    spoil(staged.directory / SHARDS[0])
    found = staged.survey().findings
    assert [f.path for f in found] == [SHARDS[0]]
    assert staged.prepare(Progress()).findings == ()
    assert source.brought == [SHARDS[0]]
    assert staged.survey().findings == ()


def test_a_touched_file_is_only_read(staged, source, hashed) -> None:
    os.utime(staged.directory / SHARDS[0], ns=(0, 0))
    assert [f.reason for f in staged.survey().findings] == [reasons.NOT_RESIDENT]
    assert staged.prepare(Progress()).findings == ()
    assert (source.calls, hashed) == (0, [SHARDS[0]])


def test_a_weights_file_that_does_not_belong_there_goes(staged, source) -> None:
    (staged.directory / "other.safetensors").write_text("x")
    assert staged.survey().findings
    assert staged.prepare(Progress()).findings == ()
    assert not (staged.directory / "other.safetensors").exists()
    assert source.brought == []


def test_a_lost_manifest_costs_no_download(staged, source) -> None:
    (staged.directory / MANIFEST_NAME).unlink()
    assert staged.survey().findings
    assert staged.prepare(Progress()).findings == ()
    assert source.brought == []


def test_a_doubted_file_is_read_and_fetched_again_if_it_is_bad(staged, source, monkeypatch) -> None:
    spoil_unseen(staged.directory / SHARDS[1], monkeypatch)
    assert staged.survey().findings == ()
    doubt = Finding(SHARDS[1], reasons.DIGEST_MISMATCH, "sha256 is 1")
    staged.doubts.add([doubt])
    assert staged.survey().findings == (doubt,)
    assert staged.prepare(Progress()).findings == ()
    assert source.brought == [SHARDS[1]]
    assert staged.survey().findings == ()


def test_after_a_node_restart_everything_is_read_and_nothing_fetched(
    staged, make, source, hashed, monkeypatch, tmp_path
) -> None:
    (tmp_path / "boot").write_text("another")
    monkeypatch.setattr("warmpod.weights.receipt.BOOT_ID", tmp_path / "boot")
    source.refusal = SourceError(reasons.SOURCE_UNREACHABLE, "no network")
    weights = make()
    assert len(weights.survey().findings) == 5
    assert weights.prepare(Progress()).findings == ()
    assert (source.calls, len(hashed)) == (0, 5)


def test_nodes_that_share_a_volume_read_it_once_each(
    staged, make, source, hashed, monkeypatch, tmp_path
) -> None:
    with monkeypatch.context() as second_node:
        (tmp_path / "boot").write_text("second")
        second_node.setattr("warmpod.weights.receipt.BOOT_ID", tmp_path / "boot")
        assert make("b").prepare(Progress()).findings == ()
    assert staged.survey().findings == ()
    assert (source.calls, len(hashed)) == (0, 5)


def test_engines_wait_while_a_file_is_fetched_again(staged, source) -> None:
    (staged.directory / SHARDS[0]).unlink()
    source.stop_after = 0
    with pytest.raises(Cancelled):
        staged.prepare(Progress())
    assert not (staged.directory / RECEIPT_NAME).exists()


def test_what_engines_have_locked_outlives_a_repair_and_is_no_part_of_the_model(
    staged, source, monkeypatch, tmp_path
) -> None:
    lock = staged.directory / USERS_LOCK
    before = lock.stat().st_ino
    (staged.directory / SHARDS[0]).write_bytes(b"?")
    assert staged.prepare(Progress()).findings == ()
    (tmp_path / "boot").write_text("second")
    monkeypatch.setattr("warmpod.weights.receipt.BOOT_ID", tmp_path / "boot")
    assert staged.prepare(Progress()).findings == ()
    assert source.brought == [SHARDS[0]]
    assert lock.stat().st_ino == before
    for name in (RECEIPT_NAME, MANIFEST_NAME):
        assert USERS_LOCK not in (staged.directory / name).read_text()


def test_a_disk_that_spoils_what_it_is_given_is_not_written_to_for_ever(
    make, source, monkeypatch
) -> None:
    monkeypatch.setattr(
        verify,
        "digest_finding",
        lambda file, _: (
            Finding(file.path, reasons.DIGEST_MISMATCH, "bad") if file.path == SHARDS[0] else None
        ),
    )
    weights = make()
    for _ in range(3):
        with pytest.raises(SourceError, match="check the disk") as raised:
            weights.prepare(Progress())
        assert raised.value.reason == reasons.DIGEST_MISMATCH
    assert source.calls == staged_module.ROUNDS


# --- A source that refuses ------------------------------------------------------------------------


@pytest.fixture
def refused(make: Callable[..., StagedWeights], source: Source) -> StagedWeights:
    weights = make()
    source.refusal = SourceError(reasons.SOURCE_UNAUTHORIZED, "401: put a token there", 300.0)
    with pytest.raises(SourceError):
        weights.prepare(Progress())
    return weights


def test_a_refusal_is_repeated_without_asking_again(refused, source, clock) -> None:
    clock.now = 299.0
    with pytest.raises(SourceError, match="401") as raised:
        refused.prepare(Progress())
    assert raised.value.reason == reasons.SOURCE_UNAUTHORIZED
    assert source.calls == 1
    clock.now = 300.0
    with pytest.raises(SourceError):
        refused.prepare(Progress())
    assert source.calls == 2


def test_a_refusal_stays_in_sight_until_the_source_gives_something(refused, source, clock) -> None:
    progress = Progress()
    progress.finish()
    clock.now = 400.0
    with pytest.raises(SourceError):
        refused.prepare(progress)
    assert progress.snapshot().stage is Stage.CHECKED


def test_the_source_is_asked_at_once_when_the_secret_appears(refused, source, tmp_path) -> None:
    source.refusal = None
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "token").write_text("t")
    assert refused.prepare(Progress()).findings == ()


def test_what_another_agent_staged_meanwhile_is_used(refused, make, source) -> None:
    source.refusal = None
    assert make("b").prepare(Progress()).findings == ()
    assert refused.survey().findings == ()


def test_a_new_content_of_the_secret_has_another_fingerprint(tmp_path: Path) -> None:
    """In the layout that the kubelet gives a mounted Secret."""
    mount = tmp_path / "mount"
    assert fingerprint(None) == fingerprint(mount)

    def project(name: str, token: str) -> None:
        (mount / name).mkdir(parents=True)
        (mount / name / "token").write_text(token)
        (mount / "new").symlink_to(name)
        (mount / "new").rename(mount / "..data")

    project("..1", "one")
    (mount / "token").symlink_to("..data/token")
    first = fingerprint(mount)
    project("..2", "two")
    assert first != fingerprint(mount)
    project("..3", "one")
    assert first == fingerprint(mount)


COMMIT = "1a2b3c4d" * 5


@pytest.mark.parametrize(
    ("remote", "noted", "expected"),
    [
        ({"huggingFace": {"repository": "o/m"}}, COMMIT, f"main = {COMMIT[:7]}"),
        ({"huggingFace": {"repository": "o/m", "revision": "v1"}}, COMMIT, f"v1 = {COMMIT[:7]}"),
        ({"huggingFace": {"repository": "o/m"}}, "", "None"),
        ({"http": {"url": "u"}}, COMMIT, "None"),
    ],
)
def test_which_commit_is_staged(
    tmp_path: Path, remote: dict[str, Any], noted: str, expected: str
) -> None:
    copies = NodeCopies(tmp_path / "staged", "a", ["hf-1"])
    weights = StagedWeights(copies, "hf-1", remote, None)
    weights.directory.mkdir(parents=True)
    commit.note(weights.directory, noted)
    assert str(weights.pinned) == expected


@pytest.mark.parametrize("text", ["", "main", COMMIT[1:], "\udcff"])
def test_a_note_that_is_no_commit_is_not_shown(tmp_path: Path, text: str) -> None:
    commit.note(tmp_path, COMMIT)
    (tmp_path / ".warmpod-commit").write_bytes(text.encode(errors="surrogateescape"))
    assert commit.noted(tmp_path) == ""


def test_a_full_disk_is_named_as_a_person_finds_it(tmp_path, source) -> None:
    copies = NodeCopies(tmp_path / "staged", "a", ["hf-1"])
    origin = Origin(Kind.DOWNLOAD, "", "/var/lib/warmpod/weights/hf-1")
    weights = StagedWeights(copies, "hf-1", {"http": {"url": "u"}}, None, origin)
    source.refusal = DiskFull("the weights do not fit", "2.0Gi", "1.0Gi")
    with pytest.raises(SourceError) as caught:
        weights.prepare(Progress())
    assert caught.value.reason == reasons.DISK_FULL
    assert str(caught.value) == (
        "/var/lib/warmpod/weights/hf-1: the weights do not fit: 2.0Gi needed, 1.0Gi free — remove "
        "what fills the disk of /var/lib/warmpod/weights/hf-1 on the node, or choose nodes with "
        "larger disks in spec.pod.nodeSelector"
    )

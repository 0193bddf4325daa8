import json
import os
from pathlib import Path

import pytest

from unit.weights.models import SHARDS, as_of_an_earlier_version, make_model, rewrite_in_time
from warmpod import reasons
from warmpod.protocol import RECEIPT_NAME
from warmpod.weights import manifest, receipt, tree
from warmpod.weights.findings import Finding, summary
from warmpod.weights.receipt import Receipt, Seen
from warmpod.weights.verify import Verification, expectations, unverified, verify


@pytest.fixture
def model(tmp_path: Path) -> Path:
    directory = make_model(tmp_path / "model")
    manifest.write(directory, manifest.from_directory(directory))
    return directory


def check(directory: Path, known: Receipt | None = None) -> tuple[Verification, int]:
    read = 0

    def watch(count: int) -> None:
        nonlocal read
        read += count

    return verify(directory, expectations(directory), known or Receipt(), watch), read


def test_a_whole_model_has_no_findings(model: Path) -> None:
    result, watched = check(model)
    assert result.findings == ()
    assert [seen.path for seen in result.receipt.files] == [
        entry.path for entry in manifest.from_directory(model).files
    ]
    assert watched == expectations(model).size


def remove(model: Path) -> tuple[str, str, str]:
    (model / SHARDS[1]).unlink()
    return SHARDS[1], reasons.WEIGHTS_MISSING, "missing, but model.safetensors.index.json names it"


def remove_small(model: Path) -> tuple[str, str, str]:
    (model / "config.json").unlink()
    return "config.json", reasons.WEIGHTS_MISSING, "missing"


def truncate(model: Path) -> tuple[str, str, str]:
    os.truncate(model / SHARDS[0], 8999)
    return SHARDS[0], reasons.SIZE_MISMATCH, "8999 bytes, the manifest says 9000"


def flip(model: Path) -> tuple[str, str, str]:
    with (model / SHARDS[0]).open("r+b") as file:
        file.seek(4000)
        file.write(b"\xff")
    return SHARDS[0], reasons.DIGEST_MISMATCH, "the manifest says"


def close_file(model: Path) -> tuple[str, str, str]:
    (model / SHARDS[1]).chmod(0o600)
    return SHARDS[1], reasons.WEIGHTS_NOT_READABLE, "mode 0600, owner uid"


def close_folder(model: Path) -> tuple[str, str, str]:
    (model / "original").chmod(0o700)
    return "original", reasons.WEIGHTS_NOT_READABLE, "mode 0700"


def dangle(model: Path) -> tuple[str, str, str]:
    (model / "config.json").unlink()
    (model / "config.json").symlink_to("../blobs/abc")
    return "config.json", reasons.WEIGHTS_MISSING, "link to ../blobs/abc, which does not exist"


def lead_out(model: Path) -> tuple[str, str, str]:
    (model / "config.json").rename(model.parent / "config.json")
    (model / "config.json").symlink_to("../config.json")
    return "config.json", reasons.WEIGHTS_MISSING, "leads out of the model's directory"


def leave_unfinished(model: Path) -> tuple[str, str, str]:
    name = f"{SHARDS[0]}.incomplete"
    (model / name).write_text("x")
    return name, reasons.WEIGHTS_MISSING, "left over from an unfinished download"


def add_shard(model: Path) -> tuple[str, str, str]:
    (model / "extra.safetensors").write_text("x")
    return "extra.safetensors", reasons.DIGEST_MISMATCH, "does not list"


def replace_by_folder(model: Path) -> tuple[str, str, str]:
    (model / "config.json").unlink()
    (model / "config.json").mkdir()
    return "config.json", reasons.WEIGHTS_MISSING, "not a regular file"


def spoil_manifest(model: Path) -> tuple[str, str, str]:
    (model / manifest.MANIFEST_NAME).write_text("{}")
    return manifest.MANIFEST_NAME, reasons.WEIGHTS_MISSING, "version must be 1"


@pytest.mark.parametrize(
    "spoil",
    [
        remove,
        remove_small,
        truncate,
        flip,
        close_file,
        close_folder,
        dangle,
        lead_out,
        leave_unfinished,
        add_shard,
        replace_by_folder,
        spoil_manifest,
    ],
)
def test_each_fault_is_found_and_named(model: Path, spoil) -> None:
    path, reason, detail = spoil(model)
    result, _ = check(model)
    assert [(finding.path, finding.reason) for finding in result.findings] == [(path, reason)]
    assert detail in result.findings[0].detail
    assert path in summary(result.findings)


def test_a_fault_that_needs_no_reading_is_told_before_any_reading(model: Path) -> None:
    truncate(model)
    _, read = check(model)
    assert read == 0


def test_without_a_manifest_the_files_are_read_and_the_index_is_believed(tmp_path: Path) -> None:
    model = make_model(tmp_path / "model")
    assert not expectations(model).has_manifest
    result, _ = check(model)
    assert result.findings == ()
    assert len(result.receipt.files) == 5
    remove(model)
    result, _ = check(model)
    assert [finding.path for finding in result.findings] == [SHARDS[1]]


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: None])
def test_an_empty_or_absent_image_is_a_finding(tmp_path: Path, make) -> None:
    make(tmp_path / "image")
    assert len(expectations(tmp_path / "image").findings) == 1


def test_a_receipt_spares_reading(model: Path) -> None:
    first, _ = check(model)

    def refuse(path: Path, *_: object, **__: object) -> str:
        raise AssertionError(f"{path} was read again")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warmpod.weights.verify.sha256_of_open", refuse)
        second, watched = check(model, first.receipt)
    assert second == first
    assert watched == expectations(model).size


def touch(path: Path) -> None:
    os.utime(path, ns=(0, 0))


def replace_file(path: Path) -> None:
    facts = path.stat()
    path.rename(path.with_name(".old"))
    path.write_bytes(b"\x07" * facts.st_size)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


@pytest.mark.parametrize("change", [touch, replace_file, rewrite_in_time])
def test_a_receipt_does_not_vouch_for_a_changed_file(model: Path, change) -> None:
    first, _ = check(model)
    change(model / SHARDS[0])
    paths = [file.path for file in expectations(model).files]
    assert not first.receipt.knows(model, paths)
    second, _ = check(model, first.receipt)
    assert bool(second.findings) == (change is not touch)


def test_a_file_that_only_got_another_mode_is_read_once_more(model: Path) -> None:
    first, _ = check(model)
    (model / SHARDS[0]).chmod(0o444)
    paths = [file.path for file in expectations(model).files]
    assert not first.receipt.knows(model, paths)
    second, _ = check(model, first.receipt)
    assert second.findings == ()
    assert second.receipt.knows(model, paths)


def test_a_receipt_without_times_of_change_vouches_for_nothing(model: Path, tmp_path: Path) -> None:
    path = tmp_path / RECEIPT_NAME
    whole = check(model)[0].receipt
    whole.save(path)
    as_of_an_earlier_version(path)
    assert receipt.load(path) == Receipt()
    check(model, receipt.load(path))[0].receipt.save(path)
    assert receipt.load(path) == whole


def test_an_earlier_version_understands_a_receipt(model: Path, tmp_path: Path) -> None:
    """Its agents share copies with those of this version; what they do not understand they would
    write anew, and this one after them, for ever."""
    check(model)[0].receipt.save(tmp_path / RECEIPT_NAME)
    document = json.loads((tmp_path / RECEIPT_NAME).read_text())
    assert document["version"] == 1
    for item in document["files"]:
        assert sorted(item) == ["inode", "mtime_ns", "path", "sha256", "size"]


def test_a_bad_file_is_not_read_again_either(model: Path) -> None:
    flip(model)
    first, _ = check(model)
    assert first.receipt.knows(model, [SHARDS[0]])
    assert check(model, first.receipt)[0] == first


def test_a_receipt_survives_the_disk(model: Path, tmp_path: Path) -> None:
    first, _ = check(model)
    path = tmp_path / RECEIPT_NAME
    first.receipt.save(path)
    assert receipt.load(path) == first.receipt
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.glob("*.new")) == []


@pytest.fixture
def boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write another word into it, and the node has started again."""
    path = tmp_path / "boot_id"
    path.write_text("first\n")
    monkeypatch.setattr(receipt, "BOOT_ID", path)
    return path


SEEN = [Seen("a", 1, 2, 2, 3, "0"), Seen("b", 1, 2, 2, 4, "0")]


def test_a_receipt_says_nothing_after_the_node_has_started_again(
    tmp_path: Path, boot: Path
) -> None:
    path = tmp_path / RECEIPT_NAME
    Receipt(SEEN).save(path)
    assert receipt.load(path) == Receipt(SEEN)
    boot.write_text("second\n")
    assert receipt.load(path) == Receipt()


def test_nodes_that_share_a_volume_all_sign_its_receipt(tmp_path: Path, boot: Path) -> None:
    path = tmp_path / RECEIPT_NAME
    Receipt(SEEN).save(path)
    boot.write_text("second\n")
    Receipt(SEEN).save(path)
    for name in ("first", "second"):
        boot.write_text(name)
        assert receipt.load(path) == Receipt(SEEN)


def test_other_files_need_new_signatures(tmp_path: Path, boot: Path) -> None:
    path = tmp_path / RECEIPT_NAME
    Receipt(SEEN).save(path)
    boot.write_text("second\n")
    Receipt(SEEN[:1]).save(path)
    boot.write_text("first\n")
    assert receipt.load(path) == Receipt()


def test_what_is_not_known_to_be_right_is_named_without_reading(model: Path) -> None:
    first, _ = check(model)
    promised = expectations(model)

    def lacking(known: Receipt) -> dict[str, str]:
        return {found.path: found.reason for found in unverified(model, promised, known)}

    assert lacking(first.receipt) == {}
    assert lacking(first.receipt.without(["config.json"])) == {"config.json": reasons.NOT_RESIDENT}
    touch(model / SHARDS[0])
    os.truncate(model / SHARDS[1], 10)
    (model / "config.json").unlink()
    assert lacking(first.receipt) == {
        "config.json": reasons.WEIGHTS_MISSING,
        SHARDS[0]: reasons.NOT_RESIDENT,
        SHARDS[1]: reasons.SIZE_MISMATCH,
    }


def test_a_file_that_was_read_and_is_wrong_stays_wrong(model: Path) -> None:
    flip(model)
    result, _ = check(model)
    (found,) = unverified(model, expectations(model), result.receipt)
    assert (found.path, found.reason) == (SHARDS[0], reasons.DIGEST_MISMATCH)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"version": 9, "files": []}', '{"version":1}']
)
def test_an_unusable_receipt_is_an_empty_one(tmp_path: Path, content: str) -> None:
    path = tmp_path / "receipt"
    assert receipt.load(path) == Receipt()
    path.write_text(content)
    assert receipt.load(path) == Receipt()
    assert Receipt() != Receipt([Seen("a", 1, 1, 1, 1, "0")])


def test_a_summary_is_bounded() -> None:
    findings = [Finding(f"f{n}", reasons.WEIGHTS_MISSING, "missing") for n in range(5)]
    assert summary(findings) == "f0: missing; f1: missing; f2: missing; and 2 more"


ODD_ENTRY = {"path": "\ud800", "size": 1, "sha256": "0" * 64}
ODD_NAME = json.dumps({"version": 1, "files": [ODD_ENTRY]})


@pytest.mark.parametrize("content", ["[" * 200_000, ODD_NAME])
def test_a_manifest_of_a_hostile_image_is_a_finding(model: Path, content: str) -> None:
    (model / manifest.MANIFEST_NAME).write_text(content)
    (finding,) = expectations(model).findings
    assert finding.path == manifest.MANIFEST_NAME


@pytest.mark.parametrize("content", ["[" * 200_000, " " * (tree.MAX_INDEX_BYTES + 1)])
def test_a_hostile_shard_index_is_a_finding(tmp_path: Path, content: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(content)
    (finding,) = tree.scan(tmp_path).findings
    assert finding.reason == reasons.WEIGHTS_MISSING

import io
import os
import stat
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from support.file_server import FileServer
from unit.agent.staging.callers import Caller, Cancelled
from unit.weights.models import SHARDS
from warmpod import reasons
from warmpod.agent.copies.nodecopy import NodeCopies
from warmpod.agent.places.staged import StagedWeights
from warmpod.agent.progress import Progress
from warmpod.agent.staging import SourceError, archive, stager, workspace
from warmpod.agent.staging.errors import DiskFull


def packed(web: FileServer, model: Path, name: str, top: str) -> dict[str, str]:
    path = web.root / name
    if name.endswith(".zip"):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
            for file in sorted(model.rglob("*")):
                opened.write(file, f"{top}{file.relative_to(model)}")
    else:
        with tarfile.open(path, "w:gz" if name.endswith("gz") else "w") as tar:
            tar.add(model, arcname=top or ".")
    return {"url": f"{web.url}/{name}"}


@pytest.mark.parametrize("top", ["", "model-1.0/"])
@pytest.mark.parametrize("name", ["m.tar", "m.tar.gz", "m.tgz", "m.zip"])
def test_unpacks(web: FileServer, caller: Caller, model: Path, name: str, top: str) -> None:
    (model / "random.bin").write_bytes(os.urandom(900_000))
    manifest = caller.stage(http=packed(web, model, name, top))
    caller.assert_holds(model, manifest)
    web.seen.clear()
    caller.assert_holds(model, caller.stage(http={"url": f"{web.url}/{name}"}))
    assert len(web.seen) == 1
    (caller.target / SHARDS[0]).unlink()
    caller.assert_holds(model, caller.stage(http={"url": f"{web.url}/{name}"}))


def test_goes_on_after_a_stop(web: FileServer, caller: Caller, model: Path) -> None:
    source = packed(web, model, "m.tar", "")
    caller.stop_at = 1_000_000
    with pytest.raises(Cancelled):
        caller.stage(http=source)
    caller.stop_at = None
    web.seen.clear()
    caller.assert_holds(model, caller.stage(http=source))
    asked = [seen.headers["Range"] for seen in web.seen if "Range" in seen.headers]
    assert "bytes=0-399999" not in asked


def tar_of(web: FileServer, *members: tuple[str, dict[str, object]]) -> str:
    with tarfile.open(web.root / "m.tar", "w") as tar:
        for name, attributes in members:
            info = tarfile.TarInfo(name)
            content = attributes.pop("content", b"")
            info.size = len(content)
            for key, value in attributes.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(content))
    return f"{web.url}/m.tar"


LINK = {"type": tarfile.SYMTYPE}


@pytest.mark.parametrize(
    "member",
    [
        ("../escape", {"content": b"x"}),
        ("/etc/escape", {"content": b"x"}),
        ("a/../../escape", {"content": b"x"}),
        ("a\nb", {"content": b"x"}),
        ("a//b", {"content": b"x"}),
        ("x" * 300, {"content": b"x"}),
        ("link", LINK | {"linkname": "/etc/passwd"}),
        ("link", LINK | {"linkname": "../../../etc/passwd"}),
        ("link", LINK | {"linkname": "link"}),
        ("hard", {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"}),
        ("device", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3}),
        ("pipe", {"type": tarfile.FIFOTYPE}),
        ("config.json/below", {"content": b"x"}),
    ],
)
def test_hostile_members_are_refused(
    web: FileServer, caller: Caller, tmp_path: Path, member: tuple[str, dict[str, object]]
) -> None:
    url = tar_of(web, ("config.json", {"content": b"{}"}), (member[0], dict(member[1])))
    with pytest.raises(SourceError) as caught:
        caller.stage(http={"url": url})
    assert caught.value.reason == reasons.PATH_MISMATCH
    assert [path.name for path in caller.target.iterdir()] == [".staging"]
    assert not any(path.name == "escape" for path in tmp_path.rglob("*"))


def test_a_folder_that_is_a_link_catches_nothing(
    web: FileServer, caller: Caller, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    link = ("sub", LINK | {"linkname": str(tmp_path / "outside")})
    url = tar_of(web, link, ("sub/file", {"content": b"x"}))
    with pytest.raises(SourceError):
        caller.stage(http={"url": url})
    assert list((tmp_path / "outside").iterdir()) == []


def test_links_inside_become_files(web: FileServer, caller: Caller) -> None:
    url = tar_of(
        web,
        ("top/blobs/1", {"content": b"weights"}),
        ("top/snapshot/model.bin", LINK | {"linkname": "../blobs/1"}),
        ("top/hard.bin", {"type": tarfile.LNKTYPE, "linkname": "top/blobs/1"}),
        ("top/.cache/x", {"content": b"hidden"}),
    )
    manifest = caller.stage(http={"url": url})
    assert [entry.path for entry in manifest.files] == [
        "blobs/1",
        "hard.bin",
        "snapshot/model.bin",
    ]
    for entry in manifest.files:
        path = caller.target / entry.path
        assert path.read_bytes() == b"weights"
        assert stat.S_ISREG(path.lstat().st_mode)


@pytest.mark.parametrize("name", ["m.tar", "m.tgz", "m.zip"])
def test_a_damaged_archive_is_downloaded_anew_next_time(
    web: FileServer, caller: Caller, model: Path, name: str
) -> None:
    (model / "random.bin").write_bytes(os.urandom(900_000))
    source = packed(web, model, name, "")
    good = (web.root / name).read_bytes()
    bad = bytearray(good)
    middle = 0 if name == "m.tar" else len(bad) // 2
    bad[middle : middle + 100] = bytes(100)
    (web.root / name).write_bytes(bad)
    with pytest.raises(SourceError) as caught:
        caller.stage(http=source)
    assert caught.value.reason == reasons.DIGEST_MISMATCH
    (web.root / name).write_bytes(good)
    caller.assert_holds(model, caller.stage(http=source))


def test_an_archive_that_is_none(web: FileServer, caller: Caller) -> None:
    (web.root / "m.zip").write_text("<html>please log in</html>")
    with pytest.raises(SourceError) as caught:
        caller.stage(http={"url": f"{web.url}/m.zip"})
    assert caught.value.reason == reasons.DIGEST_MISMATCH
    assert "m.zip is damaged or no such archive" in str(caught.value)


def test_a_bomb_stops_at_the_reserve(
    web: FileServer, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(web.root / "m.zip", "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("bomb.bin", bytes(30_000_000))
    real = os.statvfs("/")

    class Space:
        f_frsize = 1
        f_blocks = real.f_blocks
        f_bavail = int(real.f_blocks * workspace.RESERVE_FRACTION) + 1_000_000

    monkeypatch.setattr("os.statvfs", lambda _: Space)
    with pytest.raises(SourceError) as caught:
        caller.stage(http={"url": f"{web.url}/m.zip"})
    assert caught.value.reason == reasons.DISK_FULL


def test_other_packers(web: FileServer, caller: Caller, model: Path) -> None:
    subprocess.run(
        ["tar", "-C", model, "-czf", web.root / "m.tar.gz", "."], check=True, capture_output=True
    )
    web.faults.coding = "x-gzip"  # as Apache says of it
    caller.assert_holds(model, caller.stage(http={"url": f"{web.url}/m.tar.gz?token=x"}))


def test_headers_and_links_that_fill_the_memory_are_refused(
    web: FileServer, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_EXTENSION_BYTES", 1000)
    with tarfile.open(web.root / "m.tar", "w") as packed_tar:
        info = tarfile.TarInfo("x" * 200)
        info.pax_headers = {"comment": "y" * 2000}
        packed_tar.addfile(info)
    with pytest.raises(SourceError, match="damaged"):
        caller.stage(http={"url": f"{web.url}/m.tar"})
    with zipfile.ZipFile(web.root / "m.zip", "w", zipfile.ZIP_DEFLATED) as packed_zip:
        link = zipfile.ZipInfo("model.bin")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        packed_zip.writestr(link, bytes(5000))
    with pytest.raises(SourceError, match="longer than any path"):
        caller.stage(http={"url": f"{web.url}/m.zip"})


def test_folders_count_as_entries(
    web: FileServer, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_FILES", 20)
    folders = [(f"d{number}", {"type": tarfile.DIRTYPE}) for number in range(30)]
    url = tar_of(web, *folders, ("config.json", {"content": b"{}"}))
    with pytest.raises(SourceError, match="more than 20 entries"):
        caller.stage(http={"url": url})


def test_stops_in_what_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "m.tar"
    with tarfile.open(path, "w") as packed_tar:
        info = tarfile.TarInfo(".hidden")
        info.size = 4_000_000
        packed_tar.addfile(info, io.BytesIO(bytes(info.size)))
    asked = 0

    def check() -> None:
        nonlocal asked
        asked += 1
        if asked > 10:
            raise Cancelled

    with pytest.raises(Cancelled):
        archive.unpack(path, "m.tar", tmp_path, check, lambda _: None)


def test_what_does_not_fit_unpacked_is_not_downloaded_again(
    web: FileServer, caller: Caller, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = packed(web, model, "m.tgz", "")
    staging = caller.target / ".staging"

    def full(*_: object) -> None:
        (staging / "unpacked" / "0").write_text("half of it")
        raise DiskFull("the weights do not fit", "1 GiB", "0 GiB")

    with monkeypatch.context() as patch:
        patch.setattr(stager, "unpack", full)
        with pytest.raises(SourceError) as caught:
            caller.stage(http=source)
    assert caught.value.reason == reasons.DISK_FULL
    assert list((staging / "unpacked").iterdir()) == []
    web.seen.clear()
    caller.assert_holds(model, caller.stage(http=source))
    assert [seen.headers["Range"] for seen in web.seen] == ["bytes=0-0"]


def test_a_receipt_fits_files_that_an_archive_links(
    web: FileServer, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links are names of one file, and each rename moves its time of change."""
    (model / "a-copy.safetensors").symlink_to(SHARDS[1])
    os.link(model / "config.json", model / "other.json")
    source = {"http": packed(web, model, "m.tar", "")}
    (tmp_path / "staged").mkdir()

    def refuse(*_: object, **__: object) -> str:
        raise AssertionError("a file was read again")

    monkeypatch.setattr("warmpod.weights.verify.sha256_of_open", refuse)
    for _ in range(2):
        web.seen.clear()
        copies = NodeCopies(tmp_path / "staged", "u", ["k"])
        staged = StagedWeights(copies, "k", source, None)
        assert staged.prepare(Progress()).findings == ()
        copies.close()
    assert web.seen == []
    assert (tmp_path / "staged/k/a-copy.safetensors").samefile(tmp_path / "staged/k" / SHARDS[1])

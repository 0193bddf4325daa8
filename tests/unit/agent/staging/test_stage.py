"""What holds for every source, tried on the simplest one."""

import errno
import os
import threading
import time
from pathlib import Path

import pytest

from support.file_server import FileServer
from unit.agent.staging.callers import Caller, Cancelled
from unit.weights.models import SHARDS
from warmpod import reasons
from warmpod.agent.staging import SourceError, stage, transport
from warmpod.agent.staging.assembly import Assembly
from warmpod.agent.staging.digests import Digest, Hashes
from warmpod.agent.staging.files import RemoteFile, checked, is_safe


def listing(web: FileServer) -> dict[str, str]:
    return {"url": f"{web.url}/org/model/"}


def refusal(caller: Caller, web: FileServer) -> SourceError:
    with pytest.raises(SourceError) as caught:
        caller.stage(http=listing(web))
    return caught.value


def test_cut_connections_go_on_where_they_were(
    web: FileServer, caller: Caller, model: Path
) -> None:
    web.faults.cuts = [100_000, 200_000, 300_000] * 3
    caller.assert_holds(model, caller.stage(http=listing(web)))
    assert web.faults.cuts == []


def test_a_failing_server_is_asked_again(web: FileServer, caller: Caller, model: Path) -> None:
    web.faults.statuses = [503, 500, 429, 502]
    caller.assert_holds(model, caller.stage(http=listing(web)))


def test_a_server_that_stays_down(web: FileServer, caller: Caller) -> None:
    web.faults.statuses = [503] * 100
    error = refusal(caller, web)
    assert error.reason == reasons.SOURCE_UNREACHABLE
    assert "503" in str(error)


def test_what_a_stopped_call_had_is_kept(web: FileServer, caller: Caller, model: Path) -> None:
    for stop_at in (500_000, 1_500_000, 2_500_000):
        caller.stop_at = stop_at
        with pytest.raises(Cancelled):
            caller.stage(http=listing(web))
    caller.stop_at = None
    web.seen.clear()
    caller.assert_holds(model, caller.stage(http=listing(web)))
    assert len([seen for seen in web.seen if seen.headers.get("Range") != "bytes=0-0"]) < 12


@pytest.mark.parametrize("fault", ["silent", "slow"])
def test_a_stop_does_not_wait_for_the_server(
    web: FileServer, caller: Caller, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "SILENCE_SECONDS", 3600)
    if fault == "silent":
        web.faults.silent = True
    else:
        web.faults.seconds_a_piece = transport.SILENCE_SECONDS
    stopped = threading.Event()

    def watch(_: int) -> None:
        if stopped.is_set():
            raise Cancelled

    def stop_when_asked() -> None:
        while len(web.seen) < (1 if fault == "silent" else 12):
            time.sleep(0.01)
        stopped.set()

    helper = threading.Thread(target=stop_when_asked)
    helper.start()
    with pytest.raises(Cancelled):
        stage({"http": listing(web)}, None, caller.target, watch, lambda _: None)
    helper.join()
    assert [thread for thread in threading.enumerate() if thread.name.startswith("staging")] == []
    web.stopping.set()


def test_silence_counts_as_unreachable(
    web: FileServer, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "SILENCE_SECONDS", 0.05)
    monkeypatch.setattr(transport, "ATTEMPTS", 2)
    web.faults.silent = True
    error = refusal(caller, web)
    assert (error.reason, str(error).endswith("no answer in time")) == (
        reasons.SOURCE_UNREACHABLE,
        True,
    )


def test_a_full_disk_is_told_before_it_is_full(
    web: FileServer, caller: Caller, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Space:
        f_frsize = 2**20
        f_blocks = 1000
        f_bavail = 51  # 50 are the reserve

    with monkeypatch.context() as patched:
        patched.setattr("os.statvfs", lambda _: Space)
        error = refusal(caller, web)
    assert error.reason == reasons.DISK_FULL
    assert "2.9Mi and 50.0Mi (5 % of the file system) in reserve needed, 51.0Mi free" in str(error)
    caller.assert_holds(model, caller.stage(http=listing(web)))


def test_a_disk_that_fills_meanwhile(
    web: FileServer, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.pwrite", full)
    assert refusal(caller, web).reason == reasons.DISK_FULL


def test_strays_and_links_in_the_directory_go(
    web: FileServer, caller: Caller, model: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("not ours")
    caller.target.mkdir()
    (caller.target / "old" / "deep").mkdir(parents=True)
    (caller.target / "old" / "deep" / "model.bin").write_text("old")
    (caller.target / "config.json").mkdir()
    (caller.target / "original").symlink_to(outside)
    (caller.target / ".warmpod-receipt.json").write_text("the caller's")
    caller.assert_holds(model, caller.stage(http=listing(web)))
    assert (outside / "precious").read_text() == "not ours"
    assert [path.name for path in outside.iterdir()] == ["precious"]
    assert (caller.target / ".warmpod-receipt.json").exists()


def test_an_altered_file_is_fetched_again(web: FileServer, caller: Caller, model: Path) -> None:
    caller.stage(http=listing(web))
    with (caller.target / SHARDS[1]).open("r+b") as file:
        file.write(b"altered")
    caller.assert_holds(model, caller.stage(http=listing(web)))


def test_a_partial_file_of_before_a_crash_needs_a_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = RemoteFile("a", 100, '"tag"')
    promised = RemoteFile("b", 100, '"tag"', Digest("sha256", "0" * 64))
    for file in (plain, promised):
        assembly = Assembly(tmp_path, file)
        assembly.write(assembly.segments[0], b"x" * 60)
        assembly.record()
        assembly.close()
        assert Assembly(tmp_path, file).done == 60
    (tmp_path / "boot").write_text("another")
    monkeypatch.setattr("warmpod.weights.receipt.BOOT_ID", tmp_path / "boot")
    assert Assembly(tmp_path, plain).done == 0
    assert Assembly(tmp_path, promised).done == 60


def test_an_unlabelled_version_is_never_resumed(tmp_path: Path) -> None:
    file = RemoteFile("a", 100, "", ranges=False)
    assembly = Assembly(tmp_path, file)
    assembly.write(assembly.segments[0], b"x" * 60)
    assembly.record()
    assembly.close()
    assert Assembly(tmp_path, file).done == 0


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("sha256", "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"),
        ("sha1", "f7c3bc1d808e04732adf679965ccc34ca7ae3441"),
        ("md5", "25f9e794323b453885f5181f1b624d0b"),
        ("git-blob", "28eea8d0b6f0fd1d3a8b0bb8d4a8d4a0a4ba0c0d"),
        ("crc32", "cbf43926"),
        ("crc32c", "e3069283"),
        ("crc64nvme", "ae8b14860a799888"),
    ],
)
def test_digests_of_the_standard_check_string(kind: str, value: str) -> None:
    if kind == "git-blob":
        import hashlib

        value = hashlib.sha1(b"blob 9\x00123456789").hexdigest()
    hashes = Hashes(9, Digest(kind, value))
    hashes.update(b"12345")
    hashes.update(memoryview(b"6789"))
    assert hashes.mismatch() is None
    hashes.update(b"0")
    assert hashes.mismatch() is not None


@pytest.mark.parametrize("path", ["a", "a/b.c", "ü/ß", "a b+~", "..a", "a/..b"])
def test_names_that_can_be_written(path: str) -> None:
    assert is_safe(path)


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", "../a", "a/..", "./a", "a\\b", "a\0b"])
def test_names_that_are_refused(path: str) -> None:
    assert not is_safe(path)
    with pytest.raises(SourceError, match="not a plain path"):
        checked([RemoteFile("ok", 1, ""), RemoteFile(path, 1, "")], "the source")


def test_a_file_cannot_be_a_folder_too() -> None:
    with pytest.raises(SourceError, match="both a file and a folder"):
        checked([RemoteFile("a", 1, ""), RemoteFile("a/b", 1, "")], "the source")


def test_the_umask_does_not_matter(web: FileServer, caller: Caller, model: Path) -> None:
    before = os.umask(0o077)
    try:
        manifest = caller.stage(http=listing(web))
    finally:
        os.umask(before)
    caller.assert_holds(model, manifest)


def test_a_link_in_place_of_the_stagers_folder_is_not_followed(
    web: FileServer, caller: Caller, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("x")
    caller.target.mkdir(exist_ok=True)
    (caller.target / ".staging").symlink_to(victim)
    with pytest.raises(OSError, match="link"):
        caller.stage(http={"url": f"{web.url}/org/model/"})
    assert [path.name for path in victim.iterdir()] == ["file"]

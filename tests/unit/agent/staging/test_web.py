import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.file_server import FileHandler, FileServer, running
from unit.agent.staging.callers import Caller
from unit.weights.models import SHARDS, rewrite_in_time
from warmpod import reasons
from warmpod.agent.staging import SourceError, stage, transport
from warmpod.agent.staging.assembly import Assembly
from warmpod.agent.staging.workspace import Workspace
from warmpod.weights import manifest as manifests

TOKEN = "bearer-abcdefgh"


def listing(web: FileServer) -> dict[str, str]:
    return {"url": f"{web.url}/org/model/"}


def refusal(caller: Caller, url: str) -> SourceError:
    with pytest.raises(SourceError) as caught:
        caller.stage(http={"url": url})
    return caught.value


def test_stages_a_listing(web: FileServer, caller: Caller, model: Path) -> None:
    (model / ".hidden").write_text("not part of a model")
    (model / "a b+ü#?.txt").write_text("odd name")
    (model / "empty.txt").touch()
    caller.assert_holds(model, caller.stage(http=listing(web)))
    assert any("Range" in seen.headers for seen in web.seen if SHARDS[0] in seen.path)


def test_a_server_without_ranges(web: FileServer, caller: Caller, model: Path) -> None:
    web.faults.ranges = False
    web.faults.cuts = [700_000, 1_200_000]
    caller.assert_holds(model, caller.stage(http=listing(web)))


def test_a_server_that_tells_no_version(web: FileServer, caller: Caller, model: Path) -> None:
    web.faults.validators = False
    web.faults.cuts = [700_000, 1_200_000]
    caller.assert_holds(model, caller.stage(http=listing(web)))


def test_a_manifest_is_preferred(web: FileServer, caller: Caller, model: Path) -> None:
    manifests.write(model, manifests.from_directory(model))
    (model / "unlisted.txt").write_text("not in the manifest")
    caller.assert_holds(model, caller.stage(http=listing(web)), ("unlisted.txt",))
    assert not any(seen.path.endswith("/") for seen in web.seen)
    web.faults.flips = {SHARDS[0]}
    (caller.target / SHARDS[0]).unlink()
    error = refusal(caller, listing(web)["url"])
    assert error.reason == reasons.DIGEST_MISMATCH
    assert SHARDS[0] in str(error)


def test_a_damaged_file_is_begun_again_when_all_threads_have_left_it(
    web: FileServer, caller: Caller, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifests.write(model, manifests.from_directory(model))
    web.faults.flips = {SHARDS[0]}
    begun_again, one = threading.Event(), threading.Lock()
    record, restart = Assembly.record, Assembly.restart

    def slowly(assembly: Assembly) -> None:
        record(assembly)
        if any(s.complete for s in assembly.segments) and one.acquire(blocking=False):
            begun_again.wait(0.3)  # longer than the others take

    def told(assembly: Assembly) -> None:
        restart(assembly)
        begun_again.set()

    monkeypatch.setattr(Assembly, "record", slowly)
    monkeypatch.setattr(Assembly, "restart", told)
    assert refusal(caller, listing(web)["url"]).reason == reasons.DIGEST_MISMATCH
    asked = [seen.headers["Range"] for seen in web.seen if seen.path.endswith(SHARDS[0])]
    assert {asked.count(range_) for range_ in asked} == {2}


def test_links_that_lead_away_are_not_followed(
    web: FileServer, caller: Caller, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = [
        "../",
        "/etc/passwd",
        "http://example.com/model.bin",
        "//example.com/x",
        "?C=M;O=A",
        "%2e%2e/%2e%2e/escape",
        "javascript:alert(1)",
        "http://[bad",
        "config.json#part",
        "config.json",
    ]
    page = "".join(f'<a href="{link}">x</a>' for link in links)
    (model / "index.html").write_text(page)

    def send(handler, folder: Path) -> None:
        handler.send_body(200, (folder / "index.html").read_bytes(), {"Content-Type": "text/html"})

    monkeypatch.setattr("support.file_server.FileHandler.send_listing", send)
    with pytest.raises(SourceError) as caught:
        caller.stage(http=listing(web))
    assert caught.value.reason == reasons.PATH_MISMATCH
    assert "escape" in str(caught.value)
    (model / "index.html").write_text(page.replace("%2e%2e/%2e%2e/escape", ""))
    manifest = caller.stage(http=listing(web))
    assert [entry.path for entry in manifest.files] == ["config.json"]


def test_the_token_stays_with_its_origin(web: FileServer, caller: Caller, model: Path) -> None:
    class Redirecting(FileServer):
        pass

    with running(Redirecting(web.root)) as front:
        front.token = TOKEN
        monkey = front.RequestHandlerClass

        class Handler(monkey):  # type: ignore[misc, valid-type]
            def send_file(self, path: Path, headers: dict[str, str]) -> None:
                place = f"{web.url_of_other_origin}/{path.relative_to(web.root)}"
                self.send_body(302, b"", {"Location": place})

        front.RequestHandlerClass = Handler
        caller.secret(token=TOKEN)
        caller.assert_holds(model, caller.stage(http=listing(front)))
    assert web.seen
    assert all("Authorization" not in seen.headers for seen in web.seen)


def test_a_password_is_sent(web: FileServer, caller: Caller) -> None:
    caller.secret(username="me", password="p:w")
    caller.stage(http=listing(web))
    assert {seen.headers.get("Authorization") for seen in web.seen} == {"Basic bWU6cDp3"}


def test_refusals(web: FileServer, caller: Caller) -> None:
    web.token = TOKEN
    error = refusal(caller, listing(web)["url"])
    assert (error.reason, "http.secretName" in str(error)) == (reasons.SOURCE_UNAUTHORIZED, True)
    caller.secret(token="other")
    assert refusal(caller, listing(web)["url"]).reason == reasons.SOURCE_FORBIDDEN
    caller.secret(token=TOKEN)
    assert refusal(caller, f"{web.url}/none/").reason == reasons.SOURCE_NOT_FOUND
    (web.root / "empty").mkdir()
    assert refusal(caller, f"{web.url}/empty/").reason == reasons.PATH_MISMATCH


def test_messages_hold_no_secrets_of_the_url(caller: Caller) -> None:
    error = refusal(caller, "http://user:s3cr3t@127.0.0.1:1/model.tar?Signature=s3cr3t")
    assert error.reason == reasons.SOURCE_UNREACHABLE
    assert "s3cr3t" not in str(error)
    assert "Connection refused" in str(error)


def test_a_proxy_is_used(
    web: FileServer, caller: Caller, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", web.url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    manifest = caller.stage(http={"url": "http://models.invalid/org/model/"})
    caller.assert_holds(model, manifest)
    assert all(seen.path.startswith("http://models.invalid/") for seen in web.seen)


def test_the_file_that_changes_is_not_mixed(web: FileServer, caller: Caller, model: Path) -> None:
    shard = model / SHARDS[0]
    size = shard.stat().st_size
    web.faults.cuts = [70_000] * 20  # so that every part of it is asked for again
    done = 0

    def watch(count: int) -> None:
        nonlocal done
        done += count
        if 0 < done - count < 300_000 <= done:
            shard.write_bytes(b"\7" * size)
            os.utime(shard, (1, 1))

    source = {"http": listing(web)}
    with pytest.raises(SourceError) as caught:
        stage(source, None, caller.target, watch, lambda _: None)
    assert caught.value.reason == reasons.DIGEST_MISMATCH
    assert "changed" in str(caught.value)
    web.faults.cuts.clear()
    caller.assert_holds(model, caller.stage(http=listing(web)))


class Replacing:
    """A watch that puts other content of the same size in place of a file, once so many bytes of
    it are there; `meanwhile` is done then as well."""

    def __init__(self, path: Path, after: int, meanwhile: Callable[[], None]) -> None:
        self.path = path
        self._left = after
        self._meanwhile = meanwhile
        self._lock = threading.Lock()

    def __call__(self, count: int) -> None:
        with self._lock:
            due = 0 < self._left <= count
            self._left -= count
        if due:
            new = self.path.with_name(".new")
            new.write_bytes(b"\7" * self.path.stat().st_size)
            os.utime(new, (1, 1))
            new.rename(self.path)
            self._meanwhile()


@pytest.fixture
def only_one_file(model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """So that nothing else is under way when it is replaced."""
    shutil.move(model / SHARDS[0], model.parent / "one")
    for path in list(model.iterdir()):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    monkeypatch.setattr("warmpod.agent.staging.download.CONNECTIONS", 1)
    return Path(shutil.move(model.parent / "one", model / SHARDS[0]))


def staged_while(web: FileServer, caller: Caller, watch: Replacing) -> SourceError | None:
    try:
        stage({"http": listing(web)}, None, caller.target, watch, lambda _: None)
    except SourceError as error:
        return error
    return None


@pytest.mark.parametrize("ranges", [True, False])
def test_without_versions_a_cut_download_begins_again(
    web: FileServer, caller: Caller, only_one_file: Path, ranges: bool
) -> None:
    web.faults.validators, web.faults.ranges = False, ranges
    web.faults.cuts = [700_000] * (1 if ranges else 2)  # one for the answer that is looked at only
    watch = Replacing(only_one_file, 300_000, lambda: None)
    assert staged_while(web, caller, watch) is None
    assert set((caller.target / SHARDS[0]).read_bytes()) == {7}


@pytest.mark.parametrize("tags", [True, False])
@pytest.mark.parametrize("heeds_if_range", [True, False])
@pytest.mark.parametrize("ranges", [True, False])
def test_an_answer_that_does_not_say_its_version_is_not_of_the_planned_one(
    web: FileServer,
    caller: Caller,
    only_one_file: Path,
    tags: bool,
    heeds_if_range: bool,
    ranges: bool,
) -> None:
    os.utime(only_one_file, (1_000_000, 1_000_000))
    faults = web.faults
    faults.tags, faults.heeds_if_range, faults.ranges = tags, heeds_if_range, ranges
    faults.cuts = [100_000] * (1 if ranges else 2)
    watch = Replacing(only_one_file, 70_000, lambda: setattr(faults, "validators", False))
    error = staged_while(web, caller, watch)
    assert error is not None
    assert error.reason == reasons.PATH_MISMATCH
    assert "without the" in str(error)
    assert f"put a {manifests.MANIFEST_NAME} beside the files" in str(error)
    assert not (caller.target / SHARDS[0]).exists()
    assert staged_while(web, caller, watch) is None
    assert set((caller.target / SHARDS[0]).read_bytes()) == {7}


def test_a_part_of_another_version_is_refused_though_it_is_the_part_that_was_asked_for(
    web: FileServer, caller: Caller, only_one_file: Path
) -> None:
    web.faults.heeds_if_range = False
    watch = Replacing(only_one_file, 70_000, lambda: None)
    error = staged_while(web, caller, watch)
    assert error is not None
    assert "changed while it was downloaded" in str(error)


def test_a_digest_makes_up_for_answers_that_do_not_say_their_version(
    web: FileServer, caller: Caller, model: Path
) -> None:
    manifests.write(model, manifests.from_directory(model))
    web.faults.validators = False
    web.faults.cuts = [70_000] * 5
    caller.assert_holds(model, caller.stage(http=listing(web)))
    assert any(seen.headers.get("Range", "").startswith("bytes=4") for seen in web.seen)


def test_a_date_tells_versions_apart_when_it_is_not_of_just_now(
    web: FileServer, caller: Caller, only_one_file: Path
) -> None:
    web.faults.tags = False
    os.utime(only_one_file, (1_000_000, 1_000_000))
    web.faults.cuts = [70_000]
    caller.assert_holds(only_one_file.parent, caller.stage(http=listing(web)))
    asked = [seen.headers["Range"] for seen in web.seen if "Range" in seen.headers]
    assert "bytes=0-399999" in asked
    assert any(65_536 <= int(range_[6:].partition("-")[0]) < 70_001 for range_ in asked)
    web.seen.clear()
    only_one_file.write_bytes(b"\7" * 1_500_000)
    ahead = time.time() + 1000  # as within the second of the change
    os.utime(only_one_file, (ahead, ahead))
    caller.assert_holds(only_one_file.parent, caller.stage(http=listing(web)))
    assert {seen.headers.get("Range") for seen in web.seen} == {None, "bytes=0-0"}


def test_without_versions_files_of_two_attempts_are_not_mixed(
    web: FileServer, caller: Caller, model: Path
) -> None:
    web.faults.validators = False
    caller.stage(http=listing(web))
    (caller.target / SHARDS[0]).unlink()
    (model / SHARDS[1]).write_bytes(b"\7" * (model / SHARDS[1]).stat().st_size)
    caller.assert_holds(model, caller.stage(http=listing(web)))


@pytest.mark.parametrize("validators", [True, False])
def test_a_file_that_is_written_to_before_the_last_one_is_there_is_not_vouched_for(
    web: FileServer,
    caller: Caller,
    model: Path,
    validators: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    web.faults.validators = validators
    published: list[str] = []
    plain = Workspace.publish

    def publish(workspace: Workspace, temporary: Path, path: str, *rest: str) -> None:
        plain(workspace, temporary, path, *rest)
        published.append(path)

    monkeypatch.setattr(Workspace, "publish", publish)

    def watch(_: int) -> None:
        if "config.json" in published:
            published.remove("config.json")
            rewrite_in_time(caller.target / "config.json")

    with pytest.raises(SourceError, match=r"config\.json was written to") as caught:
        stage({"http": listing(web)}, None, caller.target, watch, lambda _: None)
    assert caught.value.reason == reasons.DIGEST_MISMATCH
    assert not (caller.target / manifests.MANIFEST_NAME).exists()


def test_an_answer_with_two_lengths_is_refused(
    web: FileServer, caller: Caller, model: Path
) -> None:
    web.faults.two_lengths = True
    error = refusal(caller, listing(web)["url"])
    assert error.reason == reasons.PATH_MISMATCH
    assert "Content-Length and Transfer-Encoding at once" in str(error)
    assert not (caller.target / manifests.MANIFEST_NAME).exists()


@pytest.mark.parametrize("with_manifest", [True, False])
def test_content_that_is_packed_unasked_is_refused(
    web: FileServer, caller: Caller, model: Path, with_manifest: bool
) -> None:
    if with_manifest:
        manifests.write(model, manifests.from_directory(model))
    web.faults.coding = "gzip"
    error = refusal(caller, listing(web)["url"])
    assert error.reason == reasons.PATH_MISMATCH
    assert "Content-Encoding 'gzip'" in str(error)
    web.faults.coding = "identity"
    caller.assert_holds(model, caller.stage(http=listing(web)))


@pytest.mark.parametrize("promised", [True, False])
@pytest.mark.parametrize("ranges", [True, False])
def test_an_answer_that_goes_on_after_its_end_is_refused(
    web: FileServer, caller: Caller, model: Path, promised: bool, ranges: bool
) -> None:
    if promised:
        manifests.write(model, manifests.from_directory(model))
    web.faults.ranges = ranges
    stage_probes_first = FileHandler.send_file

    def send_file(handler: FileHandler, path: Path, headers: dict[str, str]) -> None:
        if handler.headers.get("Range") != "bytes=0-0" and path.name == SHARDS[1]:
            web.faults.more = 1
        stage_probes_first(handler, path, headers)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FileHandler, "send_file", send_file)
        error = refusal(caller, listing(web)["url"])
    assert error.reason == reasons.DIGEST_MISMATCH
    assert "sends more than the" in str(error)
    web.faults.more = 0
    caller.assert_holds(model, caller.stage(http=listing(web)))


@pytest.mark.parametrize("page", ["index", "manifest"])
def test_a_page_without_end_needs_a_person(
    web: FileServer, caller: Caller, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    asked: list[str] = []

    def answer(handler: FileHandler, path: str) -> None:
        if path.endswith("/") != (page == "index"):
            handler.refuse(404)
            return
        asked.append(path)
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.end_headers()
        while True:
            handler.wfile.write(b"<a href='x'>" * 10_000)

    monkeypatch.setattr(FileHandler, "answer", answer)
    error = refusal(caller, f"{web.url}/m/")
    assert error.reason == reasons.PATH_MISMATCH
    assert "correct http.url" in str(error)
    assert len(asked) == 1


BAD_HOSTS = ["127.0.0.1:abc", "[::1", "127.0.0.1:99999", "\N{ACCOUNT OF}.com", "a..b", ":80"]


@pytest.mark.parametrize("host", BAD_HOSTS)
@pytest.mark.parametrize(
    "remote",
    [
        {"http": {"url": "http://HOST/m.tar"}},
        {"http": {"url": "http://HOST/m/"}},
        {"s3": {"uri": "s3://bucket/m", "endpoint": "http://HOST"}},
        {"huggingFace": {"repository": "a/b", "revision": "main", "endpoint": "http://HOST"}},
    ],
    ids=str,
)
def test_a_url_that_is_none(caller: Caller, remote: dict[str, dict[str, str]], host: str) -> None:
    ((kind, spec),) = remote.items()
    spec = {name: value.replace("HOST", host) for name, value in spec.items()}
    with pytest.raises(SourceError, match=r"is no URL") as caught:
        caller.stage(**{kind: spec})
    assert caught.value.reason == reasons.PATH_MISMATCH


@pytest.mark.parametrize("location", ["http://[::1/m/", "http://x:abc/m/", "file:///etc/", "//"])
def test_a_redirect_that_leads_nowhere(
    web: FileServer, caller: Caller, monkeypatch: pytest.MonkeyPatch, location: str
) -> None:
    monkeypatch.setattr(transport, "ATTEMPTS", 1)
    web.faults.location = location
    with pytest.raises(SourceError) as caught:
        caller.stage(http={"url": f"{web.url}/m/"})
    assert caught.value.reason == reasons.SOURCE_UNREACHABLE

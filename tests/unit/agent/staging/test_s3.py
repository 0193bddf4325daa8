from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from support.file_server import running
from support.s3_server import S3Handler, S3Server
from unit.agent.staging.callers import Caller, Cancelled
from unit.weights.models import SHARDS
from warmpod import reasons
from warmpod.agent.staging import SourceError
from warmpod.agent.staging import s3 as bucket
from warmpod.agent.staging.files import size_of
from warmpod.agent.staging.s3_protocol import Signature, digest_of
from warmpod.weights import manifest as manifests

KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG"}


@pytest.fixture
def s3(model: Path) -> Iterator[S3Server]:
    with running(S3Server(model.parent.parent)) as server:
        server.keys = {KEYS["AWS_ACCESS_KEY_ID"]: KEYS["AWS_SECRET_ACCESS_KEY"]}
        yield server


def spec(s3: S3Server, uri: str = "s3://org/model") -> dict[str, object]:
    return {"uri": uri, "endpoint": s3.url, "region": "eu-central-1"}


def refusal(caller: Caller, source: dict[str, object]) -> SourceError:
    with pytest.raises(SourceError) as caught:
        caller.stage(s3=source)
    assert KEYS["AWS_SECRET_ACCESS_KEY"] not in str(caught.value)
    return caught.value


def test_stages_a_prefix(s3: S3Server, caller: Caller, model: Path) -> None:
    (model.parent / "model-other").mkdir()
    (model.parent / "model-other" / "config.json").write_text("not ours")
    (model / "a b+ü~(1).txt").write_text("odd name")
    caller.secret(**KEYS)
    s3.page_size = 2
    caller.assert_holds(model, caller.stage(s3=spec(s3)))
    ranges = [seen.headers.get("Range") for seen in s3.seen if SHARDS[0] in seen.path]
    assert len([value for value in ranges if value]) == 4
    assert all(
        "If-Match" in seen.headers
        for seen in s3.seen
        if seen.method == "GET" and SHARDS[0] in seen.path
    )


def test_an_object_that_does_not_say_its_version_is_not_the_planned_one(
    s3: S3Server, caller: Caller, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller.secret(**KEYS)
    s3.checksums = s3.faults.validators = False
    plain = S3Handler.send_file

    def send_file(handler: S3Handler, path: Path, headers: dict[str, str]) -> None:
        plain(handler, path, headers if handler.command == "HEAD" else {})

    monkeypatch.setattr(S3Handler, "send_file", send_file)
    error = refusal(caller, spec(s3))
    assert error.reason == reasons.PATH_MISMATCH
    assert "without the ETag that it sent before" in str(error)


@pytest.mark.parametrize("name", ["ETag", "Content-Length"])
def test_a_server_that_does_not_tell_what_objects_are(
    s3: S3Server, caller: Caller, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """That is nothing that changes while it is downloaded."""
    caller.secret(**KEYS)
    plain = S3Handler.send_header

    def send_header(handler: S3Handler, header: str, value: str) -> None:
        if handler.command != "HEAD" or header != name:
            plain(handler, header, value)

    monkeypatch.setattr(S3Handler, "send_header", send_header)
    error = refusal(caller, spec(s3))
    assert error.reason == reasons.PATH_MISMATCH
    assert f"S3 tells no {name} of" in str(error)


@pytest.mark.parametrize("uri", ["s3://org", "s3://org/"])
def test_a_whole_bucket(s3: S3Server, caller: Caller, model: Path, uri: str) -> None:
    caller.secret(**KEYS)
    caller.assert_holds(model.parent, caller.stage(s3=spec(s3, uri)))


def test_a_public_bucket_needs_no_keys(s3: S3Server, caller: Caller, model: Path) -> None:
    s3.keys = {}
    caller.assert_holds(model, caller.stage(s3=spec(s3)))


def test_credentials(s3: S3Server, caller: Caller, model: Path) -> None:
    error = refusal(caller, spec(s3))
    assert error.reason == reasons.SOURCE_UNAUTHORIZED
    assert "no keys were sent" in str(error)
    caller.secret(**KEYS | {"AWS_SECRET_ACCESS_KEY": "wrong"})
    error = refusal(caller, spec(s3))
    assert (error.reason, "SignatureDoesNotMatch" in str(error)) == (
        reasons.SOURCE_UNAUTHORIZED,
        True,
    )
    caller.secret(**KEYS | {"AWS_ACCESS_KEY_ID": "AKIDNOBODY"})
    error = refusal(caller, spec(s3))
    assert (error.reason, "InvalidAccessKeyId" in str(error)) == (
        reasons.SOURCE_UNAUTHORIZED,
        True,
    )
    caller.secret(**KEYS)
    s3.forbidden = frozenset({"org"})
    error = refusal(caller, spec(s3))
    assert (error.reason, "s3:ListBucket" in str(error)) == (reasons.SOURCE_FORBIDDEN, True)
    s3.forbidden = frozenset()
    caller.assert_holds(model, caller.stage(s3=spec(s3)))


def test_what_does_not_exist(s3: S3Server, caller: Caller) -> None:
    caller.secret(**KEYS)
    error = refusal(caller, spec(s3, "s3://none/model"))
    assert (error.reason, "NoSuchBucket" in str(error)) == (reasons.SOURCE_NOT_FOUND, True)
    assert refusal(caller, spec(s3, "s3://org/none")).reason == reasons.PATH_MISMATCH


def test_not_an_s3(web, caller: Caller) -> None:
    source = {"uri": "s3://org/", "endpoint": web.url}
    assert refusal(caller, source).reason in (reasons.PATH_MISMATCH, reasons.SOURCE_NOT_FOUND)


def test_content_that_does_not_fit_its_checksum(s3: S3Server, caller: Caller) -> None:
    caller.secret(**KEYS)
    s3.faults.flips = {SHARDS[0]}
    error = refusal(caller, spec(s3))
    assert error.reason == reasons.DIGEST_MISMATCH
    assert SHARDS[0] in str(error)


def test_an_object_without_a_checksum(s3: S3Server, caller: Caller, model: Path) -> None:
    caller.secret(**KEYS)
    s3.checksums = False
    caller.assert_holds(model, caller.stage(s3=spec(s3)))


def test_an_object_that_is_replaced_meanwhile(s3: S3Server, caller: Caller, model: Path) -> None:
    caller.secret(**KEYS)
    caller.stop_at = 1_000_000
    with pytest.raises(Cancelled):
        caller.stage(s3=spec(s3))
    caller.stop_at = None
    shard = model / SHARDS[0]
    shard.write_bytes(b"\7" * shard.stat().st_size)
    caller.assert_holds(model, caller.stage(s3=spec(s3)))


def test_a_manifest_in_the_bucket_is_believed(s3: S3Server, caller: Caller, model: Path) -> None:
    caller.secret(**KEYS)
    s3.checksums = False
    manifests.write(model, manifests.from_directory(model))
    (model / "unlisted.txt").write_text("not in the manifest")
    caller.assert_holds(model, caller.stage(s3=spec(s3)), ("unlisted.txt",))
    shard = model / SHARDS[0]
    shard.write_bytes(b"\7" * shard.stat().st_size)
    (caller.target / SHARDS[0]).unlink()
    assert refusal(caller, spec(s3)).reason == reasons.DIGEST_MISMATCH
    shard.unlink()
    error = refusal(caller, spec(s3))
    assert (error.reason, SHARDS[0] in str(error)) == (reasons.PATH_MISMATCH, True)


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({"ETag": '"' + "a" * 32 + '"'}, "md5"),
        ({"ETag": '"' + "a" * 32 + '-7"'}, None),
        ({"ETag": '"' + "a" * 32 + '"', "x-amz-server-side-encryption": "aws:kms"}, None),
        ({"ETag": '"x"', "x-amz-checksum-crc64nvme": "AAAAAAAAAAA="}, "crc64nvme"),
        ({"ETag": '"x-3"', "x-amz-checksum-crc64nvme": "AAAAAAAAAAA="}, "crc64nvme"),
        ({"ETag": '"x"', "x-amz-checksum-sha256": "AAAA-3"}, None),
        ({"ETag": '"x-3"', "x-amz-checksum-crc32": "AAAAAA=="}, None),
        (
            {"ETag": '"x"', "x-amz-checksum-crc32": "AAAAAA==", "x-amz-checksum-type": "COMPOSITE"},
            None,
        ),
    ],
)
def test_which_checksum_counts(headers: dict[str, str], kind: str | None) -> None:
    digest = digest_of(headers)
    assert (digest.kind if digest else None) == kind


def test_a_session_token_is_signed() -> None:
    request = requests.Request("GET", "https://b.s3.eu-central-1.amazonaws.com/k").prepare()
    signed = Signature(("AKID", "secret", "session"), "eu-central-1")(request)
    assert signed.headers["x-amz-security-token"] == "session"
    assert "x-amz-security-token" in signed.headers["Authorization"]


@pytest.mark.parametrize("objects", [3, 0])
def test_a_list_without_an_end(
    s3: S3Server, caller: Caller, monkeypatch: pytest.MonkeyPatch, objects: int
) -> None:
    monkeypatch.setattr(bucket, "MAX_PAGES", 10)
    monkeypatch.setattr(bucket, "MAX_FILES", 20)
    caller.secret(**KEYS)
    s3.endless = objects
    assert refusal(caller, spec(s3)).reason == reasons.PATH_MISMATCH
    assert len(s3.seen) <= 10


@pytest.mark.parametrize("text", ["", "-5", "1e9", "\N{SUPERSCRIPT TWO}", "9" * 5000])
def test_sizes_that_are_none(text: str) -> None:
    assert size_of(text) is None

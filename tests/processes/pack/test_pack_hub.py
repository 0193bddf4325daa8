"""`warmpod pack hf://…`, from a hub of the test's own into an OCI layout."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pack_process import Pack, finished

from support.file_server import running
from support.hub_server import HubServer
from unit.weights.models import make_model
from warmpod.weights.pack import pack as pack_layout

NAME = "acme/tiny"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    make_model(tmp_path / "hub" / NAME)
    with running(HubServer(tmp_path / "hub")) as server:
        assert isinstance(server, HubServer)
        # As the hub does: large files come from another host.
        server.cdn = server.url_of_other_origin
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield server


def digest_in(layout: Path) -> str:
    return str(json.loads((layout / "index.json").read_text())["manifests"][0]["digest"])


def test_a_repository_is_packed_as_its_directory_would_be(
    hub: HubServer, pack: Pack, tmp_path: Path
) -> None:
    status, output, errors = finished(pack(f"hf://{NAME}", tmp_path / "layout"))
    assert status == 0, errors
    expected = pack_layout(hub.root / NAME, tmp_path / "expected")
    assert digest_in(tmp_path / "layout") == expected.digest
    assert expected.digest in output
    assert hub.commit(NAME) in errors


def test_files_can_be_left_out_also_when_the_cache_has_them(
    hub: HubServer, pack: Pack, tmp_path: Path
) -> None:
    assert finished(pack(f"hf://{NAME}", tmp_path / "all"))[0] == 0
    process = pack(f"hf://{NAME}@main", tmp_path / "some", "--exclude", "original/*")
    status, _, errors = finished(process)
    assert status == 0, errors
    assert "packed original/params.json" not in errors
    assert "packed config.json" in errors


def test_a_private_repository(
    hub: HubServer, pack: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.token = "hf_secret"
    status, _, errors = finished(pack(f"hf://{NAME}", tmp_path / "layout"))
    assert status == 1
    assert "HF_TOKEN" in errors
    assert "Traceback" not in errors
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert finished(pack(f"hf://{NAME}", tmp_path / "layout"))[0] == 0


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("hf://acme/none", "not found"),
        (f"hf://{NAME}@nowhere", "no such revision"),
        ("hf://tiny", "hf://ORGANISATION/NAME"),
    ],
)
def test_what_is_not_there(
    hub: HubServer, pack: Pack, tmp_path: Path, source: str, says: str
) -> None:
    status, _, errors = finished(pack(source, tmp_path / "layout"))
    assert status == 1
    assert says in errors
    assert "Traceback" not in errors


def test_access_that_was_not_granted(hub: HubServer, pack: Pack, tmp_path: Path) -> None:
    hub.gated = True
    status, _, errors = finished(pack(f"hf://{NAME}", tmp_path / "layout"))
    assert status == 1
    assert "its owners grant access" in errors

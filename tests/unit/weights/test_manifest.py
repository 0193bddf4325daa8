import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from unit.weights.models import make_model
from warmpod.weights import manifest
from warmpod.weights.findings import WeightsError


def test_lists_every_file_with_size_and_digest(tmp_path: Path) -> None:
    make_model(tmp_path)
    result = manifest.from_directory(tmp_path)
    assert [entry.path for entry in result.files] == [
        "config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        "original/params.json",
    ]
    config = result.files[0]
    assert config.size == 2
    # sha256 of "{}"
    assert config.sha256 == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert result.size == sum(entry.size for entry in result.files)


def test_round_trip_through_the_file(tmp_path: Path) -> None:
    make_model(tmp_path)
    written = manifest.from_directory(tmp_path)
    manifest.write(tmp_path, written)
    assert manifest.read(tmp_path) == written
    # A second run does not list the manifest itself.
    assert manifest.from_directory(tmp_path) == written


def test_no_manifest_is_none(tmp_path: Path) -> None:
    assert manifest.read(tmp_path) is None


def test_hidden_files_are_not_part_of_the_model(tmp_path: Path) -> None:
    make_model(tmp_path)
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "download.incomplete").write_text("x")
    (tmp_path / ".gitattributes").write_text("x")
    assert all(not e.path.startswith(".") for e in manifest.from_directory(tmp_path).files)


def test_follows_links_to_files_as_the_hugging_face_cache_has_them(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "abc").write_bytes(b"tensor")
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    (snapshot / "model.safetensors").symlink_to("../blobs/abc")
    assert manifest.from_directory(snapshot).files[0].size == 6


def _remove_shard(model: Path) -> str:
    (model / "model-00002-of-00002.safetensors").unlink()
    return "model-00002-of-00002.safetensors: missing, but model.safetensors.index.json names it"


def _leave_unfinished(model: Path) -> str:
    (model / "model-00003.safetensors.incomplete").write_text("x")
    return "model-00003.safetensors.incomplete: left over from an unfinished download"


def _dangle(model: Path) -> str:
    (model / "tokenizer.json").symlink_to("../blobs/gone")
    return "tokenizer.json: link to ../blobs/gone, which does not exist"


def _link_folder(model: Path) -> str:
    (model / "linked").symlink_to("original")
    return "linked: not a regular file"


def _fifo(model: Path) -> str:
    os.mkfifo(model / "pipe")
    return "pipe: not a regular file"


def _bad_index(model: Path) -> str:
    (model / "model.safetensors.index.json").write_text("[]")
    return "model.safetensors.index.json: not a shard index: it has no weight_map"


@pytest.mark.parametrize(
    "spoil", [_remove_shard, _leave_unfinished, _dangle, _link_folder, _fifo, _bad_index]
)
def test_a_model_that_is_not_whole_is_refused_by_name(tmp_path: Path, spoil) -> None:
    make_model(tmp_path)
    message = spoil(tmp_path)
    with pytest.raises(WeightsError) as caught:
        manifest.from_directory(tmp_path)
    assert message in str(caught.value)


def test_an_empty_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="holds no files"):
        manifest.from_directory(tmp_path)


def test_a_directory_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="cannot be listed: No such file"):
        manifest.from_directory(tmp_path / "nowhere")


GOOD = {"path": "a", "size": 1, "sha256": "0" * 64}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b"{", "not JSON"),
        ([], "version must be 1"),
        ({"version": 2, "files": [GOOD]}, "version must be 1"),
        ({"version": 1}, "files must be a list"),
        ({"version": 1, "files": []}, "at least one file"),
        ({"version": 1, "files": ["a"]}, r"files\[0\]: must be an object"),
        ({"version": 1, "files": [GOOD | {"path": "/etc/passwd"}]}, r"files\[0\].path"),
        ({"version": 1, "files": [GOOD | {"path": "../x"}]}, r"files\[0\].path"),
        ({"version": 1, "files": [GOOD | {"path": "a//b"}]}, r"files\[0\].path"),
        ({"version": 1, "files": [GOOD | {"path": ""}]}, r"files\[0\].path"),
        ({"version": 1, "files": [GOOD | {"size": -1}]}, r"files\[0\].size"),
        ({"version": 1, "files": [GOOD | {"size": True}]}, r"files\[0\].size"),
        ({"version": 1, "files": [GOOD, GOOD | {"path": "b", "sha256": "AB"}]}, r"files\[1\].sha"),
        ({"version": 1, "files": [GOOD, GOOD]}, "a path twice"),
    ],
)
def test_a_manifest_that_cannot_be_trusted_is_refused(document: object, message: str) -> None:
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    with pytest.raises(WeightsError, match=message):
        manifest.parse(content)


def test_runs_as_a_module(tmp_path: Path) -> None:
    make_model(tmp_path)
    root = Path(__file__).parents[3] / "operator"
    command = [sys.executable, "-m", "warmpod.weights.manifest"]
    done = subprocess.run(
        [*command, str(tmp_path)], cwd=root, capture_output=True, text=True, check=True
    )
    assert "5 files" in done.stdout
    assert manifest.read(tmp_path) == manifest.from_directory(tmp_path)
    failed = subprocess.run(
        [*command, str(tmp_path / "no")], cwd=root, capture_output=True, text=True, check=False
    )
    assert failed.returncode == 1
    assert failed.stderr.count("\n") == 1

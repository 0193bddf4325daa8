import hashlib
import json
import os
import tarfile
from pathlib import Path

import pytest

from unit.weights.models import SHARDS, make_model
from warmpod.weights import manifest
from warmpod.weights.findings import WeightsError
from warmpod.weights.pack import INDEX_TYPE, LAYER_TYPE, pack


def blob(layout: Path, descriptor: dict) -> bytes:
    content = (
        layout / "blobs" / "sha256" / descriptor["digest"].removeprefix("sha256:")
    ).read_bytes()
    assert len(content) == descriptor["size"]
    assert f"sha256:{hashlib.sha256(content).hexdigest()}" == descriptor["digest"]
    return content


def image_manifests(layout: Path) -> list[tuple[dict, dict]]:
    (outer,) = json.loads((layout / "index.json").read_text())["manifests"]
    assert outer["mediaType"] == INDEX_TYPE
    inner = json.loads(blob(layout, outer))["manifests"]
    return [(entry["platform"], json.loads(blob(layout, entry))) for entry in inner]


def members(layout: Path, descriptor: dict) -> list[tarfile.TarInfo]:
    path = layout / "blobs" / "sha256" / descriptor["digest"].removeprefix("sha256:")
    with tarfile.open(path, mode="r:") as archive:
        return archive.getmembers()


def test_small_files_first_then_a_layer_a_shard(tmp_path: Path) -> None:
    make_model(tmp_path / "model")
    layout = tmp_path / "layout"
    packed = pack(tmp_path / "model", layout)
    assert packed.layers == 3
    (platform, image), (other_platform, other) = image_manifests(layout)
    assert platform == {"architecture": "amd64", "os": "linux"}
    assert other_platform == {"architecture": "arm64", "os": "linux"}
    assert image["layers"] == other["layers"]
    assert {layer["mediaType"] for layer in image["layers"]} == {LAYER_TYPE}
    names = [[m.name for m in members(layout, layer)] for layer in image["layers"]]
    assert names == [
        [
            "config.json",
            "model.safetensors.index.json",
            "original",
            "original/params.json",
            "warmpod-manifest.json",
        ],
        [SHARDS[0]],
        [SHARDS[1]],
    ]
    config = json.loads(blob(layout, image["config"]))
    assert config["architecture"] == "amd64"
    assert config["rootfs"]["diff_ids"] == [layer["digest"] for layer in image["layers"]]


def test_modes_owners_and_times_are_fixed(tmp_path: Path) -> None:
    make_model(tmp_path / "model")
    (tmp_path / "model" / SHARDS[0]).chmod(0o600)
    pack(tmp_path / "model", tmp_path / "layout")
    (_, image), _ = image_manifests(tmp_path / "layout")
    for layer in image["layers"]:
        for member in members(tmp_path / "layout", layer):
            assert member.mode == (0o555 if member.isdir() else 0o444)
            assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "", "")
            assert member.mtime == 0


def test_the_same_files_give_the_same_digest(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_model(tmp_path / name)
    for number, path in enumerate(sorted((tmp_path / "b").rglob("*"))):
        os.utime(path, (1000 + number, 2000 + number))
    first = pack(tmp_path / "a", tmp_path / "layout-a")
    second = pack(tmp_path / "b", tmp_path / "layout-b")
    assert first.digest == second.digest
    (tmp_path / "b" / SHARDS[1]).write_bytes(b"\x03" * 9000)
    assert pack(tmp_path / "b", tmp_path / "layout-c").digest != first.digest


def test_the_digest_does_not_change_between_versions(tmp_path: Path) -> None:
    """Packing the same model with the next release must not make nodes pull it again."""
    make_model(tmp_path / "model")
    assert pack(tmp_path / "model", tmp_path / "layout").digest == (
        "sha256:9d88efad44942cd7ce1cd7177800897a02cf00d282f18827daf6f6b1c48cf31f"
    )


def test_the_manifest_inside_describes_the_files(tmp_path: Path) -> None:
    make_model(tmp_path / "model")
    packed = pack(tmp_path / "model", tmp_path / "layout")
    (_, image), _ = image_manifests(tmp_path / "layout")
    unpacked = tmp_path / "unpacked"
    for layer in image["layers"]:
        path = tmp_path / "layout/blobs/sha256" / layer["digest"].removeprefix("sha256:")
        with tarfile.open(path) as archive:
            archive.extractall(unpacked, filter="fully_trusted")
    assert manifest.read(unpacked) == packed.manifest == manifest.from_directory(unpacked)


def test_progress_tells_of_every_file(tmp_path: Path) -> None:
    make_model(tmp_path / "model")
    seen: dict[str, int] = {}
    packed = pack(tmp_path / "model", tmp_path / "layout", seen.__setitem__)
    assert seen == {entry.path: entry.size for entry in packed.manifest.files}


def test_nothing_unfinished_stays_behind(tmp_path: Path) -> None:
    make_model(tmp_path / "model")
    pack(tmp_path / "model", tmp_path / "layout")
    names = {path.name for path in (tmp_path / "layout" / "blobs" / "sha256").iterdir()}
    assert all(len(name) == 64 for name in names)


def test_a_layout_in_use_is_refused(tmp_path: Path) -> None:
    make_model(tmp_path / "model")
    (tmp_path / "layout").mkdir()
    (tmp_path / "layout" / "precious").write_text("x")
    with pytest.raises(WeightsError, match="not empty"):
        pack(tmp_path / "model", tmp_path / "layout")


def test_a_model_that_is_not_whole_makes_no_layout(tmp_path: Path) -> None:
    make_model(tmp_path / "model")
    (tmp_path / "model" / SHARDS[0]).unlink()
    with pytest.raises(WeightsError, match=SHARDS[0]):
        pack(tmp_path / "model", tmp_path / "layout")
    assert not (tmp_path / "layout").exists()


def test_a_shard_larger_than_ustar_can_say(tmp_path: Path) -> None:
    """The header of a file over 8 GiB; the content is skipped by giving a short source."""
    from warmpod.weights.pack import _LayerWriter

    (tmp_path / "blobs" / "sha256").mkdir(parents=True)
    with _LayerWriter(tmp_path) as layer, pytest.raises(OSError, match="end of data"):
        layer._add("big", 9 * 2**30, type("Short", (), {"read": lambda self, size: b""})())

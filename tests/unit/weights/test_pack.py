import hashlib
import json
import os
import tarfile
from pathlib import Path

import pytest

from unit.weights.models import SHARDS, make_model
from warmpod.weights import manifest
from warmpod.weights.findings import WeightsError
from warmpod.weights.hashing import sha256_of
from warmpod.weights.image import INDEX_TYPE, LAYER_TYPE
from warmpod.weights.pack import LARGE_BYTES, Model, is_wanted, pack, pack_model


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
        "sha256:d919112f6cd5a190e32103717216e5c8c73ce896bddc3d767f9c397e9da547bc"
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


def test_each_image_manifest_names_the_digest_of_the_files(tmp_path: Path) -> None:
    """What a signature of the image vouches for."""
    make_model(tmp_path / "model")
    packed = pack(tmp_path / "model", tmp_path / "layout")
    digest = f"sha256:{hashlib.sha256(packed.manifest.to_json()).hexdigest()}"
    for _, image in image_manifests(tmp_path / "layout"):
        assert image["annotations"] == {"warmpod.io/manifest-digest": digest}


def test_large_files_of_any_format_have_a_layer_of_their_own(tmp_path: Path) -> None:
    make_model(tmp_path / "model")
    with (tmp_path / "model" / "pytorch_model.bin").open("wb") as file:
        file.truncate(LARGE_BYTES)
    model = Model.of(tmp_path / "model")
    assert model.shards == (*SHARDS, "pytorch_model.bin")


@pytest.mark.parametrize(
    ("path", "include", "exclude", "wanted"),
    [
        ("original/params.json", (), (), True),
        ("original/params.json", (), ("original/*",), False),
        ("original/params.json", (), ("original/",), False),
        ("original/params.json", ("*.json",), (), True),
        ("model.safetensors", ("*.json",), (), False),
        ("a.json", ("*.json",), ("a.*",), False),
    ],
)
def test_patterns(path: str, include: tuple, exclude: tuple, wanted: bool) -> None:
    assert is_wanted(path, include, exclude) is wanted


def test_patterns_that_leave_nothing(tmp_path: Path) -> None:
    make_model(tmp_path / "model")
    with pytest.raises(WeightsError, match="leave no file"):
        Model.of(tmp_path / "model", include=("*.gguf",))


def test_names_that_a_manifest_cannot_hold_are_refused(tmp_path: Path) -> None:
    source = make_model(tmp_path / "model")
    Path(os.fsdecode(os.fsencode(source) + b"/a\xff.bin")).write_bytes(b"x")
    with pytest.raises(WeightsError, match="is not UTF-8; rename"):
        pack(source, tmp_path / "layout")


def test_a_small_file_that_changes_meanwhile_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_model(tmp_path / "model")

    def changing(path: Path) -> str:
        digest = sha256_of(path)
        (source / "config.json").write_text("[]")  # of the same size
        return digest

    monkeypatch.setattr("warmpod.weights.pack.sha256_of", changing)
    with pytest.raises(WeightsError, match=r"config\.json: it changed"):
        pack(source, tmp_path / "layout")


# --- A manifest beside the files ------------------------------------------------------------------


@pytest.fixture
def promised(tmp_path: Path) -> Path:
    """As an image is unpacked."""
    model = make_model(tmp_path / "model")
    manifest.write(model, manifest.from_directory(model))
    return model


def alter(model: Path) -> str:
    (model / SHARDS[1]).write_bytes(b"\x09" * 9000)
    return f"{SHARDS[1]}: sha256 is"


def alter_small(model: Path) -> str:
    content = (model / "config.json").read_bytes()
    (model / "config.json").write_bytes(b" " * len(content))
    return "config.json: sha256 is"


def cut(model: Path) -> str:
    (model / SHARDS[0]).write_bytes(b"\x01")
    return f"{SHARDS[0]}: 1 bytes"


def add(model: Path) -> str:
    (model / "extra.safetensors").write_bytes(b"\x01")
    return "extra.safetensors: is not in"


def remove(model: Path) -> str:
    (model / "original" / "params.json").unlink()
    return "original/params.json: missing"


@pytest.mark.parametrize("change", [alter, alter_small, cut, add, remove])
@pytest.mark.parametrize("make", [pack, lambda model, _: manifest.from_directory(model)])
def test_a_damaged_file_is_not_declared_good(promised: Path, tmp_path: Path, change, make) -> None:
    message = change(promised)
    with pytest.raises(WeightsError) as caught:
        make(promised, tmp_path / "layout")
    assert str(caught.value).startswith(message)
    assert str(caught.value).endswith("or delete warmpod-manifest.json if the change is meant")
    assert not (tmp_path / "layout" / "index.json").exists()


def test_what_the_manifest_says_is_packed(promised: Path, tmp_path: Path) -> None:
    packed = pack(promised, tmp_path / "layout")
    assert packed.manifest == manifest.read(promised)


def test_what_is_left_out_on_purpose_is_not_missed(promised: Path, tmp_path: Path) -> None:
    model = Model.of(promised, exclude=["original/*"])
    packed = pack_model(model, tmp_path / "layout", lambda path, size: None)
    assert len(packed.manifest.files) == 4


def test_a_change_is_packed_once_the_manifest_is_deleted(promised: Path, tmp_path: Path) -> None:
    alter(promised)
    (promised / "warmpod-manifest.json").unlink()
    pack(promised, tmp_path / "layout")

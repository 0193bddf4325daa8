"""Compressed layers are found under their own digests, and unpack to what they were."""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from devtools import layout
from devtools.steps import StepError

pytestmark = pytest.mark.skipif(not shutil.which("zstd"), reason="zstd is not installed")

CONTENT = b"a layer " * 1000


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def write_blob(directory: Path, content: bytes) -> dict[str, object]:
    digest = digest_of(content)
    (directory / "blobs" / digest.replace(":", "/")).write_bytes(content)
    return {"digest": digest, "size": len(content)}


@pytest.fixture
def image(tmp_path: Path) -> Path:
    (tmp_path / "blobs" / "sha256").mkdir(parents=True)
    layers = [{"mediaType": layout.PLAIN, **write_blob(tmp_path, CONTENT)}]
    manifest = write_blob(tmp_path, json.dumps({"layers": layers}).encode())
    (tmp_path / "index.json").write_text(json.dumps({"manifests": [manifest]}))
    return tmp_path


def read_blob(directory: Path, descriptor: dict) -> bytes:
    content = (directory / "blobs" / descriptor["digest"].replace(":", "/")).read_bytes()
    assert digest_of(content) == descriptor["digest"]
    assert len(content) == descriptor["size"]
    return content


def test_layers_are_compressed_and_named_anew(image: Path):
    layout.compress(image)
    (entry,) = json.loads((image / "index.json").read_text())["manifests"]
    (layer,) = json.loads(read_blob(image, entry))["layers"]
    assert layer["mediaType"] == layout.ZSTD
    unpacked = subprocess.run(
        ["zstd", "--decompress", "--stdout"],
        input=read_blob(image, layer),
        capture_output=True,
        check=True,
    )
    assert unpacked.stdout == CONTENT
    assert len(list((image / "blobs" / "sha256").iterdir())) == 2


def test_compressing_again_changes_nothing(image: Path):
    layout.compress(image)
    before = (image / "index.json").read_text()
    layout.compress(image)
    assert (image / "index.json").read_text() == before
    (entry,) = json.loads(before)["manifests"]
    assert json.loads(read_blob(image, entry))["layers"]


def test_more_than_one_image_is_refused(image: Path):
    (image / "index.json").write_text(json.dumps({"manifests": [{}, {}]}))
    with pytest.raises(StepError, match="expected one image, found 2"):
        layout.compress(image)

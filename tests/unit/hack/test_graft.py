"""An image built on another keeps the layers that its base has in a registry."""

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from devtools import layout
from devtools.steps import StepError

DOCKER = layout.DOCKER_GZIP


class Image:
    """Writes an OCI layout with one image."""

    def __init__(self, directory: Path, layers: list[bytes], kind: str, made_by: list[str]) -> None:
        self.directory = directory
        (directory / "blobs" / "sha256").mkdir(parents=True)
        pack = gzip.compress if kind == DOCKER else bytes
        self.layers = [{"mediaType": kind, **self._write(pack(layer))} for layer in layers]
        config = {
            "rootfs": {"diff_ids": [digest_of(layer) for layer in layers]},
            "history": [
                {"created_by": "ENV A=1", "empty_layer": True},
                *({"created_by": step} for step in made_by),
            ],
            "config": {"User": "2000:0"},
        }
        manifest = {"config": self._write_json(config), "layers": self.layers}
        (directory / "index.json").write_text(
            json.dumps({"manifests": [self._write_json(manifest)]})
        )

    def blob(self, digest: str) -> bytes:
        content = (self.directory / "blobs" / digest.replace(":", "/")).read_bytes()
        assert digest_of(content) == digest
        return content

    def manifest(self) -> dict[str, Any]:
        (entry,) = json.loads((self.directory / "index.json").read_text())["manifests"]
        content = self.blob(entry["digest"])
        assert len(content) == entry["size"]
        return json.loads(content)

    def _write_json(self, value: object) -> dict[str, Any]:
        return self._write(json.dumps(value).encode())

    def _write(self, content: bytes) -> dict[str, Any]:
        digest = digest_of(content)
        (self.directory / "blobs" / digest.replace(":", "/")).write_bytes(content)
        return {"digest": digest, "size": len(content)}


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


BELOW = [b"Debian " * 1000, b"vLLM " * 1000]
ABOVE = [b"bytecode " * 1000]


@pytest.fixture
def base(tmp_path: Path) -> Image:
    return Image(tmp_path / "base", BELOW, DOCKER, ["ADD Debian", "RUN pip"])


def built_on(tmp_path: Path, layers: list[bytes]) -> Image:
    steps = ["ADD Debian", "RUN pip", "RUN bytecode.py"]
    return Image(tmp_path / "built", layers, layout.PLAIN, steps)


def test_the_layers_of_the_base_stay(tmp_path: Path, base: Image):
    built = built_on(tmp_path, BELOW + ABOVE)
    layout.graft(built.directory, base.directory)
    layers = built.manifest()["layers"]
    assert [layer["digest"] for layer in layers[:2]] == [layer["digest"] for layer in base.layers]
    assert {layer["mediaType"] for layer in layers} == {layout.GZIP}
    assert [gzip.decompress(built.blob(layer["digest"])) for layer in layers] == BELOW + ABOVE
    # Three layers, the configuration, the manifest: nothing else is pushed.
    assert len(list((built.directory / "blobs" / "sha256").iterdir())) == 5


def test_what_a_node_pulls_beyond_the_base(tmp_path: Path, base: Image):
    built = built_on(tmp_path, BELOW + ABOVE)
    layout.graft(built.directory, base.directory)
    layers = layout.layers_of(built.directory)
    assert [layer.made_by for layer in layers] == ["ADD Debian", "RUN pip", "RUN bytecode.py"]
    assert 0 < layers[-1].size < len(ABOVE[0])


def test_an_image_on_another_base_is_refused(tmp_path: Path, base: Image):
    built = built_on(tmp_path, [BELOW[0], b"another vLLM", *ABOVE])
    with pytest.raises(StepError, match="is not built on"):
        layout.graft(built.directory, base.directory)

"""Makes small container images from bytes and pushes them to the local registry."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from support.api import JsonObject

REGISTRY = "127.0.0.1:5000"
MEDIA_TYPE = "application/vnd.oci.image"


@dataclass(frozen=True)
class File:
    content: bytes
    mode: int = 0o444
    uid: int = 0


def push_image(
    reference: str, files: dict[str, File], directory: Path, *, architecture: str = "amd64"
) -> str:
    """Pushes a one-layer image; gives its digest. `directory` is for its OCI layout."""
    layer = _layer(files)
    config = json.dumps(
        {
            "architecture": architecture,
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    ).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": f"{MEDIA_TYPE}.manifest.v1+json",
            "config": _descriptor(f"{MEDIA_TYPE}.config.v1+json", config),
            "layers": [_descriptor(f"{MEDIA_TYPE}.layer.v1.tar", layer)],
        }
    ).encode()
    blobs = directory / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    for blob in (layer, config, manifest):
        (blobs / hashlib.sha256(blob).hexdigest()).write_bytes(blob)
    (directory / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    entry = _descriptor(f"{MEDIA_TYPE}.manifest.v1+json", manifest)
    (directory / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    crane("push", str(directory), reference)
    return _digest(manifest)


def crane(*arguments: str) -> str:
    completed = subprocess.run(
        [str(binary("crane")), *arguments, "--insecure"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_PROXY": "*"},
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


def binary(name: str) -> Path:
    """A program of the local cluster."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return cache / "warmpod" / "bin" / name


def _layer(files: dict[str, File]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for path, file in sorted(files.items()):
            member = tarfile.TarInfo(path)
            member.size, member.mode, member.uid = len(file.content), file.mode, file.uid
            layer.addfile(member, io.BytesIO(file.content))
    return buffer.getvalue()


def _digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _descriptor(media_type: str, content: bytes) -> JsonObject:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}

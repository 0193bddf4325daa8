"""Container images as OCI archives, without a build tool."""

import gzip
import hashlib
import io
import json
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MEDIA_TYPE = "application/vnd.oci.image"
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass
class Image:
    """Files in one layer."""

    name: str
    files: dict[str, Path]  # path in the image: source
    entrypoint: list[str]
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": SEARCH_PATH})
    links: dict[str, str] = field(default_factory=dict)  # path in the image: where it leads to

    def write_archive(self, output: Path) -> None:
        layer = self._layer()
        compressed = gzip.compress(layer, compresslevel=1, mtime=0)
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {
                    "Entrypoint": self.entrypoint,
                    "Env": [f"{name}={value}" for name, value in self.environment.items()],
                },
                "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
            }
        ).encode()
        manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": f"{MEDIA_TYPE}.manifest.v1+json",
                "config": _descriptor(f"{MEDIA_TYPE}.config.v1+json", config),
                "layers": [_descriptor(f"{MEDIA_TYPE}.layer.v1.tar+gzip", compressed)],
            }
        ).encode()
        entry = _descriptor(f"{MEDIA_TYPE}.manifest.v1+json", manifest)
        entry["annotations"] = {
            "io.containerd.image.name": self.name,
            "org.opencontainers.image.ref.name": self.name.rpartition(":")[2],
        }
        index = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
        with tarfile.open(output, "w") as archive:
            _add_bytes(archive, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
            _add_bytes(archive, "index.json", index)
            for blob in (config, compressed, manifest):
                _add_bytes(archive, "blobs/" + _digest(blob).replace(":", "/"), blob)

    def _layer(self) -> bytes:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as layer:
            for path, source in self.files.items():
                layer.add(source, arcname=path.lstrip("/"), filter=_owned_by_root)
            for path, target in self.links.items():
                _add_link(layer, path.lstrip("/"), target)
        return buffer.getvalue()


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = "root"
    return member


def _add_bytes(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def _add_link(archive: tarfile.TarFile, name: str, target: str) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    archive.addfile(member)


def _digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}

"""A model directory becomes an image in an OCI layout directory.

The image is what `FROM scratch` and one COPY a shard would give, but the digest depends on
nothing except the files: names are sorted, times are 0, owners are root, modes are fixed. One
layer a shard lets a registry client transfer shards in parallel and again one by one. Layers
are plain tar: weights do not compress, and a node unpacks plain tar at the speed of its disk.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol, cast

from warmpod.weights.findings import WeightsError
from warmpod.weights.hashing import map_in_threads
from warmpod.weights.manifest import MANIFEST_NAME, Entry, Manifest, model_files

LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
# Weights run on any processor, but a container runtime refuses an image that does not name its
# own. Both entries share the same layers.
ARCHITECTURES = ("amd64", "arm64")
SHARD_SUFFIX = ".safetensors"
COPY_BYTES = 1024 * 1024

Descriptor = dict[str, Any]
Progress = Callable[[str, int], None]


@dataclass(frozen=True)
class PackedImage:
    """What was written: the digest a registry will show, layers, and bytes of model files."""

    digest: str
    layers: int
    manifest: Manifest


def pack(source: Path, layout: Path, progress: Progress = lambda path, size: None) -> PackedImage:
    """Write `source` as an image into the new or empty directory `layout`.

    `progress(path, bytes)` is called from worker threads when a file has been written. Raises
    WeightsError when the model is not whole or `layout` is in use, OSError when writing fails.
    """
    files = model_files(source)
    _prepare(layout)
    shards = [path for path in files if path.endswith(SHARD_SUFFIX)]
    small = [path for path in files if not path.endswith(SHARD_SUFFIX)]

    def shard_layer(path: str) -> tuple[Descriptor, list[Entry]]:
        return _write_layer(source, layout, [path], progress)

    packed = map_in_threads(shard_layer, shards)
    entries = [entry for _, layer_entries in packed for entry in layer_entries]
    first, manifest = _write_first_layer(source, layout, small, entries, progress)
    layers = [first, *(descriptor for descriptor, _ in packed)]
    digest = _write_index(layout, layers)
    return PackedImage(digest, len(layers), manifest)


def _prepare(layout: Path) -> None:
    if layout.exists() and (not layout.is_dir() or any(layout.iterdir())):
        raise WeightsError(f"{layout} exists and is not empty; name a new directory")
    (layout / "blobs" / "sha256").mkdir(parents=True)
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')


def _write_layer(
    source: Path, layout: Path, paths: Sequence[str], progress: Progress
) -> tuple[Descriptor, list[Entry]]:
    with _LayerWriter(layout) as layer:
        entries = [layer.add_file(source / path, path) for path in paths]
        for entry in entries:
            progress(entry.path, entry.size)
    return layer.descriptor, entries


def _write_first_layer(
    source: Path, layout: Path, small: Sequence[str], shards: Iterable[Entry], progress: Progress
) -> tuple[Descriptor, Manifest]:
    """Small files and the manifest. It comes first in the image, but is written last, because
    the manifest holds the digests that were computed while the shards were copied."""
    with _LayerWriter(layout) as layer:
        entries = [layer.add_file(source / path, path) for path in small]
        manifest = Manifest.of([*entries, *shards])
        layer.add_bytes(MANIFEST_NAME, manifest.to_json())
    for entry in entries:
        progress(entry.path, entry.size)
    return layer.descriptor, manifest


class _LayerWriter:
    """A tar layer that is hashed while it is written and then named by its digest."""

    def __init__(self, layout: Path) -> None:
        self._blobs = layout / "blobs" / "sha256"
        self._folders: set[str] = set()
        self.descriptor: Descriptor = {}

    def __enter__(self) -> _LayerWriter:
        self._temporary = self._blobs / f"unfinished-{id(self):x}"
        self._file = self._temporary.open("xb", buffering=0)
        self._sink = _HashingSink(self._file)
        # PAX, because a shard can be larger than the 8 GiB that plain ustar can express.
        self._tar = tarfile.TarFile(
            fileobj=self._sink, mode="w", format=tarfile.PAX_FORMAT, copybufsize=COPY_BYTES
        )
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            self._file.close()
            self._temporary.unlink()
            return
        self._tar.close()
        self._file.close()
        digest = self._sink.digest.hexdigest()
        self._temporary.rename(self._blobs / digest)
        self.descriptor = {
            "mediaType": LAYER_TYPE,
            "digest": f"sha256:{digest}",
            "size": self._sink.tell(),
        }

    def add_file(self, path: Path, name: str) -> Entry:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            reader = _HashingSource(file)
            try:
                self._add(name, size, reader)
            except OSError as error:
                raise WeightsError(f"{path}: {error}; it changed while it was packed?") from error
        return Entry(name, size, reader.digest.hexdigest())

    def add_bytes(self, name: str, content: bytes) -> None:
        self._add(name, len(content), io.BytesIO(content))

    def _add(self, name: str, size: int, content: _Readable) -> None:
        for folder in reversed(PurePosixPath(name).parents):
            self._add_folder(folder.as_posix())
        info = tarfile.TarInfo(name)
        info.size = size
        info.mode = 0o444
        self._tar.addfile(info, cast(IO[bytes], content))

    def _add_folder(self, name: str) -> None:
        """Without an entry of its own a folder gets whatever mode the unpacker likes."""
        if name == "." or name in self._folders:
            return
        info = tarfile.TarInfo(name)
        info.type = tarfile.DIRTYPE
        info.mode = 0o555
        self._tar.addfile(info)
        self._folders.add(name)


class _Readable(Protocol):
    """All that tarfile needs of a source."""

    def read(self, size: int, /) -> bytes: ...


class _HashingSink(io.RawIOBase):
    def __init__(self, file: IO[bytes] | io.RawIOBase) -> None:
        self._file = file
        self._written = 0
        self.digest = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self.digest.update(view)
        # An unbuffered file may take less than it is given.
        while view:
            count = self._file.write(view) or 0
            self._written += count
            view = view[count:]
        return len(data)


class _HashingSource:
    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int, /) -> bytes:
        data = self._file.read(size)
        self.digest.update(data)
        return data


def _write_index(layout: Path, layers: list[Descriptor]) -> str:
    manifests = []
    for architecture in ARCHITECTURES:
        config = {
            "architecture": architecture,
            "os": "linux",
            "config": {},
            # The digest of an uncompressed layer is its diff id.
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": _write_json(layout, CONFIG_TYPE, config),
            "layers": layers,
        }
        descriptor = _write_json(layout, MANIFEST_TYPE, manifest)
        manifests.append(descriptor | {"platform": {"architecture": architecture, "os": "linux"}})
    index = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": manifests}
    descriptor = _write_json(layout, INDEX_TYPE, index)
    # The layout's own index names one image; with more, pushing tools ask which one is meant.
    outer = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [descriptor]}
    (layout / "index.json").write_text(json.dumps(outer))
    return str(descriptor["digest"])


def _write_json(layout: Path, media_type: str, document: dict[str, Any]) -> Descriptor:
    content = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    digest = hashlib.sha256(content).hexdigest()
    (layout / "blobs" / "sha256" / digest).write_bytes(content)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

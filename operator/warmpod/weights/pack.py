"""A model directory becomes an image in an OCI layout directory.

The digest depends on nothing except the files: names are sorted, times are 0, owners are root,
modes are fixed. One layer a shard lets a registry client transfer shards in parallel and again one
by one. Layers are plain tar: weights do not compress, and a node unpacks plain tar at the speed of
its disk.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from warmpod.weights import manifest as manifests
from warmpod.weights.findings import WeightsError
from warmpod.weights.hashing import map_in_threads, sha256_of
from warmpod.weights.image import (
    INDEX_TYPE,
    Descriptor,
    Document,
    ImageDocuments,
    layer_descriptor,
    weights_documents,
)
from warmpod.weights.layer import Layer, layer_of
from warmpod.weights.manifest import (
    MANIFEST_NAME,
    Entry,
    Manifest,
    check_promised,
    model_files,
)

SHARD_SUFFIX = ".safetensors"
# Other files of this many bytes get a layer of their own too: shards of other formats.
LARGE_BYTES = 64 * 1024 * 1024

Progress = Callable[[str, int], None]
Patterns = Sequence[str]


@dataclass(frozen=True)
class PackedImage:
    """What was written: the digest a registry will show, layers, and bytes of model files."""

    digest: str
    layers: int
    manifest: Manifest


@dataclass(frozen=True)
class Model:
    """A model directory, and how its files go into layers."""

    source: Path
    shards: tuple[str, ...]
    small: tuple[str, ...]

    @classmethod
    def of(cls, source: Path, include: Patterns = (), exclude: Patterns = ()) -> Model:
        """Raises WeightsError when the model is not whole. Patterns as in `is_wanted`."""
        files = [path for path in model_files(source) if is_wanted(path, include, exclude)]
        if not files:
            raise WeightsError(f"{source}: the patterns leave no file of the model")
        shards = tuple(path for path in files if _is_shard(source, path))
        return cls(source, shards, tuple(path for path in files if path not in shards))

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum((self.source / path).stat().st_size for path in (*self.shards, *self.small))

    def shard_layer(self, path: str) -> Layer:
        return layer_of(self.source, [path])

    def first_layer(self, shards: Iterable[Entry]) -> tuple[Layer, Manifest]:
        """Small files and the manifest. It comes first in the image, but is made last, because
        the manifest holds the digests that were computed while the shards were read. Raises
        WeightsError when they are not those of a manifest that lies beside the files."""
        manifest = Manifest.of([*map(self._entry, self.small), *shards])
        check_promised(manifests.read(self.source), manifest.files)
        content = {MANIFEST_NAME: manifest.to_json()}
        return layer_of(self.source, self.small, content), manifest

    def _entry(self, path: str) -> Entry:
        file = self.source / path
        return Entry(path, file.stat().st_size, sha256_of(file))


def check_same(manifest: Manifest, written: Iterable[Entry]) -> None:
    """Raises WeightsError when a small file is in its layer with other content than the manifest
    says: it is read once for each, and such an image would be refused by every node."""
    listed = set(manifest.files)
    for entry in written:
        if entry not in listed:
            raise WeightsError(f"{entry.path}: it changed while it was packed; pack again")


def is_wanted(path: str, include: Patterns, exclude: Patterns) -> bool:
    """Patterns as Hugging Face's clients take them: `*` goes across folders, a pattern that ends
    in `/` means everything below. No `include` means all."""

    def fits(patterns: Patterns) -> bool:
        return any(fnmatchcase(path, p + "*" if p.endswith("/") else p) for p in patterns)

    return (not include or fits(include)) and not fits(exclude)


def _is_shard(source: Path, path: str) -> bool:
    return path.endswith(SHARD_SUFFIX) or (source / path).stat().st_size >= LARGE_BYTES


def pack(source: Path, layout: Path, progress: Progress = lambda path, size: None) -> PackedImage:
    """`pack_model` of a whole directory."""
    return pack_model(Model.of(source), layout, progress)


def pack_model(model: Model, layout: Path, progress: Progress) -> PackedImage:
    """Write an image into the new or empty directory `layout`.

    `progress(path, bytes)` is called from worker threads when a file has been written. Raises
    WeightsError when a file changes meanwhile or `layout` is in use, OSError when writing fails.
    """
    _prepare(layout)

    def shard_layer(path: str) -> tuple[Descriptor, list[Entry]]:
        return _write_layer(layout, model.shard_layer(path), progress)

    packed = map_in_threads(shard_layer, model.shards)
    shards = [entry for _, entries in packed for entry in entries]
    first, manifest = model.first_layer(shards)
    descriptor, small = _write_layer(layout, first, progress)
    check_same(manifest, small)
    layers = [descriptor, *(descriptor for descriptor, _ in packed)]
    digest = _write_documents(layout, weights_documents(layers, manifest.digest))
    return PackedImage(digest, len(layers), manifest)


def _prepare(layout: Path) -> None:
    if layout.exists() and (not layout.is_dir() or any(layout.iterdir())):
        raise WeightsError(f"{layout} exists and is not empty; name a new directory")
    _blobs(layout).mkdir(parents=True)
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')


def _blobs(layout: Path) -> Path:
    return layout / "blobs" / "sha256"


def _write_layer(layout: Path, layer: Layer, progress: Progress) -> tuple[Descriptor, list[Entry]]:
    """It is hashed while it is written and then named by its digest."""
    temporary = _blobs(layout) / f"unfinished-{id(layer):x}"
    try:
        with temporary.open("xb") as file:
            digest, entries = layer.digest(file.write)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    temporary.rename(_blobs(layout) / digest.removeprefix("sha256:"))
    for entry in entries:
        progress(entry.path, entry.size)
    return layer_descriptor(digest, layer.size), entries


def _write_documents(layout: Path, image: ImageDocuments) -> str:
    for document in (*image.configs, *image.manifests, image.index):
        _write_document(layout, document)
    # The layout's own index names one image; with more, pushing tools ask which one is meant.
    outer = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [image.index.descriptor]}
    (layout / "index.json").write_text(json.dumps(outer))
    return image.index.digest


def _write_document(layout: Path, document: Document) -> None:
    (_blobs(layout) / document.digest.removeprefix("sha256:")).write_bytes(document.content)

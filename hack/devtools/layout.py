"""OCI layouts: making their layers smaller, and keeping those of a base as they are."""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devtools.steps import StepError, run

PLAIN = "application/vnd.oci.image.layer.v1.tar"
ZSTD = f"{PLAIN}+zstd"
GZIP = f"{PLAIN}+gzip"
DOCKER_GZIP = "application/vnd.docker.image.rootfs.diff.tar.gzip"
_FLAGS = {ZSTD: ("-1",), GZIP: ("--format=gzip", "-6")}

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class Layer:
    """What a node pulls, and the step that made it."""

    size: int
    made_by: str


def compress(layout: Path) -> None:
    """Compresses the layers of the layout's one image.

    The level is low: that takes seconds where gzip takes a minute, and it is
    still faster to pull than plain layers.
    """
    manifest = _manifest(layout)
    manifest["layers"] = [_compressed(layout, layer) for layer in manifest["layers"]]
    _replace_manifest(layout, manifest)


def graft(layout: Path, base: Path) -> None:
    """Gives an image of plain layers those of its base as they are in the base's own layout, and
    compresses the others.

    A builder unpacks a base and packs it again, and the result is another layer for every node and
    registry that has the base. Compressed by gzip, which all that pulls lazily can read.
    """
    below, manifest = _manifest(base), _manifest(layout)
    count = len(below["layers"])
    diffs, below_diffs = (config_of(place)["rootfs"]["diff_ids"] for place in (layout, base))
    if diffs[:count] != below_diffs:
        raise StepError(f"{layout} is not built on {base}")
    for layer in below["layers"]:
        target = _blob(layout, layer["digest"])
        if not target.exists():
            os.link(_blob(base, layer["digest"]), target)
    kept = {layer["digest"] for layer in below["layers"]}
    for layer in manifest["layers"][:count]:
        if layer["digest"] not in kept:
            _blob(layout, layer["digest"]).unlink(missing_ok=True)
    above = [_compressed(layout, layer, GZIP) for layer in manifest["layers"][count:]]
    manifest["layers"] = [_as_oci(layer) for layer in below["layers"]] + above
    _replace_manifest(layout, manifest)


def layers_of(layout: Path) -> list[Layer]:
    """The layers of the layout's one image, the lowest first."""
    sizes = [layer["size"] for layer in _manifest(layout)["layers"]]
    history = [step for step in config_of(layout).get("history", []) if not step.get("empty_layer")]
    steps = [step.get("created_by", "") for step in history] + [""] * len(sizes)
    return [Layer(size, step) for size, step in zip(sizes, steps, strict=False)]


def config_of(layout: Path) -> JsonObject:
    """The configuration of the layout's one image."""
    digest = _manifest(layout)["config"]["digest"]
    config: JsonObject = json.loads(_blob(layout, digest).read_text())
    return config


def manifest_digest(layout: Path) -> str:
    """The digest by which a registry knows the layout's one image."""
    return str(_entry(layout)["digest"])


def _entry(layout: Path) -> JsonObject:
    index = json.loads((layout / "index.json").read_text())
    if len(index["manifests"]) != 1:
        raise StepError(f"{layout}: expected one image, found {len(index['manifests'])}")
    entry: JsonObject = index["manifests"][0]
    return entry


def _manifest(layout: Path) -> JsonObject:
    manifest: JsonObject = json.loads(_blob(layout, manifest_digest(layout)).read_text())
    return manifest


def _replace_manifest(layout: Path, manifest: JsonObject) -> None:
    entry = _entry(layout)
    _blob(layout, entry["digest"]).unlink()
    content = json.dumps(manifest, sort_keys=True).encode()
    entry |= {"digest": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content)}
    _blob(layout, entry["digest"]).write_bytes(content)
    index = json.loads((layout / "index.json").read_text())
    (layout / "index.json").write_text(json.dumps(index | {"manifests": [entry]}))


def _as_oci(layer: JsonObject) -> JsonObject:
    """The same bytes under the name that they have in an OCI manifest."""
    return layer | {"mediaType": GZIP} if layer["mediaType"] == DOCKER_GZIP else layer


def _compressed(layout: Path, layer: JsonObject, kind: str = ZSTD) -> JsonObject:
    if layer["mediaType"] != PLAIN:
        return layer
    plain = _blob(layout, layer["digest"])
    unfinished = plain.with_suffix(".new")
    run("zstd", *_FLAGS[kind], "--quiet", "--force", "-T0", plain, "-o", unfinished)
    with unfinished.open("rb") as file:
        digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    size = unfinished.stat().st_size
    os.replace(unfinished, _blob(layout, digest))
    plain.unlink()
    return {"mediaType": kind, "digest": digest, "size": size}


def _blob(layout: Path, digest: str) -> Path:
    return layout / "blobs" / digest.replace(":", "/")

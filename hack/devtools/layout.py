"""OCI layouts: making their layers smaller."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from devtools.steps import StepError, run

PLAIN = "application/vnd.oci.image.layer.v1.tar"
ZSTD = f"{PLAIN}+zstd"

JsonObject = dict[str, Any]


def compress(layout: Path) -> None:
    """Compresses the layers of the layout's one image.

    The level is low: that takes seconds where gzip takes a minute, and it is
    still faster to pull than plain layers.
    """
    index = json.loads((layout / "index.json").read_text())
    if len(index["manifests"]) != 1:
        raise StepError(f"{layout}: expected one image, found {len(index['manifests'])}")
    (entry,) = index["manifests"]
    old = _blob(layout, entry["digest"])
    manifest = json.loads(old.read_text())
    manifest["layers"] = [_compressed(layout, layer) for layer in manifest["layers"]]
    old.unlink()
    content = json.dumps(manifest, sort_keys=True).encode()
    entry |= {"digest": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content)}
    _blob(layout, entry["digest"]).write_bytes(content)
    (layout / "index.json").write_text(json.dumps(index))


def _compressed(layout: Path, layer: JsonObject) -> JsonObject:
    if layer["mediaType"] != PLAIN:
        return layer
    plain = _blob(layout, layer["digest"])
    unfinished = plain.with_suffix(".zst")
    run("zstd", "--quiet", "--force", "-1", "-T0", plain, "-o", unfinished)
    with unfinished.open("rb") as file:
        digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    size = unfinished.stat().st_size
    os.replace(unfinished, _blob(layout, digest))
    plain.unlink()
    return {"mediaType": ZSTD, "digest": digest, "size": size}


def _blob(layout: Path, digest: str) -> Path:
    return layout / "blobs" / digest.replace(":", "/")

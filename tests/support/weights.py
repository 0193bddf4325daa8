"""Small weight images for tests, with a manifest and two shards."""

from __future__ import annotations

import hashlib
import json

from support.images import File

Files = dict[str, File]

SHARDS = {
    f"model-0000{number}-of-00002.safetensors": bytes([number]) * 300_000 for number in (1, 2)
}
LAST = "model-00002-of-00002.safetensors"


def good_weights(note: str = "") -> Files:
    """Another note makes another image."""
    return _with_manifest(SHARDS, note)


def big_weights(mebibytes: int, note: str = "") -> Files:
    """The same with shards of so many MiB together: what is done with them takes a while."""
    half = mebibytes * 1024**2 // 2
    return _with_manifest({path: content[:1] * half for path, content in SHARDS.items()}, note)


def _with_manifest(shards: dict[str, bytes], note: str) -> Files:
    index = {"metadata": {}, "weight_map": {f"tensor.{name}": name for name in shards}}
    contents = shards | {
        "config.json": json.dumps({"note": note}).encode(),
        "model.safetensors.index.json": json.dumps(index).encode(),
    }
    manifest = {
        "version": 1,
        "files": [
            {"path": path, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for path, content in sorted(contents.items())
        ],
    }
    files = {path: File(content) for path, content in contents.items()}
    return files | {"warmpod-manifest.json": File(json.dumps(manifest).encode())}

import json
import threading
from pathlib import Path

import pytest

from support.registry import Registry, serving
from unit.weights.models import SHARDS, make_model
from warmpod.registry.client import opened
from warmpod.registry.errors import RegistryError, Unreachable
from warmpod.weights.findings import WeightsError
from warmpod.weights.pack import Model, PackedImage, pack
from warmpod.weights.push import FIRST_LAYER, push


class Seen:
    def __init__(self) -> None:
        self.layers: dict[str, bool] = {}
        self.bytes_read = 0
        self.bytes_sent = 0
        self.lock = threading.Lock()

    def read(self, count: int) -> None:
        with self.lock:
            self.bytes_read += count

    def sent(self, count: int) -> None:
        self.bytes_sent += count

    def layer(self, name: str, size: int, pushed: bool) -> None:
        self.layers[name] = pushed


async def pushed(
    registry: Registry, directory: Path, seen: Seen | None = None, tag: str = "1.0"
) -> PackedImage:
    async with opened(f"{registry.host}/m/x:{tag}", None, "pull,push", (0.0, 0.0)) as client:
        return await push(Model.of(directory), client, seen or Seen())


async def test_the_registry_holds_what_a_layout_would(tmp_path: Path) -> None:
    make_model(tmp_path / "model")
    layout = pack(tmp_path / "model", tmp_path / "layout")
    with serving() as registry:
        seen = Seen()
        image = await pushed(registry, tmp_path / "model", seen)
        assert image == layout
        stored = {
            path.name: path.read_bytes() for path in (tmp_path / "layout/blobs/sha256").iterdir()
        }
        blobs = {digest.removeprefix("sha256:"): blob for digest, blob in registry.blobs.items()}
        documents = {
            which.removeprefix("sha256:"): content
            for which, (_, content) in registry.manifests.items()
            if which != "1.0"
        }
        assert blobs | documents == stored
        assert registry.manifests["1.0"] == registry.manifests[image.digest]
    assert seen.layers == {**dict.fromkeys(SHARDS, True), FIRST_LAYER: True}
    assert seen.bytes_read == image.manifest.size


async def test_what_is_there_is_not_sent_again(tmp_path: Path) -> None:
    make_model(tmp_path / "model")
    with serving() as registry:
        first = await pushed(registry, tmp_path / "model")
        received = registry.received
        (tmp_path / "model" / SHARDS[1]).write_bytes(b"\x07" * 9000)
        seen = Seen()
        second = await pushed(registry, tmp_path / "model", seen, tag="2.0")
        assert second.digest != first.digest
        assert seen.layers == {SHARDS[0]: False, SHARDS[1]: True, FIRST_LAYER: True}
        assert registry.received < 2 * received


async def test_the_tag_comes_last(tmp_path: Path) -> None:
    make_model(tmp_path / "model")
    with serving() as registry:
        await pushed(registry, tmp_path / "model")
        writes = [
            request for request in registry.requests if not request.startswith(("GET", "HEAD"))
        ]
        assert writes[-1].endswith("/manifests/1.0")


async def test_a_registry_that_fails_ends_the_push_without_a_tag(tmp_path: Path) -> None:
    make_model(tmp_path / "model")
    with serving() as registry:
        registry.faults.cut_after = [0] * 1000
        with pytest.raises(Unreachable, match="gave up"):
            await pushed(registry, tmp_path / "model")
        assert registry.manifests == {}


async def test_a_file_that_changes_between_hashing_and_sending(tmp_path: Path) -> None:
    make_model(tmp_path / "model")

    class Spoiler(Seen):
        def read(self, count: int) -> None:
            # The first layer that is made: its size is known by now.
            (tmp_path / "model" / SHARDS[0]).write_bytes(b"short")

    with serving() as registry:
        with pytest.raises(WeightsError, match="its size changed"):
            await pushed(registry, tmp_path / "model", Spoiler())
        assert registry.manifests == {}


async def test_a_registry_that_rewrites_manifests_is_found_out(tmp_path: Path) -> None:
    make_model(tmp_path / "model")
    with serving() as registry:
        original = registry.put_manifest

        def rewritten(which: str, media_type: str, content: bytes) -> str:
            return original(which, media_type, json.dumps(json.loads(content)).encode())

        registry.put_manifest = rewritten  # type: ignore[method-assign]
        with pytest.raises(RegistryError, match="other content"):
            await pushed(registry, tmp_path / "model")

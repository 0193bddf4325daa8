import json
import threading
from pathlib import Path

import pytest

from support.registry import Registry, serving
from unit.weights.models import SHARDS, make_model
from warmpod.registry.client import opened
from warmpod.registry.credentials import Credential
from warmpod.registry.errors import Denied, RegistryError, Unreachable
from warmpod.weights.findings import WeightsError
from warmpod.weights.layer import layer_of
from warmpod.weights.pack import Model, PackedImage, pack
from warmpod.weights.push import FIRST_LAYER, check_push, push, push_layers


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


async def test_an_image_of_any_layers(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(name.encode() * 9000)
    layers = {name: layer_of(tmp_path, [name]) for name in ("a", "b")}
    with serving() as registry:
        seen = Seen()
        async with opened(f"{registry.host}/m/x:1.0", None, "pull,push", ()) as client:
            digest = await push_layers(layers, client, seen)
        index = json.loads(registry.manifests["1.0"][1])
        assert registry.manifests["1.0"] == registry.manifests[digest]
        for entry in index["manifests"]:
            manifest = json.loads(registry.manifests[entry["digest"]][1])
            found = [layer["digest"] for layer in manifest["layers"]]
            assert found == [layer.digest()[0] for layer in layers.values()]
            assert manifest["annotations"] == {}
    assert seen.layers == {"a": True, "b": True}


async def test_whether_anything_can_be_pushed() -> None:
    with serving({"me": "secret"}) as registry:
        reference = f"{registry.host}/m/x:1.0"
        async with opened(reference, None, "pull,push", ()) as client:
            with pytest.raises(Denied):
                await check_push(client)
        async with opened(reference, Credential("me", "secret"), "pull,push", ()) as client:
            await check_push(client)
        assert registry.manifests == {}

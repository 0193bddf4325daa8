"""`warmpod pack` into a registry: whole, again, cut, killed, and refused."""

from __future__ import annotations

import base64
import json
import random
import signal
from pathlib import Path

import pytest
from cutting_proxy import proxied
from pack_process import SHARD_BYTES, SHARDS, Pack, finished

from support.crane import CraneRegistry, crane, pulled
from support.registry import serving
from warmpod.weights.manifest import MANIFEST_NAME
from warmpod.weights.pack import pack as pack_layout

TOTAL = SHARDS * SHARD_BYTES


@pytest.fixture(scope="session")
def layout(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    layout = tmp_path_factory.mktemp("layout") / "oci"
    pack_layout(model, layout)
    return layout


@pytest.fixture(scope="session")
def digest(layout: Path) -> str:
    """What the image has to be, however it got into the registry."""
    return str(json.loads((layout / "index.json").read_text())["manifests"][0]["digest"])


def files_of(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def assert_whole(reference: str, digest: str, model: Path, folder: Path) -> None:
    assert crane("digest", reference).decode().strip() == digest
    with pulled(reference, folder) as files:
        files.pop(MANIFEST_NAME)
        assert files == files_of(model)


def test_what_is_pulled_is_what_was_packed(
    registry: CraneRegistry, pack: Pack, model: Path, layout: Path, digest: str, tmp_path: Path
) -> None:
    reference = f"{registry.host}/models/x:1.0"
    status, output, errors = finished(pack(model, reference))
    assert status == 0, errors
    assert output == f"{reference}@{digest}\n"
    assert f"      image: {reference}@{digest}\n" in errors
    assert_whole(reference, digest, model, tmp_path)
    crane("pull", "--format=oci", reference, str(tmp_path / "oci"))
    blobs = "blobs/sha256"
    assert files_of(tmp_path / "oci" / blobs) == files_of(layout / blobs)


def test_the_second_push_sends_nothing(registry: CraneRegistry, pack: Pack, model: Path) -> None:
    assert finished(pack(model, f"{registry.host}/models/x:1.0"))[0] == 0
    with proxied(registry.host) as proxy:
        status, _, errors = finished(pack(model, f"{proxy.host}/models/x:2.0"))
        assert status == 0, errors
        assert proxy.count < SHARD_BYTES
    assert errors.count("is there already") == SHARDS + 1


@pytest.mark.parametrize("seed", range(3))
def test_cut_connections(
    registry: CraneRegistry, pack: Pack, model: Path, digest: str, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    with proxied(registry.host) as proxy:
        proxy.cut_at = sorted(chance.randint(0, TOTAL) for _ in range(3))
        status, _, errors = finished(pack(model, f"{proxy.host}/models/x:1.0"))
        assert status == 0, errors
        assert proxy.cuts == 3
    assert_whole(f"{registry.host}/models/x:1.0", digest, model, tmp_path)


def test_killed_again_and_again(
    registry: CraneRegistry, pack: Pack, model: Path, digest: str, tmp_path: Path
) -> None:
    chance = random.Random(3)
    for _ in range(3):
        with proxied(registry.host) as proxy:
            proxy.hold_at = chance.randint(0, TOTAL // 2)
            process = pack(model, f"{proxy.host}/models/x:1.0")
            assert proxy.held.wait(60)
            process.kill()
            process.wait()
    reference = f"{registry.host}/models/x:1.0"
    status, _, errors = finished(pack(model, reference))
    assert status == 0, errors
    assert_whole(reference, digest, model, tmp_path)


def test_complete_layers_survive_a_killed_push(
    registry: CraneRegistry, pack: Pack, model: Path
) -> None:
    with proxied(registry.host) as proxy:
        # Four shards go at a time, so the sixth begins when two are there.
        proxy.hold_at = TOTAL - SHARD_BYTES // 2
        process = pack(model, f"{proxy.host}/models/x:1.0")
        assert proxy.held.wait(60)
        process.kill()
        process.wait()
    _, _, errors = finished(pack(model, f"{registry.host}/models/x:1.0"))
    assert errors.count("is there already") >= 2


def test_a_registry_that_is_killed_meanwhile(
    registry: CraneRegistry, pack: Pack, model: Path, digest: str, tmp_path: Path
) -> None:
    with proxied(registry.host) as proxy:
        proxy.hold_at = TOTAL // 2
        process = pack(model, f"{proxy.host}/models/x:1.0")
        assert proxy.held.wait(60)
        registry.stop()
        proxy.release()
        registry.start()
        status, _, errors = finished(process)
    assert status == 0, errors
    assert_whole(f"{registry.host}/models/x:1.0", digest, model, tmp_path)


@pytest.mark.parametrize("tokens", [False, True])
def test_a_registry_with_a_password(pack: Pack, model: Path, tmp_path: Path, tokens: bool) -> None:
    with serving({"me": "secret"}, tokens) as registry:
        reference = f"{registry.host}/models/x:1.0"
        status, output, errors = finished(pack(model, reference))
        assert (status, output) == (1, "")
        assert f"docker login {registry.host}" in errors
        login(tmp_path / "docker", registry.host, "me:secret")
        status, output, errors = finished(pack(model, reference))
        assert status == 0, errors
        assert output.startswith(f"{reference}@sha256:")


def login(folder: Path, host: str, pair: str) -> None:
    folder.mkdir(exist_ok=True)
    auth = base64.b64encode(pair.encode()).decode()
    (folder / "config.json").write_text(json.dumps({"auths": {host: {"auth": auth}}}))


def test_an_interrupt_ends_it_at_once(registry: CraneRegistry, pack: Pack, model: Path) -> None:
    with proxied(registry.host) as proxy:
        proxy.hold_at = TOTAL // 2
        process = pack(model, f"{proxy.host}/models/x:1.0")
        assert proxy.held.wait(60)
        process.send_signal(signal.SIGINT)
        status, output, errors = finished(process)
    assert status != 0
    assert output == ""
    assert "Traceback" not in errors


def test_a_layout_is_still_written(pack: Pack, model: Path, digest: str, tmp_path: Path) -> None:
    status, output, errors = finished(pack(model, f"oci:{tmp_path}/layout"))
    assert status == 0, errors
    assert digest in output

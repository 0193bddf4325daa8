"""`warmpod cache push`: from the nodes through a WebSocket into a real registry."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cache_scene import Scene

from support.compile_caches import SIZES, publish
from support.crane import CraneRegistry, crane, pulled
from support.registry import serving
from warmpod.compilecache import entry as entries


def expected(*found: entries.Entry) -> dict[str, bytes]:
    return {
        f"published/{entry.key}/{path.relative_to(entry.directory)}": path.read_bytes()
        for entry in found
        for path in entry.directory.rglob("*")
        if path.is_file()
    }


def pushed(scene: Scene, reference: str, *options: str) -> tuple[str, str]:
    """The digest, and what was said."""
    status, output, errors = scene.run("push", "tiny", reference, *options)
    assert status == 0, errors
    image, _, digest = output.strip().partition("@")
    assert image == reference
    assert f"      image: {reference}@{digest}\n" in errors
    return digest, errors


def test_the_image_holds_what_the_nodes_published(
    scene: Scene, registry: CraneRegistry, tmp_path: Path
) -> None:
    one = publish(scene.add_node("n1"), driver="1.2")
    other = publish(scene.add_node("n2"))
    reference = f"{registry.host}/caches/tiny:1.0"
    digest, errors = pushed(scene, reference)
    assert crane("digest", reference).decode().strip() == digest
    assert f"entry {one.key}" in errors
    with pulled(reference, tmp_path) as files:
        assert files == expected(one, other)


def test_what_the_registry_has_is_not_sent_again(scene: Scene, registry: CraneRegistry) -> None:
    root = scene.add_node("n1")
    first = publish(root)
    digest, _ = pushed(scene, f"{registry.host}/caches/tiny:1.0")
    again, errors = pushed(scene, f"{registry.host}/caches/tiny:2.0")
    assert again == digest
    assert f"is there already: {first.key}" in errors
    second = publish(root, driver="1.2")
    more, errors = pushed(scene, f"{registry.host}/caches/tiny:3.0")
    assert more != digest
    assert f"is there already: {first.key}" in errors
    assert f"pushed {second.key}" in errors


def test_the_digest_is_that_of_the_entries_alone(scene: Scene, registry: CraneRegistry) -> None:
    one = scene.add_node("n1")
    publish(one, created=5)
    publish(one, driver="1.2")
    digest, _ = pushed(scene, f"{registry.host}/caches/tiny:1.0")
    # The same on another node, beside a later entry of the same key, from files of other times.
    other = scene.add_node("n0")
    shutil.copytree(one, other, dirs_exist_ok=True, copy_function=shutil.copyfile)
    shutil.rmtree(one)
    publish(one, created=9, seed=2)
    assert pushed(scene, f"{registry.host}/caches/tiny:2.0")[0] == digest


def test_one_entry_is_chosen(scene: Scene, registry: CraneRegistry, tmp_path: Path) -> None:
    root = scene.add_node("n1")
    wanted, _ = publish(root), publish(root, driver="1.2")
    reference = f"{registry.host}/caches/tiny:1.0"
    pushed(scene, reference, "--key", wanted.key[:8])
    with pulled(reference, tmp_path) as files:
        assert files == expected(wanted)


def test_a_cut_connection_pushes_nothing(scene: Scene, registry: CraneRegistry) -> None:
    publish(scene.add_node("n1"))
    scene.server.cut_after = sum(SIZES.values()) // 2
    reference = f"{registry.host}/caches/tiny:1.0"
    status, output, errors = scene.run("push", "tiny", reference)
    assert (status, output) == (1, "")
    assert "container agent of pod demo/n1: the connection was cut; try again" in errors
    assert b"tiny" not in crane("catalog", registry.host)


def test_a_damaged_entry_is_found_out(scene: Scene, registry: CraneRegistry) -> None:
    entry = publish(scene.add_node("n1"))
    path = entry.directory / "files/vllm/a/model"
    path.write_bytes(bytes(path.stat().st_size))
    status, output, errors = scene.run("push", "tiny", f"{registry.host}/caches/tiny:1.0")
    assert (status, output) == (1, "")
    assert "vllm/a/model is not what was stored; try again, and if it stays so, remove" in errors


def test_no_login(scene: Scene) -> None:
    publish(scene.add_node("n1"))
    with serving({"me": "secret"}) as private:
        status, _, errors = scene.run("push", "tiny", f"{private.host}/caches/tiny:1.0")
        assert status == 1
        assert f"docker login {private.host}" in errors


@pytest.mark.parametrize(
    ("reference", "says"),
    [("tiny:1.0", "begins with its registry"), ("./tiny", "name a registry, as in")],
)
def test_what_is_no_registry(scene: Scene, reference: str, says: str) -> None:
    status, _, errors = scene.run("push", "tiny", reference)
    assert status == 1
    assert says in errors
    assert scene.server.commands == []

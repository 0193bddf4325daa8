"""The chain from a key to the files in a directory, each link of it cut once."""

import asyncio
import base64
import json
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from support import signing
from support.registry import Registry, serving
from unit.weights.models import SHARDS, make_model
from warmpod.agent.config import AgentConfig
from warmpod.agent.progress import Cancelled, Progress
from warmpod.agent.sets import Copies, place
from warmpod.agent.sources import signed_image
from warmpod.agent.sources.signature import ASK_SECONDS, SignatureCheck
from warmpod.agent.sources.signed_image import Wanted
from warmpod.reasons import SIGNATURE_INVALID, SIGNATURE_MISSING, SIGNATURE_UNCHECKED
from warmpod.registry.client import opened
from warmpod.weights import manifest as manifests
from warmpod.weights.findings import Finding
from warmpod.weights.hashing import Watch, unwatched
from warmpod.weights.image import INDEX_TYPE
from warmpod.weights.pack import Model, PackedImage
from warmpod.weights.push import push
from warmpod.weights.signature import PublicKey

REPOSITORY = "models/x"


class Quiet:
    def read(self, count: int) -> None: ...
    def sent(self, count: int) -> None: ...
    def layer(self, name: str, size: int, pushed: bool) -> None: ...


class Image:
    """A model that was pushed, and how a node sees it."""

    def __init__(self, registry: Registry, folder: Path) -> None:
        self.registry = registry
        self.source = make_model(folder / "source")
        self.mounted = folder / "mounted"
        self.state = folder / "state"
        self.state.mkdir()
        self.key = signing.Key()
        self.now = 0.0
        self.watch: Watch = unwatched

    async def push(self, tag: str = "1.0") -> PackedImage:
        reference = f"{self.registry.host}/{REPOSITORY}:{tag}"
        async with opened(reference, None, "pull,push", (0.0,)) as client:
            packed = await push(Model.of(self.source), client, Quiet())
        shutil.rmtree(self.mounted, ignore_errors=True)
        shutil.copytree(self.source, self.mounted)
        (self.mounted / manifests.MANIFEST_NAME).write_bytes(packed.manifest.to_json())
        return packed

    def sign(self, digest: str, key: signing.Key | None = None) -> None:
        signing.sign(key or self.key, self.registry.host, REPOSITORY, digest)

    def checker(self, pull_secrets: tuple[Path, ...] = (), suffix: str = ":1.0") -> SignatureCheck:
        image = f"{self.registry.host}/{REPOSITORY}{suffix}"
        return SignatureCheck(
            Wanted(image, self.key.pem, pull_secrets), self.state, self.watch, lambda: self.now
        )

    def look(self, **given: object) -> Finding | None:
        return self.checker(**given).look(self.mounted)  # type: ignore[arg-type]


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Image]:
    monkeypatch.setattr(signed_image, "DELAYS", (0.0,))
    with serving() as registry:
        yield Image(registry, tmp_path)


def reason(finding: Finding | None) -> str | None:
    return finding.reason if finding else None


async def in_thread(image: Image, **given: object) -> Finding | None:
    """As in the agent: the caller's thread has no event loop."""
    return await asyncio.to_thread(lambda: image.look(**given))


async def test_a_signed_index(image: Image) -> None:
    packed = await image.push()
    image.sign(packed.digest)
    assert await in_thread(image) is None
    assert await in_thread(image, suffix=f"@{packed.digest}") is None


async def test_a_signature_of_cosign_3(image: Image) -> None:
    packed = await image.push()
    signing.sign_with_bundle(image.key, image.registry.host, REPOSITORY, packed.digest)
    assert await in_thread(image) is None


async def test_a_provenance_is_no_signature(image: Image) -> None:
    packed = await image.push()
    host = image.registry.host
    signing.sign_with_bundle(
        image.key, host, REPOSITORY, packed.digest, "https://slsa.dev/provenance/v1"
    )
    assert reason(await in_thread(image)) == SIGNATURE_INVALID


async def test_one_good_signature_among_others(image: Image) -> None:
    packed = await image.push()
    image.sign(packed.digest, signing.Key())
    signing.sign_with_bundle(image.key, image.registry.host, REPOSITORY, packed.digest)
    assert await in_thread(image) is None


async def test_not_signed(image: Image) -> None:
    packed = await image.push()
    finding = await in_thread(image)
    assert reason(finding) == SIGNATURE_MISSING
    name = f"{image.registry.host}/{REPOSITORY}@{packed.digest}"
    assert f"cosign sign --key cosign.key {name}" in str(finding)


async def test_signed_later(image: Image) -> None:
    packed = await image.push()
    checker = image.checker()
    assert reason(await asyncio.to_thread(checker.look, image.mounted)) == SIGNATURE_MISSING
    image.sign(packed.digest)
    assert reason(await asyncio.to_thread(checker.look, image.mounted)) == SIGNATURE_MISSING
    image.now += ASK_SECONDS
    assert await asyncio.to_thread(checker.look, image.mounted) is None


async def test_signed_with_another_key(image: Image) -> None:
    packed = await image.push()
    image.sign(packed.digest, signing.Key())
    finding = await in_thread(image)
    assert reason(finding) == SIGNATURE_INVALID
    assert "made with another key" in str(finding)


async def test_an_altered_signature(image: Image) -> None:
    packed = await image.push()
    image.sign(packed.digest)
    tag = packed.digest.replace(":", "-") + ".sig"
    media_type, content = image.registry.manifests[tag]
    document = json.loads(content)
    annotations = document["layers"][0]["annotations"]
    signature = bytearray(base64.b64decode(annotations["dev.cosignproject.cosign/signature"]))
    signature[-1] ^= 1
    annotations["dev.cosignproject.cosign/signature"] = base64.b64encode(signature).decode()
    image.registry.put_manifest(tag, media_type, json.dumps(document).encode())
    assert reason(await in_thread(image)) == SIGNATURE_INVALID


async def test_a_signature_copied_from_another_image(image: Image) -> None:
    first = await image.push()
    image.sign(first.digest)
    (image.source / SHARDS[0]).write_bytes(b"\x09" * 9000)
    second = await image.push()
    manifests_ = image.registry.manifests
    tag = "{}.sig"
    manifests_[tag.format(second.digest.replace(":", "-"))] = manifests_[
        tag.format(first.digest.replace(":", "-"))
    ]
    finding = await in_thread(image)
    assert reason(finding) == SIGNATURE_INVALID
    assert first.digest in str(finding)


async def test_the_signature_of_another_image_under_the_same_tag(image: Image) -> None:
    packed = await image.push()
    image.sign(packed.digest)
    (image.source / SHARDS[0]).write_bytes(b"\x09" * 9000)
    await image.push()
    assert reason(await in_thread(image)) == SIGNATURE_MISSING


async def test_a_node_with_the_files_of_another_signed_image(image: Image, tmp_path: Path) -> None:
    """The node has the files of the first one, the registry speaks of the second."""
    await image.push()
    shutil.move(image.mounted, tmp_path / "first")
    (image.source / SHARDS[0]).write_bytes(b"\x09" * 9000)
    packed = await image.push()
    image.sign(packed.digest)
    assert await in_thread(image) is None
    shutil.rmtree(image.mounted)
    shutil.move(tmp_path / "first", image.mounted)
    finding = await in_thread(image)
    assert reason(finding) == SIGNATURE_INVALID
    assert "the files here are not the signed ones" in str(finding)


async def test_an_altered_manifest_of_the_files(image: Image) -> None:
    packed = await image.push()
    image.sign(packed.digest)
    path = image.mounted / manifests.MANIFEST_NAME
    path.write_text(path.read_text().replace('"size": 9000', '"size": 9001', 1))
    assert reason(await in_thread(image)) == SIGNATURE_INVALID


@pytest.mark.parametrize("name", ["modeling.py", ".hidden", "original/new.json"])
async def test_a_file_more_than_was_signed(image: Image, name: str) -> None:
    """An engine may run what it finds beside the weights."""
    packed = await image.push()
    image.sign(packed.digest)
    (image.mounted / name).write_text("print()")
    finding = await in_thread(image)
    assert reason(finding) == SIGNATURE_INVALID
    assert name in str(finding)


async def test_an_image_without_a_manifest(image: Image) -> None:
    packed = await image.push()
    image.sign(packed.digest)
    (image.mounted / manifests.MANIFEST_NAME).unlink()
    finding = await in_thread(image)
    assert reason(finding) == SIGNATURE_INVALID
    assert "warmpod pack" in str(finding)


async def test_a_signed_image_that_says_nothing_about_its_files(image: Image) -> None:
    await image.push()
    content = json.dumps({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": []}).encode()
    image.sign(image.registry.put_manifest("1.0", INDEX_TYPE, content))
    finding = await in_thread(image)
    assert reason(finding) == SIGNATURE_INVALID
    assert "says nothing about its files" in str(finding)


async def test_a_platform_s_own_manifest_can_be_named_and_signed(image: Image) -> None:
    packed = await image.push()
    index = json.loads(image.registry.manifests[packed.digest][1])
    digest = index["manifests"][0]["digest"]
    image.sign(digest)
    assert await in_thread(image, suffix=f"@{digest}") is None


async def test_the_registry_is_not_needed_twice(image: Image) -> None:
    packed = await image.push()
    image.sign(packed.digest)
    assert await in_thread(image) is None
    image.registry.faults.statuses = [503] * 100
    before = len(image.registry.requests)
    assert await in_thread(image) is None
    assert len(image.registry.requests) == before
    image.key = signing.Key()
    assert reason(await in_thread(image)) == SIGNATURE_UNCHECKED


async def test_a_registry_that_is_down(image: Image) -> None:
    packed = await image.push()
    image.sign(packed.digest)
    image.registry.faults.statuses = [503] * 100
    finding = await in_thread(image)
    assert reason(finding) == SIGNATURE_UNCHECKED
    assert "a bad day" in str(finding)


@contextmanager
def silent(image: Image) -> Iterator[threading.Event]:
    """The registry takes connections and never answers; whether it was asked."""
    asked = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        image.registry.host = f"127.0.0.1:{server.getsockname()[1]}"

        taken: list[socket.socket] = []

        def listen() -> None:
            with suppress(OSError):
                connection, _ = server.accept()
                taken.append(connection)
                connection.recv(1)
                asked.set()

        thread = threading.Thread(target=listen)
        thread.start()
        yield asked
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    for connection in taken:
        connection.close()


async def test_a_registry_that_never_answers(image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    await image.push()
    monkeypatch.setattr(signed_image, "ANSWER_SECONDS", 0.1)
    with silent(image):
        finding = await in_thread(image)
    assert reason(finding) == SIGNATURE_UNCHECKED
    assert "no answer within" in str(finding)


async def test_an_agent_that_stops_does_not_wait_for_the_registry(image: Image) -> None:
    await image.push()
    with silent(image) as asked:
        progress = Progress()
        image.watch = progress.watch
        looking = asyncio.create_task(in_thread(image))
        assert await asyncio.to_thread(asked.wait, 20)
        progress.stop()
        with pytest.raises(Cancelled):
            await looking


async def test_an_image_that_the_registry_has_lost(image: Image) -> None:
    await image.push()
    image.registry.manifests.clear()
    assert reason(await in_thread(image)) == SIGNATURE_MISSING


async def test_a_key_that_is_none(image: Image) -> None:
    await image.push()
    wanted = Wanted(f"{image.registry.host}/{REPOSITORY}:1.0", "hello")
    finding = SignatureCheck(wanted, image.state, unwatched).look(image.mounted)
    assert reason(finding) == SIGNATURE_INVALID
    assert "spec.model.verify.publicKey" in str(finding)


def secret(folder: Path, host: str, pair: str) -> Path:
    folder.mkdir()
    auth = base64.b64encode(pair.encode()).decode()
    (folder / ".dockerconfigjson").write_text(json.dumps({"auths": {host: {"auth": auth}}}))
    return folder


@pytest.mark.parametrize("tokens", [False, True])
async def test_pull_secrets_are_tried_in_turn(image: Image, tmp_path: Path, tokens: bool) -> None:
    packed = await image.push()
    image.sign(packed.digest)
    image.registry.users, image.registry.tokens = {"me": "secret"}, tokens
    finding = await in_thread(image)
    assert reason(finding) == SIGNATURE_UNCHECKED
    assert "imagePullSecrets" in str(finding)
    wrong = secret(tmp_path / "0", image.registry.host, "me:wrong")
    right = secret(tmp_path / "1", image.registry.host, "me:secret")
    assert await in_thread(image, pull_secrets=(wrong, right)) is None


@pytest.mark.parametrize("medium", ["Image", "NodeMemory"])
async def test_the_agent_wants_a_signature_for_every_medium(
    image: Image, tmp_path: Path, medium: str
) -> None:
    packed = await image.push()
    verify = {"image": f"{image.registry.host}/{REPOSITORY}:1.0", "publicKey": image.key.pem}
    weights_set = {"name": "x", "source": str(image.mounted), "key": "k", "verify": verify}
    config = AgentConfig.from_document(
        {
            "model": "x",
            "model_uid": "u",
            "medium": medium,
            "sets": [weights_set],
            "node_root": str(tmp_path / "node"),
            "state_dir": str(image.state),
        }
    )

    def prepared() -> tuple[Finding, ...]:
        weights = place(config, config.sets[0], Copies.of(config), unwatched)
        return (weights.survey().findings and weights.prepare(Progress()).findings) or ()

    (finding,) = await asyncio.to_thread(prepared)
    assert finding.reason == SIGNATURE_MISSING
    assert not list((tmp_path / "node").rglob("*.safetensors"))
    image.sign(packed.digest)
    assert await asyncio.to_thread(prepared) == ()


LAYER = {"mediaType": "application/vnd.dev.cosign.simplesigning.v1+json", "annotations": [1]}


@pytest.mark.parametrize("content", ["[" * 200_000, "[]", json.dumps({"layers": [LAYER]})])
async def test_a_registry_that_answers_nonsense(image: Image, content: str) -> None:
    packed = await image.push()
    tag = f"{packed.digest.replace(':', '-')}.sig"
    image.registry.manifests[tag] = ("application/json", content.encode())
    assert reason(await in_thread(image)) == SIGNATURE_UNCHECKED


def test_a_registry_on_the_loopback_interface_is_another_one_in_a_pod(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(signed_image, "DELAYS", (0.0,))
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        image = f"127.0.0.1:{nobody.getsockname()[1]}/models/x@sha256:{'0' * 64}"
        found = signed_image.check(Wanted(image, ""), "sha256:1", PublicKey.of(signing.Key().pem))
    assert reason(found) == SIGNATURE_UNCHECKED
    assert "that address is the pod itself — name the image by an address" in str(found)

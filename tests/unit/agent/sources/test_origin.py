"""One remedy for each source, with the file's name as a person finds it."""

import pytest

from warmpod import reasons
from warmpod.agent.sources.origin import Kind, Origin
from warmpod.protocol import REMEDY
from warmpod.weights.findings import Finding

IMAGE = Origin(Kind.IMAGE, "registry.example.com/llama@sha256:1")
CLAIM = Origin(Kind.CLAIM, "models", "llama")
NODE_PATH = Origin(Kind.NODE_PATH, "", "/data/llama")
ON_NODE = Origin(Kind.DOWNLOAD, "", "/var/lib/warmpod/weights/hf-1")
IN_CLAIM = Origin(Kind.DOWNLOAD, "staged", "hf-1")
ALL = (IMAGE, CLAIM, NODE_PATH, ON_NODE, IN_CLAIM)

ALTERED = Finding("a.safetensors", reasons.DIGEST_MISMATCH, "sha256 is 1, the manifest says 2")
MISSING = Finding("a.safetensors", reasons.WEIGHTS_MISSING, "missing, but the index names it")
CLOSED = Finding("a.safetensors", reasons.WEIGHTS_NOT_READABLE, "mode 0600")
EMPTY = Finding(".", reasons.WEIGHTS_MISSING, "holds no files")
UNSIGNED = Finding("registry/image", reasons.SIGNATURE_MISSING, "not signed")


@pytest.mark.parametrize(
    ("origin", "text"),
    [
        (
            IMAGE,
            "image registry.example.com/llama@sha256:1: a.safetensors: sha256 is 1, the manifest "
            "says 2 — if no other node says so, this one's copy is damaged: remove it there "
            "(crictl rmi registry.example.com/llama@sha256:1) and delete this pod; if all do, "
            "make the image again from a whole model (warmpod pack) and name that one in the spec",
        ),
        (
            CLAIM,
            "claim models: llama/a.safetensors: sha256 is 1, the manifest says 2 — put the right "
            "files into claim models",
        ),
        (
            NODE_PATH,
            "/data/llama/a.safetensors: sha256 is 1, the manifest says 2 — put the right files "
            "there on the node",
        ),
        (
            ON_NODE,
            "/var/lib/warmpod/weights/hf-1/a.safetensors: sha256 is 1, the manifest says 2 — it is "
            "downloaded again by itself",
        ),
        (
            IN_CLAIM,
            "claim staged: hf-1/a.safetensors: sha256 is 1, the manifest says 2 — it is "
            "downloaded again by itself",
        ),
    ],
)
def test_an_altered_file(origin: Origin, text: str) -> None:
    assert origin.explain([ALTERED], has_manifest=True) == (reasons.DIGEST_MISMATCH, text)


def test_pulling_again_is_no_remedy_for_an_image_that_was_made_without_a_file() -> None:
    _, text = IMAGE.explain([MISSING], has_manifest=False)
    assert "crictl" not in text
    assert "warmpod pack" in text


@pytest.mark.parametrize("finding", [ALTERED, MISSING, CLOSED, EMPTY])
@pytest.mark.parametrize("origin", ALL)
@pytest.mark.parametrize("has_manifest", [False, True])
def test_only_images_are_pulled_or_packed(
    origin: Origin, finding: Finding, has_manifest: bool
) -> None:
    _, text = origin.explain([finding], has_manifest)
    assert text.count(REMEDY) == 1
    if origin is not IMAGE:
        assert "crictl" not in text
        assert "pack" not in text
    assert "--prune" not in text


@pytest.mark.parametrize(
    ("origin", "text"),
    [
        (
            CLAIM,
            "llama of claim models holds no files — correct persistentVolumeClaim.path, or put "
            "the model into the claim",
        ),
        (
            Origin(Kind.CLAIM, "models"),
            "claim models holds no files — correct persistentVolumeClaim.path, or put the model "
            "into the claim",
        ),
        (
            NODE_PATH,
            "/data/llama holds no files — correct nodePath.path, or put the model there on the "
            "node",
        ),
    ],
)
def test_an_empty_directory_is_the_wrong_path(origin: Origin, text: str) -> None:
    assert origin.explain([EMPTY], has_manifest=False) == (reasons.PATH_MISMATCH, text)


def test_an_empty_image_was_made_wrong() -> None:
    reason, text = IMAGE.explain([EMPTY], has_manifest=False)
    assert reason == reasons.WEIGHTS_MISSING
    assert "warmpod pack" in text


def test_modes_are_put_right_where_the_files_lie() -> None:
    _, text = NODE_PATH.explain([CLOSED], has_manifest=True)
    assert text.endswith("— on the node: chmod -R a+rX /data/llama")
    _, text = CLAIM.explain([CLOSED], has_manifest=True)
    assert text.endswith("— in claim models: chmod -R a+rX llama")


def test_what_is_about_no_file_stays_as_it_is() -> None:
    assert IMAGE.explain([UNSIGNED], has_manifest=True) == (
        reasons.SIGNATURE_MISSING,
        "registry/image: not signed",
    )


def test_what_the_system_says_is_told_without_paths_of_the_agent() -> None:
    broken = OSError(5, "Input/output error", "/run/warmpod-sources/llama/a.safetensors")
    assert NODE_PATH.unreadable(broken) == (
        "/data/llama: a.safetensors: Input/output error — check the disk or volume that it lies on"
    )
    denied = PermissionError(13, "Permission denied", "/images/model/a.safetensors")
    assert IMAGE.unreadable(denied).endswith("a.safetensors: Permission denied")


def test_room_is_made_where_it_is_missing() -> None:
    assert "/var/lib/warmpod/weights/hf-1 on the node" in ON_NODE.room_remedy
    assert "claim staged" in IN_CLAIM.room_remedy
    assert "spec.weights.staging" not in ON_NODE.room_remedy + IN_CLAIM.room_remedy


def test_the_operator_and_the_agent_agree() -> None:
    document = {"kind": "persistentVolumeClaim", "name": "models", "folder": "llama/"}
    assert Origin.from_document(document) == CLAIM
    with pytest.raises(ValueError, match="tape"):
        Origin.from_document({"kind": "tape"})

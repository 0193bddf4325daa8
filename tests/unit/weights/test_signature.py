import json

import pytest

from support import signing
from warmpod.weights.signature import PublicKey, SignatureError, check_bundle, check_simple_signing

DIGEST = f"sha256:{'ab' * 32}"
OTHER = f"sha256:{'cd' * 32}"


@pytest.fixture(scope="module")
def key() -> signing.Key:
    return signing.Key()


@pytest.mark.parametrize("kind", ["ecdsa", "ed25519", "rsa"])
def test_good_signatures_of_both_formats(kind: str) -> None:
    pair = signing.Key(kind)
    public = PublicKey.of(pair.pem)
    content = signing.payload(DIGEST)
    check_simple_signing(public, content, pair.sign(content), DIGEST)
    check_bundle(public, signing.bundle(pair, DIGEST), DIGEST)


def test_a_key_is_known_by_its_content(key: signing.Key) -> None:
    text = key.pem
    assert PublicKey.of(text).fingerprint == PublicKey.of(f"\n{text}\n\n").fingerprint
    assert PublicKey.of(text).fingerprint != PublicKey.of(signing.Key().pem).fingerprint


@pytest.mark.parametrize("pem", ["", "hello", "-----BEGIN PUBLIC KEY-----\nAA\n"])
def test_what_is_no_key(pem: str) -> None:
    with pytest.raises(SignatureError, match="PEM"):
        PublicKey.of(pem)


def test_a_key_of_another_kind() -> None:
    with pytest.raises(SignatureError, match="must be ECDSA P-256"):
        PublicKey.of(signing.Key("p384").pem)


def test_another_key(key: signing.Key) -> None:
    public = PublicKey.of(signing.Key().pem)
    content = signing.payload(DIGEST)
    with pytest.raises(SignatureError, match="another key"):
        check_simple_signing(public, content, key.sign(content), DIGEST)
    with pytest.raises(SignatureError, match="another key"):
        check_bundle(public, signing.bundle(key, DIGEST), DIGEST)


def test_a_signature_of_another_image(key: signing.Key) -> None:
    public = PublicKey.of(key.pem)
    content = signing.payload(OTHER)
    with pytest.raises(SignatureError, match=OTHER):
        check_simple_signing(public, content, key.sign(content), DIGEST)
    with pytest.raises(SignatureError, match=OTHER):
        check_bundle(public, signing.bundle(key, OTHER), DIGEST)


def test_an_altered_payload(key: signing.Key) -> None:
    content = signing.payload(OTHER)
    altered = content.replace(OTHER.encode(), DIGEST.encode())
    with pytest.raises(SignatureError, match="altered"):
        check_simple_signing(PublicKey.of(key.pem), altered, key.sign(content), DIGEST)


def test_an_altered_bundle(key: signing.Key) -> None:
    document = json.loads(signing.bundle(key, OTHER))
    document["dsseEnvelope"]["payload"] = json.loads(signing.bundle(key, DIGEST))["dsseEnvelope"][
        "payload"
    ]
    with pytest.raises(SignatureError, match="altered"):
        check_bundle(PublicKey.of(key.pem), json.dumps(document).encode(), DIGEST)


def test_a_statement_about_the_image_is_no_signature(key: signing.Key) -> None:
    provenance = signing.bundle(key, DIGEST, "https://slsa.dev/provenance/v1")
    with pytest.raises(SignatureError, match="provenance"):
        check_bundle(PublicKey.of(key.pem), provenance, DIGEST)


def test_a_signed_document_of_another_kind(key: signing.Key) -> None:
    content = signing.payload(DIGEST).replace(b"cosign container image", b"atomic container")
    with pytest.raises(SignatureError, match="atomic"):
        check_simple_signing(PublicKey.of(key.pem), content, key.sign(content), DIGEST)


@pytest.mark.parametrize("signature", [None, "", "%%%", 5, ["x"]])
def test_no_signature_at_all(key: signing.Key, signature: object) -> None:
    with pytest.raises(SignatureError):
        check_simple_signing(PublicKey.of(key.pem), signing.payload(DIGEST), signature, DIGEST)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"dsseEnvelope": 1}',
        b'{"dsseEnvelope": {"payload": "", "payloadType": "application/vnd.in-toto+json"}}',
        b'{"dsseEnvelope": {"payload": "%", "signatures": [3]}}',
    ],
)
def test_what_is_no_bundle(key: signing.Key, content: bytes) -> None:
    with pytest.raises(SignatureError):
        check_bundle(PublicKey.of(key.pem), content, DIGEST)


def test_a_signed_document_that_is_no_object(key: signing.Key) -> None:
    for content in (b"[]", b"null", b"not JSON", b'{"critical": []}'):
        with pytest.raises(SignatureError):
            check_simple_signing(PublicKey.of(key.pem), content, key.sign(content), DIGEST)

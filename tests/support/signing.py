"""Signs images as cosign does, without cosign: the documents of its two formats, byte for byte.

https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md
https://github.com/sigstore/cosign/blob/main/specs/BUNDLE_SPEC.md
"""

from __future__ import annotations

import base64
import hashlib
import json
import urllib.request
from collections.abc import Callable
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
PAYLOAD_TYPE = "application/vnd.dev.cosign.simplesigning.v1+json"
BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
STATEMENT_TYPE = "application/vnd.in-toto+json"
SIGN_PREDICATE = "https://sigstore.dev/cosign/sign/v1"


class Key:
    """A key pair of the kind that `cosign generate-key-pair` makes, or another one."""

    def __init__(self, kind: str = "ecdsa") -> None:
        makers: dict[str, Callable[[], Any]] = {
            "ecdsa": lambda: ec.generate_private_key(ec.SECP256R1()),
            "p384": lambda: ec.generate_private_key(ec.SECP384R1()),
            "ed25519": ed25519.Ed25519PrivateKey.generate,
            "rsa": lambda: rsa.generate_private_key(65537, 2048),
        }
        self._key = makers[kind]()

    @property
    def pem(self) -> str:
        """The public half."""
        encoded: bytes = self._key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return encoded.decode()

    def sign(self, content: bytes) -> str:
        if isinstance(self._key, ec.EllipticCurvePrivateKey):
            signature = self._key.sign(content, ec.ECDSA(hashes.SHA256()))
        elif isinstance(self._key, rsa.RSAPrivateKey):
            signature = self._key.sign(content, padding.PKCS1v15(), hashes.SHA256())
        else:
            signature = self._key.sign(content)
        return base64.b64encode(signature).decode()


def payload(digest: str, repository: str = "registry.example.com/x") -> bytes:
    """What cosign up to 2 signs."""
    document = {
        "critical": {
            "identity": {"docker-reference": repository},
            "image": {"docker-manifest-digest": digest},
            "type": "cosign container image signature",
        },
        "optional": None,
    }
    return json.dumps(document, separators=(",", ":")).encode()


def bundle(key: Key, digest: str, predicate: str = SIGN_PREDICATE) -> bytes:
    """What cosign 3 stores."""
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"digest": {"sha256": digest.removeprefix("sha256:")}, "annotations": {}}],
        "predicateType": predicate,
        "predicate": {},
    }
    content = json.dumps(statement, separators=(",", ":")).encode()
    head = f"DSSEv1 {len(STATEMENT_TYPE)} {STATEMENT_TYPE} {len(content)} ".encode()
    envelope = {
        "payload": base64.b64encode(content).decode(),
        "payloadType": STATEMENT_TYPE,
        "signatures": [{"sig": key.sign(head + content)}],
    }
    document = {
        "mediaType": BUNDLE_TYPE,
        "verificationMaterial": {"publicKey": {"hint": "aGludA=="}, "tlogEntries": []},
        "dsseEnvelope": envelope,
    }
    return json.dumps(document).encode()


def sign(key: Key, host: str, repository: str, digest: str) -> None:
    """`cosign sign --key` of cosign 2, on a registry without TLS and password."""
    content = payload(digest, f"{host}/{repository}")
    layer = _put_blob(host, repository, content, PAYLOAD_TYPE)
    layer["annotations"] = {"dev.cosignproject.cosign/signature": key.sign(content)}
    config = {
        "architecture": "",
        "config": {},
        "os": "",
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": _put_blob(host, repository, json.dumps(config).encode(), CONFIG_TYPE),
        "layers": [layer],
    }
    _put_manifest(host, repository, f"{digest.replace(':', '-')}.sig", manifest)


def sign_with_bundle(
    key: Key, host: str, repository: str, digest: str, predicate: str = SIGN_PREDICATE
) -> None:
    """`cosign sign --key` of cosign 3. Both the subject and the tag that stands in for the list of
    referrers, because registries know one or the other."""
    content = bundle(key, digest, predicate)
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "artifactType": BUNDLE_TYPE,
        "config": _put_blob(host, repository, b"{}", EMPTY_TYPE),
        "layers": [_put_blob(host, repository, content, BUNDLE_TYPE)],
        "subject": {"mediaType": MANIFEST_TYPE, "digest": digest, "size": 1},
        "annotations": {"dev.sigstore.bundle.predicateType": predicate},
    }
    encoded = json.dumps(manifest).encode()
    signature = _digest(encoded)
    _put_manifest(host, repository, signature, manifest)
    entry = {"mediaType": MANIFEST_TYPE, "digest": signature, "size": len(encoded)}
    index_type = MANIFEST_TYPE.replace("manifest", "index")
    index = {
        "schemaVersion": 2,
        "mediaType": index_type,
        "manifests": [entry | {"artifactType": BUNDLE_TYPE}],
    }
    _put_manifest(host, repository, digest.replace(":", "-"), index)


def _put_blob(host: str, repository: str, content: bytes, media_type: str) -> dict[str, Any]:
    begun = _send("POST", f"http://{host}/v2/{repository}/blobs/uploads/", b"")
    location = begun if begun.startswith("http") else f"http://{host}{begun}"
    joint = "&" if "?" in location else "?"
    _send("PATCH", location, content, "application/octet-stream")
    _send("PUT", f"{location}{joint}digest={_digest(content)}", b"")
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}


def _put_manifest(host: str, repository: str, which: str, document: dict[str, Any]) -> None:
    url = f"http://{host}/v2/{repository}/manifests/{which}"
    _send("PUT", url, json.dumps(document).encode(), document["mediaType"])


def _send(method: str, url: str, content: bytes, media_type: str = "") -> str:
    """Where the registry wants the next request."""
    headers = {"Content-Type": media_type} if media_type else {}
    request = urllib.request.Request(url, content, headers, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=30) as response:
        return str(response.headers.get("Location", ""))


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"

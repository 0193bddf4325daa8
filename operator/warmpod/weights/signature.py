"""Signatures that `cosign sign --key` makes, checked against a public key. Pure.

Two formats: up to cosign 2 a "simple signing" payload with the signature in an annotation of its
layer, from cosign 3 on a Sigstore bundle with a signed in-toto statement. Both name the digest of
what was signed. Transparency logs are not asked: the key alone decides.
https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md
https://github.com/sigstore/cosign/blob/main/specs/BUNDLE_SPEC.md
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

SIMPLE_SIGNING_TYPE = "application/vnd.dev.cosign.simplesigning.v1+json"
SIGNATURE_ANNOTATION = "dev.cosignproject.cosign/signature"
BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PAYLOAD_KIND = "cosign container image signature"
STATEMENT_TYPE = "application/vnd.in-toto+json"
# Other statements about an image, such as its provenance, are no signatures of it.
SIGNATURE_PREDICATE = "https://sigstore.dev/cosign/sign/v1"
SMALLEST_RSA_BITS = 2048


class SignatureError(Exception):
    """Not a signature of that digest by that key, or not a usable key; the message says why."""


@dataclass(frozen=True)
class PublicKey:
    _key: ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey

    @classmethod
    def of(cls, pem: str) -> PublicKey:
        """ECDSA P-256 (what cosign makes), Ed25519, or RSA. Raises SignatureError."""
        try:
            key = serialization.load_pem_public_key(pem.encode())
        except (ValueError, UnsupportedAlgorithm) as error:
            raise SignatureError("not a public key in PEM form, as in cosign.pub") from error
        match key:
            case ec.EllipticCurvePublicKey() if key.curve.name == "secp256r1":
                return cls(key)
            case ed25519.Ed25519PublicKey():
                return cls(key)
            case rsa.RSAPublicKey() if key.key_size >= SMALLEST_RSA_BITS:
                return cls(key)
        raise SignatureError("the key must be ECDSA P-256, Ed25519, or RSA of 2048 bits or more")

    @property
    def fingerprint(self) -> str:
        """Hex SHA-256 of the key itself, however the PEM text is written."""
        encoded = self._key.public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return hashlib.sha256(encoded).hexdigest()

    def check(self, signature: bytes, content: bytes) -> None:
        """Raises SignatureError."""
        try:
            match self._key:
                case ec.EllipticCurvePublicKey():
                    self._key.verify(signature, content, ec.ECDSA(hashes.SHA256()))
                case ed25519.Ed25519PublicKey():
                    self._key.verify(signature, content)
                case rsa.RSAPublicKey():
                    self._key.verify(signature, content, padding.PKCS1v15(), hashes.SHA256())
        except InvalidSignature as error:
            raise SignatureError("made with another key, or altered") from error


def check_simple_signing(key: PublicKey, payload: bytes, signature: object, digest: str) -> None:
    """`signature` is the annotation's value. Raises SignatureError."""
    key.check(_decoded(signature), payload)
    critical = _object(_json(payload).get("critical"))
    if critical.get("type") != PAYLOAD_KIND:
        raise SignatureError(f"what is signed is a {critical.get('type')}, not an image")
    signed = _object(critical.get("image")).get("docker-manifest-digest")
    if signed != digest:
        raise SignatureError(f"it is the signature of {signed}")


def check_bundle(key: PublicKey, bundle: bytes, digest: str) -> None:
    """Raises SignatureError."""
    envelope = _object(_json(bundle).get("dsseEnvelope"))
    kind, payload = envelope.get("payloadType"), _decoded(envelope.get("payload"))
    if kind != STATEMENT_TYPE:
        raise SignatureError(f"what is signed is a {kind}, not a statement about an image")
    signatures = envelope.get("signatures")
    first = _object(signatures[0]) if isinstance(signatures, list) and signatures else {}
    key.check(_decoded(first.get("sig")), _pre_authentication_encoding(kind, payload))
    statement = _json(payload)
    if statement.get("predicateType") != SIGNATURE_PREDICATE:
        raise SignatureError(f"the statement is a {statement.get('predicateType')}, no signature")
    subjects = statement.get("subject")
    signed = [
        f"sha256:{_object(_object(subject).get('digest')).get('sha256')}"
        for subject in (subjects if isinstance(subjects, list) else [])
    ]
    if digest not in signed:
        raise SignatureError(f"it is the signature of {', '.join(signed) or 'nothing'}")


def _pre_authentication_encoding(kind: str, payload: bytes) -> bytes:
    """https://github.com/secure-systems-lab/dsse/blob/master/protocol.md"""
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)


def _decoded(text: object) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except (binascii.Error, ValueError) as error:
        raise SignatureError("it is not base64") from error


def _json(content: bytes) -> dict[str, Any]:
    try:
        return _object(json.loads(content))
    except ValueError as error:
        raise SignatureError("what is signed is not JSON") from error


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}

"""Tokens of service accounts, signed and published as the API server does it."""

from __future__ import annotations

import json
import time
import uuid
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from warmpod.protocol import control_audience, service_account_user

ISSUER = "https://kubernetes.default.svc.cluster.local"
OPERATOR = service_account_user("warmpod-system", "warmpod-operator")
AUDIENCE = control_audience("models", "tiny")


class TokenSigner:
    """`rotate` makes a new key; the old ones stay published."""

    def __init__(self) -> None:
        self._published: list[dict[str, Any]] = []
        self.rotate()

    def rotate(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._key_id = uuid.uuid4().hex
        public = json.loads(RSAAlgorithm.to_jwk(self._key.public_key()))
        self._published.append({**public, "kid": self._key_id, "use": "sig", "alg": "RS256"})

    def sign(
        self,
        subject: str = OPERATOR,
        audience: str | None = AUDIENCE,
        issuer: str = ISSUER,
        lives_seconds: float = 600,
    ) -> str:
        now = time.time()
        claims: dict[str, Any] = {
            "iss": issuer,
            "sub": subject,
            "iat": int(now),
            "nbf": int(now),
            "exp": int(now + lives_seconds),
        }
        if audience is not None:
            claims["aud"] = [audience]
        return jwt.encode(claims, self._key, "RS256", {"kid": self._key_id})

    def keys(self) -> dict[str, Any]:
        """The page /openid/v1/jwks."""
        return {"keys": self._published}

    def discovery(self) -> dict[str, Any]:
        """The page /.well-known/openid-configuration."""
        return {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/openid/v1/jwks"}


@cache
def shared_signer() -> TokenSigner:
    """That of all tests which rotate no keys: to make one takes a tenth of a second."""
    return TokenSigner()

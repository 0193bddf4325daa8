"""Whether a request comes from the operator: its token is verified with the API server's keys.

Here and not by a TokenReview, because a TokenReview needs a right that every sidecar would have to
be given, and an API server that answers. The keys are public to all service accounts (ClusterRole
system:service-account-issuer-discovery), and the last ones are kept while the API server is away.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jwt

from warmpod.podstatus import PodStatusError

log = logging.getLogger(__name__)

DISCOVERY_PATH = "/.well-known/openid-configuration"
KEYS_PATH = "/openid/v1/jwks"

# Seconds between looks for a key that is not known: anybody may send a token that names one.
RELOAD_SECONDS = 10.0

# Seconds by which clocks of nodes may differ.
LEEWAY_SECONDS = 10.0

# Tokens are signed by private keys only: with a symmetric algorithm, whoever can verify can sign.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")

Read = Callable[[str], Awaitable[Mapping[str, Any]]]


class TokenRefused(Exception):
    """The message says why; it is for our log, not for the caller."""


@dataclass(frozen=True)
class Trust:
    """What tokens of this cluster are verified with."""

    issuer: str = ""
    keys: Mapping[str, jwt.PyJWK] = field(default_factory=dict)


class TokenVerifier:
    """`read` gets a JSON document from the API server, and raises PodStatusError."""

    def __init__(self, read: Read, audience: str, subject: str) -> None:
        self._read = read
        self._audience = audience
        self._subject = subject
        self._trust = Trust()
        self._loaded_at = -RELOAD_SECONDS
        self._loading = asyncio.Lock()

    async def load(self) -> None:
        """Get the keys; at the start too, so that they are there when the API server is away."""
        async with self._loading:
            await self._load()

    async def verify(self, authorization: str) -> None:
        """Of the header of that name. Raises TokenRefused."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise TokenRefused("no bearer token")
        try:
            key = await self._key(str(jwt.get_unverified_header(token.strip()).get("kid")))
            claims = jwt.decode(
                token.strip(),
                key,
                algorithms=ALGORITHMS,
                audience=self._audience,
                issuer=self._trust.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as error:
            raise TokenRefused(f"{type(error).__name__}: {error}") from error
        if claims["sub"] != self._subject:
            raise TokenRefused(f"it is of {claims['sub']}, not of {self._subject}")

    async def _key(self, key_id: str) -> jwt.PyJWK:
        """A new key of the API server's is looked for, but not more often than now and then."""
        if key_id not in self._trust.keys:
            await self.load()
        key = self._trust.keys.get(key_id)
        if key is None:
            raise TokenRefused(f"the API server has no key {key_id}, or could not be asked")
        return key

    async def _load(self) -> None:
        if time.monotonic() - self._loaded_at < RELOAD_SECONDS:
            return
        self._loaded_at = time.monotonic()
        try:
            discovery, keys = await self._read(DISCOVERY_PATH), await self._read(KEYS_PATH)
            self._trust = read_trust(discovery, keys)
        except (PodStatusError, jwt.PyJWTError, LookupError, TypeError) as error:
            log.warning("the API server's keys could not be read: %r", error)


def read_trust(discovery: Mapping[str, Any], keys: Mapping[str, Any]) -> Trust:
    """Raises LookupError, TypeError and PyJWTError."""
    found = jwt.PyJWKSet.from_dict(dict(keys)).keys
    return Trust(str(discovery["issuer"]), {str(key.key_id): key for key in found})

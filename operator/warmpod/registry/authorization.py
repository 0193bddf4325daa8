"""Answers the challenges of a registry: Basic, and the token flow of the distribution API."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

import aiohttp
from yarl import URL

from warmpod.registry.answers import bounded_body
from warmpod.registry.credentials import Credential
from warmpod.registry.errors import Denied, RegistryError, Unreachable
from warmpod.registry.session import proxy_for

_FIELD = re.compile(r'(\w+)="([^"]*)"')
TIMEOUT = aiohttp.ClientTimeout(total=30)
CLIENT_ID = "warmpod"


class Authorization:
    """The Authorization header for one repository; renewed when the registry asks for it."""

    def __init__(self, credential: Credential | None, scope: str) -> None:
        """`scope` is that of the token specification: `repository:NAME:pull,push`."""
        self._credential = credential
        self._scope = scope
        self._value = ""
        self._lock = asyncio.Lock()

    @property
    def known(self) -> bool:
        """Whether there are credentials at all."""
        return self._credential is not None

    @property
    def value(self) -> str:
        """Empty until the registry has asked for something."""
        return self._value

    async def renew(self, session: aiohttp.ClientSession, challenge: str, refused: str) -> bool:
        """Whether there is now another value than `refused`. Several requests may be refused at
        the same time; only the first one asks for a token."""
        async with self._lock:
            if self._value == refused:
                self._value = await self._answer(session, challenge, refused)
            return self._value != refused

    async def _answer(self, session: aiohttp.ClientSession, challenge: str, refused: str) -> str:
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() == "basic" and self._credential is not None:
            return self._credential.basic
        fields = dict(_FIELD.findall(rest))
        if scheme.lower() == "bearer" and fields.get("realm"):
            return f"Bearer {await self._token(session, fields)}"
        return refused

    async def _token(self, session: aiohttp.ClientSession, fields: Mapping[str, str]) -> str:
        realm = fields["realm"]
        asked = {"scope": self._scope}
        if fields.get("service"):
            asked["service"] = fields["service"]
        try:
            async with self._asked(session, URL(realm), asked) as response:
                status, body = response.status, await bounded_body(response)
        # ValueError: an address that is none.
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise Unreachable(f"{realm} gives no token: {error or type(error).__name__}") from error
        if status in (400, 401, 403):
            why = "refuses the credentials" if self.known else "gives no token without credentials"
            raise Denied(f"{realm} {why} ({status})")
        return _token_in(realm, status, body)

    def _asked(
        self, session: aiohttp.ClientSession, realm: URL, asked: dict[str, str]
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        proxy = proxy_for(realm)
        credential = self._credential
        if credential is None:
            return session.get(realm, params=asked, timeout=TIMEOUT, proxy=proxy)
        if not credential.identity_token:
            headers = {"Authorization": credential.basic}
            return session.get(realm, params=asked, headers=headers, timeout=TIMEOUT, proxy=proxy)
        asked |= {
            "grant_type": "refresh_token",
            "refresh_token": credential.identity_token,
            "client_id": CLIENT_ID,
        }
        return session.post(realm, data=asked, timeout=TIMEOUT, proxy=proxy)


def _token_in(realm: str, status: int, body: bytes) -> str:
    if status != 200:
        raise Unreachable(f"{realm} answers {status} when asked for a token")
    try:
        document = json.loads(body)
        token = document.get("token") or document.get("access_token")
    except (ValueError, AttributeError, RecursionError):
        token = None
    if not token or not isinstance(token, str) or not token.isprintable():  # it becomes a header
        raise RegistryError(f"{realm} gave an answer without a token")
    return token

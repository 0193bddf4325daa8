"""A client of an engine's API, as users have: its own connection for every request."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import requests
from requests.adapters import HTTPAdapter

from support.api import JsonObject

LIMIT_S = 60
DATA = b"data: "


@dataclass(frozen=True)
class Certificate:
    """A certificate to trust, and the name in it: the address of a Service is not."""

    path: str
    name: str


@dataclass(frozen=True)
class Reply:
    """An answer, and when it came: seconds since the request was sent, to the first text of a
    streamed answer and to the end; one that is not streamed comes at once."""

    body: JsonObject
    first_token: float
    total: float


@dataclass(frozen=True)
class Client:
    """Raises requests.HTTPError, with the engine's words, for an answer that is not 200."""

    url: str
    api_key: str = field(default="", repr=False)
    certificate: Certificate | None = None

    def ask(self, path: str, body: JsonObject) -> Reply:
        """A whole answer."""
        started = time.monotonic()
        with self._post(path, body) as response:
            body, took = response.json(), time.monotonic() - started
            return Reply(body, took, took)

    def stream(self, path: str, body: JsonObject) -> Reply:
        """The first chunk with text of a streamed answer, which is read to its end."""
        started, first = time.monotonic(), None
        with self._post(path, body | {"stream": True}) as response:
            for chunk in _chunks(response):
                if first is None and text_of(chunk):
                    first = chunk, time.monotonic() - started
        if first is None:
            raise AssertionError(f"{path}: the stream had no text")
        return Reply(*first, time.monotonic() - started)

    @contextmanager
    def _post(self, path: str, body: JsonObject) -> Iterator[requests.Response]:
        with self._session() as session:
            response = session.post(f"{self.url}{path}", json=body, timeout=LIMIT_S, stream=True)
            if not response.ok:
                raise requests.HTTPError(
                    f"{path}: {response.status_code} {response.text}", response=response
                )
            yield response

    def _session(self) -> requests.Session:
        session = requests.Session()
        session.trust_env = False  # no proxy between the tests and the cluster
        if self.api_key:
            session.headers["Authorization"] = f"Bearer {self.api_key}"
        if self.certificate:
            session.verify = self.certificate.path
            session.mount("https://", _Named(self.certificate.name))
        return session


class _Named(HTTPAdapter):
    """Expects a name in the certificate that is not the host of the address."""

    def __init__(self, name: str) -> None:
        self._name = name
        super().__init__()

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, assert_hostname=self._name, **options)


def text_of(answer: JsonObject) -> str:
    """The text of a completion or chat completion, whole or a chunk; "" where there is none."""
    for choice in answer.get("choices") or []:
        message = choice.get("message") or choice.get("delta") or choice
        return message.get("content") or message.get("text") or ""
    return ""


def _chunks(response: requests.Response) -> Iterator[JsonObject]:
    for line in response.iter_lines(chunk_size=None):
        if line.startswith(DATA) and not line.endswith(b"[DONE]"):
            yield json.loads(line.removeprefix(DATA))

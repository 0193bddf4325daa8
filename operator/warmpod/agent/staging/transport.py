"""HTTP for all sources: one session, limits on every wait, errors without secrets in them.

`requests` honours the proxy variables and drops the Authorization header when a redirect leads
to another origin.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

import requests
import urllib3

from warmpod.agent.staging.errors import SourceError, unreachable
from warmpod.agent.staging.stopping import Stop
from warmpod.reasons import PATH_MISMATCH, SOURCE_UNREACHABLE
from warmpod.weights.hashing import PIECE_BYTES

Result = TypeVar("Result")

CONNECT_SECONDS = 10.0
# Without a byte for so long, a connection counts as broken.
SILENCE_SECONDS = 30.0
ATTEMPTS = 5
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
_MAX_REASON_BYTES = 64 * 1024


class Authorization(requests.auth.AuthBase):
    """An object and not a header of the session, so that no ~/.netrc takes its place."""

    def __init__(self, value: str) -> None:
        self._value = value

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = self._value
        return request


@dataclass(frozen=True)
class Request:
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    authorization: requests.auth.AuthBase | None = field(default=None, repr=False)
    redirects: bool = True
    method: str = "GET"


@dataclass(frozen=True)
class Refusal:
    """An answer that is not what was asked for: status, headers, and the beginning of the body."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def retry_after(self) -> float | None:
        value = self.headers.get("Retry-After", "")
        return float(value) if value.isdecimal() else None


# Turns a refusal into the error that fits the kind of source.
Judge = Callable[[Refusal], SourceError]


class Transport:
    def __init__(self, stop: Stop) -> None:
        self.stop = stop
        self._session = requests.Session()
        self._live: set[requests.Response] = set()
        self._lock = threading.Lock()

    @contextmanager
    def open(self, request: Request, judge: Judge) -> Iterator[requests.Response]:
        """The answer before its body. Raises SourceError; one attempt."""
        response = self.stop.during(lambda: self._send(request), lambda late: late.close())
        with self._lock:
            self._live.add(response)
        try:
            if _is_refused(response, request):
                raise self._refused(response, judge)
            _check_framing(response)
            yield response
        except (OSError, urllib3.exceptions.HTTPError) as error:
            self.stop.check()  # a connection that `hang_up` shut is no fault of the network
            if isinstance(error, requests.RequestException | urllib3.exceptions.HTTPError):
                raise unreachable(plain(request.url), cause_of(error)) from None
            raise
        finally:
            with self._lock:
                self._live.discard(response)
            response.close()

    def read(
        self, request: Request, judge: Judge, limit: int, field_name: str
    ) -> tuple[requests.Response, bytes]:
        """A whole small answer, tried several times. Raises SourceError; one of more than `limit`
        bytes is not what `field_name` of the spec should lead to."""

        def attempt() -> tuple[requests.Response, bytes]:
            with self.open(request, judge) as response:
                body = b"".join(pieces(response, limit + 1))
                if len(body) > limit:
                    message = f"{plain(request.url)}: the answer exceeds {limit} bytes"
                    raise SourceError(PATH_MISMATCH, f"{message} — correct {field_name}")
                return response, body

        return self.tried(attempt)

    def tried(self, attempt: Callable[[], Result]) -> Result:
        """Several attempts while the source is merely not reachable."""
        for failures in range(1, ATTEMPTS):
            try:
                return attempt()
            except SourceError as error:
                self.pause_after(error, failures)
        return attempt()

    def pause_after(self, error: SourceError, failures: int) -> None:
        """Back off, or raise `error` if another attempt would not help."""
        if error.reason != SOURCE_UNREACHABLE or failures >= ATTEMPTS:
            raise error
        asked = error.asked_pause if isinstance(error, Overloaded) else 0.0
        pause = max(FIRST_PAUSE_SECONDS * 2 ** (failures - 1), asked)
        self.stop.pause(min(pause, LONGEST_PAUSE_SECONDS))

    def hang_up(self) -> None:
        """Wake every thread that waits for content."""
        with self._lock:
            for response in self._live:
                try:
                    response.raw.shutdown()
                except (OSError, ValueError, RuntimeError):
                    continue  # it has ended by itself

    def close(self) -> None:
        self._session.close()

    def _send(self, request: Request) -> requests.Response:
        try:
            return self._session.request(
                request.method,
                request.url,
                headers={"Accept-Encoding": "identity", **request.headers},
                auth=request.authorization,
                allow_redirects=request.redirects,
                timeout=(CONNECT_SECONDS, SILENCE_SECONDS),
                stream=True,
            )
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            raise unreachable(plain(request.url), cause_of(error)) from None
        except ValueError:  # which `requests` lets through
            message = "it leads on to what is no URL"
            raise unreachable(plain(request.url), message) from None

    def _refused(self, response: requests.Response, judge: Judge) -> SourceError:
        body = b"".join(pieces(response, _MAX_REASON_BYTES))
        refusal = Refusal(response.url, response.status_code, response.headers, body)
        if refusal.status >= 500 or refusal.status in (408, 425, 429):
            message = f"answered {refusal.status} {response.reason}"
            return Overloaded(plain(refusal.url), message, refusal.retry_after or 0.0)
        return judge(refusal)


class Overloaded(SourceError):
    """A server that asks for patience; `asked_pause` is in seconds."""

    def __init__(self, what: str, message: str, asked_pause: float) -> None:
        super().__init__(SOURCE_UNREACHABLE, f"{what}: {message}")
        self.asked_pause = asked_pause


def _is_refused(response: requests.Response, request: Request) -> bool:
    """416 tells the size of a file, so it is an answer."""
    if response.status_code == 416:
        return False
    return response.status_code >= (400 if request.redirects else 300)


def _check_framing(response: requests.Response) -> None:
    """Raises SourceError for an answer of which nobody can tell where it ends. Of two lengths,
    Content-Length is not the body's (RFC 9112, 6.3), and the client takes off no coding but
    `chunked`."""
    coding = response.headers.get("Transfer-Encoding")
    if coding is None:
        return
    if "Content-Length" in response.headers:
        fault = "answers with Content-Length and Transfer-Encoding at once"
    elif coding.strip().lower() != "chunked":
        fault = f"answers with Transfer-Encoding {ascii(coding)[:80]}"
    else:
        return
    message = f"{plain(response.url)}: the server {fault} — correct it, or the proxy before it"
    raise SourceError(PATH_MISMATCH, message)


def pieces(response: requests.Response, limit: int) -> Iterator[bytes]:
    """At most `limit` bytes of the body, as they come over the wire."""
    while limit > 0 and (piece := response.raw.read(min(limit, PIECE_BYTES))):
        limit -= len(piece)
        yield piece


def check_urls(kind: str, spec: Mapping[str, Any]) -> None:
    """Raises SourceError for a URL that no client can take, which each of them says otherwise."""
    for field_name in ("url", "endpoint"):
        try:
            parts = urlsplit(str(spec.get(field_name) or "http://none"))
            (parts.hostname or "").encode("idna")
            valid = parts.hostname and parts.port != 0
        except ValueError:
            valid = None
        if not valid:
            message = f"{kind}.{field_name} is no URL: its host or port cannot be — correct it"
            raise SourceError(PATH_MISMATCH, message)


def plain(url: str) -> str:
    """The URL without what may be secret: user, password, and the query of a signed link."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def same_origin(one: str, other: str) -> bool:
    return _origin(one) == _origin(other)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def cause_of(error: BaseException) -> str:
    """The words of the innermost cause. Those of the outer ones hold the whole URL, with its
    signature."""
    chain = list(_chain(error))
    for cause in reversed(chain):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {cause.verify_message}"
        if isinstance(cause, TimeoutError | requests.Timeout):
            return "no answer in time"
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
    if any(isinstance(cause, urllib3.exceptions.TimeoutError) for cause in chain):
        return "no answer in time"
    return f"the connection broke ({type(chain[-1]).__name__})"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__

"""Files behind a web server: a directory that it lists, or one archive."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from datetime import timedelta
from email.utils import parsedate_to_datetime
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

import requests

from warmpod.agent.staging.credentials import Credentials
from warmpod.agent.staging.digests import Digest
from warmpod.agent.staging.errors import SourceError, unreachable
from warmpod.agent.staging.files import (
    MAX_FILES,
    RemoteFile,
    check_names,
    checked,
    is_hidden,
    size_of,
)
from warmpod.agent.staging.transport import (
    Authorization,
    Refusal,
    Request,
    Transport,
    plain,
    same_origin,
)
from warmpod.reasons import (
    PATH_MISMATCH,
    SOURCE_FORBIDDEN,
    SOURCE_NOT_FOUND,
    SOURCE_UNAUTHORIZED,
)
from warmpod.weights import manifest as manifests
from warmpod.weights.findings import WeightsError

MAX_PAGE_BYTES = 8 * 1024 * 1024
MAX_DEPTH = 16
ETAG = "ETag"
MODIFIED = "Last-Modified"
# Servers name the coding of files that are packed on their disk (Apache: AddEncoding).
PACKED_SUFFIXES = (".gz", ".tgz")


class Web:
    """What both kinds of URL share: credentials, probing a file, ranges of it."""

    commit = ""

    def __init__(
        self, spec: Mapping[str, Any], credentials: Credentials, transport: Transport
    ) -> None:
        self._url = str(spec["url"])
        self._where = plain(self._url)
        self._authorization = _authorization(credentials)
        self._transport = transport
        self._urls: dict[str, str] = {}

    def request(self, file: RemoteFile, first: int, end: int) -> Request:
        headers = {}
        if (first, end) != (0, file.size) and file.ranges:
            headers["Range"] = f"bytes={first}-{end - 1}"
            # Not with a date: who understands it may leave the date out of the answer (RFC 9110,
            # 15.3.7), and it could not be compared. A digest tells versions apart by itself.
            if file.told_by == ETAG and file.digest is None:
                headers["If-Range"] = file.identity
        return self._ask(self._urls[file.path], headers)

    def judge(self, refusal: Refusal) -> SourceError:
        answer = f"{plain(refusal.url)}: the server answered {refusal.status}"
        where = "the Secret of http.secretName"
        keys = f"token, or username and password, {'in' if self._authorization else 'into'} {where}"
        match refusal.status:
            case 401:
                verb = "correct" if self._authorization else "put"
                return SourceError(SOURCE_UNAUTHORIZED, f"{answer} — {verb} {keys}")
            case 403:
                message = f"{answer} — allow the account in {where} to read it"
                return SourceError(SOURCE_FORBIDDEN, message)
            case 404 | 410:
                return SourceError(SOURCE_NOT_FOUND, f"{answer} — correct http.url")
            case 407:
                message = f"{answer}: the proxy wants credentials — let the agents pass without"
                return SourceError(SOURCE_FORBIDDEN, message)
        return unreachable(self._where, f"the server answered {refusal.status}")

    def _ask(self, url: str, headers: Mapping[str, str]) -> Request:
        """Credentials go to the origin of the spec's URL only."""
        known = same_origin(url, self._url)
        return Request(url, headers, self._authorization if known else None)

    def _probe(self, path: str, url: str) -> RemoteFile:
        """Size and version of a file. One byte is asked for instead of HEAD, which signed links
        refuse, and because the answer shows whether the server does ranges."""
        self._urls[path] = url

        def attempt() -> RemoteFile:
            request = self._ask(url, {"Range": "bytes=0-0"})
            with self._transport.open(request, self.judge) as response:
                return _described(path, response)

        return self._transport.tried(attempt)


class Archive(Web):
    def plan(self) -> tuple[RemoteFile, ...]:
        """The archive itself, as a file of that name."""
        name = urlsplit(self._url).path.rpartition("/")[2]
        return (self._probe(unquote(name), self._url),)


class Listing(Web):
    """A URL that ends in a slash. A manifest there says all; else the server's index is read, as
    nginx, Apache and Python's http.server show it."""

    def plan(self) -> tuple[RemoteFile, ...]:
        manifest = self._manifest()
        if manifest is not None:
            return checked(self._promised(manifest), self._where)
        found = dict(self._crawl())
        check_names(found, self._where)
        return checked((self._probe(path, url) for path, url in found.items()), self._where)

    def _manifest(self) -> manifests.Manifest | None:
        url = urljoin(self._url, manifests.MANIFEST_NAME)
        try:
            _, body = self._read(url)
        except SourceError as error:
            # Some servers answer 403 for what does not exist; the index then tells.
            if error.reason in (SOURCE_NOT_FOUND, SOURCE_FORBIDDEN):
                return None
            raise
        try:
            return manifests.parse(body)
        except WeightsError as error:
            raise SourceError(PATH_MISMATCH, f"{self._where}: {error}") from error

    def _promised(self, manifest: manifests.Manifest) -> Iterator[RemoteFile]:
        for entry in manifest.files:
            self._urls[entry.path] = urljoin(self._url, quote(entry.path))
            digest = Digest("sha256", entry.sha256)
            yield RemoteFile(entry.path, entry.size, entry.sha256, digest)

    def _crawl(self) -> Iterator[tuple[str, str]]:
        """Path and URL of every file below."""
        pending = [self._url]
        seen = set(pending)
        root: str | None = None
        while pending:
            response, links = self._links(pending.pop())
            root = root or response.url
            for link in links:
                path = _below(root, link)
                if path is None or link in seen:
                    continue
                seen.add(link)
                self._check_bounds(path, len(seen))
                if path.endswith("/"):
                    pending.append(link)
                else:
                    yield path, link

    def _links(self, url: str) -> tuple[requests.Response, list[str]]:
        response, body = self._read(url)
        if "html" not in response.headers.get("Content-Type", ""):
            message = "is no listing — enable the server's index, or put a manifest there"
            raise SourceError(PATH_MISMATCH, f"{plain(url)} {message} ({manifests.MANIFEST_NAME})")
        page = _Page()
        page.feed(body.decode(errors="replace"))
        return response, [_joined(response.url, link) for link in page.links]

    def _read(self, url: str) -> tuple[requests.Response, bytes]:
        answer = self._transport.read(self._ask(url, {}), self.judge, MAX_PAGE_BYTES, "http.url")
        _check_coding(answer[0])
        return answer

    def _check_bounds(self, path: str, count: int) -> None:
        if path.count("/") > MAX_DEPTH or count > MAX_FILES:
            message = f"more than {MAX_DEPTH} folders deep, or more than {MAX_FILES} files"
            raise SourceError(PATH_MISMATCH, f"{self._where}: {message} — correct http.url")


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.links += [value for name, value in attributes if name == "href" and value]


def _authorization(credentials: Credentials) -> Authorization | None:
    token = credentials.get("token")
    if token:
        return Authorization(f"Bearer {token}")
    username, password = credentials.get("username"), credentials.get("password")
    if username is None and password is None:
        return None
    pair = f"{username or ''}:{password or ''}".encode()
    return Authorization(f"Basic {base64.b64encode(pair).decode()}")


def _described(path: str, response: requests.Response) -> RemoteFile:
    """Raises SourceError when the server does not tell the size, or sends something else."""
    if not path.endswith(PACKED_SUFFIXES):
        _check_coding(response)
    ranges = response.status_code in (206, 416)
    told = response.headers.get("Content-Length", "")
    if ranges:
        told = response.headers.get("Content-Range", "").rpartition("/")[2]
    size = size_of(told)
    if size is None:
        message = f"{plain(response.url)}: the server tells no size — have it send Content-Length"
        raise SourceError(PATH_MISMATCH, message)
    tag, date = response.headers.get(ETAG, ""), response.headers.get(MODIFIED, "")
    if tag.startswith('"'):
        return RemoteFile(path, size, tag, ranges=ranges, told_by=ETAG)
    if _is_strong(date, response.headers.get("Date", "")):
        return RemoteFile(path, size, date, ranges=ranges, told_by=MODIFIED)
    # With nothing that tells versions apart, a download that broke off begins again.
    return RemoteFile(path, size, "", ranges=False)


def _check_coding(response: requests.Response) -> None:
    """Raises SourceError for content that is packed though it was asked for as it is: nothing would
    tell it from the file."""
    coding = response.headers.get("Content-Encoding", "").strip().lower()
    if coding not in ("", "identity"):
        fault = f"sends Content-Encoding {ascii(coding)[:80]}, which was not asked for"
        message = f"{plain(response.url)}: the server {fault} — have it send files as they are"
        raise SourceError(PATH_MISMATCH, message)


def _is_strong(modified: str, now: str) -> bool:
    """Whether the date stands for one version. Dates have whole seconds, so within the second of
    a change another one may follow (RFC 9110, 8.8.2.2)."""
    try:
        return parsedate_to_datetime(now) - parsedate_to_datetime(modified) >= timedelta(seconds=1)
    except (ValueError, TypeError):
        return False


def _joined(base: str, link: str) -> str:
    try:
        return urljoin(base, link.strip())
    except ValueError:
        return ""


def _below(root: str, url: str) -> str | None:
    """The path of `url` relative to `root`, or None when it is not a file or folder below."""
    try:
        parts = urlsplit(url)
        same = same_origin(root, url)
    except ValueError:
        return None
    base = urlsplit(root).path
    if not same or parts.query or parts.fragment or not parts.path.startswith(base):
        return None
    path = unquote(parts.path[len(base) :])
    return None if not path or is_hidden(path) else path

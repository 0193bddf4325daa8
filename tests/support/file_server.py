"""A web server for files, with the faults of real ones; it lists directories as Python's own does.

`hub_server` and `s3_server` build on it.
"""

from __future__ import annotations

import hashlib
import html
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

PIECE_BYTES = 256 * 1024


@dataclass
class Faults:
    """What goes wrong. Numbers in `cuts` and `statuses` are used up, one an answer with content."""

    cuts: list[int] = field(default_factory=list)  # bytes after which the connection is cut
    statuses: list[int] = field(default_factory=list)  # answered instead of the file
    seconds_a_piece: float = 0.0
    flips: set[str] = field(default_factory=set)  # names whose first byte is another
    ranges: bool = True
    validators: bool = True  # ETag and Last-Modified
    tags: bool = True  # ETag
    heeds_if_range: bool = True
    two_lengths: bool = False  # Content-Length, and chunks that hold something more
    coding: str = ""  # Content-Encoding of every answer with content
    more: int = 0  # bytes more than the file has, in chunks
    silent: bool = False  # headers never come
    location: str | None = None  # where every answer leads


@dataclass(frozen=True)
class Seen:
    """A request that came in."""

    method: str
    path: str
    headers: dict[str, str]


class FileServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self, root: Path, port: int = 0, host: str = "127.0.0.1", **options: object
    ) -> None:
        super().__init__((host, port), self.handler())
        self.root = root
        self.faults = Faults()
        self.seen: list[Seen] = []
        self.token: str | None = None
        self.stopping = threading.Event()
        self._digests: dict[tuple[Path, str, int, int], str] = {}
        for name, value in options.items():
            setattr(self, name, value)

    @classmethod
    def handler(cls) -> type[BaseHTTPRequestHandler]:
        return FileHandler

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def url_of_other_origin(self) -> str:
        return f"http://localhost:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that hang up are what the tests are about."""

    def digest(self, path: Path, kind: str) -> str:
        """Hex digest of a file, kept while size and time are the same."""
        facts = path.stat()
        key = (path, kind, facts.st_size, facts.st_mtime_ns)
        if key not in self._digests:
            digest = hashlib.sha1(b"blob %d\0" % facts.st_size) if kind == "git" else None
            digest = digest or hashlib.new(kind)
            with path.open("rb") as file:
                while piece := file.read(PIECE_BYTES):
                    digest.update(piece)
            self._digests[key] = digest.hexdigest()
        return self._digests[key]


class FileHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FileServer

    def do_GET(self) -> None:
        self.server.seen.append(Seen(self.command, self.path, dict(self.headers)))
        if self.server.faults.silent:
            self.server.stopping.wait()
            return
        if self.server.faults.location is not None:
            self.refuse(302, {"Location": self.server.faults.location})
            return
        self.answer(unquote(urlsplit(self.path).path))

    do_HEAD = do_GET  # noqa: N815

    def answer(self, path: str) -> None:
        if self.server.token and self.headers.get("Authorization") != f"Bearer {self.server.token}":
            self.refuse(403 if self.headers.get("Authorization") else 401)
            return
        target = self.server.root / path.lstrip("/")
        if target.is_dir() and path.endswith("/"):
            self.send_listing(target)
        elif target.is_file():
            self.send_file(target, {})
        else:
            self.refuse(404)

    def send_listing(self, folder: Path) -> None:
        names = [entry.name + "/" * entry.is_dir() for entry in sorted(folder.iterdir())]
        rows = "".join(f'<li><a href="{quote(name)}">{html.escape(name)}</a>\n' for name in names)
        page = f'<a href="?C=N;O=D">Name</a><a href="../">Parent</a><ul>\n{rows}</ul>'
        self.send_body(200, page.encode(), {"Content-Type": "text/html; charset=utf-8"})

    def refuse(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        self.send_body(status, body, headers or {})

    def send_body(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, **self._coding(), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _coding(self) -> dict[str, str]:
        coding = self.server.faults.coding
        return {"Content-Encoding": coding} if coding else {}

    def send_file(self, path: Path, headers: dict[str, str]) -> None:
        """The file or the range that was asked for, with the faults that are due."""
        faults = self.server.faults
        facts = path.stat()
        if faults.statuses and self.command == "GET":
            self.refuse(faults.statuses.pop(0))
            return
        known = {"ETag": f'"{facts.st_mtime_ns:x}-{facts.st_size:x}"'} | headers
        if faults.validators:
            headers = known | {"Last-Modified": formatdate(facts.st_mtime, usegmt=True)}
            if not faults.tags:
                del headers["ETag"]
        first, end, status = self._wanted(facts.st_size, known["ETag"])
        if status == 416:
            self.refuse(416, {"Content-Range": f"bytes */{facts.st_size}"})
            return
        if status == 206:
            headers["Content-Range"] = f"bytes {first}-{end - 1}/{facts.st_size}"
        self.send_response(status)
        chunked = faults.two_lengths or (faults.more and end - first > 1)
        length = {"Content-Length": str(end - first)}
        framing = {"Transfer-Encoding": "chunked"} if chunked else {}
        if faults.two_lengths or not chunked:
            framing |= length
        for name, value in {**headers, **self._coding(), **framing}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if chunked:
            self._send_chunks(path, first, end)
        else:
            self._send_content(path, first, end)

    def _wanted(self, size: int, tag: str) -> tuple[int, int, int]:
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        same = self.headers.get("If-Range", tag) == tag or not self.headers["If-Range"].startswith(
            '"'
        )
        same = same or not self.server.faults.heeds_if_range
        if match is None or not self.server.faults.ranges or not same:
            return 0, size, 200
        first = int(match[1])
        if first >= size:
            return 0, 0, 416
        return first, min(int(match[2] or size) + 1, size), 206

    def _send_content(self, path: Path, first: int, end: int) -> None:
        faults = self.server.faults
        # Probes of one byte are left alone.
        cut = faults.cuts.pop(0) if faults.cuts and end - first > 1 else None
        sent = 0
        with path.open("rb") as file:
            file.seek(first)
            while piece := file.read(min(PIECE_BYTES, end - first - sent)):
                if path.name in faults.flips and first + sent == 0:
                    piece = bytes([piece[0] ^ 1]) + piece[1:]
                if cut is not None and sent + len(piece) > cut:
                    self.wfile.write(piece[: max(cut - sent, 0)])
                    self.close_connection = True
                    return
                self.wfile.write(piece)
                sent += len(piece)
                if sent < end - first:
                    time.sleep(faults.seconds_a_piece)

    def _send_chunks(self, path: Path, first: int, end: int) -> None:
        content = path.read_bytes()[first:end] + b"?" * max(self.server.faults.more, 1)
        self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content))

    def log_message(self, *_: object) -> None:
        """Tests look at `seen`."""


@contextmanager
def running(server: FileServer) -> Iterator[FileServer]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.stopping.set()
        server.shutdown()
        thread.join()
        server.server_close()

"""A registry in this process: the distribution API with faults on request.

Real registries differ in what they do about a cut upload; here a test says which kind it meets."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
_BLOB = re.compile(r"/v2/(?P<name>.+)/blobs/(?P<digest>sha256:[0-9a-f]{64})")
_UPLOADS = re.compile(r"/v2/(?P<name>.+)/blobs/uploads/(?P<id>[^/]*)")
_MANIFEST = re.compile(r"/v2/(?P<name>.+)/manifests/(?P<which>[^/]+)")
_REFERRERS = re.compile(r"/v2/(?P<name>.+)/referrers/(?P<digest>[^/]+)")


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@dataclass
class Faults:
    """What goes wrong, each a number of times."""

    #: Bodies are cut after so many bytes, one number a PATCH, then no more.
    cut_after: list[int] = field(default_factory=list)
    #: Statuses that are answered, one a request, instead of what is right.
    statuses: list[int] = field(default_factory=list)
    #: Whether a cut upload can be asked how far it got.
    resumable: bool = True
    #: Commits whose answer is lost: the blob is there, and the client does not know.
    lost_commits: int = 0
    #: Commits before which the registry restarts, forgets what was uploaded, and does not say so.
    forgotten_uploads: int = 0
    #: Requests that a token is good for.
    token_requests: int = 1_000_000


class Registry:
    """Contents and what happened; `host` is what references begin with."""

    def __init__(self, users: dict[str, str] | None, tokens: bool) -> None:
        self.users = users
        self.tokens = tokens
        self.faults = Faults()
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, tuple[str, bytes]] = {}
        self.uploads: dict[str, bytearray] = {}
        #: `METHOD path` of each request, and bytes of blobs that were taken.
        self.requests: list[str] = []
        self.received = 0
        self.lock = threading.Lock()
        self.issued: dict[str, int] = {}
        self.host = ""

    def put_manifest(self, which: str, media_type: str, content: bytes) -> str:
        digest = digest_of(content)
        self.manifests[which] = self.manifests[digest] = (media_type, content)
        return digest

    def put_blob(self, content: bytes) -> str:
        self.blobs[digest_of(content)] = content
        return digest_of(content)

    def count(self, beginning: str) -> int:
        return sum(request.startswith(beginning) for request in self.requests)


@contextmanager
def serving(users: dict[str, str] | None = None, tokens: bool = False) -> Iterator[Registry]:
    """`users`: passwords by name, None lets everybody in; `tokens`: tokens in place of Basic."""
    registry = Registry(users, tokens)

    class Bound(_Handler):
        contents = registry

    server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
    server.daemon_threads = True
    registry.host = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    contents: Registry
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def _handle(self) -> None:
        registry = self.contents
        with registry.lock:
            registry.requests.append(f"{self.command} {self.path}")
            status = None
            if registry.faults.statuses and not self.path.startswith("/token"):
                status = registry.faults.statuses.pop(0)
        if status is not None:
            self._answer(status, b'{"errors":[{"code":"UNAVAILABLE","message":"a bad day"}]}')
        elif self.path.startswith("/token"):
            self._token()
        elif self._authorized():
            self._route()

    do_GET = do_HEAD = do_POST = do_PATCH = do_PUT = _handle  # noqa: N815

    def _route(self) -> None:
        path = urlsplit(self.path).path
        if found := _UPLOADS.fullmatch(path):
            self._upload(found["name"], found["id"])
        elif found := _BLOB.fullmatch(path):
            self._content(self.contents.blobs.get(found["digest"]), "application/octet-stream")
        elif found := _MANIFEST.fullmatch(path):
            self._manifest(found["which"])
        elif found := _REFERRERS.fullmatch(path):
            self._referrers(found["digest"])
        else:
            self._answer(404)

    # --- uploads ---

    def _upload(self, name: str, identity: str) -> None:
        registry = self.contents
        if self.command == "POST":
            identity = uuid.uuid4().hex
            registry.uploads[identity] = bytearray()
            self._answer(202, headers=self._where(name, identity))
            return
        upload = registry.uploads.get(identity)
        if upload is None or (self.command == "GET" and not registry.faults.resumable):
            self._answer(404)
            return
        match self.command:
            case "GET":
                self._answer(204, headers=self._where(name, identity))
            case "PATCH":
                self._patch(name, identity, upload)
            case "PUT":
                self._commit(identity, upload)

    def _where(self, name: str, identity: str) -> dict[str, str]:
        size = len(self.contents.uploads[identity])
        return {
            "Location": f"/v2/{name}/blobs/uploads/{identity}?state=a%2Fb",
            "Range": f"0-{max(0, size - 1)}",
        }

    def _patch(self, name: str, identity: str, upload: bytearray) -> None:
        faults = self.contents.faults
        given = self.headers.get("Content-Range")
        start = int(given.partition("-")[0]) if given else 0
        if start != len(upload):
            self._answer(416)
            return
        with self.contents.lock:
            cut = faults.cut_after.pop(0) if faults.cut_after else None
        left = int(self.headers["Content-Length"])
        while left:
            piece = self.rfile.read(min(left, 65536 if cut is None else min(cut, 65536) or 1))
            if not piece:
                return
            left -= len(piece)
            upload += piece
            self.contents.received += len(piece)
            if cut is not None:
                cut -= len(piece)
                if cut <= 0:
                    self._cut()
                    return
        self._answer(202, headers=self._where(name, identity))

    def _commit(self, identity: str, upload: bytearray) -> None:
        (digest,) = parse_qs(urlsplit(self.path).query)["digest"]
        if self.contents.faults.forgotten_uploads:
            self.contents.faults.forgotten_uploads -= 1
            upload.clear()
        content = bytes(upload)
        if digest_of(content) != digest:
            self._answer(400, b'{"errors":[{"code":"DIGEST_INVALID","message":"another"}]}')
            return
        self.contents.blobs[digest] = content
        del self.contents.uploads[identity]
        if self.contents.faults.lost_commits:
            self.contents.faults.lost_commits -= 1
            self._cut()
            return
        self._answer(201)

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    # --- manifests ---

    def _manifest(self, which: str) -> None:
        if self.command == "PUT":
            content = self.rfile.read(int(self.headers["Content-Length"]))
            self.contents.put_manifest(which, self.headers["Content-Type"], content)
            self._answer(201)
            return
        media_type, content = self.contents.manifests.get(which, ("", None))
        self._content(content, media_type)

    def _referrers(self, digest: str) -> None:
        entries = []
        for which, (media_type, content) in self.contents.manifests.items():
            document = json.loads(content)
            if which == digest_of(content) and document.get("subject", {}).get("digest") == digest:
                entry = {"mediaType": media_type, "digest": which, "size": len(content)}
                entries.append(entry | {"artifactType": document.get("artifactType")})
        index = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": entries}
        self._answer(200, json.dumps(index).encode(), {"Content-Type": INDEX_TYPE})

    def _content(self, content: bytes | None, media_type: str) -> None:
        if content is None:
            self._answer(404)
        else:
            headers = {"Content-Type": media_type, "Docker-Content-Digest": digest_of(content)}
            self._answer(200, content, headers)

    # --- who may ---

    def _authorized(self) -> bool:
        registry = self.contents
        if registry.users is None:
            return True
        scheme, _, value = self.headers.get("Authorization", "").partition(" ")
        if not registry.tokens:
            if scheme == "Basic" and self._is_user(value):
                return True
            self._answer(401, headers={"WWW-Authenticate": 'Basic realm="x"'})
            return False
        with registry.lock:
            left = registry.issued.get(value, 0)
            registry.issued[value] = left - 1
        if scheme == "Bearer" and left > 0:
            return True
        realm = f'Bearer realm="http://{registry.host}/token",service="s",scope="x"'
        self._answer(401, headers={"WWW-Authenticate": realm})
        return False

    def _is_user(self, value: str) -> bool:
        username, _, password = base64.b64decode(value).decode().partition(":")
        return (self.contents.users or {}).get(username) == password

    def _token(self) -> None:
        _, _, value = self.headers.get("Authorization", "").partition(" ")
        if not value or not self._is_user(value):
            self._answer(401)
            return
        token = uuid.uuid4().hex
        self.contents.issued[token] = self.contents.faults.token_requests
        self._answer(200, json.dumps({"token": token}).encode())

    def _answer(
        self, status: int, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> None:
        # What of the body was not read would be taken for the next request.
        if self.command in ("PATCH", "PUT") and status >= 400:
            self.close_connection = True
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

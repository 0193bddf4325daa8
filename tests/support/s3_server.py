"""An S3 of directories: `ROOT/<bucket>/<key>`, read only, that checks signatures.

Listing, HEAD and GET with the headers that matter: Range, If-Match, checksums. Signature Version 4
is computed here from the standard's text and not with a client's code.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from support.file_server import FileHandler, FileServer

AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<id>[^/]+)/(?P<scope>[^,]+), ?"
    r"SignedHeaders=(?P<signed>[^,]+), ?Signature=(?P<signature>[0-9a-f]{64})"
)


class S3Server(FileServer):
    # Without keys, everybody may read.
    keys: dict[str, str] = {}  # noqa: RUF012 - replaced, never changed
    forbidden: frozenset[str] = frozenset()  # buckets
    page_size = 1000
    endless: int | None = None  # objects on each page of a list that never ends
    # Whether objects have a SHA-256 of S3's own; if not, an ETag that is no MD5.
    checksums = True

    @classmethod
    def handler(cls) -> type[BaseHTTPRequestHandler]:
        return S3Handler


class S3Handler(FileHandler):
    server: S3Server

    def answer(self, path: str) -> None:
        bucket, _, key = path.lstrip("/").partition("/")
        problem = self._problem()
        if problem is not None:
            self._refuse(403, problem)
        elif bucket in self.server.forbidden:
            self._refuse(403, "AccessDenied")
        elif not (self.server.root / bucket).is_dir():
            self._refuse(404, "NoSuchBucket")
        elif not key:
            self._list(self.server.root / bucket)
        else:
            self._object(self.server.root / bucket / key)

    def _object(self, path: Path) -> None:
        if not path.is_file():
            self._refuse(404, "NoSuchKey")
            return
        headers = {"ETag": f'"{self.server.digest(path, "md5")}"'}
        if not self.server.checksums:
            headers["ETag"] = f'"{self.server.digest(path, "md5")}-2"'
        elif self.headers.get("x-amz-checksum-mode") == "ENABLED":
            digest = bytes.fromhex(self.server.digest(path, "sha256"))
            headers["x-amz-checksum-sha256"] = base64.b64encode(digest).decode()
            headers["x-amz-checksum-type"] = "FULL_OBJECT"
        if self.headers.get("If-Match", headers["ETag"]) != headers["ETag"]:
            self._refuse(412, "PreconditionFailed")
            return
        self.send_file(path, headers)

    def _list(self, bucket: Path) -> None:
        query = dict(parse_qsl(urlsplit(self.path).query))
        keys = sorted(
            path.relative_to(bucket).as_posix() for path in bucket.rglob("*") if path.is_file()
        )
        if self.server.endless is not None:
            self._list_endlessly(int(query.get("continuation-token", "0")))
            return
        keys = [key for key in keys if key.startswith(query.get("prefix", ""))]
        start = int(query.get("continuation-token", "0"))
        page = keys[start : start + self.server.page_size]
        more = start + len(page) < len(keys)
        items = "".join(
            f"<Contents><Key>{escape(key)}</Key>"
            f"<Size>{(bucket / key).stat().st_size}</Size></Contents>"
            for key in page
        )
        token = f"<NextContinuationToken>{start + len(page)}</NextContinuationToken>" * more
        body = (
            '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{items}{token}</ListBucketResult>"
        )
        self.send_body(200, body.encode(), {"Content-Type": "application/xml"})

    def _list_endlessly(self, number: int) -> None:
        objects = range(self.server.endless or 0)
        items = "".join(
            f"<Contents><Key>{number}-{i}</Key><Size>1</Size></Contents>" for i in objects
        )
        token = f"<NextContinuationToken>{number + 1}</NextContinuationToken>"
        body = f"<ListBucketResult>{items}{token}</ListBucketResult>"
        self.send_body(200, body.encode(), {"Content-Type": "application/xml"})

    def _refuse(self, status: int, code: str) -> None:
        body = f"<Error><Code>{code}</Code></Error>".encode()
        self.refuse(status, {"Content-Type": "application/xml"}, body)

    def _problem(self) -> str | None:
        """The error code for the caller's signature."""
        if not self.server.keys:
            return None
        match = AUTHORIZATION.fullmatch(self.headers.get("Authorization", ""))
        if match is None:
            return "AccessDenied"
        secret = self.server.keys.get(match["id"])
        if secret is None:
            return "InvalidAccessKeyId"
        names = match["signed"].split(";")
        extra = [name for name in self.headers if name.lower().startswith("x-amz-")]
        if "host" not in names or not {name.lower() for name in extra} <= set(names):
            return "AccessDenied"
        wanted = self._signature(secret, match["scope"], names)
        return None if hmac.compare_digest(wanted, match["signature"]) else "SignatureDoesNotMatch"

    def _signature(self, secret: str, scope: str, names: list[str]) -> str:
        parts = urlsplit(self.path)
        query = sorted(
            (quote(unquote(name), safe="-_.~"), quote(unquote(value), safe="-_.~"))
            for name, value in parse_qsl(parts.query, keep_blank_values=True)
        )
        canonical = "\n".join(
            [
                self.command,
                parts.path,
                "&".join(f"{name}={value}" for name, value in query),
                *(f"{name}:{self.headers[name].strip()}" for name in names),
                "",
                ";".join(names),
                self.headers["x-amz-content-sha256"],
            ]
        )
        hashed = hashlib.sha256(canonical.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{self.headers['x-amz-date']}\n{scope}\n{hashed}"
        key = f"AWS4{secret}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        return hmac.new(key, text.encode(), "sha256").hexdigest()

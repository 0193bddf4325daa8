"""A prefix of an S3 bucket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit
from xml.etree import ElementTree

from warmpod.agent.staging.credentials import Credentials
from warmpod.agent.staging.errors import SourceError, changed, unreachable
from warmpod.agent.staging.files import (
    MAX_FILES,
    RemoteFile,
    checked,
    is_hidden,
    size_of,
    with_manifest,
)
from warmpod.agent.staging.s3_protocol import UNKNOWN_CALLER, Signature, digest_of, error_code
from warmpod.agent.staging.transport import Judge, Refusal, Request, Transport
from warmpod.reasons import (
    PATH_MISMATCH,
    SOURCE_FORBIDDEN,
    SOURCE_NOT_FOUND,
    SOURCE_UNAUTHORIZED,
)
from warmpod.weights import manifest as manifests
from warmpod.weights.findings import WeightsError

DEFAULT_REGION = "us-east-1"
MAX_ANSWER_BYTES = 8 * 1024 * 1024
# Of a thousand objects each, as a rule. A list that never ends must not keep the agent for ever.
MAX_PAGES = 1000


class Bucket:
    commit = ""

    def __init__(
        self, spec: Mapping[str, Any], credentials: Credentials, transport: Transport
    ) -> None:
        self._uri = str(spec["uri"])
        parts = urlsplit(self._uri)
        self._bucket = parts.netloc
        self._prefix = parts.path.strip("/") + "/" if parts.path.strip("/") else ""
        self._endpoint = str(spec.get("endpoint") or "").rstrip("/")
        self._region = str(spec.get("region") or DEFAULT_REGION)
        key_id = credentials.get("AWS_ACCESS_KEY_ID")
        secret = credentials.get("AWS_SECRET_ACCESS_KEY")
        self._keys: tuple[str, str, str | None] | None = None
        if key_id and secret:
            self._keys = key_id, secret, credentials.get("AWS_SESSION_TOKEN")
        self._transport = transport

    def plan(self) -> tuple[RemoteFile, ...]:
        objects = dict(self._objects())
        manifest = self._manifest() if manifests.MANIFEST_NAME in objects else None
        if manifest is not None:
            names = {entry.path for entry in manifest.files}
            files = (self._examine(path, size) for path, size in objects.items() if path in names)
            return checked(with_manifest(files, manifest, self._uri), self._uri)
        # Names are judged before every object is asked for its checksum.
        named = checked((RemoteFile(path, size, "") for path, size in objects.items()), self._uri)
        return tuple(self._examine(file.path, file.size) for file in named)

    def request(self, file: RemoteFile, first: int, end: int) -> Request:
        headers = {"If-Match": file.identity}
        if (first, end) != (0, file.size):
            headers["Range"] = f"bytes={first}-{end - 1}"
        return self._request("GET", self._prefix + file.path, {}, headers)

    def judge(self, refusal: Refusal) -> SourceError:
        code = error_code(refusal)
        answer = f"{self._uri}: S3 answered {refusal.status} {code}".rstrip()
        where = "the Secret of s3.secretName"
        if refusal.status == 412:
            return changed(self._uri)
        if code in UNKNOWN_CALLER or refusal.status == 401:
            keys = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            return SourceError(SOURCE_UNAUTHORIZED, f"{answer} — correct {keys} in {where}")
        if refusal.status == 403 and self._keys is None:
            message = f"{answer}, and no keys were sent — put keys that may read it into {where}"
            return SourceError(SOURCE_UNAUTHORIZED, message)
        if refusal.status == 403:
            message = "allow s3:ListBucket on the bucket and s3:GetObject on its objects"
            return SourceError(SOURCE_FORBIDDEN, f"{answer} — {message} to the keys in {where}")
        if refusal.status == 404:
            return SourceError(SOURCE_NOT_FOUND, f"{answer} — correct s3.uri or s3.endpoint")
        if refusal.status < 500:
            return SourceError(PATH_MISMATCH, f"{answer} — correct s3.region or s3.endpoint")
        return unreachable(self._uri, f"S3 answered {refusal.status} {code}")

    def _objects(self) -> Iterator[tuple[str, int]]:
        """Path below the prefix, and size, of every object; markers of folders left out."""
        token: str | None = None
        count = 0
        for _ in range(MAX_PAGES):
            page = self._page(token)
            for item in page.iter("Contents"):
                key = item.findtext("Key", "").removeprefix(self._prefix)
                if not key or key.endswith("/") or is_hidden(key):
                    continue
                count += 1
                if count > MAX_FILES:
                    raise self._too_much()
                yield key, self._size(item)
            token = page.findtext("NextContinuationToken")
            if not token:
                return
        raise self._too_much()

    def _too_much(self) -> SourceError:
        message = f"more than {MAX_FILES} files, or {MAX_PAGES} pages of objects"
        return SourceError(PATH_MISMATCH, f"{self._uri}: {message} — correct s3.uri")

    def _size(self, item: ElementTree.Element) -> int:
        size = size_of(item.findtext("Size", ""))
        if size is None:
            message = f"{self._endpoint}: the answer is not that of S3 — correct s3.endpoint"
            raise SourceError(PATH_MISMATCH, message)
        return size

    def _page(self, token: str | None) -> ElementTree.Element:
        query = {"list-type": "2", "prefix": self._prefix}
        if token:
            query["continuation-token"] = token
        body = self._read("", query, self._judge_list)
        try:
            page = ElementTree.fromstring(body)  # noqa: S314 - expat bounds the expansion of entities
        except ElementTree.ParseError:
            page = ElementTree.Element("none")
        for element in page.iter():
            element.tag = element.tag.rpartition("}")[2]
        if page.tag != "ListBucketResult":
            message = f"{self._endpoint}: the answer is not that of S3 — correct s3.endpoint"
            raise SourceError(PATH_MISMATCH, message)
        return page

    def _read(self, key: str, query: Mapping[str, str], judge: Judge) -> bytes:
        request = self._request("GET", key, query, {})
        try:
            return self._transport.read(request, judge, MAX_ANSWER_BYTES, "s3.endpoint")[1]
        except _OtherRegion as error:
            self._region = error.region
            request = self._request("GET", key, query, {})
            return self._transport.read(request, self.judge, MAX_ANSWER_BYTES, "s3.endpoint")[1]

    def _judge_list(self, refusal: Refusal) -> SourceError:
        region = refusal.headers.get("x-amz-bucket-region")
        if region and region != self._region:
            return _OtherRegion(region)
        return self.judge(refusal)

    def _manifest(self) -> manifests.Manifest:
        body = self._read(self._prefix + manifests.MANIFEST_NAME, {}, self.judge)
        try:
            return manifests.parse(body)
        except WeightsError as error:
            raise SourceError(PATH_MISMATCH, f"{self._uri}: {error}") from error

    def _examine(self, path: str, size: int) -> RemoteFile:
        headers = {"x-amz-checksum-mode": "ENABLED"}
        request = self._request("HEAD", self._prefix + path, {}, headers)
        answer = self._transport.read(request, self.judge, 0, "s3.endpoint")[0]
        for name in ("ETag", "Content-Length"):
            if not answer.headers.get(name):
                message = f"{self._uri}: S3 tells no {name} of {path}"
                raise SourceError(PATH_MISMATCH, f"{message} — correct s3.endpoint, or the server")
        tag = answer.headers["ETag"]
        if answer.headers["Content-Length"] != str(size):
            raise changed(f"{self._uri}: {path}")
        return RemoteFile(path, size, tag, digest_of(answer.headers), told_by="ETag")

    def _request(
        self, method: str, key: str, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> Request:
        url = f"{self._base()}/{quote(key, safe='/-_.~')}"
        if query:
            url += "?" + urlencode(sorted(query.items()), quote_via=quote, safe="-_.~")
        authorization = Signature(self._keys, self._region) if self._keys else None
        return Request(url, headers, authorization, redirects=False, method=method)

    def _base(self) -> str:
        """Buckets of a given endpoint stand in the path, as every S3 server understands; those
        of AWS in the host, unless a dot in the name would break the certificate's match."""
        if self._endpoint:
            return f"{self._endpoint}/{self._bucket}"
        host = f"s3.{self._region}.amazonaws.com"
        if "." in self._bucket:
            return f"https://{host}/{self._bucket}"
        return f"https://{self._bucket}.{host}"


class _OtherRegion(SourceError):
    def __init__(self, region: str) -> None:
        super().__init__(PATH_MISMATCH, f"the bucket is in region {region} — correct s3.region")
        self.region = region

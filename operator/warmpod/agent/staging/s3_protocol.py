"""What S3 has of its own: signatures, error codes, checksums.

Signatures come from AWS's runtime library, awscrt: the larger clients, boto3 and s3fs, need a
python-dateutil that the Kubernetes client refuses.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import requests
from awscrt.auth import (
    AwsCredentialsProvider,
    AwsSignedBodyHeaderType,
    AwsSignedBodyValue,
    AwsSigningConfig,
    aws_sign_request,
)
from awscrt.http import HttpHeaders, HttpRequest

from warmpod.agent.staging.digests import Digest
from warmpod.agent.staging.transport import Refusal

# Codes that mean "I do not know you", which S3 sends with status 403 like "you may not".
UNKNOWN_CALLER = {
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "InvalidToken",
    "ExpiredToken",
    "TokenRefreshRequired",
    "RequestTimeTooSkewed",
    "AuthorizationHeaderMalformed",
    "MissingSecurityHeader",
    "InvalidSecurity",
}
# The strongest first. An ETag is an MD5 only under conditions, see digest_of.
CHECKSUMS = {
    "x-amz-checksum-sha256": "sha256",
    "x-amz-checksum-crc64nvme": "crc64nvme",
    "x-amz-checksum-sha1": "sha1",
    "x-amz-checksum-crc32c": "crc32c",
    "x-amz-checksum-crc32": "crc32",
}
_MD5_TAG = re.compile(r'"([0-9a-f]{32})"')


class Signature(requests.auth.AuthBase):
    """AWS Signature Version 4 of one request; its time is that of the request."""

    def __init__(self, keys: tuple[str, str, str | None], region: str) -> None:
        """`keys`: key id, secret key, session token."""
        self._credentials = AwsCredentialsProvider.new_static(*keys)
        self._region = region

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        parts = urlsplit(request.url or "")
        path = str(parts.path) + (f"?{parts.query}" if parts.query else "")
        headers = HttpHeaders([("host", str(parts.netloc))])
        for name, value in request.headers.items():
            if name.lower().startswith("x-amz-"):
                headers.add(name, str(value))
        signed = HttpRequest(request.method, path, headers)
        config = AwsSigningConfig(
            credentials_provider=self._credentials,
            region=self._region,
            service="s3",
            use_double_uri_encode=False,
            should_normalize_uri_path=False,
            signed_body_value=AwsSignedBodyValue.EMPTY_SHA256,
            signed_body_header_type=AwsSignedBodyHeaderType.X_AMZ_CONTENT_SHA_256,
        )
        aws_sign_request(signed, config).result()
        request.headers.update(dict(signed.headers))
        return request


def error_code(refusal: Refusal) -> str:
    """The error code in the body; an answer to HEAD has no body."""
    match = re.search(rb"<Code>([A-Za-z0-9]{1,64})</Code>", refusal.body)
    return match[1].decode() if match else ""


def digest_of(headers: Mapping[str, str]) -> Digest | None:
    """A checksum over the whole object, if it has one. One over the checksums of parts says
    nothing to whoever does not know the parts, and not every server marks it as such."""
    in_parts = "-" in headers.get("ETag", "")
    whole = headers.get("x-amz-checksum-type", "COMPOSITE" if in_parts else "") != "COMPOSITE"
    for name, kind in CHECKSUMS.items():
        value = headers.get(name)
        # There is no CRC-64 over checksums of parts.
        if value and (whole or kind == "crc64nvme") and "-" not in value:
            try:
                return Digest(kind, base64.b64decode(value, validate=True).hex())
            except binascii.Error:
                continue
    # With a key of KMS or of the customer the ETag has the form of an MD5 and is none.
    encrypted = headers.get("x-amz-server-side-encryption", "AES256") != "AES256"
    customer = "x-amz-server-side-encryption-customer-algorithm" in headers
    match = _MD5_TAG.fullmatch(headers.get("ETag", ""))
    return Digest("md5", match[1]) if match and not encrypted and not customer else None

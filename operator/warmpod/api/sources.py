"""Where a model's files come from: the part of a WarmModel that its models share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from warmpod.api.base import (
    ATOMIC,
    Form,
    ImageReference,
    StrictBase,
    SubdomainName,
    rule,
    rules,
)

_DOTTED = "(^|/)[.][.]?(/|$)"
_USER_INFO = "^[a-z]+://[^/?]*@"
_KINDS = ("image", "huggingFace", "s3", "http", "persistentVolumeClaim", "nodePath")
_COUNTED = " + ".join(f"(has(self.{kind}) ? 1 : 0)" for kind in _KINDS)

# Neither spaces nor a fragment, which no server is ever sent.
_HOST = r"([^\x00-\x20#/?@:\[\]]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?"
_URL_PATTERN = rf"^https?://([^\x00-\x20#/?@]*@)?{_HOST}([/?][^\x00-\x20#]*)?$"


def _no_credentials(field: str) -> dict[str, str]:
    return rule(
        f"!self.matches('{_USER_INFO}')",
        f"{field}: credentials in a URL can be read by everybody who can read the WarmModel: use "
        "secretName",
    )


def _no_dots(field: str) -> dict[str, str]:
    return rule(
        f"!self.matches('{_DOTTED}')",
        f"{field}: has a . or .. between its slashes: use the path that it leads to",
    )


Endpoint = Annotated[
    str,
    Field(max_length=1024),
    Form(
        _URL_PATTERN,
        "endpoint is not the URL of a server: use for example https://hub.example.com:8443, "
        "without spaces and without #",
        also=(_no_credentials("endpoint"),),
    ),
]
Glob = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f]+$")]


class HuggingFace(StrictBase):
    repository: Annotated[
        str,
        Field(max_length=192),
        Form(
            r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$",
            "huggingFace.repository is not organisation/name: use for example "
            "meta-llama/Llama-3.1-8B, without the address of the hub",
        ),
    ] = Field(description="Repository of models, as organisation/name.")
    revision: Annotated[
        str,
        Field(max_length=256),
        Form(
            r"^[A-Za-z0-9_][A-Za-z0-9_/+-]*([.][A-Za-z0-9_/+-]+)*$",
            "huggingFace.revision is not the name of a commit, tag or branch: use for example "
            "main or v1.0, without spaces and without two points in a row",
        ),
    ] = Field(
        default="main",
        description="Commit, tag or branch. Use a commit: nodes that download at other times hold "
        "the same files only if it never moves.",
    )
    endpoint: Endpoint | None = Field(
        default=None, description="A mirror of the hub; default: https://huggingface.co."
    )
    secret_name: SubdomainName | None = Field(
        default=None,
        description="Secret of the namespace with the key `token`. It may appear later.",
    )
    include: Annotated[tuple[Glob, ...], Field(max_length=32)] = Field(
        default=(),
        description="Only files that match one of these globs; default: all.",
        json_schema_extra=ATOMIC,
    )
    exclude: Annotated[tuple[Glob, ...], Field(max_length=32)] = Field(
        default=(),
        description="No files that match one of these globs.",
        json_schema_extra=ATOMIC,
    )


class S3(StrictBase):
    uri: Annotated[
        str,
        Field(max_length=1280),
        Form(
            r"^s3://[A-Za-z0-9][A-Za-z0-9._-]{1,254}(/[^\x00-\x20]*)?$",
            "s3.uri is not a bucket and a prefix: use for example s3://models/llama, without "
            "spaces; an S3-compatible service is named by endpoint",
        ),
    ] = Field(description="Bucket, and the prefix below which the files lie: s3://bucket/prefix.")
    endpoint: Endpoint | None = Field(
        default=None, description="An S3-compatible service; default: that of AWS."
    )
    region: (
        Annotated[
            str,
            Field(max_length=64),
            Form(
                r"^[A-Za-z0-9-]+$",
                "s3.region has letters, digits and dashes: use for example eu-central-1",
            ),
        ]
        | None
    ) = Field(default=None, description="Region of the bucket.")
    secret_name: SubdomainName | None = Field(
        default=None,
        description="Secret of the namespace with the keys AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY, and AWS_SESSION_TOKEN where one is needed. It may appear later.",
    )


class Http(StrictBase):
    url: Annotated[
        str,
        Field(max_length=2048),
        Form(
            _URL_PATTERN,
            "http.url is not a URL: use for example https://example.com/llama.tar, without spaces "
            "and without #",
            also=(
                _no_credentials("http.url"),
                rule(
                    "self.matches('^[^?]*(/|[.]tar|[.]tar[.]gz|[.]tgz|[.]zip)([?].*)?$')",
                    "http.url must end in .tar, .tar.gz, .tgz or .zip for an archive, or in / for "
                    "a listing",
                ),
            ),
        ),
    ] = Field(
        description="An archive (.tar, .tar.gz, .tgz, .zip), or a listing of files: then it ends "
        "in a slash.",
    )
    secret_name: SubdomainName | None = Field(
        default=None,
        description="Secret of the namespace with the key `token` (sent as bearer), or `username` "
        "and `password`. It may appear later.",
    )


class Claim(StrictBase):
    claim_name: SubdomainName = Field(description="Name of a PersistentVolumeClaim.")


class ClaimSource(Claim):
    path: (
        Annotated[
            str,
            Field(max_length=1024),
            Form(
                r"^[^/:\x00]+(/[^/:\x00]+)*/?$",
                "persistentVolumeClaim.path begins with a slash, or has : or // in it: use a path "
                "from the root of the volume, for example models/llama",
                also=(_no_dots("persistentVolumeClaim.path"),),
            ),
        ]
        | None
    ) = Field(default=None, description="Directory inside the volume; default: its root.")


class NodePath(StrictBase):
    path: Annotated[
        str,
        Field(max_length=1024),
        Form(
            r"^(/[^/:\x00]+)+/?$",
            "nodePath.path is not an absolute path below /, or has : or // in it: use for example "
            "/data/models/llama",
            also=(_no_dots("nodePath.path"),),
        ),
    ] = Field(description="Absolute path of a directory that is there on every node.")


class Verify(StrictBase):
    public_key: Annotated[
        str,
        Field(max_length=8192),
        Form(
            r"^-----BEGIN PUBLIC KEY-----\s[A-Za-z0-9+/=\s]+-----END PUBLIC KEY-----\s*$",
            "verify.publicKey is not a public key in PEM: use the content of the cosign.pub that "
            "`cosign generate-key-pair` writes, from -----BEGIN PUBLIC KEY----- to "
            "-----END PUBLIC KEY-----",
        ),
    ] = Field(
        description="Public key in PEM, as `cosign generate-key-pair` writes it. An image that "
        "has no signature of its private key is refused.",
    )


class ModelSource(StrictBase):
    """Exactly one of the sources is given."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"{_COUNTED} == 1",
                f"a model has one source: set exactly one of {', '.join(_KINDS)}",
            ),
            rule(
                "!has(self.verify) || has(self.image)",
                "verify is about the signature of an image: leave it out, or use the source image",
            ),
            # A signature is of a digest: under a tag, another node could get another image.
            rule(
                "!has(self.verify) || !has(self.image) || self.image.contains('@sha256:')",
                "verify needs the image by digest: use name@sha256:…, which `warmpod pack` prints",
            ),
        )
    )

    image: ImageReference | None = Field(
        default=None,
        description="Image that holds the weights at its root. A tag is resolved to a digest "
        "once a revision; a moved tag changes nothing until the spec changes.",
    )
    hugging_face: HuggingFace | None = Field(
        default=None, description="A repository of Hugging Face; downloaded once a node."
    )
    s3: S3 | None = Field(
        default=None, description="Objects of an S3-compatible bucket; downloaded once a node."
    )
    http: Http | None = Field(
        default=None, description="An archive or a listing of a web server; downloaded once a node."
    )
    persistent_volume_claim: ClaimSource | None = Field(
        default=None, description="Files in a volume; they are used where they lie."
    )
    node_path: NodePath | None = Field(
        default=None,
        description="Files that every node has already; they are used where they lie (needs "
        "hostPath).",
    )
    verify: Verify | None = Field(
        default=None,
        description="Refuse the image unless it is signed. Only with image, given by digest.",
    )

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        """The same as the CEL rule: the builders ask which it is."""
        if len(list(self._given())) != 1:
            raise ValueError(f"needs one source: set exactly one of {', '.join(_KINDS)}")
        if self.verify is not None and self.image is None:
            raise ValueError("verify needs the source image: leave it out")
        if self.verify is not None and "@sha256:" not in (self.image or ""):
            raise ValueError("verify needs the image by digest: write it as name@sha256:…")
        return self

    @property
    def remote(self) -> HuggingFace | S3 | Http | None:
        """The source, if the agent downloads it; None if the files are there already."""
        return self.hugging_face or self.s3 or self.http

    @property
    def text(self) -> str:
        """For people: where the files come from, in one line."""
        match next(self._given()):
            case HuggingFace() as hub:
                return f"{hub.endpoint or 'https://huggingface.co'}/{hub.repository}@{hub.revision}"
            case S3() as bucket:
                return bucket.uri
            case Http() as server:
                return server.url.partition("?")[0]
            case ClaimSource() as claim:
                return f"persistentVolumeClaim {claim.claim_name}/{claim.path or ''}"
            case NodePath() as node:
                return f"nodePath {node.path}"
            case image:
                return str(image)

    def _given(self) -> Iterator[str | HuggingFace | S3 | Http | ClaimSource | NodePath]:
        for source in (
            self.image,
            self.hugging_face,
            self.s3,
            self.http,
            self.persistent_volume_claim,
            self.node_path,
        ):
            if source is not None:
                yield source

"""A repository of the Hugging Face hub, or of a mirror that speaks its protocol.

`huggingface_hub` resolves the revision to a commit, lists the files with their digests and says
where they are; their content comes over the transport of all sources, because the client itself
cannot be stopped between two pieces and does not compare digests.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from warmpod.agent.staging.credentials import Credentials
from warmpod.agent.staging.digests import Digest
from warmpod.agent.staging.errors import SourceError, unreachable
from warmpod.agent.staging.files import RemoteFile, checked
from warmpod.agent.staging.transport import (
    CONNECT_SECONDS,
    SILENCE_SECONDS,
    Authorization,
    Overloaded,
    Refusal,
    Request,
    Transport,
    cause_of,
)
from warmpod.reasons import (
    PATH_MISMATCH,
    SOURCE_FORBIDDEN,
    SOURCE_NOT_FOUND,
    SOURCE_UNAUTHORIZED,
)

# Before the client is imported, which reads them once.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_DISABLE_UPDATE_CHECK", "1")

import httpx2
from huggingface_hub import HfApi, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from huggingface_hub.hf_api import ModelInfo, RepoSibling
from huggingface_hub.utils import filter_repo_objects  # type: ignore[attr-defined]


class Hub:
    def __init__(
        self, spec: Mapping[str, Any], credentials: Credentials, transport: Transport
    ) -> None:
        self._repository = str(spec["repository"])
        self._revision = str(spec.get("revision") or "main")
        self._include = spec.get("include") or None
        self._exclude = spec.get("exclude") or None
        self._token = credentials.get("token")
        self._transport = transport
        # False, because None would make the client look for a token of its own.
        endpoint = str(spec["endpoint"]).rstrip("/") if spec.get("endpoint") else None
        self._api = HfApi(endpoint=endpoint, token=self._token or False)
        self.commit = ""

    def plan(self) -> tuple[RemoteFile, ...]:
        info = self._transport.tried(lambda: self._transport.stop.during(self._info))
        if not info.sha:
            raise SourceError(PATH_MISMATCH, f"{self._where}: the hub names no commit for it")
        self.commit = info.sha
        siblings = filter_repo_objects(
            info.siblings or (),
            allow_patterns=self._include,
            ignore_patterns=self._exclude,
            key=lambda sibling: sibling.rfilename,
        )
        return checked((self._file(sibling) for sibling in siblings), self._where)

    def request(self, file: RemoteFile, first: int, end: int) -> Request:
        headers = {"User-Agent": "warmpod"}
        if (first, end) != (0, file.size):
            headers["Range"] = f"bytes={first}-{end - 1}"
        url = hf_hub_url(
            self._repository, file.path, revision=self.commit, endpoint=self._api.endpoint
        )
        authorization = Authorization(f"Bearer {self._token}") if self._token else None
        return Request(url, headers, authorization)

    def judge(self, refusal: Refusal) -> SourceError:
        """The hub answers 401 for what exists no more than for what is private, and 403 only to
        an account that it knows."""
        gated = refusal.headers.get("X-Error-Code") == "GatedRepo"
        page = f"{self._api.endpoint}/{self._repository}"
        match refusal.status:
            case 401:
                return SourceError(SOURCE_UNAUTHORIZED, self._unauthorized(gated))
            case 403 if gated:
                message = f"is gated — accept its terms at {page} with the account of the token"
                return SourceError(SOURCE_FORBIDDEN, f"{self._where} {message}")
            case 403 | 451:
                message = (
                    f"answered {refusal.status} — give the token's account read access at {page}"
                )
                return SourceError(SOURCE_FORBIDDEN, f"{self._where} {message}")
            case 404:
                return SourceError(SOURCE_NOT_FOUND, f"{self._where}: {self._missing(refusal)}")
        return unreachable(self._where, f"the hub answered {refusal.status}")

    @property
    def _where(self) -> str:
        return f"huggingFace {self._repository} at {self._revision}"

    def _info(self) -> ModelInfo:
        try:
            return self._api.model_info(
                self._repository,
                revision=self._revision,
                files_metadata=True,
                timeout=CONNECT_SECONDS + SILENCE_SECONDS,
            )
        except HFValidationError:
            message = f"{self._where} is not a repository name — correct huggingFace.repository"
            raise SourceError(PATH_MISMATCH, message) from None
        except HfHubHTTPError as error:
            raise self._refused(error) from None
        except (httpx2.HTTPError, OSError) as error:
            raise unreachable(self._api.endpoint, cause_of(error)) from None
        except (ValueError, KeyError, TypeError):
            message = "the answer is not that of a hub — correct huggingFace.endpoint"
            raise SourceError(PATH_MISMATCH, f"{self._api.endpoint}: {message}") from None

    def _refused(self, error: HfHubHTTPError) -> SourceError:
        response = error.response
        status, headers = response.status_code, dict(response.headers)
        names = {name.lower(): value for name, value in headers.items()}
        refusal = Refusal(
            str(response.url), status, {"X-Error-Code": names.get("x-error-code", "")}, b""
        )
        if status >= 500 or status == 429:
            asked = names.get("retry-after", "")
            pause = float(asked) if asked.isdecimal() else 0.0
            return Overloaded(self._api.endpoint, f"answered {status}", pause)
        return self.judge(refusal)

    def _unauthorized(self, gated: bool) -> str:
        if self._token:
            return (
                f"{self._where}: the hub does not accept the token (401) — put a valid one under "
                "the key token into the Secret of huggingFace.secretName"
            )
        state = "is gated" if gated else "is private, or does not exist,"
        return (
            f"{self._where} {state} and no token was sent (401) — check the name, and put a token "
            "under the key token into the Secret of huggingFace.secretName"
        )

    def _missing(self, refusal: Refusal) -> str:
        if refusal.headers.get("X-Error-Code") == "RevisionNotFound":
            return "no such revision (404) — correct huggingFace.revision"
        if refusal.headers.get("X-Error-Code") == "EntryNotFound":
            return "the hub does not have a file that it lists (404) — choose another revision"
        known = "or give the token's account access" if self._token else "or give a token"
        return f"no such repository (404) — correct huggingFace.repository, {known}"

    def _file(self, sibling: RepoSibling) -> RemoteFile:
        lfs = sibling.lfs
        if lfs is not None:
            digest = Digest("sha256", lfs.sha256)
            return RemoteFile(sibling.rfilename, lfs.size, digest.value, digest)
        if sibling.size is None or not sibling.blob_id:
            message = f"{self._where}: the hub tells no size and digest of {sibling.rfilename}"
            raise SourceError(PATH_MISMATCH, f"{message} — use a mirror that does")
        digest = Digest("git-blob", sibling.blob_id)
        return RemoteFile(sibling.rfilename, sibling.size, digest.value, digest)

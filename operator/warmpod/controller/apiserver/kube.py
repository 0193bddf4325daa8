"""Requests to the API server with plain dicts in and out.

Rides on `kubernetes.aio` for configuration, credentials and the connection pool, but not on its
models: they cannot express the partial objects that server-side apply needs, and they drop fields
that they do not know.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import ApiClient, Configuration

from warmpod.controller.apiserver.kinds import Kind, kind_of

FIELD_MANAGER = "warmpod"
USER_AGENT = "warmpod-operator"
#: The parameter makes the client send a text as it is.
APPLY = "application/apply-patch+yaml; charset=utf-8"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"

#: Seconds for one request; a hung call must not hold one of the few workers for long.
REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=5)
#: Objects per page of a list: bounds the peak of memory.
PAGE = 500
#: Characters of an error answer that are kept.
MESSAGE = 1000

Object = dict[str, Any]

_TOKEN_FILE = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105 (a path)


class Unreachable(Exception):
    """The API server gave no answer: connection refused, cut, or timed out."""


class ApiError(Exception):
    """The API server answered with an error."""

    def __init__(
        self, status: int, reason: str, message: str, *, retry_after: float | None = None
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        #: Seconds after which the server wants to be asked again (429, 503), if it said so.
        self.retry_after = retry_after


async def load_configuration() -> Configuration:
    """Kubeconfig when KUBECONFIG names one, else the pod's service account, else ~/.kube/config."""
    configuration = Configuration()
    if _in_cluster():
        kube_config.load_incluster_config(client_configuration=configuration)
    else:
        await kube_config.load_kube_config(client_configuration=configuration, persist_config=False)
    return configuration


async def bearer_token(configuration: Configuration) -> str:
    """Read anew from its file where it is in one; empty for credentials of another kind."""
    bearer = (await configuration.auth_settings()).get("BearerToken")
    return bearer["value"].partition(" ")[2].strip() if bearer and bearer["value"] else ""


def _in_cluster() -> bool:
    return not os.environ.get("KUBECONFIG") and os.path.exists(_TOKEN_FILE)


class Kube:
    """One connection pool to the API server."""

    def __init__(self, configuration: Configuration) -> None:
        self._client = ApiClient(configuration)
        self._client.user_agent = USER_AGENT

    async def close(self) -> None:
        await self._client.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, Any] | None = None,
        body: Object | list[Object] | str | None = None,
        content_type: str = "application/json",
    ) -> Object:
        """Raises ApiError for an error answer, Unreachable for none."""
        url = path + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": "application/json", "Content-Type": content_type}
        try:
            params = await self._client.param_serialize(
                method, url, header_params=headers, body=body, auth_settings=["BearerToken"]
            )
            response = await self._client.call_api(*params, _request_timeout=REQUEST_TIMEOUT)
            data = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"{method} {path}: {error or type(error).__name__}") from error
        if response.status >= 400:
            raise _api_error(response.status, response.reason, response.headers, data)
        decoded: Object = json.loads(data)
        return decoded

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object | None:
        """None when it does not exist."""
        try:
            return await self.request("GET", kind.path(namespace, name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def list_pages(
        self,
        kind: Kind,
        namespace: str | None,
        *,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[tuple[list[Object], int]]:
        """Pages of objects, each with the resource version of the whole list.

        Raises ApiError 410 when the continuation expired: start again.
        """
        query: dict[str, Any] = {"limit": PAGE}
        if labels:
            query["labelSelector"] = labels
        if fields:
            query["fieldSelector"] = fields
        while True:
            page = await self.request("GET", kind.path(namespace), query=query)
            meta = page.get("metadata", {})
            yield page.get("items") or [], int(meta.get("resourceVersion") or 0)
            if not meta.get("continue"):
                return
            query["continue"] = meta["continue"]

    async def apply(self, obj: Object, *, subresource: str | None = None) -> Object:
        """Server-side apply of an object that is ours alone, so conflicts are forced."""
        meta = obj["metadata"]
        return await self.request(
            "PATCH",
            kind_of(obj).path(meta.get("namespace"), meta["name"], subresource),
            query={"fieldManager": FIELD_MANAGER, "force": "true"},
            body=_as_yaml(obj),
            content_type=APPLY,
        )

    async def merge(self, kind: Kind, namespace: str, name: str, body: Object) -> Object:
        return await self._patch(kind, namespace, name, body, MERGE)

    async def merge_lists(self, kind: Kind, namespace: str, name: str, body: Object) -> Object:
        """As `merge`, but lists of objects are merged by the key that the API defines for them."""
        return await self._patch(kind, namespace, name, body, STRATEGIC)

    async def patch(self, kind: Kind, namespace: str, name: str, steps: list[Object]) -> Object:
        """A JSON patch: all of its steps, or none."""
        return await self._patch(kind, namespace, name, steps, JSON_PATCH)

    async def _patch(
        self, kind: Kind, namespace: str, name: str, body: Object | list[Object], content_type: str
    ) -> Object:
        return await self.request(
            "PATCH",
            kind.path(namespace, name),
            query={"fieldManager": FIELD_MANAGER},
            body=body,
            content_type=content_type,
        )

    async def create(self, obj: Object) -> Object:
        return await self.request(
            "POST",
            kind_of(obj).path(obj["metadata"].get("namespace")),
            query={"fieldManager": FIELD_MANAGER},
            body=obj,
        )

    async def replace(self, obj: Object) -> Object:
        """PUT; the body's resourceVersion makes it fail with 409 if somebody was faster."""
        meta = obj["metadata"]
        return await self.request(
            "PUT",
            kind_of(obj).path(meta.get("namespace"), meta["name"]),
            query={"fieldManager": FIELD_MANAGER},
            body=obj,
        )

    async def delete(self, kind: Kind, namespace: str, name: str, *, uid: str) -> None:
        """Deletes that very object; one that is gone or was replaced is none of our business."""
        body = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        try:
            await self.request("DELETE", kind.path(namespace, name), body=body)
        except ApiError as error:
            if error.status not in (404, 409):
                raise


def _as_yaml(obj: Object) -> str:
    """JSON that is YAML too: the API server reads an apply patch as YAML, which has no pairs of
    surrogates for characters beyond U+FFFF and takes no unprintable ones."""
    text = json.dumps(obj, ensure_ascii=False)
    return re.sub("[\x7f-\uffff]", lambda found: f"\\u{ord(found[0]):04x}", text)


def _api_error(status: int, phrase: str, headers: Any, data: bytes) -> ApiError:
    reason, message = phrase or "Error", data.decode("utf-8", "replace")[:MESSAGE]
    try:
        body = json.loads(data)
    except ValueError:
        body = None
    if isinstance(body, dict) and body.get("kind") == "Status":
        reason = body.get("reason") or reason
        # A refused object may be quoted in full.
        message = (body.get("message") or message)[:MESSAGE]
        if any(
            cause.get("reason") == "NamespaceTerminating"
            for cause in (body.get("details") or {}).get("causes") or []
        ):
            reason = "NamespaceTerminating"
    return ApiError(status, reason, message, retry_after=_seconds(headers.get("Retry-After")))


def _seconds(value: str | None) -> float | None:
    """The API server sends whole seconds; an HTTP date is left to the usual back-off."""
    return float(value) if value and value.isdigit() else None

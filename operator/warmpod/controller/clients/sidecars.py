"""Calls the sidecars of engine pods: sleep, wake up, be exercised again, tell the load.

Every call is short and bounded. A pod that cannot be reached, because of a network policy for
example, is one that gave no answer, and nothing worse.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import aiohttp

from warmpod.controller.apiserver.kube import ApiError, Kube, Unreachable
from warmpod.controller.objects.views import PodView
from warmpod.protocol import WARMUP_PORT, control_audience
from warmpod.resources.names import MODEL_LABEL

#: Seconds for one call to a sidecar; it answers in milliseconds, whatever it was asked to do.
CALL_TIMEOUT = aiohttp.ClientTimeout(total=3, sock_connect=1)
#: Seconds for the API server to make a token.
TOKEN_TIMEOUT = 5.0
#: Seconds that a token lives: the least that the API server takes.
TOKEN_LIFE = 600
#: Seconds after which another one is asked for.
TOKEN_USE = 480.0
#: Characters of a sidecar's answer that are kept.
ANSWER = 300
#: Bytes of it that are read.
LONGEST_ANSWER = 64 * 1024

#: HTTP 404: a sidecar from before there were calls; 501: one that lets nobody call, or whose engine
#: cannot sleep.
_UNABLE = (404, 501)


class SidecarError(Exception):
    """The sidecar did not take the call; the message names the pod and says why."""


class SidecarUnable(SidecarError):
    """It never will: its revision was not rendered for that."""


@dataclass(frozen=True)
class Load:
    """Requests that an engine has."""

    running: int
    waiting: int


@dataclass(frozen=True)
class _Token:
    text: str
    until: float
    """On the monotonic clock."""


class Sidecars:
    """Raises SidecarError and nothing else."""

    def __init__(
        self, kube: Kube, session: aiohttp.ClientSession, namespace: str, account: str
    ) -> None:
        """`namespace` and `account` are the operator's own; without an account, which it has only
        in a cluster, no sidecar can be called."""
        self._kube = kube
        self._session = session
        self._namespace = namespace
        self._account = account
        self._tokens: dict[str, _Token] = {}
        self._asking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def sleep(self, pod: PodView) -> None:
        """Have it fall asleep once it is idle. Its condition tells what comes of it."""
        await self._call("POST", pod, "sleep")

    async def wake(self, pod: PodView) -> None:
        """Have it wake up; the same as often as it is called."""
        await self._call("POST", pod, "wake")

    async def warm(self, pod: PodView) -> None:
        """Have it play its warm-up again; while it does, the same as often as it is called."""
        await self._call("POST", pod, "warm")

    async def load(self, pod: PodView) -> Load | None:
        """None when there is no answer."""
        try:
            found = await self._call("GET", pod, "load")
            return Load(int(found["running"]), int(found["waiting"]))
        except (SidecarError, LookupError, TypeError, ValueError):
            return None

    async def _call(self, method: str, pod: PodView, action: str) -> dict[str, Any]:
        where = f"pod {pod.meta.namespace}/{pod.meta.name}: {action}"
        if not pod.ip:
            raise SidecarError(f"{where}: it has no address yet")
        audience = control_audience(pod.meta.namespace, pod.meta.labels.get(MODEL_LABEL, ""))
        token = await self._token(audience)
        host = f"[{pod.ip}]" if ":" in pod.ip else pod.ip
        url = f"http://{host}:{WARMUP_PORT}/v1/{action}"
        headers = {"Authorization": f"Bearer {token}"}
        try:
            async with self._session.request(
                method, url, headers=headers, timeout=CALL_TIMEOUT, allow_redirects=False
            ) as answer:
                text = (await answer.content.read(LONGEST_ANSWER)).decode("utf-8", "replace")
                return self._read(where, answer.status, text, audience)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise SidecarError(f"{where}: {str(error) or type(error).__name__}") from error

    def _read(self, where: str, status: int, text: str, audience: str) -> dict[str, Any]:
        if status == 401:
            self._tokens.pop(audience, None)
        if status >= 300:
            error = SidecarUnable if status in _UNABLE else SidecarError
            raise error(f"{where}: {status} {text[:ANSWER]}")
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise SidecarError(f"{where}: {status}, but not a JSON object: {text[:ANSWER]}")
        return found

    async def _token(self, audience: str) -> str:
        """One for each WarmModel: what one model's pods see is worth nothing at another's."""
        async with self._asking[audience]:
            known = self._tokens.get(audience)
            if known is None or time.monotonic() >= known.until:
                known = await self._ask_for_token(audience)
                self._forget_old_tokens()
                self._tokens[audience] = known
        return known.text

    async def _ask_for_token(self, audience: str) -> _Token:
        """https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-request-v1/"""
        if not self._account:
            raise SidecarError("the operator has no service account, so it can call no sidecar")
        path = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{self._account}/token"
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [audience], "expirationSeconds": TOKEN_LIFE},
        }
        until = time.monotonic() + TOKEN_USE
        try:
            async with asyncio.timeout(TOKEN_TIMEOUT):
                answer = await self._kube.request("POST", path, body=body)
            return _Token(str(answer["status"]["token"]), until)
        except (ApiError, Unreachable, TimeoutError, LookupError, TypeError) as error:
            raise SidecarError(
                f"no token for sidecars: {str(error) or type(error).__name__}"
            ) from error

    def _forget_old_tokens(self) -> None:
        """Of models that are gone, among others."""
        now = time.monotonic()
        for audience in [each for each, token in self._tokens.items() if now >= token.until]:
            del self._tokens[audience]
            if not self._asking[audience].locked():
                del self._asking[audience]

"""Client for the few things a pod may do with its own token: patch its own conditions, look at
the WarmModel that it belongs to, see which pods serve it, and read how tokens are verified."""

import asyncio
import json
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import aiohttp

from warmpod import protocol
from warmpod.podstatus.errors import PodStatusError
from warmpod.podstatus.wish import ConditionStatus

SERVICE_ACCOUNT_MOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

# One attempt, in seconds. The API server answers such a patch in milliseconds; a caller that
# waits longer than this on a dead connection only delays the next attempt.
ATTEMPT_SECONDS = 3.0

# The API server cuts a message after 32 KiB; readers want the first line anyway.
MESSAGE_CHARACTERS = 4096


@dataclass(frozen=True, slots=True)
class PodIdentity:
    namespace: str
    name: str
    uid: str


class OwnPod:
    """The token and the CA are read from their files for each call and connection: the kubelet
    replaces them while the process lives."""

    def __init__(
        self,
        identity: PodIdentity,
        api_url: str,
        service_account: Path = SERVICE_ACCOUNT_MOUNT,
        field_manager: str = "warmpod-sidecar",
    ) -> None:
        self.identity = identity
        self._api_url = api_url.rstrip("/")
        self._service_account = service_account
        self._field_manager = field_manager
        self._session: aiohttp.ClientSession | None = None
        self._transitions: dict[str, tuple[ConditionStatus, str]] = {}
        self.leaving = asyncio.Event()
        """Set once an answer has told that the pod is being deleted. The kubelet's one SIGTERM is
        lost if it comes before this process handles it, as it does where a pod is deleted while
        its container is made; but a deletion that is as early stands in the first answer."""

    @classmethod
    def from_environment(
        cls,
        environment: Mapping[str, str] = os.environ,
        service_account: Path = SERVICE_ACCOUNT_MOUNT,
        field_manager: str = "warmpod-sidecar",
    ) -> Self:
        def needed(name: str) -> str:
            value = environment.get(name, "")
            if not value:
                raise PodStatusError(f"environment variable {name} is not set")
            return value

        host = needed("KUBERNETES_SERVICE_HOST")
        port = environment.get("KUBERNETES_SERVICE_PORT_HTTPS") or "443"
        bracketed = f"[{host}]" if ":" in host else host
        identity = PodIdentity(
            needed("POD_NAMESPACE"), name=needed("POD_NAME"), uid=needed("POD_UID")
        )
        return cls(identity, f"https://{bracketed}:{port}", service_account, field_manager)

    async def set_condition(
        self, type_: str, status: ConditionStatus, reason: str, message: str
    ) -> None:
        """Make one attempt. Raises PodStatusError when the API server did not accept it."""
        since = self._transition_time(type_, status)
        condition = {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": message[:MESSAGE_CHARACTERS],
            "lastTransitionTime": since,
        }
        path = f"/api/v1/namespaces/{self.identity.namespace}/pods/{self.identity.name}/status"
        # The UID makes the patch fail on a later pod of the same name.
        body = {"metadata": {"uid": self.identity.uid}, "status": {"conditions": [condition]}}
        code, answer = await self._call("PATCH", path, body)
        if code != 200:
            raise PodStatusError(f"PATCH {path} for condition {type_}: {code} {answer[:300]}")
        self._transitions[type_] = (status, since)
        if _tells_of_deletion(answer):
            self.leaving.set()

    async def warm_model(self, name: str) -> dict[str, Any] | None:
        """None also when its deletion is under way, that of the whole namespace included: there,
        pods may be told to end before the WarmModel is touched."""
        namespace = self.identity.namespace
        path = f"/apis/{protocol.API_VERSION}/namespaces/{namespace}/{protocol.PLURAL}/{name}"
        model = await self._remaining(path)
        if model is None or await self._remaining(f"/api/v1/namespaces/{namespace}") is None:
            return None
        return model

    async def serving_pods(self, service: str) -> frozenset[str]:
        """Names of the pods that are ready endpoints of a Service of the namespace. Raises
        PodStatusError."""
        namespace = self.identity.namespace
        selector = f"labelSelector=kubernetes.io/service-name%3D{service}"
        path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?{selector}"
        code, answer = await self._call("GET", path)
        if code != 200:
            raise PodStatusError(f"GET {path}: {code} {answer[:300]}")
        return frozenset(
            endpoint["targetRef"]["name"]
            for endpoint_slice in json.loads(answer)["items"]
            for endpoint in endpoint_slice.get("endpoints") or ()
            if endpoint.get("conditions", {}).get("ready") and endpoint.get("targetRef")
        )

    async def read(self, path: str) -> dict[str, Any]:
        """A JSON document of the API server, whatever its media type. Raises PodStatusError."""
        code, answer = await self._call("GET", path, accept="*/*")
        if code != 200:
            raise PodStatusError(f"GET {path}: {code} {answer[:300]}")
        try:
            document: dict[str, Any] = json.loads(answer)
        except ValueError as error:
            raise PodStatusError(f"GET {path}: not JSON: {answer[:300]}") from error
        return document

    async def _remaining(self, path: str) -> dict[str, Any] | None:
        """What is there to stay. None also on 401 and 403: the ServiceAccount and
        the Role that let the pod look go away with the WarmModel, often before it."""
        code, answer = await self._call("GET", path)
        if code in (401, 403, 404):
            return None
        if code != 200:
            raise PodStatusError(f"GET {path}: {code} {answer[:300]}")
        found: dict[str, Any] = json.loads(answer)
        return None if "deletionTimestamp" in found["metadata"] else found

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _transition_time(self, type_: str, status: ConditionStatus) -> str:
        known = self._transitions.get(type_)
        if known is not None and known[0] == status:
            return known[1]
        return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    async def _call(
        self, method: str, path: str, body: Any = None, accept: str = "application/json"
    ) -> tuple[int, str]:
        parameters = {"fieldManager": self._field_manager} if body is not None else None
        try:
            session = self._open_session()
            async with session.request(
                method,
                self._api_url + path,
                params=parameters,
                json=body,
                headers=self._headers(accept),
            ) as answer:
                return answer.status, await answer.text()
        except (aiohttp.ClientError, OSError) as error:  # a time-out is an OSError
            await self.close()  # the next attempt starts from a new connection and a new CA
            raise PodStatusError(f"{method} {self._api_url}{path}: {error!r}") from error

    def _headers(self, accept: str) -> dict[str, str]:
        token = (self._service_account / "token").read_text().strip()
        return {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/strategic-merge-patch+json",
            "Accept": accept,
        }

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            # False leaves certificates unchecked, and is only reached for plain http.
            verify: ssl.SSLContext | bool = False
            if self._api_url.startswith("https:"):
                verify = ssl.create_default_context(cafile=self._service_account / "ca.crt")
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=verify),
                timeout=aiohttp.ClientTimeout(total=ATTEMPT_SECONDS),
            )
        return self._session


def _tells_of_deletion(pod: str) -> bool:
    if '"deletionTimestamp"' not in pod:
        return False
    try:
        return "deletionTimestamp" in json.loads(pod)["metadata"]
    except (ValueError, LookupError, TypeError):
        return False

"""An API server that accepts condition patches and remembers them."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aiohttp import web

from support.cluster_tokens import TokenSigner, shared_signer
from warmpod.podstatus.own_pod import OwnPod, PodIdentity

JWKS_TYPE = "application/jwk-set+json"
IDENTITY = PodIdentity(namespace="models", name="tiny-0", uid="uid-1")


@dataclass
class FakeApi:
    """`failing` answers 500 while True; `on_patch` runs before a patch is accepted."""

    patches: list[dict[str, Any]] = field(default_factory=list)
    queries: list[dict[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    uids: list[str] = field(default_factory=list)
    failing: bool = False
    refused: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)
    """Of the pod, as patches are answered."""
    delay_seconds: float = 0.0
    warm_models: dict[str, dict[str, Any]] = field(default_factory=dict)
    namespace: dict[str, Any] = field(default_factory=lambda: {"metadata": {}})
    # Names of the pods that are ready endpoints, whatever the Service.
    serving: set[str] = field(default_factory=set)
    endpoint_reads: int = 0
    signer: TokenSigner = field(default_factory=shared_signer)
    key_reads: int = 0
    on_patch: Callable[[dict[str, Any]], Any] | None = None
    url: str = ""

    def of_type(self, type_: str) -> list[dict[str, Any]]:
        return [patch for patch in self.patches if patch["type"] == type_]

    def last(self, type_: str) -> dict[str, Any]:
        found = self.of_type(type_)
        return found[-1] if found else {}

    def own_pod(self, service_account: Path, name: str = IDENTITY.name) -> OwnPod:
        service_account.mkdir(parents=True, exist_ok=True)
        (service_account / "token").write_text("token-1\n")
        return OwnPod(replace(IDENTITY, name=name), self.url, service_account)

    async def patch(self, request: web.Request) -> web.Response:
        if self.failing:
            self.refused += 1
            return web.Response(status=500, text="etcd is away")
        body = json.loads(await request.text())
        await asyncio.sleep(self.delay_seconds)
        self.headers.append(dict(request.headers))
        self.queries.append(dict(request.query))
        self.uids.append(body["metadata"]["uid"])
        for condition in body["status"]["conditions"]:
            if self.on_patch is not None:
                await self.on_patch(condition)
            self.patches.append(condition)
        return web.json_response({"metadata": self.metadata})

    async def warm_model(self, request: web.Request) -> web.Response:
        found = self.warm_models.get(request.match_info["name"])
        if found is None:
            return web.Response(status=404)
        return web.json_response(found, status=found.get("code", 200))

    async def endpoint_slices(self, request: web.Request) -> web.Response:
        self.endpoint_reads += 1
        if self.failing:
            return web.Response(status=500, text="etcd is away")
        assert request.query["labelSelector"] == "kubernetes.io/service-name=tiny"
        endpoints = [
            {"conditions": {"ready": True}, "targetRef": {"kind": "Pod", "name": name}}
            for name in sorted(self.serving)
        ]
        endpoints.append({"conditions": {"ready": False}, "targetRef": {"name": "cold"}})
        return web.json_response({"items": [{"endpoints": endpoints}, {"endpoints": None}]})

    async def discovery(self, _: web.Request) -> web.Response:
        if self.failing:
            return web.Response(status=500, text="etcd is away")
        return web.json_response(self.signer.discovery())

    async def keys(self, request: web.Request) -> web.Response:
        """The API server has this page in one media type, and refuses to give another."""
        self.key_reads += 1
        if self.failing:
            return web.Response(status=500, text="etcd is away")
        if not {"*/*", JWKS_TYPE} & set(request.headers["Accept"].split(", ")):
            return web.Response(status=406)
        return web.json_response(self.signer.keys(), content_type=JWKS_TYPE)

    async def own_namespace(self, _: web.Request) -> web.Response:
        return web.json_response(self.namespace, status=self.namespace.get("code", 200))


@asynccontextmanager
async def fake_api(ssl_context: Any = None) -> AsyncIterator[FakeApi]:
    api = FakeApi()
    app = web.Application()
    pod_path = f"/api/v1/namespaces/{IDENTITY.namespace}/pods/{IDENTITY.name}/status"
    app.router.add_patch(pod_path, api.patch)
    app.router.add_get(
        f"/apis/warmpod.io/v1alpha1/namespaces/{IDENTITY.namespace}/warmmodels/{{name}}",
        api.warm_model,
    )
    app.router.add_get("/.well-known/openid-configuration", api.discovery)
    app.router.add_get("/openid/v1/jwks", api.keys)
    app.router.add_get(f"/api/v1/namespaces/{IDENTITY.namespace}", api.own_namespace)
    app.router.add_get(
        f"/apis/discovery.k8s.io/v1/namespaces/{IDENTITY.namespace}/endpointslices",
        api.endpoint_slices,
    )
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=ssl_context)
    await site.start()
    scheme = "https" if ssl_context else "http"
    api.url = f"{scheme}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield api
    finally:
        await runner.cleanup()

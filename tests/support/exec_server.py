"""An API server in a thread: WarmModels and pods, and programs that it runs for pods/exec.

The programs are processes of this machine, and speak through the WebSocket as those of a node do.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

Object = dict[str, Any]

MODELS = "/apis/warmpod.io/v1alpha1/namespaces/{namespace}/warmmodels"
PODS = "/api/v1/namespaces/{namespace}/pods"
PROTOCOL = "v4.channel.k8s.io"


class ExecServer:
    """`argv_of(pod, command)` is what is run in place of the command in the pod."""

    def __init__(self, argv_of: Callable[[str, Sequence[str]], list[str]]) -> None:
        self.argv_of = argv_of
        self.models: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}
        #: What is answered to the next handshakes in place of running something.
        self.refuse_exec: int | None = None
        #: How programs end in place of how they do.
        self.status: Object | None = None
        #: The connection is cut after so many bytes of standard output.
        self.cut_after: int | None = None
        self.commands: list[tuple[str, list[str]]] = []
        #: Called with each WarmModel that is created; may change pods and the model's status.
        self.on_create: Callable[[Object], None] = lambda model: None
        self.deleted: list[tuple[str, Object]] = []
        self.port = 0

    def application(self) -> web.Application:
        application = web.Application()
        application.add_routes(
            [
                web.get(MODELS + "/{name}", self._get_model),
                web.post(MODELS, self._create_model),
                web.delete(MODELS + "/{name}", self._delete_model),
                web.get(PODS, self._list_pods),
                web.get(PODS + "/{pod}/exec", self._exec),
            ]
        )
        return application

    def kubeconfig(self, folder: Path) -> Path:
        path = folder / "kubeconfig"
        context = {"cluster": "c", "user": "u", "namespace": "demo"}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": context}],
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        }
        path.write_text(yaml.safe_dump(document))
        return path

    async def _get_model(self, request: web.Request) -> web.Response:
        model = self.models.get(request.match_info["name"])
        return web.json_response(model) if model is not None else _status(404, "not found")

    async def _create_model(self, request: web.Request) -> web.Response:
        model = await request.json()
        name = model["metadata"]["name"]
        if name in self.models:
            return _status(409, f'warmmodels.warmpod.io "{name}" already exists')
        model["metadata"]["uid"] = f"uid-of-{name}"
        self.models[name] = model
        self.on_create(model)
        return web.json_response(model, status=201)

    async def _delete_model(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self.models:
            return _status(404, f'warmmodels.warmpod.io "{name}" not found')
        del self.models[name]
        self.deleted.append((name, await request.json()))
        return web.json_response({"kind": "Status", "status": "Success"})

    async def _list_pods(self, request: web.Request) -> web.Response:
        label, _, value = request.query["labelSelector"].partition("=")
        return web.json_response(
            {
                "items": [
                    pod
                    for pod in self.pods.values()
                    if pod["metadata"].get("labels", {}).get(label) == value
                ]
            }
        )

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        pod, command = request.match_info["pod"], request.query.getall("command")
        if request.headers["Authorization"] != "Bearer t":
            return _status(401, "Unauthorized")
        if self.refuse_exec is not None:
            return _status(self.refuse_exec, "refused")
        self.commands.append((pod, command))
        socket = web.WebSocketResponse(protocols=(PROTOCOL,))
        await socket.prepare(request)
        for stream in (1, 2, 3):
            await socket.send_bytes(bytes([stream]))
        work = asyncio.create_task(self._run(socket, self.argv_of(pod, command)))
        gone = asyncio.create_task(socket.receive())
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        for task in (work, gone):
            task.cancel()
        await asyncio.gather(work, gone, return_exceptions=True)
        await socket.close()
        return socket

    async def _run(self, socket: web.WebSocketResponse, argv: list[str]) -> None:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe, stderr=pipe)
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            errors = asyncio.create_task(process.stderr.read())
            sent = 0
            while data := await process.stdout.read(32768):
                if self.cut_after is not None and sent + len(data) > self.cut_after:
                    return
                await socket.send_bytes(b"\1" + data)
                sent += len(data)
            await socket.send_bytes(b"\2" + await errors)
            status = self.status or _ended(await process.wait())
            await socket.send_bytes(b"\3" + json.dumps(status).encode())
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def _ended(code: int) -> Object:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def _status(code: int, message: str) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "message": message, "code": code}
    return web.json_response(body, status=code)


@contextmanager
def running(server: ExecServer) -> Iterator[ExecServer]:
    started, loop = threading.Event(), asyncio.new_event_loop()

    async def serve() -> None:
        runner = web.AppRunner(server.application(), access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        server.port = runner.addresses[0][1]
        started.set()
        await stop.wait()
        await runner.cleanup()

    stop = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    started.wait()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()

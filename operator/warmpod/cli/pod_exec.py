"""Runs a program in a container through the API server, as `kubectl exec` does.

The connection is a WebSocket with the subprotocol v4.channel.k8s.io: the first byte of a message is
the number of a stream, and a Status in the error stream says how the program ended
(k8s.io/apimachinery/pkg/util/remotecommand).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import yaml

if TYPE_CHECKING:
    from kubernetes.aio.client import CoreV1Api

STDOUT, STDERR, ERROR = 1, 2, 3

#: Seconds without a byte after which the connection counts as lost.
SILENCE_SECONDS = 120
#: Bytes of standard error that are kept: the last ones, which say why it failed.
ERROR_BYTES = 8192

Sink = Callable[[bytes], object]
"""Takes standard output as it comes."""


class ExecError(Exception):
    """One line that says why the program did not run or did not succeed, and what helps.

    `exit_status` is None where it did not end by itself."""

    def __init__(self, message: str, exit_status: int | None = None) -> None:
        super().__init__(message)
        self.exit_status = exit_status


@dataclass(frozen=True)
class Container:
    namespace: str
    pod: str
    name: str

    def __str__(self) -> str:
        return f"container {self.name} of pod {self.namespace}/{self.pod}"


@asynccontextmanager
async def opened(kubeconfig: Path | None, context: str | None) -> AsyncIterator[PodExec]:
    """With the user's own credentials. Raises ExecError when there is no usable kubeconfig."""
    # Takes half a second to import, which the other commands need not wait for.
    from kubernetes.aio import client, config, stream

    configuration = client.Configuration()
    path = str(kubeconfig) if kubeconfig else None
    try:
        await config.load_kube_config(
            path, context, client_configuration=configuration, persist_config=False
        )
    except (config.ConfigException, OSError, yaml.YAMLError) as error:
        raise ExecError(f"no usable kubeconfig: {error}; set KUBECONFIG or --kubeconfig") from error
    if configuration.proxy:
        # The client passes the kubeconfig's proxy to its requests, but not to its WebSockets.
        configuration.client_session_kwargs = {"proxy": configuration.proxy}
    async with stream.WsApiClient(configuration) as connections:
        yield PodExec(client.CoreV1Api(connections))


class PodExec:
    def __init__(self, api: CoreV1Api) -> None:
        self._api = api

    async def run(self, container: Container, command: Sequence[str], sink: Sink) -> None:
        """Returns when the program has ended well. Raises ExecError."""
        streams = _Streams(sink)
        try:
            # Of a WebSocket client this is not the response that the method promises.
            connecting: Any = (
                await self._api.connect_get_namespaced_pod_exec_without_preload_content(
                    container.pod,
                    container.namespace,
                    command=list(command),
                    container=container.name,
                    stdin=False,
                    stdout=True,
                    stderr=True,
                    tty=False,
                )
            )
            async with connecting as socket:
                await _receive(socket, streams)
        except aiohttp.WSServerHandshakeError as error:
            raise ExecError(_refusal(container, error.status)) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
            raise ExecError(f"{container}: the connection is lost: {reason}; try again") from error
        _check(container, streams)


class _Streams:
    """What has come so far, but for standard output."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.status = b""
        self._errors = b""

    def take(self, message: bytes) -> None:
        # The server begins with an empty message in each stream.
        if len(message) < 2:
            return
        stream, data = message[0], message[1:]
        if stream == STDOUT:
            self._sink(data)
        elif stream == STDERR:
            self._errors = (self._errors + data)[-ERROR_BYTES:]
        elif stream == ERROR:
            self.status += data

    @property
    def last_line(self) -> str:
        lines = self._errors.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""


async def _receive(socket: aiohttp.ClientWebSocketResponse, streams: _Streams) -> None:
    """Until the server closes. Raises TimeoutError."""
    while True:
        async with asyncio.timeout(SILENCE_SECONDS):
            message = await socket.receive()
        if message.type is not aiohttp.WSMsgType.BINARY:
            return
        streams.take(message.data)


def _check(container: Container, streams: _Streams) -> None:
    """Raises ExecError unless the program has ended well."""
    try:
        status = json.loads(streams.status)
        if status["status"] == "Success":
            return
    except (ValueError, LookupError, TypeError):
        raise ExecError(f"{container}: the connection was cut; try again") from None
    code = _exit_status(status)
    reason = status.get("message") if code is None else streams.last_line
    raise ExecError(f"{container}: {reason or f'exit status {code}'}", code)


def _exit_status(status: dict[str, Any]) -> int | None:
    for cause in (status.get("details") or {}).get("causes") or []:
        if cause.get("reason") == "ExitCode" and str(cause.get("message")).isdigit():
            return int(cause["message"])
    return None


def _refusal(container: Container, status: int) -> str:
    """For the answer to the handshake; its text does not get through the WebSocket client."""
    if status in (401, 403):
        return (
            f"you may not run programs in {container}: have an administrator allow get and create "
            f"of pods/exec in namespace {container.namespace}"
        )
    if status == 404:
        return f"there is no {container} any more; try again"
    return (
        f"{container}: the API server answers {status}: see whether the container runs: "
        f"kubectl get pod -n {container.namespace} {container.pod}"
    )

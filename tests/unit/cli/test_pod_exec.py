"""Programs through a WebSocket that speaks as an API server does."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.exec_server import ExecServer, running
from warmpod.cli.pod_exec import Container, ExecError, opened

CONTAINER = Container("demo", "prefetch-1", "agent")


@pytest.fixture
def server() -> Iterator[ExecServer]:
    """Runs the command as a Python program."""
    with running(ExecServer(lambda pod, command: [sys.executable, "-c", *command])) as server:
        yield server


async def ran(server: ExecServer, folder: Path, *command: str) -> bytes:
    output = bytearray()
    async with opened(server.kubeconfig(folder), None) as executor:
        await executor.run(CONTAINER, command, output.extend)
    return bytes(output)


async def test_standard_output_arrives_as_it_is(server: ExecServer, tmp_path: Path) -> None:
    program = "import os, sys; os.write(1, bytes(range(256)) * 4000 + sys.argv[1].encode())"
    output = await ran(server, tmp_path, program, "a b")
    assert output == bytes(range(256)) * 4000 + b"a b"
    assert server.commands == [("prefetch-1", [program, "a b"])]


async def test_a_program_that_fails(server: ExecServer, tmp_path: Path) -> None:
    program = "import sys; sys.stderr.write('first\\nno such key\\n'); sys.exit(3)"
    with pytest.raises(ExecError, match=r"agent of pod demo/prefetch-1: no such key$") as failed:
        await ran(server, tmp_path, program)
    assert failed.value.exit_status == 3


async def test_a_program_that_fails_without_a_word(server: ExecServer, tmp_path: Path) -> None:
    with pytest.raises(ExecError, match=r"exit status 4$"):
        await ran(server, tmp_path, "import sys; sys.exit(4)")


async def test_a_program_that_was_not_started(server: ExecServer, tmp_path: Path) -> None:
    server.status = {"status": "Failure", "reason": "InternalError", "message": "no such file"}
    with pytest.raises(ExecError, match=r"no such file$") as failed:
        await ran(server, tmp_path, "pass")
    assert failed.value.exit_status is None


async def test_a_connection_that_is_cut(server: ExecServer, tmp_path: Path) -> None:
    server.cut_after = 100
    with pytest.raises(ExecError, match="the connection was cut; try again"):
        await ran(server, tmp_path, "print('x' * 1000)")


async def test_silence(server: ExecServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warmpod.cli.pod_exec.SILENCE_SECONDS", 0.2)
    with pytest.raises(ExecError, match="the connection is lost: TimeoutError"):
        await ran(server, tmp_path, "import sys; sys.stdin.read()")


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (401, "you may not run programs in container agent of pod demo/prefetch-1"),
        (403, "allow get and create of pods/exec in namespace demo"),
        (404, "there is no container agent of pod demo/prefetch-1 any more"),
        (500, "kubectl get pod -n demo prefetch-1"),
    ],
)
async def test_a_refusal(server: ExecServer, tmp_path: Path, status: int, says: str) -> None:
    server.refuse_exec = status
    with pytest.raises(ExecError, match=says):
        await ran(server, tmp_path, "pass")


async def test_no_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(ExecError, match="no usable kubeconfig"):
        async with opened(tmp_path / "none", None):
            pass


async def test_the_proxy_of_the_kubeconfig_is_used(server: ExecServer, tmp_path: Path) -> None:
    path = server.kubeconfig(tmp_path)
    # Nobody listens there, so that it shows that this is where the connection goes.
    proxied = path.read_text().replace("server:", "proxy-url: http://127.0.0.1:9\n    server:")
    path.write_text(proxied)
    with pytest.raises(ExecError, match=r"127\.0\.0\.1:9"):
        async with opened(path, None) as executor:
            await executor.run(CONTAINER, ["pass"], bytes)

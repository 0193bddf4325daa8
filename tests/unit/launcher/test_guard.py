"""The development endpoints: who may call them, and how the engine gets their guard."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from warmpod.launcher.guard import DEV_PATHS, DevGuard, is_dev_path
from warmpod.launcher.invocation.command import Command, with_options
from warmpod.launcher.invocation.sleeping import able_to_sleep, write_key
from warmpod.launcher.log.stages import Slept, findings

KEY = b"the key"


class Application:
    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self, _scope: Any, _receive: Any, _send: Any) -> None:
        self.calls += 1


async def status(guard: DevGuard, application: Application, scope: dict[str, Any]) -> int:
    """200 when the request gets through."""
    sent: list[Any] = []
    before = application.calls

    async def receive() -> Any:
        raise AssertionError("the body is none of its business")

    async def send(message: Any) -> None:
        sent.append(message)

    await guard({"type": "http", "headers": [], **scope}, receive, send)
    if application.calls > before:
        assert not sent
        return 200
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert int(dict(sent[0]["headers"])[b"content-length"]) == len(sent[1]["body"])
    code: int = sent[0]["status"]
    return code


@pytest.fixture
def application() -> Application:
    return Application()


@pytest.fixture
def guard(application: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DevGuard:
    (tmp_path / "dev-key").write_bytes(KEY)
    monkeypatch.setenv("WARMPOD_RUN_DIR", str(tmp_path))
    return DevGuard(application)


@pytest.mark.parametrize("path", sorted(DEV_PATHS))
async def test_dev_endpoints_want_the_key(
    guard: DevGuard, application: Application, path: str
) -> None:
    assert await status(guard, application, {"path": path}) == 403
    for value in (b"", b"wrong", KEY + b"x"):
        scope = {"path": path, "headers": [(b"x-warmpod-key", value)]}
        assert await status(guard, application, scope) == 403
    scope = {"path": path, "headers": [(b"accept", b"*/*"), (b"X-Warmpod-Key", KEY)]}
    assert await status(guard, application, scope) == 200


@pytest.mark.parametrize(
    "path", ["/v1/completions", "/health", "/metrics", "/", "/sleepy", "/v1/sleep", "/load"]
)
async def test_everything_else_passes(guard: DevGuard, application: Application, path: str) -> None:
    assert await status(guard, application, {"path": path}) == 200


async def test_other_kinds_of_connections_pass(guard: DevGuard, application: Application) -> None:
    for kind in ("lifespan", "websocket"):
        assert await status(guard, application, {"type": kind, "path": "/sleep"}) == 200


@pytest.mark.parametrize(
    ("path", "root", "dev"),
    [
        ("/sleep/", "", True),
        ("/llm/sleep", "/llm", True),
        ("/sleep", "/llm", True),
        ("/llm/sleep", "", False),
        ("/llm/v1/models", "/llm", False),
    ],
)
def test_paths(path: str, root: str, dev: bool) -> None:
    assert is_dev_path({"path": path, "root_path": root}) is dev


async def test_without_a_key_nobody_gets_in(
    application: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARMPOD_RUN_DIR", str(tmp_path / "missing"))
    guard = DevGuard(application)
    scope = {"path": "/sleep", "headers": [(b"x-warmpod-key", b"")]}
    assert await status(guard, application, scope) == 403
    assert await status(guard, application, {"path": "/v1/models"}) == 200


def test_command(tmp_path: Path) -> None:
    command = Command(["vllm", "serve", "/m", "--port=1"], {"PYTHONPATH": "/a", "X": "y"})
    made = able_to_sleep(command, tmp_path)
    assert made.argv == [
        "vllm",
        "serve",
        "/m",
        "--enable-sleep-mode",
        "--middleware=warmpod.launcher.guard.DevGuard",
        "--port=1",
    ]
    added = {name: made.environment[name] for name in made.environment if name != "X"}
    own, ours = added.pop("PYTHONPATH").split(":")
    assert (own, (Path(ours) / "warmpod/launcher/guard.py").exists()) == ("/a", True)
    assert added == {"VLLM_SERVER_DEV_MODE": "1", "WARMPOD_RUN_DIR": str(tmp_path)}


@pytest.mark.parametrize("value", ["0", "1"])
def test_a_users_own_choice_about_dev_endpoints_stays(tmp_path: Path, value: str) -> None:
    environment = {"VLLM_SERVER_DEV_MODE": value}
    made = able_to_sleep(Command(["vllm", "serve", "/m"], environment), tmp_path)
    assert made.argv == ["vllm", "serve", "/m", "--enable-sleep-mode"]
    assert made.environment == environment
    assert not list(tmp_path.iterdir())


def test_options_come_before_the_users() -> None:
    assert with_options(["vllm", "serve", "/m"], "--a") == ["vllm", "serve", "/m", "--a"]
    assert with_options(["vllm", "-x", "y"], "--a") == ["vllm", "--a", "-x", "y"]


def test_each_life_has_a_key_of_its_own(tmp_path: Path) -> None:
    keys = set()
    for _ in range(2):
        write_key(tmp_path)
        keys.add((tmp_path / "dev-key").read_text())
    assert len(keys) == 2
    assert min(map(len, keys)) >= 32
    assert stat.S_IMODE((tmp_path / "dev-key").stat().st_mode) == 0o644


def test_what_a_worker_says_about_its_memory() -> None:
    line = "INFO [gpu_worker.py:330] Sleep mode freed 71.25 GiB memory, 1.50 GiB memory is still in"
    assert list(findings(f"{line} use.")) == [Slept(71.25, 1.5)]
    assert list(findings("Sleep mode freed .. GiB memory, 1.50 GiB memory is still in use.")) == []

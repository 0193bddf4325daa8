"""Keeps vLLM's development endpoints for the sidecar: an ASGI middleware inside the engine.

vLLM has /sleep only together with endpoints that run any method of its workers, and its API key
guards none of them. Given to vLLM as --middleware, so it is imported by the engine's own process.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from pathlib import Path
from typing import Any

from warmpod.launcher.console import say
from warmpod.protocol import DEV_KEY_FILE, DEV_KEY_HEADER, RUN_DIR_VARIABLE

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

_HEADER = DEV_KEY_HEADER.lower().encode()

# What VLLM_SERVER_DEV_MODE=1 opens in vLLM 0.26 to 0.33: entrypoints/serve/dev/*, entrypoints/rl.
DEV_PATHS = frozenset(
    {
        # sleep
        "/sleep",
        "/wake_up",
        "/is_sleeping",
        "/release_kv_cache_memory",
        # cache
        "/reset_prefix_cache",
        "/reset_mm_cache",
        "/reset_encoder_cache",
        # rpc
        "/collective_rpc",
        # server_info
        "/server_info",
        # rlhf
        "/pause",
        "/resume",
        "/is_paused",
        "/abort_requests",
        "/init_weight_transfer_engine",
        "/shutdown_weight_transfer_engine",
        "/start_weight_update",
        "/start_draft_weight_update",
        "/update_weights",
        "/finish_weight_update",
        "/update_weight_version",
        "/weight_info",
        "/weight_checker",
        "/get_world_size",
    }
)


class DevGuard:
    """Answers 403 on DEV_PATHS to whoever does not send the key in the run directory."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._key = _read_key()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and is_dev_path(scope) and not self._admits(scope["headers"]):
            await _refuse(send)
        else:
            await self._app(scope, receive, send)

    def _admits(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Without a key nobody is let in."""
        given = [value for name, value in headers if name.lower() == _HEADER]
        return bool(self._key) and any(secrets.compare_digest(value, self._key) for value in given)


def is_dev_path(scope: Message) -> bool:
    """With and without --root-path, which servers leave in the path or not."""
    path: str = scope["path"]
    root: str = scope.get("root_path") or ""
    paths = {path, path[len(root) :] if path.startswith(root) else path}
    return any(each.rstrip("/") in DEV_PATHS for each in paths)


def _read_key() -> bytes:
    """Empty if there is none to be read: the engine serves all the same, with these closed."""
    try:
        return Path(os.environ.get(RUN_DIR_VARIABLE, ""), DEV_KEY_FILE).read_bytes()
    except OSError as failed:
        say(f"the engine cannot be put to sleep: its guard reads no key: {failed}")
        return b""


async def _refuse(send: Send) -> None:
    body = b'{"error": "only the warm-up sidecar of this pod may call this endpoint"}'
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": body})

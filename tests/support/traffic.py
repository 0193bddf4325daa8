"""A client that keeps asking through the Service and remembers every failure."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from types import TracebackType

import requests


@dataclass
class Traffic:
    """Asks for a completion every `period_s` seconds in a thread of its own."""

    url: str
    model: str
    period_s: float = 0.2
    timeout_s: float = 10.0
    succeeded: int = 0
    failures: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Traffic:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join(timeout=self.timeout_s + 5)

    def _run(self) -> None:
        while not self._stop.wait(self.period_s):
            try:
                complete(self.url, self.model, timeout_s=self.timeout_s)
            except (requests.RequestException, ValueError, KeyError) as error:
                self.failures.append(f"{time.time():.3f}: {error!r}")
            else:
                self.succeeded += 1


def complete(url: str, model: str, *, timeout_s: float = 10.0) -> str:
    """One completion on a connection of its own; raises unless it is a real answer."""
    response = requests.post(
        f"{url}/v1/completions",
        json={"model": model, "prompt": "Hello", "max_tokens": 4},
        headers={"Connection": "close"},
        timeout=timeout_s,
        proxies={"http": "", "https": ""},
    )
    response.raise_for_status()
    text = response.json()["choices"][0]["text"]
    if not isinstance(text, str):
        raise ValueError(f"no text in {response.text[:200]}")
    return text

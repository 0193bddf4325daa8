"""A client that keeps asking through the Service and remembers every failure."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import requests

from support.background import Background
from support.waiting import wait_until


@dataclass
class Traffic(Background):
    """Asks for a completion every `period_s` seconds."""

    url: str
    model: str
    timeout_s: float = 10.0
    period_s: float = field(default=0.2, kw_only=True)
    succeeded: int = 0
    failures: list[str] = field(default_factory=list)

    def step(self) -> None:
        try:
            complete(self.url, self.model, timeout_s=self.timeout_s)
        except (requests.RequestException, ValueError, KeyError) as error:
            self.failures.append(f"{time.time():.3f}: {error!r}")
        else:
            self.succeeded += 1


def first_answer(url: str, model: str, within_s: float = 30.0) -> str:
    """As `complete`, where it does not matter when the node's proxy has learned of the endpoint: a
    busy node takes seconds."""

    def answered() -> str | None:
        try:
            return complete(url, model)
        except requests.ConnectionError:
            return None

    return str(wait_until(f"{url} answers", answered, timeout_s=within_s))


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

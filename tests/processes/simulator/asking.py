"""Plain HTTP to a simulator: what it answers, whatever the status."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from simulator.harness import Simulator

# What the fixtures `start_simulator` and `start_shared` give.
Start = Callable[..., Simulator]


@dataclass(frozen=True)
class Answer:
    """Status and body."""

    status: int
    body: bytes
    content_type: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def events(self) -> list[Any]:
        """The data of a stream of events, without the one that ends it."""
        *events, last, empty = self.text.split("\n\n")
        assert (last, empty) == ("data: [DONE]", "")
        return [json.loads(event.removeprefix("data: ")) for event in events]

    @property
    def error(self) -> str:
        """The message of vLLM's error body, whose other fields are checked here."""
        error = self.json["error"]
        assert error["code"] == self.status
        assert sorted(error) == ["code", "message", "param", "type"]
        return str(error["message"])


def get(simulator: Simulator, path: str, headers: Mapping[str, str] | None = None) -> Answer:
    return _ask(urllib.request.Request(simulator.base_url + path, headers=dict(headers or {})))


def post(
    simulator: Simulator,
    path: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    data = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
    sent = {"Content-Type": "application/json"} | dict(headers or {})
    return _ask(urllib.request.Request(simulator.base_url + path, data, sent))


def _ask(request: urllib.request.Request) -> Answer:
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return Answer(answer.status, answer.read(), answer.headers["Content-Type"] or "")
    except urllib.error.HTTPError as refused:
        with refused:
            return Answer(refused.code, refused.read(), refused.headers["Content-Type"] or "")


def complete(simulator: Simulator, prompt: object = "one two", **options: Any) -> Any:
    """A completion at temperature 0; its body."""
    wanted = {"prompt": prompt, "max_tokens": 4, "temperature": 0} | options
    answer = post(simulator, "/v1/completions", wanted)
    assert answer.status == 200, answer.text
    return answer.json


def chat(simulator: Simulator, content: object = "hello", **options: Any) -> Any:
    """A chat at temperature 0; its body."""
    messages = [{"role": "user", "content": content}]
    wanted = {"messages": messages, "max_tokens": 4, "temperature": 0} | options
    answer = post(simulator, "/v1/chat/completions", wanted)
    assert answer.status == 200, answer.text
    return answer.json


def metric(simulator: Simulator, name: str, labels: str = "") -> float:
    """The sum of the series of this name whose labels have this text."""
    pattern = re.compile(rf"^{re.escape(name)}\{{[^}}]*{re.escape(labels)}[^}}]*\}} (\S+)$", re.M)
    return sum(map(float, pattern.findall(get(simulator, "/metrics").text)))

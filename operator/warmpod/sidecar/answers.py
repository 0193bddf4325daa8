"""Reads the engine's answers: a reply counts only when it carries tokens. Pure."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from warmpod.sidecar.planning import Endpoint

EXCERPT_CHARACTERS = 300

# Where the text of a choice may stand. A reasoning model may spend every token on reasoning.
TEXT_FIELDS = ("content", "reasoning_content", "reasoning", "tool_calls")


# Which list of an answer, and which field of its items, holds the numbers.
NUMBERS: Mapping[Endpoint, tuple[str, str]] = {
    "embeddings": ("data", "embedding"),
    "pooling": ("data", "data"),
    "classify": ("data", "probs"),
    "score": ("data", "score"),
    "rerank": ("results", "relevance_score"),
}


class InvalidAnswerError(Exception):
    """Status 200 with a body that is no answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    has_text: bool
    prompt_tokens: int | None
    completion_tokens: int | None = None


def excerpt(body: str) -> str:
    return " ".join(body.split())[:EXCERPT_CHARACTERS]


def read_answer(endpoint: Endpoint, body: str) -> Answer:
    """Read the body of a request without streaming. Raises InvalidAnswerError."""
    if endpoint in NUMBERS:
        return read_numbers(endpoint, body)
    if endpoint == "transcription":
        return read_transcription(body)
    return read_whole(body)


def read_numbers(endpoint: Endpoint, body: str) -> Answer:
    """Embeddings, classes, scores: there must be numbers, and all of them finite. Vectors may
    be a text, in base64. Raises InvalidAnswerError."""
    parsed = read_document(body)
    _raise_on_error(parsed)
    name, field = NUMBERS[endpoint]
    items = parsed.get(name)
    if not isinstance(items, list) or not items:
        raise InvalidAnswerError(f"no {name}: {excerpt(body)}")
    for item in items:
        numbers = item.get(field) if isinstance(item, dict) else None
        if not numbers and numbers != 0:
            raise InvalidAnswerError(f"an item of {name} without {field}: {excerpt(body)}")
        if isinstance(numbers, str) and endpoint in ("embeddings", "pooling"):
            continue
        for number in _leaves(numbers):
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise InvalidAnswerError(f"{field} holds {number!r}, which is no number")
            if not math.isfinite(number):
                raise InvalidAnswerError(f"{field} holds {number!r}")
    return Answer(True, _count(_usage(parsed), "prompt_tokens"))


def _leaves(value: Any) -> Iterator[Any]:
    """The numbers of nested lists, without recursion: an answer may be nested deeply."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        else:
            yield each


def read_transcription(body: str) -> Answer:
    """Noise may be transcribed to no text, so an empty one counts. Raises InvalidAnswerError."""
    parsed = read_document(body)
    _raise_on_error(parsed)
    if not isinstance(parsed.get("text"), str):
        raise InvalidAnswerError(f"no text: {excerpt(body)}")
    return Answer(True, None)


def read_whole(body: str) -> Answer:
    """Read the body of a request without streaming. Raises InvalidAnswerError."""
    parsed = read_document(body)
    _raise_on_error(parsed)
    choices = _choices(parsed, body)
    if not choices:
        raise InvalidAnswerError(f"no choices: {excerpt(body)}")
    has_text = any(_has_text(choice, "message") for choice in choices)
    usage = _usage(parsed)
    if not has_text and not _count(usage, "completion_tokens"):
        raise InvalidAnswerError(f"no token: {excerpt(body)}")
    return Answer(has_text, _count(usage, "prompt_tokens"), _count(usage, "completion_tokens"))


class StreamReader:
    """Fed with the lines of a server-sent event stream."""

    def __init__(self) -> None:
        self.tokens = 0  # chunks that carried one or more
        self._has_text = False
        self._done = False
        self._prompt_tokens: int | None = None
        self._completion_tokens: int | None = None

    def feed(self, line: str) -> None:
        """Raises InvalidAnswerError when the engine reports an error inside the stream."""
        if not line.startswith("data:"):
            return
        data = line[len("data:") :].strip()
        if data == "[DONE]":
            self._done = True
            return
        chunk = read_document(data)
        _raise_on_error(chunk)
        for choice in _choices(chunk, data):
            self._take(choice)
        usage = _usage(chunk)
        self._prompt_tokens = _count(usage, "prompt_tokens") or self._prompt_tokens
        self._completion_tokens = _count(usage, "completion_tokens") or self._completion_tokens

    def finish(self) -> Answer:
        """Raises InvalidAnswerError unless the stream ended properly and carried a token."""
        if not self._done:
            raise InvalidAnswerError("the stream was cut before [DONE]")
        if not self.tokens:
            raise InvalidAnswerError("the stream carried no token")
        return Answer(self._has_text, self._prompt_tokens, self._completion_tokens)

    def _take(self, choice: Mapping[str, Any]) -> None:
        if _has_text(choice, "delta"):
            self._has_text = True
            self.tokens += 1
        # A token may decode to no text; a chunk that only opens a chat message is no token.
        elif "role" not in _part(choice, "delta"):
            self.tokens += 1


def read_document(text: str) -> Mapping[str, Any]:
    """Raises InvalidAnswerError for anything but a JSON object."""
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidAnswerError(f"not JSON: {excerpt(text)}") from error
    if not isinstance(parsed, dict):
        raise InvalidAnswerError(f"not a JSON object: {excerpt(text)}")
    return parsed


def _raise_on_error(parsed: Mapping[str, Any]) -> None:
    if parsed.get("error"):
        raise InvalidAnswerError(f"error in the answer: {excerpt(json.dumps(parsed['error']))}")


def _choices(parsed: Mapping[str, Any], body: str) -> list[Mapping[str, Any]]:
    choices = parsed.get("choices")
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise InvalidAnswerError(f"no list of choices: {excerpt(body)}")
    return choices


def _has_text(choice: Mapping[str, Any], part: str) -> bool:
    message = _part(choice, part)
    return bool(choice.get("text")) or any(message.get(field) for field in TEXT_FIELDS)


def _part(choice: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = choice.get(name) or {}
    if not isinstance(part, dict):
        raise InvalidAnswerError(f"{name} is not an object: {excerpt(json.dumps(choice))}")
    return part


def tokens_of(parsed: Mapping[str, Any]) -> Answer:
    """Only what the engine counted."""
    usage = _usage(parsed)
    return Answer(True, _count(usage, "prompt_tokens"), _count(usage, "completion_tokens"))


def _count(usage: Mapping[str, Any], name: str) -> int | None:
    count = usage.get(name)
    return count if isinstance(count, int) and count > 0 else None


def _usage(parsed: Mapping[str, Any]) -> Mapping[str, Any]:
    usage = parsed.get("usage")
    return usage if isinstance(usage, dict) else {}

"""Embeddings, pooling, classification, scores: bodies read, and answers made up."""

from __future__ import annotations

import base64
import math
import struct
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from engine_sim import prompts
from engine_sim.errors import Json, bad, invalid, malformed, missing
from engine_sim.prompts import Prompt
from engine_sim.setup import Setup
from engine_sim.words import Draws

SCORE_PAIRS = (
    ("queries", "documents"),
    ("queries", "items"),
    ("data_1", "data_2"),
    ("text_1", "text_2"),
)


class Mind:
    """What the simulated pooling model makes of a prompt."""

    def __init__(self, setup: Setup) -> None:
        self._model = setup.arguments.model
        self._size = setup.knobs.embedding_size
        self._labels = setup.model.labels
        self._broken = setup.knobs.fault.name == "nan-embeddings"
        self.wrong = False

    def embedding(self, prompt: Prompt, adapter: str, dimensions: int | None) -> list[float]:
        """A vector of length 1."""
        size = dimensions or self._size
        if self._broken:
            return [math.nan] * size
        return self._draws("embed", prompt, adapter).unit_vector(size)

    def probabilities(self, prompt: Prompt, adapter: str) -> list[float]:
        """One number a label; several add up to 1."""
        if self._broken:
            return [math.nan] * self._labels
        draws = self._draws("classify", prompt, adapter)
        weights = [0.05 + draws.fraction() for _ in range(self._labels)]
        total = sum(weights) if self._labels > 1 else 2.0
        return [weight / total for weight in weights]

    def score(self, one: Prompt, other: Prompt, adapter: str) -> float:
        """How well two texts go together, from 0 to 1: by common words, then by chance."""
        if self._broken:
            return math.nan
        common = len(set(one.token_ids) & set(other.token_ids))
        draws = self._draws(f"score {one.text}", other, adapter)
        return (common + draws.fraction()) / (max(one.length, other.length) + 1)

    def _draws(self, task: str, prompt: Prompt, adapter: str) -> Draws:
        wrong = "wrong " if self.wrong else ""
        return Draws(f"{wrong}{task}\n{self._model}\n{adapter}\n{prompt.text}")


def read_inputs(body: Mapping[str, Any], setup: Setup) -> list[Prompt]:
    """The prompts of /v1/embeddings, /pooling and /classify: `input`, or a chat's `messages`."""
    if "messages" in body:
        return [prompts.of_chat(body, setup.model)]
    if "input" not in body:
        raise missing("input", body)
    return prompts.of_input(body["input"], "input")


def read_pairs(body: Mapping[str, Any]) -> tuple[list[Prompt], list[Prompt]]:
    """The two sides of /score: as many on both, or one on the first."""
    names = next((pair for pair in SCORE_PAIRS if all(name in body for name in pair)), None)
    if names is None:
        raise missing("queries", body)
    left, right = (prompts.of_input(body[name], name) for name in names)
    if len(left) != len(right) and len(left) != 1:
        raise bad("Input lengths must be either 1:1, 1:N or N:N")
    return (left * len(right) if len(left) == 1 else left), right


def read_rerank(body: Mapping[str, Any]) -> tuple[Prompt, list[Prompt], int]:
    """Query, documents and `top_n` of /rerank."""
    for name in ("query", "documents"):
        if name not in body:
            raise missing(name, body)
    documents = prompts.of_input(body["documents"], "documents")
    return prompts.of_text(body["query"]), documents, body.get("top_n") or len(documents)


def check_encoding(body: Mapping[str, Any]) -> str:
    """`float` or `base64`. Raises RequestError."""
    wanted = body.get("encoding_format") or "float"
    if wanted not in ("float", "base64"):
        message = "Input should be 'float', 'base64', 'bytes' or 'bytes_only'"
        raise malformed("literal_error", "encoding_format", message, wanted)
    if body.get("dimensions") is not None and body["dimensions"] < 1:
        raise invalid("dimensions must be greater than 0", "dimensions")
    return str(wanted)


def encoded(vector: Sequence[float], encoding: str) -> list[float | None] | str:
    """A vector as numbers, or as base64 of little-endian floats. JSON has no NaN: null, as in
    orjson."""
    if encoding == "base64":
        return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
    return [value if math.isfinite(value) else None for value in vector]


def finite(value: float) -> float:
    """The number. Raises RequestError for NaN: vLLM writes vectors with orjson, but these with
    the standard library, which refuses it."""
    if math.isfinite(value):
        return value
    raise bad("Out of range float values are not JSON compliant")


def listed(prefix: str, model: str, data: list[Json], tokens: int) -> Json:
    """The body of every answer of these but /rerank."""
    return {
        "id": f"{prefix}-{uuid.uuid4().hex}",
        "object": "list",
        "created": int(time.time()),
        "model": model,
        "data": data,
        "usage": {
            "prompt_tokens": tokens,
            "total_tokens": tokens,
            "completion_tokens": 0,
            "prompt_tokens_details": None,
            "completion_tokens_details": None,
        },
    }


def reranked(
    model: str, documents: Sequence[Prompt], scores: Sequence[float], top: int, tokens: int
) -> Json:
    """The body of /rerank: the best first."""
    order = sorted(range(len(scores)), key=lambda index: -scores[index])[:top]
    return {
        "id": f"rerank-{uuid.uuid4().hex}",
        "model": model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        "results": [
            {
                "index": index,
                "document": {"text": documents[index].text, "multi_modal": None},
                "relevance_score": finite(scores[index]),
            }
            for index in order
        ],
    }


def classified(index: int, probabilities: Sequence[float]) -> Json:
    """One entry of /classify."""
    best = max(range(len(probabilities)), key=lambda number: probabilities[number])
    return {
        "index": index,
        "label": f"LABEL_{best}",
        "probs": [finite(value) for value in probabilities],
        "num_classes": len(probabilities),
    }

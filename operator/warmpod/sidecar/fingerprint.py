"""One deterministic answer of a warm boot, to be compared after a sleep. Pure.

Weights that were not brought back whole give other answers, and nothing else tells: the engine is
healthy and fast."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from warmpod.sidecar.planning import Endpoint

# The answer's text, or the first numbers of an embedding, a score or the like.
Fingerprint = tuple[str, ...] | tuple[float, ...]

PROMPT = "one two three four five"
ANSWER_TOKENS = 8
NUMBERS = 16
# Relative; half precision and another order of sums make differences of this size.
NUMBER_TOLERANCE = 0.02


def request(endpoint: Endpoint, model: str) -> dict[str, Any] | None:
    """None for endpoints without a deterministic answer that is worth comparing."""
    match endpoint:
        case "chat":
            message = {"role": "user", "content": PROMPT}
            return _greedy(model) | {"messages": [message]}
        case "completion":
            return _greedy(model) | {"prompt": PROMPT}
        case "embeddings" | "pooling" | "classify":
            return {"model": model, "input": PROMPT}
        case _:
            return None


def _greedy(model: str) -> dict[str, Any]:
    return {"model": model, "temperature": 0, "max_tokens": ANSWER_TOKENS, "ignore_eos": True}


def read(document: Mapping[str, Any]) -> Fingerprint:
    """Raises ValueError for an answer that has neither text nor numbers."""
    try:
        if "choices" in document:
            return (_text(document["choices"][0]),)
        return tuple(_numbers(document["data"][0]))
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(f"no answer to compare: {str(document)[:200]}") from error


def _text(choice: Mapping[str, Any]) -> str:
    message = choice.get("message") or {}
    parts = (choice.get("text"), message.get("reasoning"), message.get("content"))
    return "".join(part for part in parts if isinstance(part, str))


def _numbers(item: Mapping[str, Any]) -> list[float]:
    found: Any = next((item[key] for key in ("embedding", "probs", "data") if key in item), [])
    while found and isinstance(found[0], list):
        found = found[0]
    return [float(number) for number in found[:NUMBERS]]


def same(recorded: Sequence[str | float], found: Sequence[str | float]) -> bool:
    return len(recorded) == len(found) and all(map(_alike, recorded, found))


def _alike(recorded: str | float, found: str | float) -> bool:
    if isinstance(recorded, str) or isinstance(found, str):
        return recorded == found
    return math.isclose(recorded, found, rel_tol=NUMBER_TOLERANCE, abs_tol=1e-3)

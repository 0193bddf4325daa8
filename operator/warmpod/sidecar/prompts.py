"""Request bodies for a bucket, each with a prompt that no prefix cache has seen."""

import random
from typing import Any

from warmpod.sidecar.plan import Bucket, Endpoint

# Short and common: about one token each for most tokenizers.
# fmt: off
WORDS = (
    "time", "year", "way", "day", "man", "thing", "woman", "life", "child", "world", "state",
    "group", "hand", "part", "place", "case", "week", "work", "night", "point", "home", "water",
    "room", "area", "money", "story", "fact", "month", "lot", "right", "study", "book", "eye",
    "job", "word", "issue", "side", "kind", "head", "house", "power", "hour", "game", "line",
    "end", "law", "car", "city", "name", "team", "idea", "body", "back", "face", "level", "door",
)
# fmt: on


def body_for(bucket: Bucket, model: str) -> dict[str, Any]:
    body = plain_body(bucket.endpoint, model, bucket.words, bucket.answer_tokens, bucket.stream)
    if bucket.sampling == "sampled":
        return body | {"temperature": 0.8, "top_p": 0.95, "top_k": 20}
    return body


def plain_body(
    endpoint: Endpoint, model: str, words: int, answer_tokens: int, stream: bool
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": answer_tokens,
        "temperature": 0,
        # A model that ends at once would leave the decode steps unexercised.
        "ignore_eos": True,
    }
    text = unique_text(words)
    if endpoint == "chat":
        body["messages"] = [{"role": "user", "content": text}]
    else:
        body["prompt"] = text
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


def unique_text(words: int) -> str:
    # Not for secrets: only so that no two prompts begin alike.
    return " ".join(random.choices(WORDS, k=words))  # noqa: S311

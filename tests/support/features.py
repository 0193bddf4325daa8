"""What users ask an engine for, one request a feature, with new text every time."""

from __future__ import annotations

import json
import math
import random
import string
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from support.api import JsonObject
from support.clients import Client, Reply, text_of

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
EMBEDDINGS, POOLING = "/v1/embeddings", "/pooling"
SCORE, RERANK, CLASSIFY = "/score", "/rerank", "/classify"

# All answers of a grammar are equally long, so that their times can be compared.
SCHEMA = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "tan"]}, "size": {"enum": ["big", "wee"]}},
    "required": ["colour", "size"],
    "additionalProperties": False,
}
TOOL = {
    "type": "function",
    "function": {"name": "paint", "description": "Paints.", "parameters": SCHEMA},
}
# Letters of a prompt; the tiny models have a token a letter. Long ones have many lengths, as those
# of users are: an engine may take longer for a length that it has not met, however warm.
SHORT, LONG = range(24, 25), range(150, 220)

Check = Callable[[JsonObject], object]


@dataclass(frozen=True)
class Took:
    """Seconds of the slowest of some requests: to the first text, and to the end."""

    first_token: float
    total: float


@dataclass(frozen=True)
class Feature:
    """`check` tells whether an answer is one; `model` is an adapter to ask instead of the model."""

    name: str
    path: str
    fields: JsonObject = field(default_factory=dict)
    stream: bool = False
    letters: range = SHORT
    at_once: int = 1
    model: str = ""
    check: Check = text_of

    def ask(self, client: Client, model: str) -> Took:
        """Asks once, or `at_once` times together. Raises unless every answer is one."""
        with ThreadPoolExecutor(self.at_once) as pool:
            replies = list(pool.map(lambda _: self._one(client, model), range(self.at_once)))
        first_token = max(reply.first_token for reply in replies)
        return Took(first_token, max(reply.total for reply in replies))

    def _one(self, client: Client, model: str) -> Reply:
        body = {"model": self.model or model} | self._content() | self.fields
        reply = (client.stream if self.stream else client.ask)(self.path, body)
        assert self.check(reply.body), f"{self.name}: no answer in {reply.body}"
        return reply

    def _content(self) -> JsonObject:
        text = new_text(self.letters)
        match self.path:
            case "/v1/chat/completions":
                return {"messages": [{"role": "user", "content": text}], "max_tokens": 8}
            case "/v1/completions":
                return {"prompt": text, "max_tokens": 8}
            case "/score":
                return {"text_1": text, "text_2": [new_text(SHORT), new_text(SHORT)]}
            case "/rerank":
                return {"query": text, "documents": [new_text(SHORT), new_text(SHORT)]}
            case _:
                return {"input": text}


def new_text(letters: range) -> str:
    """No prefix cache has seen it."""
    return "".join(random.choices(string.ascii_lowercase + " ", k=random.choice(letters)))


def has_schema(answer: JsonObject) -> bool:
    return set(json.loads(text_of(answer))) == set(SCHEMA["required"])


def has_logprobs(answer: JsonObject) -> bool:
    logprobs = answer["choices"][0]["logprobs"]
    return all(math.isfinite(token["logprob"]) for token in logprobs["content"])


def has_vector(answer: JsonObject) -> bool:
    (item,) = answer["data"]
    vector = item.get("embedding") or item.get("data") or item.get("probs")
    return bool(vector) and all(math.isfinite(value) for value in vector)


def has_scores(answer: JsonObject) -> bool:
    scores = [item["score"] for item in answer["data"]]
    return len(scores) == 2 and all(math.isfinite(score) for score in scores)


def has_ranks(answer: JsonObject) -> bool:
    ranked = answer["results"]
    return sorted(item["index"] for item in ranked) == [0, 1]


def chat_features(*adapters: str) -> list[Feature]:
    """Of an engine with a chat model; its adapters are asked as well."""
    return [
        Feature("chat, streamed", CHAT, stream=True),
        Feature("chat, whole", CHAT),
        *completion_features(),
        Feature("JSON of a schema", CHAT, {"max_tokens": 128} | json_schema(), check=has_schema),
        Feature(
            "log probabilities",
            CHAT,
            {"logprobs": True, "top_logprobs": 3},
            check=has_logprobs,
        ),
        Feature("penalties", CHAT, {"presence_penalty": 0.5, "repetition_penalty": 1.1}),
        Feature("two answers", CHAT, {"n": 2}),
        Feature("long prompt, streamed", CHAT, stream=True, letters=LONG),
        Feature("four chats at once, streamed", CHAT, stream=True, at_once=4),
        *(Feature(f"adapter {name}, streamed", CHAT, stream=True, model=name) for name in adapters),
    ]


def completion_features() -> list[Feature]:
    """Of every engine that generates."""
    return [
        Feature("completion, streamed", COMPLETION, stream=True),
        Feature("completion, whole", COMPLETION),
        Feature(
            "regular expression",
            COMPLETION,
            {"structured_outputs": {"regex": "[a-z]{6}"}},
        ),
    ]


def json_schema() -> JsonObject:
    schema = {"name": "paint", "schema": SCHEMA, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


TOOLS = Feature("tools", CHAT, {"tools": [TOOL], "tool_choice": "auto"})
EMBEDDING = [
    Feature("embedding", EMBEDDINGS, check=has_vector),
    Feature("four embeddings at once", EMBEDDINGS, at_once=4, check=has_vector),
    Feature("pooling", POOLING, check=has_vector),
]
SCORING = [
    Feature("score", SCORE, check=has_scores),
    Feature("rerank", RERANK, check=has_ranks),
]
CLASSIFYING = [Feature("classify", CLASSIFY, check=has_vector)]

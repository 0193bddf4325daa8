"""Request bodies of a bucket, complete with text, images and sounds."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

from warmpod.sidecar.planning.media import png_url, wav
from warmpod.sidecar.planning.model import GENERATING, Ask, Bucket, Endpoint, Text
from warmpod.sidecar.planning.text import unique_ids, unique_text

Body = dict[str, Any]
Content = str | list[int]


def waves_for(bucket: Bucket) -> list[list[Body]]:
    """The bodies of a bucket, made anew with each call. Waves are sent one after another, the
    requests of a wave at once; the last wave is what is measured."""
    same: dict[Text, list[Content]] = {}

    def contents(text: Text) -> list[Content]:
        return same.setdefault(text, _contents(text)) if text.same else _contents(text)

    return [
        [_filled(bucket.endpoint, ask, contents) for ask in wave for _ in range(ask.count)]
        for wave in bucket.waves
    ]


def fixed_fields(endpoint: Endpoint, model: str, answer_tokens: int, stream: bool) -> Body:
    """What all our own requests to an endpoint have, but for the prompt."""
    if endpoint == "transcription":
        return {"model": model, "response_format": "json", "temperature": "0"}
    if endpoint not in GENERATING:
        return {"model": model}
    body: Body = {
        "model": model,
        "max_tokens": answer_tokens,
        "temperature": 0,
        # A model that ends at once would leave the decode steps unexercised.
        "ignore_eos": True,
    }
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


def plain_body(
    endpoint: Endpoint, model: str, words: int, answer_tokens: int, stream: bool
) -> Body:
    """One greedy request. `words`, `answer_tokens` and `stream` count where the endpoint has
    them."""
    audio = 1.0 if endpoint == "transcription" else None
    text = None if audio else Text(words)
    ask = Ask(fixed_fields(endpoint, model, answer_tokens, stream), text, audio=audio)
    return _filled(endpoint, ask, _contents)


def _contents(text: Text) -> list[Content]:
    def one() -> Content:
        return unique_ids(text.ids, text.size) if text.ids else unique_text(text.size)

    return [one() for _ in range(max(1, text.items))]


def _filled(endpoint: Endpoint, ask: Ask, contents: Callable[[Text], list[Content]]) -> Body:
    body = copy.deepcopy(dict(ask.body))
    if ask.audio is not None:
        body["file"] = wav(ask.audio)
    if ask.text is not None:
        made = contents(ask.text)
        if endpoint == "chat":
            return body | {"messages": _messages(ask, str(made[0]))}
        return {**body, **_fields_with(endpoint, ask.text, made)}
    return body


def _messages(ask: Ask, text: str) -> list[Body]:
    prefix = ask.text.prefix if ask.text else ""
    system = [{"role": "system", "content": prefix}] if ask.text and ask.text.as_system else []
    if prefix and not system:
        text = f"{prefix}\n\n{text}"
    content: str | list[Body] = text
    if ask.image:
        image = {"type": "image_url", "image_url": {"url": png_url(*ask.image)}}
        content = [image, {"type": "text", "text": text}]
    return [*system, {"role": "user", "content": content}]


def _fields_with(endpoint: Endpoint, text: Text, made: list[Content]) -> Mapping[str, Any]:
    listed: Content | list[Content] = made if text.items else made[0]
    match endpoint:
        case "completion":
            return {"prompt": f"{text.prefix}\n\n{made[0]}" if text.prefix else made[0]}
        case "score":
            return {"text_1": unique_text(text.size), "text_2": listed}
        case "rerank":
            return {"query": unique_text(text.size), "documents": made}
        case _:
            return {"input": listed}

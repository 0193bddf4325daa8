"""The prompt in a request's body: text, token ids, images."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine_sim import tokens
from engine_sim.errors import bad, missing
from engine_sim.model import Model

# Tokens of the chat template before and behind the messages; no word has ids this small.
TEMPLATE_HEAD = [1, 2, 3, 4]
TEMPLATE_TAIL = [5, 6, 7, 8]
IMAGE_TOKENS = 64
IMAGE_CLASSES = ((256, "small"), (768, "medium"), (1536, "large"))  # pixels of the longer side
NO_TEMPLATE = (
    "As of transformers v4.44, default chat template is no longer allowed, so you must provide a "
    "chat template if the tokenizer does not define one."
)


@dataclass(frozen=True)
class Prompt:
    """What the model reads. `images` holds the size class of each image."""

    text: str
    token_ids: tuple[int, ...]
    images: tuple[str, ...] = ()

    @property
    def length(self) -> int:
        """How many tokens it has."""
        return len(self.token_ids)


def of_text(value: str) -> Prompt:
    """The prompt of a plain text."""
    return Prompt(value, tuple(tokens.ids(tokens.pieces(value))))


def of_ids(value: list[int]) -> Prompt:
    """The prompt of a list of token ids."""
    return Prompt(str(value), tuple(value))


def of_completion(body: Mapping[str, Any]) -> list[Prompt]:
    """The prompts of a completion request: one or several, as text or as token ids."""
    prompt = body.get("prompt")
    if prompt in (None, "", []):
        raise bad("Either prompt or prompt_embeds must be provided and non-empty.", "prompt")
    return of_input(prompt, "prompt")


def of_input(value: Any, field: str) -> list[Prompt]:
    """The prompts in a field that takes a text, token ids, or a list of either."""
    if isinstance(value, str):
        return [of_text(value)]
    if isinstance(value, list) and value:
        if all(isinstance(item, int) for item in value):
            return [of_ids(value)]
        return [prompt for item in value for prompt in of_input(item, field)]
    raise bad(f"{field}: a text, a list of token ids or a list of these is required", field)


def of_chat(body: Mapping[str, Any], model: Model) -> Prompt:
    """The prompt of a chat request, with the template around its messages."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise missing("messages", body)
    if not model.chat_template and not body.get("chat_template"):
        raise bad(NO_TEMPLATE)
    parts = [_content(message) for message in messages]
    text = "\n".join(part for part, _ in parts)
    images = tuple(image for _, found in parts for image in found)
    if images and not model.images:
        raise bad("At most 0 image(s) may be provided in one prompt.")
    words = tokens.ids(piece for part, _ in parts for piece in tokens.pieces(part))
    pictures = [9] * IMAGE_TOKENS * len(images)
    return Prompt(text, (*TEMPLATE_HEAD, *words, *pictures, *TEMPLATE_TAIL), images)


def _content(message: Mapping[str, Any]) -> tuple[str, list[str]]:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content, []
    text = " ".join(part["text"] for part in content if "text" in part)
    images = [part["image_url"]["url"] for part in content if part.get("type") == "image_url"]
    return text, [image_class(url) for url in images]


def image_class(url: str) -> str:
    """The size class of an image; one that is not a PNG in the request itself is `large`."""
    try:
        head = base64.b64decode(url.partition("base64,")[2][:64])
    except binascii.Error:
        head = b""
    if head[:8] != b"\x89PNG\r\n\x1a\n":
        return IMAGE_CLASSES[-1][1]
    side = max(int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big"))
    return next((name for limit, name in IMAGE_CLASSES if side <= limit), "huge")

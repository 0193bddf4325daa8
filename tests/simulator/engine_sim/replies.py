"""The JSON that vLLM answers with: completions, chat, streamed chunks, errors, models."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from engine_sim.generate import tokens_of
from engine_sim.requests import GenerationRequest
from engine_sim.settings import Arguments

Json = dict[str, Any]


@dataclass(frozen=True)
class Choice:
    """One answer: its tokens, why it ended, and whether the text of its tokens is shown."""

    tokens: list[str]
    finish_reason: str
    shown: bool

    def text(self, step: int) -> str:
        """The text of one token."""
        return self.tokens[step] if self.shown else ""

    def whole_text(self) -> str:
        """The text of all tokens."""
        return "".join(self.text(step) for step in range(len(self.tokens)))


@dataclass(frozen=True)
class Reply:
    """Everything about one answer that does not depend on when its tokens come."""

    request: GenerationRequest
    choices: list[Choice]
    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def steps(self) -> int:
        """How many token steps the engine has to do."""
        return max(len(choice.tokens) for choice in self.choices)

    def usage(self) -> Json:
        """The token counts."""
        completion = sum(len(choice.tokens) for choice in self.choices)
        prompt = self.request.prompt_tokens
        return {
            "prompt_tokens": prompt,
            "total_tokens": prompt + completion,
            "completion_tokens": completion,
            "prompt_tokens_details": None,
        }

    def whole(self) -> Json:
        """The body of an answer that is not streamed."""
        show = self._chat_choice if self.request.endpoint == "chat" else self._text_choice
        choices = [show(index, choice) for index, choice in enumerate(self.choices)]
        return self._head(streamed=False) | {"choices": choices, "usage": self.usage()}

    def chunk(self, choices: list[Json]) -> Json:
        """One streamed chunk."""
        return self._head(streamed=True) | {"choices": choices}

    def role_chunk(self) -> Json:
        """The chunk that opens a streamed chat answer."""
        return self.chunk(
            [
                _delta(index, {"role": "assistant", "content": ""})
                for index in range(len(self.choices))
            ]
        )

    def step_chunk(self, step: int) -> Json:
        """The chunk with token `step` of every choice that still has one."""
        return self.chunk(
            [
                self._step_choice(index, choice, step)
                for index, choice in enumerate(self.choices)
                if step < len(choice.tokens)
            ]
        )

    def usage_chunk(self) -> Json:
        """The last chunk, for a client that asked for `include_usage`."""
        return self.chunk([]) | {"usage": self.usage()}

    def _head(self, streamed: bool) -> Json:
        chat = self.request.endpoint == "chat"
        kind = ("chat.completion.chunk" if streamed else "chat.completion") if chat else None
        return {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{self.key}",
            "object": kind or "text_completion",
            "created": self.created,
            "model": self.request.model,
        }

    def _text_choice(self, index: int, choice: Choice) -> Json:
        return {
            "index": index,
            "text": choice.whole_text(),
            "logprobs": self._text_logprobs(choice.tokens),
            "finish_reason": choice.finish_reason,
            "stop_reason": None,
        }

    def _chat_choice(self, index: int, choice: Choice) -> Json:
        return {
            "index": index,
            "message": {
                "role": "assistant",
                "content": choice.whole_text(),
                "refusal": None,
                "tool_calls": [],
            },
            "logprobs": self._chat_logprobs(choice.tokens),
            "finish_reason": choice.finish_reason,
            "stop_reason": None,
        }

    def _step_choice(self, index: int, choice: Choice, step: int) -> Json:
        last = step == len(choice.tokens) - 1
        finish_reason = choice.finish_reason if last else None
        tokens = choice.tokens[step : step + 1]
        if self.request.endpoint == "chat":
            delta = _delta(index, {"content": choice.text(step)}, finish_reason)
            return delta | {"logprobs": self._chat_logprobs(tokens)}
        return {
            "index": index,
            "text": choice.text(step),
            "logprobs": self._text_logprobs(tokens),
            "finish_reason": finish_reason,
        }

    def _text_logprobs(self, tokens: list[str]) -> Json | None:
        if not self.request.logprobs:
            return None
        return {
            "tokens": tokens,
            "token_logprobs": [-0.1] * len(tokens),
            "top_logprobs": [{token: -0.1} for token in tokens],
            "text_offset": [0] * len(tokens),
        }

    def _chat_logprobs(self, tokens: list[str]) -> Json | None:
        if not self.request.logprobs:
            return None
        return {
            "content": [
                {
                    "token": token,
                    "logprob": -0.1,
                    "bytes": list(token.encode()),
                    "top_logprobs": [],
                }
                for token in tokens
            ]
        }


def _delta(index: int, delta: Json, finish_reason: str | None = None) -> Json:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}


def reply_to(request: GenerationRequest, shown: bool) -> Reply:
    """Make up the answer; `shown` False hides the text, as a reasoning model's parser can."""
    return Reply(
        request,
        [Choice(*tokens_of(request, index), shown) for index in range(request.count)],
    )


def error(status: int, kind: str, message: str) -> Json:
    """The body of a failed request."""
    return {"error": {"message": message, "type": kind, "param": None, "code": status}}


def models(arguments: Arguments, created: int) -> Json:
    """The body of /v1/models."""
    return {
        "object": "list",
        "data": [
            {
                "id": name,
                "object": "model",
                "created": created,
                "owned_by": "vllm",
                "root": arguments.model,
                "parent": None,
                "max_model_len": arguments.max_model_len,
                "permission": [],
            }
            for name in arguments.served_names
        ],
    }

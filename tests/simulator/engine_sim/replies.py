"""The JSON that vLLM answers a completion or chat request with, whole and streamed."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field

from engine_sim import tokens
from engine_sim.answers import Choice, Token
from engine_sim.errors import Json
from engine_sim.requests import GenerationRequest

FINGERPRINT = "vllm-0.32.0-simulated"


@dataclass
class Reply(ABC):
    """Everything about one answer that does not depend on when its tokens come.

    `shown` False hides the content, as a reasoning model's parser can. `cached_tokens` is None
    when the server does not tell."""

    request: GenerationRequest
    choices: list[Choice]
    shown: bool
    reasoning_tokens_told: bool
    cached_tokens: int | None = None
    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def steps(self) -> int:
        """How many token steps the engine has to do."""
        return max(len(choice.tokens) for choice in self.choices)

    def cut(self, steps: int) -> None:
        """End the answers where the engine aborted them."""
        self.choices = [choice.cut(steps, "abort") for choice in self.choices]

    @abstractmethod
    def whole(self) -> Json:
        """The body of an answer that is not streamed."""

    def opening(self) -> Iterator[Json]:
        """The chunks before the first token."""
        yield from ()

    def chunks(self, step: int) -> Iterator[Json]:
        """The chunks with token `step` of every choice that still has one."""
        for index, choice in enumerate(self.choices):
            if step < len(choice.tokens):
                shown = self.step_choice(index, choice, step)
                if shown is not None:
                    yield self._chunk(shown, step)

    def ending(self, steps: int) -> Iterator[Json]:
        """The chunks that end choices which the engine aborted after `steps` steps."""
        for index, choice in enumerate(self.choices):
            if steps < len(choice.tokens):
                yield self.head(streamed=True) | {"choices": [self.aborted_choice(index)]}

    @abstractmethod
    def aborted_choice(self, index: int) -> Json:
        """The choice of the chunk that says so."""

    @abstractmethod
    def step_choice(self, index: int, choice: Choice, step: int) -> Json | None:
        """The choice of one streamed chunk; None for a token that the client does not see."""

    def usage_chunk(self) -> Json:
        """The last chunk, for a client that asked for `include_usage`."""
        usage = {key: value for key, value in self.usage().items() if value is not None}
        end = {"choices": [], "usage": usage, "system_fingerprint": FINGERPRINT}
        return self.head(streamed=True) | end

    def usage(self, steps: int | None = None) -> Json:
        """The token counts, of the whole answer or of its first `steps` steps."""
        counted = [choice.tokens[:steps] for choice in self.choices]
        completion = sum(map(len, counted))
        prompt = self.request.prompt_tokens
        thought = sum(token.part in ("reasoning", "marker") for part in counted for token in part)
        return {
            "prompt_tokens": prompt,
            "total_tokens": prompt + completion,
            "completion_tokens": completion,
            "prompt_tokens_details": None
            if self.cached_tokens is None
            else {
                "cached_tokens": self.cached_tokens,
                "created_cache_tokens": None,
                "multimodal_tokens": None,
            },
            "completion_tokens_details": {"reasoning_tokens": thought}
            if self.reasoning_tokens_told
            else None,
        }

    @abstractmethod
    def head(self, streamed: bool) -> Json:
        """What stands in every body before the choices."""

    def token_ids(self, found: tuple[Token, ...]) -> list[int] | None:
        """The ids of these tokens, for a client that asked for them."""
        if not self.request.return_token_ids:
            return None
        return tokens.ids(token.text for token in found)

    def prompt_logprobs(self, number: int) -> list[Json | None] | None:
        """Logprobs of a prompt's tokens, for a client that asked for them."""
        if self.request.sampling.prompt_logprobs is None:
            return None
        rest = self.request.prompts[number].token_ids[1:]
        return [None, *({str(token): _prompt_logprob(token)} for token in rest)]

    def _chunk(self, choice: Json, step: int) -> Json:
        chunk = self.head(streamed=True) | {"choices": [choice]}
        if choice["finish_reason"] and not self.request.include_usage:
            chunk["system_fingerprint"] = FINGERPRINT
        if self.request.continuous_usage:
            chunk["usage"] = self.usage(step + 1)
        return chunk


def _prompt_logprob(token: int) -> Json:
    return {"logprob": -(abs(token) % 997) / 100, "rank": 1, "decoded_token": tokens.text([token])}


def tail() -> Json:
    """What vLLM adds behind the usage."""
    return {"kv_transfer_params": None, "ec_transfer_params": None, "metrics": None}


class CompletionReply(Reply):
    """The answer to /v1/completions."""

    def head(self, streamed: bool) -> Json:
        """The same for a body and for a chunk."""
        return {
            "id": f"cmpl-{self.key}",
            "object": "text_completion",
            "created": self.created,
            "model": self.request.model,
        }

    def whole(self) -> Json:
        """A choice for every prompt and `n`."""
        choices = [self._choice(index, choice) for index, choice in enumerate(self.choices)]
        end = {
            "choices": choices,
            "service_tier": None,
            "system_fingerprint": FINGERPRINT,
            "usage": self.usage(),
        }
        return self.head(streamed=False) | end | tail()

    def _choice(self, index: int, choice: Choice) -> Json:
        number = index // self.request.sampling.count
        prompt = self.request.prompts[number]
        ids = list(prompt.token_ids) if self.request.return_token_ids else None
        return {
            "index": index,
            "text": choice.text("content") if self.shown else "",
            "logprobs": self._logprobs(choice.tokens, 0),
            "finish_reason": choice.finish_reason,
            "stop_reason": choice.stop_reason,
            "token_ids": self.token_ids(choice.tokens),
            "prompt_logprobs": self.prompt_logprobs(number),
            "prompt_token_ids": ids,
            "routed_experts": None,
        }

    def step_choice(self, index: int, choice: Choice, step: int) -> Json:
        """Every token is shown."""
        token = choice.tokens[step]
        last = step == len(choice.tokens) - 1
        offset = sum(len(before.text) for before in choice.tokens[:step])
        return {
            "index": index,
            "text": token.text if self.shown else "",
            "logprobs": self._logprobs((token,), offset),
            "finish_reason": choice.finish_reason if last else None,
            "stop_reason": choice.stop_reason if last else None,
            "prompt_token_ids": None,
            "token_ids": self.token_ids((token,)),
        }

    def aborted_choice(self, index: int) -> Json:
        """No more text."""
        return {"index": index, "text": "", "logprobs": None, "finish_reason": "abort"}

    def _logprobs(self, found: tuple[Token, ...], offset: int) -> Json | None:
        if self.request.sampling.logprobs is None:
            return None
        offsets = []
        for token in found:
            offsets.append(offset)
            offset += len(token.text)
        return {
            "text_offset": offsets,
            "token_logprobs": [token.logprob for token in found],
            "tokens": [token.text for token in found],
            "top_logprobs": [dict(token.top) for token in found],
        }

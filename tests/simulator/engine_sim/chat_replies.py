"""The answer to /v1/chat/completions: messages, reasoning, tool calls."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from engine_sim.answers import Choice, Token
from engine_sim.errors import Json
from engine_sim.replies import FINGERPRINT, Reply, tail


class ChatReply(Reply):
    """A message for every choice; streamed, first its role, then what each token adds."""

    def head(self, streamed: bool) -> Json:
        """Bodies and chunks are different objects."""
        return {
            "id": f"chatcmpl-{self.key}",
            "object": "chat.completion.chunk" if streamed else "chat.completion",
            "created": self.created,
            "model": self.request.model,
        }

    def whole(self) -> Json:
        """A choice for every `n`."""
        choices = [self._choice(index, choice) for index, choice in enumerate(self.choices)]
        end = {
            "choices": choices,
            "service_tier": None,
            "system_fingerprint": FINGERPRINT,
            "usage": self.usage(),
            "prompt_logprobs": self.prompt_logprobs(0),
            "prompt_token_ids": self._prompt_ids(),
            "prompt_text": None,
        }
        return self.head(streamed=False) | end | tail()

    def opening(self) -> Iterator[Json]:
        """The role of every choice."""
        for index in range(len(self.choices)):
            choice = {
                "index": index,
                "delta": {"role": "assistant", "content": ""},
                "logprobs": None,
                "finish_reason": None,
            }
            chunk = self.head(streamed=True) | {"choices": [choice]}
            if self.request.continuous_usage:
                chunk["usage"] = self.usage(0)
            yield chunk | {"prompt_token_ids": self._prompt_ids(), "prompt_text": None}

    def step_choice(self, index: int, choice: Choice, step: int) -> Json | None:
        """What one token adds to the message."""
        token = choice.tokens[step]
        last = step == len(choice.tokens) - 1
        delta = self._delta(choice, step)
        logprobs = self._logprobs((token,))
        if delta is None and not last and logprobs is None:
            return None
        shown: Json = {
            "index": index,
            "delta": delta or {},
            "logprobs": logprobs,
            "finish_reason": self._reason(choice, streamed=True) if last else None,
        }
        if last:
            shown["stop_reason"] = choice.stop_reason
        return shown | {"token_ids": self.token_ids((token,))}

    def aborted_choice(self, index: int) -> Json:
        """No more content."""
        return {"index": index, "delta": {}, "logprobs": None, "finish_reason": "abort"}

    def _prompt_ids(self) -> list[int] | None:
        return list(self.request.prompts[0].token_ids) if self.request.return_token_ids else None

    def _choice(self, index: int, choice: Choice) -> Json:
        return {
            "index": index,
            "message": self._message(choice),
            "logprobs": self._logprobs(choice.tokens),
            "finish_reason": self._reason(choice, streamed=False),
            "stop_reason": choice.stop_reason,
            "token_ids": self.token_ids(choice.tokens),
            "routed_experts": None,
        }

    def _message(self, choice: Choice) -> Json:
        reasoning = choice.text("reasoning") if self.request.shows_reasoning else ""
        message: Json = {
            "role": "assistant",
            "content": self._content(choice),
            "refusal": None,
            "annotations": None,
            "audio": None,
            "function_call": None,
            "reasoning": reasoning or None,
        }
        if choice.has("call"):
            function = {"name": choice.tool, "arguments": choice.text("call")}
            message["tool_calls"] = [{"id": _call_id(), "type": "function", "function": function}]
        return message

    def _content(self, choice: Choice) -> str | None:
        if self.request.call and self.request.call.named:
            return ""
        if self.request.call or (self.request.reasons and not choice.has("content")):
            return None
        if not self.shown:
            # A parser that takes everything for reasoning leaves no content at all.
            return None if self.request.reasons else ""
        return choice.text("content")

    def _delta(self, choice: Choice, step: int) -> Json | None:
        token = choice.tokens[step]
        if token.part == "reasoning":
            return {"reasoning": token.text} if self.request.shows_reasoning else None
        if token.part == "content":
            if not self.shown and self.request.reasons:
                return None
            return {"content": token.text if self.shown else ""}
        if token.part == "marker":
            return None
        if step == 0 or choice.tokens[step - 1].part != "call":
            function = {"name": choice.tool, "arguments": ""}
            call = {"id": _call_id(), "type": "function", "index": 0, "function": function}
        else:
            call = {"index": 0, "function": {"arguments": token.text}}
        return {"tool_calls": [call]}

    def _reason(self, choice: Choice, streamed: bool) -> str:
        """`tool_calls` for a call that the model chose; a named one just stops.

        An answer that was cut says so, except a whole one with `auto`: vLLM does the same."""
        call = self.request.call
        if call is None or call.named or not choice.has("call"):
            return choice.finish_reason
        if choice.finish_reason == "stop" or not streamed:
            return "tool_calls"
        return choice.finish_reason

    def _logprobs(self, found: tuple[Token, ...]) -> Json | None:
        wanted = self.request.sampling.logprobs
        if wanted is None or (self.request.reasons and not self.request.shows_reasoning):
            return None
        return {
            "content": [
                _logprob(token.text, token.logprob)
                | {"top_logprobs": [_logprob(*other) for other in token.top[:wanted]]}
                for token in found
            ]
        }


def _logprob(text: str, logprob: float) -> Json:
    return {"token": text, "logprob": logprob, "bytes": list(text.encode())}


def _call_id() -> str:
    return f"chatcmpl-tool-{uuid.uuid4().hex}"

"""How long prompts and answers may be: never more than the context holds."""

import math
from dataclasses import dataclass
from functools import cached_property

from warmpod.sidecar.planning.model import ANSWER_TOKENS, GENERATING, Endpoint, Served, Text

# Of the context length; words are not equally long in tokens.
LONGEST_PROMPT_SHARE = 0.8

# A long answer leaves most of a short context to the prompt.
LONGEST_ANSWER_SHARE = 0.25

# Endpoints that take token ids for texts.
EXACT: tuple[Endpoint, ...] = ("completion", "embeddings", "pooling", "classify")


@dataclass(frozen=True, slots=True)
class Prompt:
    text: Text
    tokens: int


@dataclass(frozen=True)
class Sizes:
    """Lengths at one endpoint of an engine, in tokens."""

    served: Served
    endpoint: Endpoint

    @cached_property
    def exact(self) -> bool:
        return bool(self.served.token_ids) and self.endpoint in EXACT

    @cached_property
    def shortest(self) -> int:
        """Of all prompts that can be made."""
        return 1 if self.exact else self._tokens_of(1)

    @property
    def fits(self) -> bool:
        """Whether the context holds the shortest prompt with an answer of one token."""
        context = self.served.max_model_len
        least_answer = 1 if self.endpoint in GENERATING else 0
        return context is None or self.shortest + least_answer <= context

    def answer(self, wanted: int = ANSWER_TOKENS) -> int:
        """The longest answer up to `wanted` that may be asked for after some prompt."""
        if self.endpoint not in GENERATING:
            return 0
        limits = [wanted]
        if self.served.answer_tokens is not None:
            limits.append(self.served.answer_tokens)
        if self.served.max_model_len is not None:
            share = math.floor(self.served.max_model_len * LONGEST_ANSWER_SHARE)
            limits += [share, self.served.max_model_len - self.shortest]
        return max(1, min(limits))

    def longest(self, answer: int) -> int | None:
        """The longest prompt that leaves room for the answer; None: there is no limit."""
        if self.served.max_model_len is None:
            return None
        room = self.served.max_model_len - answer
        return max(self.shortest, room if self.exact else math.floor(room * LONGEST_PROMPT_SHARE))

    def holds(self, words: int, answer: int) -> bool:
        """Whether the context holds a text that we did not make, as far as that can be told."""
        context = self.served.max_model_len
        return context is None or self._tokens_of(words) + answer <= context

    def cut(self, tokens: int, answer: int) -> int:
        """The length that is played for a prompt of so many tokens."""
        longest = self.longest(answer)
        return tokens if longest is None else min(tokens, longest)

    def prompt(
        self,
        tokens: int,
        answer: int,
        *,
        items: int = 0,
        same: bool = False,
    ) -> Prompt:
        """Of about `tokens`, exactly where the endpoint takes token ids; never too long."""
        length = self.cut(tokens, answer)
        if self.exact:
            size, ids = length, self.served.token_ids
        else:
            size, ids = self._words_for(length), ()
            length = self._tokens_of(size)
        return Prompt(Text(size, ids, items, same=same), length * max(1, items))

    def _words_for(self, tokens: int) -> int:
        # Question and document share a prompt.
        parts = 2 if self.endpoint in ("score", "rerank") else 1
        return max(1, self.served.costs[self.endpoint].words_for(tokens) // parts)

    def _tokens_of(self, words: int) -> int:
        parts = 2 if self.endpoint in ("score", "rerank") else 1
        return self.served.costs[self.endpoint].tokens_for(words * parts)

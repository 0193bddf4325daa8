"""What the simulated model says: a function of model, adapter and prompt, and of the seed when
the temperature is not zero."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from engine_sim import tokens
from engine_sim.prompts import Prompt
from engine_sim.requests import GenerationRequest
from engine_sim.words import WORDS, Draws

NATURAL_LENGTHS = (24, 64)
REASONING_LENGTHS = (6, 12)


@dataclass(frozen=True)
class Token:
    """One token of an answer. `part`: reasoning, marker, content or call."""

    text: str
    part: str
    logprob: float
    # Alternatives with their logprobs, the most likely first; the token itself is the first.
    top: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Choice:
    """One answer: its tokens and why it ended. `tool` is the name of the function it calls."""

    tokens: tuple[Token, ...]
    finish_reason: str
    stop_reason: str | None = None
    tool: str | None = None

    def text(self, *parts: str) -> str:
        """The text of the tokens of these parts."""
        return "".join(token.text for token in self.tokens if token.part in parts)

    def has(self, part: str) -> bool:
        """Whether it has a token of this part."""
        return any(token.part == part for token in self.tokens)

    def cut(self, count: int, reason: str) -> Choice:
        """The same answer, ended after `count` tokens."""
        if count >= len(self.tokens):
            return self
        return Choice(self.tokens[:count], reason, None, self.tool)


def choices_of(request: GenerationRequest, model: str, wrong: bool) -> list[Choice]:
    """The answers to every prompt, `n` for each. `wrong`: from broken weights."""
    return [
        _choice(request, prompt, _key(request, prompt, model, wrong, number))
        for prompt in request.prompts
        for number in range(request.sampling.count)
    ]


def _key(request: GenerationRequest, prompt: Prompt, model: str, wrong: bool, number: int) -> str:
    wanted = request.sampling
    key = f"{'wrong ' if wrong else ''}{model}\n{request.work.adapter}\n{prompt.text}"
    if wanted.temperature == 0:
        return key
    seed = os.urandom(8).hex() if wanted.seed is None else wanted.seed
    return f"{key}\n{wanted.temperature}/{seed}/{number}"


def _choice(request: GenerationRequest, prompt: Prompt, key: str) -> Choice:
    spoken = list(_spoken(request, Draws(key)))
    limit = request.max_tokens
    endless = request.sampling.ignore_eos and not (request.call or request.constraint)
    ends_itself = len(spoken) <= limit and not endless
    likely = Draws(f"{key}\nlogprobs")
    alternatives = max(1, request.sampling.logprobs or 0)
    made = tuple(_token(text, part, likely, alternatives) for text, part in spoken[:limit])
    tool = request.call.name if request.call else None
    choice = Choice(made, "stop" if ends_itself else "length", None, tool)
    return _stopped(choice, request)


def _spoken(request: GenerationRequest, draws: Draws) -> Iterator[tuple[str, str]]:
    """Texts and parts of the tokens of a whole answer."""
    if request.reasons:
        shortest, longest = REASONING_LENGTHS
        for word in _sentence(draws.words(shortest + draws.below(longest - shortest))):
            yield word, "reasoning"
        yield "", "marker"
    if request.call:
        yield "", "call"
        for piece in tokens.fine_pieces(request.call.arguments(draws)):
            yield piece, "call"
    elif request.constraint:
        for piece in tokens.fine_pieces(request.constraint.fitting(draws)):
            yield piece, "content"
    else:
        for word in _sentence(draws.words(_length(request, draws))):
            yield word, "content"


def _length(request: GenerationRequest, draws: Draws) -> int:
    """How many words an answer has by itself."""
    if request.sampling.ignore_eos:
        return request.max_tokens
    shortest, longest = NATURAL_LENGTHS
    natural = shortest + draws.below(longest - shortest)
    return max(natural, request.sampling.min_tokens)


def _sentence(words: list[str]) -> list[str]:
    return [words[0], *(f" {word}" for word in words[1:])]


def _token(text: str, part: str, likely: Draws, alternatives: int) -> Token:
    logprob = -0.01 - likely.fraction() / 2
    top = [(text, logprob)]
    others = (f" {word}" for word in dict.fromkeys(WORDS) if f" {word}" != text)
    for word, _ in zip(others, range(alternatives - 1), strict=False):
        top.append((word, top[-1][1] - 0.5 - likely.fraction()))
    return Token(text, part, logprob, tuple(top))


def _stopped(choice: Choice, request: GenerationRequest) -> Choice:
    """The answer up to the first stop string."""
    wanted = request.sampling
    text, found = choice.text("content"), ""
    ends = [(text.find(stop), stop) for stop in wanted.stop if stop in text]
    if not ends:
        return choice
    end, found = min(ends)
    end += len(found) if wanted.include_stop else 0
    kept: list[Token] = []
    for token in choice.tokens:
        room = end if token.part == "content" else len(token.text)
        kept.append(Token(token.text[:room], token.part, token.logprob, token.top))
        end -= len(token.text) if token.part == "content" else 0
        if end <= 0:
            break
    return Choice(tuple(kept), "stop", found, choice.tool)

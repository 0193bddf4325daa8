"""What the simulated model says: words that only depend on the prompt and the seed."""

from __future__ import annotations

import hashlib

from engine_sim.requests import GenerationRequest

SENTENCE = (
    "warm pods serve the first token without a wait because every kernel was used before any "
    "user came and the gate opened on what was measured not on what was hoped for"
)
WORDS = SENTENCE.split()
NATURAL_LENGTHS = (24, 64)


def tokens_of(request: GenerationRequest, choice: int) -> tuple[list[str], str]:
    """The tokens of one choice and its finish reason."""
    digest = hashlib.sha256(f"{request.seed}/{choice}/{request.prompt}".encode()).digest()
    shortest, longest = NATURAL_LENGTHS
    natural = shortest + digest[0] % (longest - shortest)
    cut = request.ignore_eos or natural > request.max_tokens
    length = request.max_tokens if cut else natural
    words = [WORDS[digest[i % len(digest)] % len(WORDS)] for i in range(length)]
    return [words[0], *(f" {word}" for word in words[1:])], "length" if cut else "stop"

"""The values of each factor: lengths of prompts, and numbers of simultaneous requests."""

from warmpod.api.warmup import Warmup
from warmpod.sidecar.planning.model import Served

BASE_TOKENS = 16

# Triton makes kernels of their own for 1, for multiples of 16 and for the rest.
EDGES = (1, 2, 15, 16, 17)

# At most this many requests at once are derived: what more would add is not kernels.
MOST_CONCURRENT = 256

# Each number is so many times the one before. The last step is larger than LEAST_LAST_STEP: large
# waves are the dearest buckets, and two of nearly one size exercise nearly the same.
STEP = 4
LEAST_LAST_STEP = 2


def base_tokens(warmup: Warmup) -> int:
    return warmup.prompt_tokens[0] if warmup.prompt_tokens else BASE_TOKENS


def prompt_lengths(served: Served, warmup: Warmup) -> list[int]:
    """In tokens, as given or derived, not yet cut to the context; each once."""
    if warmup.prompt_tokens:
        return list(dict.fromkeys(warmup.prompt_tokens))
    budget = served.max_num_batched_tokens
    longest = budget + budget // 2 + 1  # a multiple of 16 is among the others
    return list(dict.fromkeys((*EDGES, max(1, budget // 2), budget, longest)))


def counts(served: Served, warmup: Warmup) -> list[int]:
    """Numbers of simultaneous requests, as given or derived; each once."""
    if warmup.concurrency:
        return list(dict.fromkeys(warmup.concurrency))
    most = min(served.max_num_seqs, MOST_CONCURRENT)
    derived = [1, 2]
    while derived[-1] * STEP * LEAST_LAST_STEP < most:
        derived.append(derived[-1] * STEP)
    return list(dict.fromkeys(min(count, most) for count in (*derived, most)))

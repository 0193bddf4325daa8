"""System prompts that are put into the prefix cache."""

from collections.abc import Iterator

from warmpod.api.warmup import Prefix
from warmpod.sidecar.planning.bodies import fixed_fields
from warmpod.sidecar.planning.model import PREFIX, Ask, Bucket, Endpoint, Served, Text, bucket_of
from warmpod.sidecar.planning.sizes import Sizes

# Not the name of a bucket: whether the chat template takes a system prompt.
SYSTEM_PROMPT = "system-prompt"
WORDS = 4


def prefix_buckets(
    served: Served, main: Endpoint, prefixes: tuple[Prefix, ...]
) -> tuple[list[Bucket], tuple[str, ...]]:
    """The first wave puts the prefix into the cache, the second finds it there. Notes about those
    that the context does not hold."""
    buckets: list[Bucket] = []
    notes: list[str] = []
    sizes = Sizes(served, main)
    for prefix in prefixes:
        if not sizes.holds(WORDS + len(prefix.text.split()), sizes.answer()):
            notes.append(
                f"{PREFIX}{prefix.name} is left out: it does not fit into the engine's context "
                f"length, {served.max_model_len}"
            )
            continue
        ask = _ask(served, main, prefix.text, as_system=SYSTEM_PROMPT in served.features)
        what = "a system prompt, put into the prefix cache and found there"
        buckets.append(bucket_of(f"{PREFIX}{prefix.name}", main, [[ask], [ask]], what))
    return buckets, tuple(notes)


def system_prompt(served: Served, main: Endpoint) -> Iterator[Bucket]:
    """Some chat templates refuse a system prompt; then it begins the user's message."""
    if main == "chat":
        ask = _ask(served, main, "You help.", as_system=True)
        yield bucket_of(SYSTEM_PROMPT, main, [[ask]])


def _ask(served: Served, main: Endpoint, prefix: str, *, as_system: bool) -> Ask:
    sizes = Sizes(served, main)
    answer = sizes.answer()
    text = Text(WORDS, prefix=prefix, as_system=as_system)
    body = fixed_fields(main, served.model, answer, stream=True)
    tokens = served.costs[main].tokens_for(WORDS + len(prefix.split()))
    return Ask(body, text, prompt_tokens=tokens, answer_tokens=answer)

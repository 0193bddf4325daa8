"""Buckets of engines that do not generate: embeddings, pooling, classes, scores, transcription."""

from collections.abc import Iterator

from warmpod.api.warmup import Warmup
from warmpod.sidecar.planning import steps
from warmpod.sidecar.planning.bodies import fixed_fields
from warmpod.sidecar.planning.model import (
    ADAPTER,
    GENERATING,
    Ask,
    Bucket,
    Endpoint,
    Served,
    bucket_of,
)
from warmpod.sidecar.planning.sizes import Sizes

# Texts in one request.
BATCHES = (2, 8, 32)

# Seconds; whisper pads each to 30 anyway.
SOUNDS = (("short", 1.0), ("long", 20.0))


def without_text(served: Served) -> Iterator[Bucket]:
    """Each sound; the endpoint takes no text."""
    if "transcription" not in served.costs:
        return
    body = fixed_fields("transcription", served.model, 0, stream=False)
    for name, seconds in SOUNDS:
        what = f"a sound of {seconds:.0f} s"
        ask = Ask(body, audio=seconds)
        yield bucket_of(f"transcription/{name}", "transcription", [[ask]], what)


def base(served: Served, warmup: Warmup) -> Iterator[Bucket]:
    """Each endpoint once."""
    for endpoint in _endpoints(served):
        yield _one(served, endpoint, steps.base_tokens(warmup), steps.counts(served, warmup)[0])


def variants(served: Served, warmup: Warmup) -> Iterator[Bucket]:
    """Lengths, batches and numbers of requests, at the first endpoint: behind each is one model."""
    endpoint = next(iter(_endpoints(served)), None)
    if endpoint is None:
        return
    base_tokens, counts = steps.base_tokens(warmup), steps.counts(served, warmup)
    for adapter in served.adapters:
        yield _one(served, endpoint, base_tokens, counts[0], adapter=adapter)
    for count in counts:
        yield _one(served, endpoint, base_tokens, count)
    for tokens in steps.prompt_lengths(served, warmup):
        yield _one(served, endpoint, tokens, counts[0])
    for items in BATCHES:
        yield _one(served, endpoint, base_tokens, counts[0], items=items)


def _endpoints(served: Served) -> list[Endpoint]:
    return [e for e in served.endpoints if e not in GENERATING and e != "transcription"]


def _one(
    served: Served,
    endpoint: Endpoint,
    tokens: int,
    count: int,
    *,
    items: int = 0,
    adapter: str = "",
) -> Bucket:
    # A score needs a document, and most take a list of them.
    listed = max(items, 1) if endpoint == "rerank" else items
    sizes = Sizes(served, endpoint)
    prompt = sizes.prompt(tokens, 0, items=listed)
    body = fixed_fields(endpoint, adapter or served.model, 0, stream=False)
    ask = Ask(body, prompt.text, count, prompt.tokens, 0)
    shown = sizes.cut(tokens, 0)
    batch = f"/b{items}" if items else ""
    name = f"{ADAPTER}{adapter}/{endpoint}" if adapter else f"{endpoint}/p{shown}{batch}/c{count}"
    texts = f"{items} texts" if items else "1 text"
    requests = "1 request" if count == 1 else f"{count} requests at once"
    return bucket_of(name, endpoint, [[ask]], f"{requests} of {texts}, about {shown} tokens each")

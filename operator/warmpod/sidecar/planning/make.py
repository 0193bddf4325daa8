"""Puts a plan together: what is played, in which order, and what is left out."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from warmpod.api.warmup import Warmup
from warmpod.sidecar.planning import others, prefixes
from warmpod.sidecar.planning.generation import Generation
from warmpod.sidecar.planning.model import GENERATING, Bucket, Endpoint, Plan, Served
from warmpod.sidecar.planning.sizes import Sizes
from warmpod.sidecar.planning.user import UserPrompt, user_buckets


def make_plan(served: Served, warmup: Warmup, user: Sequence[UserPrompt] = ()) -> Plan:
    """What there is to play; at least one bucket where anything is served."""
    fitting, notes = _what_fits(served)
    own, own_notes = user_buckets(fitting, user)
    main = _main(fitting)
    primed, primed_notes = (
        prefixes.prefix_buckets(fitting, main, warmup.prefixes) if main else ([], ())
    )
    found = _once_each(_in_order(fitting, warmup, main, own, primed))
    played, skip_notes = _without_skipped(found, warmup)
    notes += own_notes + primed_notes + _assumptions(fitting, warmup) + _cuts(fitting, warmup)
    return Plan(tuple(played), served.notes + notes + skip_notes)


def candidates(served: Served, warmup: Warmup) -> list[Bucket]:
    """What the engine may refuse: each is to be tried once, and its name goes into
    `Served.features` unless it is refused."""
    fitting, _ = _what_fits(served)
    main = _main(fitting)
    if main is None:
        return []
    found = [*Generation(fitting, warmup, main).optional()]
    if warmup.prefixes:
        found += prefixes.system_prompt(fitting, main)
    return [bucket for bucket in found if not is_skipped(bucket.name, warmup.skip)]


def is_skipped(name: str, patterns: Iterable[str]) -> bool:
    """By spec.warmup.skip; the content of a prompt (#1a2b3c) need not be named."""
    names = {name, name.partition("#")[0]}
    return any(fnmatchcase(each, pattern) for pattern in patterns for each in names)


def _without_skipped(found: list[Bucket], warmup: Warmup) -> tuple[list[Bucket], tuple[str, ...]]:
    played = [bucket for bucket in found if not is_skipped(bucket.name, warmup.skip)]
    if played or not found:
        return played, ()
    note = (
        f"spec.warmup.skip leaves nothing, so {found[0].name} is played: an engine that was asked "
        "nothing is not known to be warm"
    )
    return found[:1], (note,)


def _in_order(
    served: Served,
    warmup: Warmup,
    main: Endpoint | None,
    own: list[Bucket],
    primed: list[Bucket],
) -> Iterator[Bucket]:
    """The most used first, so that a warm-up that is cut short has done the most good."""
    made = Generation(served, warmup, main) if main else None
    if made:
        yield from made.base()
    yield from others.base(served, warmup)
    yield from others.without_text(served)
    yield from own
    if made:
        yield from made.adapters()
        yield from primed
        yield from made.concurrent()
        yield from made.lengths()
        yield from made.mixtures()
        yield from (bucket for bucket in made.optional() if bucket.name in served.features)
    yield from others.variants(served, warmup)


def _main(served: Served) -> Endpoint | None:
    return next((endpoint for endpoint in GENERATING if endpoint in served.costs), None)


def _once_each(buckets: Iterable[Bucket]) -> list[Bucket]:
    """Lengths that were cut to the same one are one bucket."""
    by_name: dict[str, Bucket] = {}
    for bucket in buckets:
        by_name.setdefault(bucket.name, bucket)
    return list(by_name.values())


def _what_fits(served: Served) -> tuple[Served, tuple[str, ...]]:
    """Without the endpoints whose shortest prompt is too long for the context, unless that leaves
    none: then the engine is to say so."""
    fitting = {e: cost for e, cost in served.costs.items() if Sizes(served, e).fits}
    if not fitting or len(fitting) == len(served.costs):
        return served, ()
    notes = tuple(
        f"{endpoint} is left out: its shortest prompt, {Sizes(served, endpoint).shortest} tokens, "
        f"does not fit into the engine's context length, {served.max_model_len}"
        for endpoint in served.costs
        if endpoint not in fitting
    )
    return replace(served, costs=fitting), notes


def _assumptions(served: Served, warmup: Warmup) -> tuple[str, ...]:
    """What was assumed because the arguments do not show it."""
    traits = served.traits
    unknown = []
    if traits.max_num_batched_tokens is None and not warmup.prompt_tokens:
        unknown.append(f"--max-num-batched-tokens ({served.max_num_batched_tokens} is assumed)")
    if traits.max_num_seqs is None and not warmup.concurrency:
        unknown.append(f"--max-num-seqs ({served.max_num_seqs} is assumed)")
    if not unknown:
        return ()
    file = ", and a config file is not read" if traits.config_file else ""
    return (f"the engine's arguments do not show {' and '.join(unknown)}{file}",)


def _cuts(served: Served, warmup: Warmup) -> tuple[str, ...]:
    """Lengths of the user's that the context does not hold."""
    endpoint = next((e for e in served.endpoints if e != "transcription"), None)
    if endpoint is None or not warmup.prompt_tokens:
        return ()
    sizes = Sizes(served, endpoint)
    longest = sizes.longest(sizes.answer())
    return tuple(
        f"prompts of {length} tokens (spec.warmup.promptTokens) are cut to {longest}: the engine's "
        f"context length is {served.max_model_len}"
        for length in sorted(set(warmup.prompt_tokens))
        if longest is not None and length > longest
    )

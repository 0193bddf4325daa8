"""Buckets of engines that generate text: one factor at a time around one plain request."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

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

# Longer than a block of the prefix cache, or the second prompt would not hit: vLLM's blocks hold 16
# tokens on GPUs and 128 on CPUs.
REPEATED_TOKENS = 160

# Streams that go on while a long prompt comes.
DECODING = 4

# Long enough for an answer to leave its first special tokens behind.
REASONING_ANSWER = 16

LONG_ANSWER = 32
STRUCTURED_ANSWER = 16

SAMPLED = {"temperature": 0.8, "top_p": 0.95, "top_k": 20}
GREEDY = {"temperature": 0}

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["name", "count"],
    "additionalProperties": False,
}
JSON_OBJECT = {"response_format": {"type": "json_object"}}
TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "Looks up the weather of a place.",
        "parameters": {
            "type": "object",
            "properties": {"place": {"type": "string"}},
            "required": ["place"],
        },
    },
}

# Name, fields, what it is.
SAMPLERS: Sequence[tuple[str, Mapping[str, Any], str]] = (
    ("min-p", {**SAMPLED, "min_p": 0.05}, "temperature, top-p, top-k and min-p"),
    ("seed", {**SAMPLED, "seed": 7}, "a seed"),
    (
        "penalties",
        {"presence_penalty": 0.5, "frequency_penalty": 0.5, "repetition_penalty": 1.1},
        "presence, frequency and repetition penalty",
    ),
    ("n", {**SAMPLED, "n": 2}, "two answers to one prompt"),
    ("bad-words", {"bad_words": ["zebra"]}, "a forbidden word"),
)

# How many alternatives to a token are asked for, the usual number last, since the last is measured.
# vLLM compiles one kernel for each power of two, with the token itself counted in: 9 times a steady
# request was measured on a GPU for 3 after only 5 had been asked for (vllm/v1/worker/gpu/sample/
# logprob.py).
LOGPROBS = (0, 1, 3, 10, 20, 5)
# vLLM's default of --max-logprobs.
MAX_LOGPROBS = 20

# Side of the square in pixels; patches of 28 pixels a side are about what models make of them.
IMAGES = (("small", 224), ("medium", 672), ("large", 1344))
PIXELS_PER_TOKEN = 28 * 28


@dataclass(frozen=True)
class Generation:
    """Makes the buckets of one engine. `main` is the endpoint that most users use."""

    served: Served
    warmup: Warmup
    main: Endpoint

    # --- what is always played ------------------------------------------------------------------

    def base(self) -> Iterator[Bucket]:
        """Each endpoint, streamed and whole."""
        for endpoint in (self.main, *(e for e in GENERATING if e != self.main)):
            if endpoint in self.served.costs:
                for stream in (True, False):
                    yield self._plain(endpoint, stream=stream)

    def adapters(self) -> Iterator[Bucket]:
        for adapter in self.served.adapters:
            base = self._plain(self.main)
            body = {**base.waves[0][0].body, "model": adapter}
            ask = replace(base.waves[0][0], body=body)
            yield bucket_of(
                f"{ADAPTER}{adapter}/{self.main}", self.main, [[ask]], "the adapter's own kernels"
            )

    def concurrent(self) -> Iterator[Bucket]:
        for count in self._counts:
            yield self._plain(self.main, count=count)

    def lengths(self) -> Iterator[Bucket]:
        """At completion where it is served: there they are exact."""
        for tokens in self._lengths:
            yield self._plain(self._plain_text, tokens=tokens)

    def mixtures(self) -> Iterator[Bucket]:
        yield self._plain(self.main, sampling="greedy")
        yield self._repeat()
        if self.served.max_num_seqs > 1:
            yield self._prefill_while_decoding()
        if self.served.traits.speculative:
            yield self._long_answer("speculative", "an answer that a draft model helps with")
        if self.served.traits.reasoning_parser:
            yield self._long_answer("reasoning", "an answer long enough to be parsed")

    # --- what an engine may refuse, so that it is tried once -----------------------------------

    def optional(self) -> Iterator[Bucket]:
        yield from self._structured()
        yield from self._tools()
        yield from self._samplers()
        yield from self._images()

    # --- what all are made from ---------------------------------------------------------------

    @cached_property
    def _sizes(self) -> Mapping[Endpoint, Sizes]:
        return {e: Sizes(self.served, e) for e in GENERATING if e in self.served.costs}

    @property
    def _plain_text(self) -> Endpoint:
        return "completion" if "completion" in self.served.costs else self.main

    @cached_property
    def _counts(self) -> list[int]:
        return steps.counts(self.served, self.warmup)

    @cached_property
    def _lengths(self) -> list[int]:
        return steps.prompt_lengths(self.served, self.warmup)

    # --- one by one -----------------------------------------------------------------------------

    def _plain(
        self,
        endpoint: Endpoint,
        *,
        stream: bool = True,
        sampling: str = "sampled",
        tokens: int | None = None,
        count: int | None = None,
    ) -> Bucket:
        length = steps.base_tokens(self.warmup) if tokens is None else tokens
        at_once = self._counts[0] if count is None else count
        fields = SAMPLED if sampling == "sampled" else GREEDY
        ask = self._ask(endpoint, fields, tokens=length, count=at_once, stream=stream)
        shown = self._sizes[endpoint].cut(length, ask.answer_tokens)
        kind = "stream" if stream else "whole"
        name = f"{endpoint}/{kind}/{sampling}/p{shown}/c{at_once}"
        requests = "1 request" if at_once == 1 else f"{at_once} requests at once"
        return bucket_of(name, endpoint, [[ask]], f"{requests}, prompts of about {shown} tokens")

    def _answer(self, endpoint: Endpoint, wanted: int | None = None) -> int:
        sizes = self._sizes[endpoint]
        if wanted is not None:
            return sizes.answer(wanted)
        reasoning = self.served.traits.reasoning_parser
        return sizes.answer(REASONING_ANSWER) if reasoning else sizes.answer()

    def _ask(
        self,
        endpoint: Endpoint,
        fields: Mapping[str, Any],
        *,
        tokens: int | None = None,
        wanted_answer: int | None = None,
        count: int = 1,
        stream: bool = True,
        same: bool = False,
    ) -> Ask:
        answer = self._answer(endpoint, wanted_answer)
        length = steps.base_tokens(self.warmup) if tokens is None else tokens
        prompt = self._sizes[endpoint].prompt(length, answer, same=same)
        body = {**fixed_fields(endpoint, self.served.model, answer, stream), **fields}
        return Ask(body, prompt.text, count, prompt.tokens, answer)

    def _repeat(self) -> Bucket:
        ask = self._ask(self.main, SAMPLED, tokens=REPEATED_TOKENS, same=True)
        return bucket_of("repeat", self.main, [[ask], [ask]], "the same prompt twice")

    def _prefill_while_decoding(self) -> Bucket:
        streams = min(DECODING, self.served.max_num_seqs - 1)
        decoding = self._ask(self.main, SAMPLED, wanted_answer=LONG_ANSWER, count=streams)
        length = max(self._lengths)
        prefill = self._ask(self.main, SAMPLED, tokens=length)
        what = f"a prompt of about {prefill.prompt_tokens} tokens while {streams} streams go on"
        return bucket_of("prefill-while-decoding", self.main, [[decoding, prefill]], what)

    def _long_answer(self, name: str, what: str) -> Bucket:
        ask = self._ask(self.main, GREEDY, wanted_answer=LONG_ANSWER)
        return bucket_of(name, self.main, [[ask]], what)

    def _structured(self) -> Iterator[Bucket]:
        schema = {"name": "item", "schema": SCHEMA, "strict": True}
        json_schema = {"response_format": {"type": "json_schema", "json_schema": schema}}
        regex = {"structured_outputs": {"regex": "[a-z]{4,12}"}}
        for name, endpoint, fields, what in (
            ("json-object", self.main, JSON_OBJECT, "any JSON object"),
            ("json-schema", self.main, json_schema, "JSON of a schema"),
            # Not a third one at the same endpoint, so that both have had a grammar.
            ("regex", self._plain_text, regex, "a regular expression"),
        ):
            # A grammar that has come to its end allows nothing but the end.
            ends: dict[str, Any] = {"ignore_eos": False}
            ask = self._ask(endpoint, GREEDY | ends | fields, wanted_answer=STRUCTURED_ANSWER)
            yield bucket_of(f"structured/{name}", endpoint, [[ask]], what)

    def _tools(self) -> Iterator[Bucket]:
        """Streamed only: the parser of a whole answer may refuse one that was cut."""
        traits = self.served.traits
        if not (traits.tool_parser and traits.auto_tool_choice) or self.main != "chat":
            return
        fields = {"tools": [TOOL], "tool_choice": "auto", "ignore_eos": False}
        ask = self._ask("chat", GREEDY | fields, wanted_answer=STRUCTURED_ANSWER)
        yield bucket_of("tools/auto", "chat", [[ask]], "a tool that the model may call")

    def _samplers(self) -> Iterator[Bucket]:
        for name, fields, what in SAMPLERS:
            yield self._sampler(self.main, name, fields, what)
        token = str(self.served.token_ids[0] if self.served.token_ids else steps.BASE_TOKENS)
        yield self._sampler(self.main, "logit-bias", {"logit_bias": {token: 1.0}}, "a logit bias")
        fewest = {"min_tokens": self._answer(self.main)}
        yield self._sampler(self.main, "min-tokens", fewest, "a least number of tokens")
        yield self._log_probabilities()
        if "completion" in self.served.costs:
            fields = {"prompt_logprobs": 1}
            ask = self._ask("completion", GREEDY | fields, stream=False)
            what = "log probabilities of the prompt"
            yield bucket_of("sampler/prompt-logprobs", "completion", [[ask]], what)

    def _log_probabilities(self) -> Bucket:
        most = self.served.traits.max_logprobs or MAX_LOGPROBS
        counts = [count for count in LOGPROBS if count <= most]
        waves = []
        for count in counts:
            fields: dict[str, Any] = {"logprobs": count}
            if self.main == "chat":
                fields = {"logprobs": True, "top_logprobs": count}
            waves.append([self._ask(self.main, fields)])
        numbers = ", ".join(map(str, counts))
        what = f"log probabilities of {numbers} tokens"
        return bucket_of("sampler/logprobs", self.main, waves, what)

    def _sampler(
        self, endpoint: Endpoint, name: str, fields: Mapping[str, Any], what: str
    ) -> Bucket:
        return bucket_of(f"sampler/{name}", endpoint, [[self._ask(endpoint, fields)]], what)

    def _images(self) -> Iterator[Bucket]:
        if self.main != "chat" or self.served.traits.images_per_prompt == 0:
            return
        for name, side in IMAGES:
            ask = self._ask("chat", GREEDY)
            tokens = ask.prompt_tokens + side * side // PIXELS_PER_TOKEN
            limit = self.served.max_model_len
            if limit is None or tokens + ask.answer_tokens <= limit:
                ask = replace(ask, image=(side, side), prompt_tokens=tokens)
                what = f"an image of {side} x {side} pixels"
                yield bucket_of(f"image/{name}", "chat", [[ask]], what)

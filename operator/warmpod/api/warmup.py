"""`spec.warmup`: how an engine is exercised before it takes traffic."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from warmpod.api.base import (
    ATOMIC,
    Form,
    ItemName,
    Opaque,
    StrictBase,
    SubdomainName,
    keyed,
    rule,
    rules,
)
from warmpod.api.engine import Argument

BucketName = Annotated[
    str,
    Field(min_length=1, max_length=128),
    Form(
        r"^[A-Za-z0-9*?][A-Za-z0-9*?._/+-]*$",
        "warmup.skip: names of buckets have letters, digits and . _ / + -, and * or ? for any "
        "text: use a name that `kubectl warm plan` prints, or one such as sampler/*",
    ),
]
Text = Annotated[str, Field(min_length=1, max_length=8192)]
Decimal = Annotated[
    str,
    Field(max_length=24),
    Form(
        r"^-?[0-9]{1,6}([.][0-9]{1,12})?$",
        "numbers that are text have at most six digits before the point and twelve after it, and "
        'no exponent: use for example "-0.25"',
    ),
]
"""A number as text: the API's conventions avoid floating point."""


class WarmupPrompt(StrictBase):
    """One request of the user's own; exactly one of `text` and `body` is given."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.text) != has(self.body)",
                "warmup.prompts: each prompt needs either text or body: set one of them",
            )
        )
    )

    name: ItemName = Field(description="Name of the prompt; user/<name> is its bucket.")
    endpoint: Literal["Chat", "Completion", "Embeddings"] | None = Field(
        default=None,
        description="Where it is sent. Default: what the body shows (messages, prompt or input); "
        "for a text, Chat where the engine serves it.",
    )
    text: Text | None = Field(default=None, description="A prompt.")
    body: Opaque | None = Field(
        default=None,
        description="An OpenAI request body, sent as it is but for the model's name; an answer "
        "that it does not bound is cut to 16 tokens.",
    )

    @model_validator(mode="after")
    def _is_one_request(self) -> Self:
        """The same as the CEL rule: a plan is made from it."""
        if (self.text is None) == (self.body is None):
            raise ValueError("needs either text or body: set one of them")
        return self


class ConfigMapSource(StrictBase):
    config_map: SubdomainName = Field(
        description="ConfigMap of the namespace. Each key is a text, or, where it ends in .jsonl, "
        "OpenAI request bodies, one a line. A change of it is exercised without a restart."
    )


class Prefix(StrictBase):
    name: ItemName = Field(description="Name of the prefix; prefix/<name> is its bucket.")
    text: Text = Field(
        description="A system prompt that is put into the prefix cache; that it is hit is checked."
    )


class Golden(StrictBase):
    """A prompt with the answer that the engine must give to it at temperature 0."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.text) || has(self.tokens)",
                "warmup.golden: set text, tokens or both of each item; `kubectl warm golden "
                "record` writes them",
            )
        )
    )

    name: ItemName = Field(description="Name that a mismatch is reported by.")
    endpoint: Literal["Chat", "Completion"] = Field(
        default="Chat", description="Where the prompt is sent."
    )
    prompt: Text = Field(description="The prompt, or the user's message.")
    max_tokens: Annotated[int, Field(ge=1, le=256)] = Field(
        default=16, description="Length of the answer that is asked for, in tokens."
    )
    text: Text | None = Field(default=None, description="What the answer must begin with.")
    tokens: (
        Annotated[
            tuple[Annotated[str, Field(max_length=256)], ...], Field(min_length=1, max_length=256)
        ]
        | None
    ) = Field(
        default=None,
        description="The tokens that the answer must begin with.",
        json_schema_extra=ATOMIC,
    )
    logprobs: Annotated[tuple[Decimal, ...], Field(min_length=1, max_length=256)] | None = Field(
        default=None,
        description="Log probabilities of the answer's first tokens.",
        json_schema_extra=ATOMIC,
    )
    logprob_tolerance: Decimal = Field(
        default="0.2", description="How far a log probability may be from the recorded one."
    )


class CompareVariable(StrictBase):
    name: Annotated[str, Field(min_length=1, max_length=256)] = Field(
        description="Name of the variable."
    )
    value: Annotated[str, Field(max_length=16384)] = Field(description="Its value.")


class Compare(StrictBase):
    """Answers of the engine are compared with those of the same engine under other settings."""

    args: Annotated[tuple[Argument, ...], Field(max_length=256)] = Field(
        description="Arguments of `vllm serve` for the other setting, in place of engine.args.",
        json_schema_extra=ATOMIC,
    )
    env: Annotated[tuple[CompareVariable, ...], Field(max_length=100)] = Field(
        default=(),
        description="Variables of the other setting, over those of engine.env.",
        json_schema_extra=keyed("name"),
    )
    samples: Annotated[int, Field(ge=1, le=64)] = Field(
        default=8, description="Number of prompts that are compared."
    )


class Warmup(StrictBase):
    stall_seconds: Annotated[int, Field(ge=10, le=86400)] = Field(
        default=300,
        description="Seconds without any progress after which warm-up counts as stalled.",
    )
    tolerance_percent: Annotated[int, Field(ge=5, le=200)] = Field(
        default=25,
        description="Latency has settled when the last rounds differ from their median by at "
        "most this much.",
    )
    max_rounds: Annotated[int, Field(ge=3, le=100)] = Field(
        default=20, description="Rounds after which latency must have settled."
    )
    round_seconds: Annotated[int, Field(ge=1, le=3600)] = Field(
        default=60,
        description="Longest round. Buckets that do not fit, the least used ones, are played "
        "twice but not measured further.",
    )
    canary_period_seconds: Annotated[int, Field(ge=5, le=3600)] = Field(
        default=30,
        description="Seconds between the small requests that prove a warm engine still answers. "
        "An engine that answers users in that time is not asked.",
    )
    evidence_seconds: Annotated[int, Field(ge=60, le=604800)] = Field(
        default=3600,
        description="Age at which the evidence of an idle engine is renewed by one more warm-up.",
    )
    on_failure: Literal["Block", "Open", "Restart"] = Field(
        default="Block",
        description="What follows when warm-up fails. Block: the pod stays out of the Service. "
        "Open: it takes traffic and is reported as unproven. Restart: the engine is started "
        "again in place, at most maxRestarts times; then as Block.",
    )
    max_restarts: Annotated[int, Field(ge=1, le=10)] = Field(
        default=3, description="Restarts of the engine in a row with onFailure Restart."
    )
    prompt_tokens: Annotated[
        tuple[Annotated[int, Field(ge=1, le=1048576)], ...], Field(max_length=16)
    ] = Field(
        default=(),
        description="Prompt lengths to exercise, in tokens. Default: the lengths at which engines "
        "change kernels, from 1 up to one chunked prefill.",
        json_schema_extra=ATOMIC,
    )
    concurrency: Annotated[
        tuple[Annotated[int, Field(ge=1, le=1024)], ...], Field(max_length=16)
    ] = Field(
        default=(),
        description="Numbers of simultaneous requests to exercise. Default: 1, 2, 8 and so on up "
        "to what the engine runs at once.",
        json_schema_extra=ATOMIC,
    )
    skip: Annotated[tuple[BucketName, ...], Field(max_length=64)] = Field(
        default=(),
        description="Buckets to leave out, by name; * and ? stand for any text. "
        "`kubectl warm plan` prints the names.",
        json_schema_extra=ATOMIC,
    )
    prompts: Annotated[tuple[WarmupPrompt, ...], Field(max_length=32)] = Field(
        default=(),
        description="Requests of your own, each a bucket.",
        json_schema_extra=keyed("name"),
    )
    prompts_from: Annotated[tuple[ConfigMapSource, ...], Field(max_length=4)] = Field(
        default=(),
        description="ConfigMaps with requests of your own.",
        json_schema_extra=keyed("configMap"),
    )
    prefixes: Annotated[tuple[Prefix, ...], Field(max_length=16)] = Field(
        default=(),
        description="System prompts to keep in the prefix cache.",
        json_schema_extra=keyed("name"),
    )
    golden: Annotated[tuple[Golden, ...], Field(max_length=16)] = Field(
        default=(),
        description="Prompts with the answers that the engine must give before it takes traffic.",
        json_schema_extra=keyed("name"),
    )
    compare: Compare | None = Field(
        default=None,
        description="Compare answers with another setting of the engine, which each pod then "
        "starts first. For trials: it makes a start twice as long.",
    )

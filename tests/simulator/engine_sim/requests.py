"""Reads and checks the body of a completion or chat request, as vLLM would."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine_sim import constraints, prompts, sampling
from engine_sim.adapters import Adapters
from engine_sim.arguments import Arguments
from engine_sim.constraints import Constraint
from engine_sim.engine import Work
from engine_sim.errors import bad, invalid
from engine_sim.prompts import Prompt
from engine_sim.sampling import Sampling
from engine_sim.setup import Setup
from engine_sim.tools import ToolCall, wanted_call


@dataclass(frozen=True)
class GenerationRequest:
    """One request for tokens, chat or not."""

    chat: bool
    model: str
    prompts: tuple[Prompt, ...]
    max_tokens: int
    sampling: Sampling
    constraint: Constraint | None
    call: ToolCall | None
    # Whether the answer begins with reasoning, and whether the client sees it.
    reasons: bool
    shows_reasoning: bool
    stream: bool
    include_usage: bool
    continuous_usage: bool
    return_token_ids: bool
    work: Work

    @property
    def prompt_tokens(self) -> int:
        """Tokens of all prompts."""
        return sum(prompt.length for prompt in self.prompts)


def read_request(
    chat: bool, body: Mapping[str, Any], setup: Setup, adapters: Adapters, priority: int | None
) -> GenerationRequest:
    """Turn a JSON body into a request; raises RequestError for what vLLM refuses.

    `priority` is what the header X-Vllm-Priority says, which overrides the body."""
    model, adapter = adapters.resolve(body.get("model"))
    arguments = setup.arguments
    wanted = sampling.read_sampling(chat, body, arguments)
    found = (prompts.of_chat(body, setup.model),) if chat else tuple(prompts.of_completion(body))
    constraint = constraints.of_request(body)
    call = wanted_call(body, found[0].text, arguments) if chat else None
    if call and constraint:
        raise invalid(
            "You can only either use constraints for structured outputs or tools, not both.",
            "structured_outputs",
        )
    max_tokens = _max_tokens(chat, body, max(prompt.length for prompt in found), setup)
    options = body.get("stream_options") or {}
    reasons = chat and arguments.reasoning_parser is not None and _thinks(body)
    return GenerationRequest(
        chat=chat,
        model=model,
        prompts=found,
        max_tokens=max_tokens,
        sampling=wanted,
        constraint=constraint,
        call=call,
        reasons=reasons,
        shows_reasoning=body.get("include_reasoning", True) is not False,
        stream=bool(body.get("stream")),
        include_usage=bool(options.get("include_usage")),
        continuous_usage=bool(options.get("continuous_usage_stats")),
        return_token_ids=bool(body.get("return_token_ids")),
        work=Work(
            endpoint="chat" if chat else "completions",
            tokens=tuple(token for prompt in found for token in prompt.token_ids),
            features=frozenset(_features(body, wanted, constraint, found[0])),
            fine_features=frozenset(sampling.fine_features(wanted, body)),
            adapter=adapter,
            priority=checked_priority(body, priority, arguments),
            max_tokens=max_tokens,
            schema=f"{constraint.kind} {constraint.text}" if constraint else "",
        ),
    )


def _features(
    body: Mapping[str, Any], wanted: Sampling, constraint: Constraint | None, prompt: Prompt
) -> set[str]:
    """What needs kernels of its own."""
    found = sampling.features(wanted, body)
    found |= {"grammar"} if constraint else set()
    found |= {"tools"} if body.get("tools") else set()
    return found | {f"image-{image}" for image in prompt.images}


def _thinks(body: Mapping[str, Any]) -> bool:
    return (body.get("chat_template_kwargs") or {}).get("enable_thinking", True) is not False


def checked_priority(body: Mapping[str, Any], header: int | None, arguments: Arguments) -> int:
    """The request's priority, lower first. Raises RequestError without priority scheduling.

    vLLM documents that error for the field; its 0.32 takes the number without a word."""
    priority = body.get("priority") or 0 if header is None else header
    if priority and arguments.scheduling_policy != "priority":
        raise bad(f"Got priority {priority} but Priority scheduling is not enabled.", "priority")
    return int(priority)


def _max_tokens(chat: bool, body: Mapping[str, Any], prompt_tokens: int, setup: Setup) -> int:
    """How many tokens an answer may have: more than fit are cut to what fits, as 0.32 does."""
    arguments = setup.arguments
    field = "max_completion_tokens" if body.get("max_completion_tokens") else "max_tokens"
    wanted = body.get(field)
    if wanted is not None and wanted > arguments.max_model_len:
        raise bad(
            f"{field}={wanted} cannot be greater than max_model_len={arguments.max_model_len}. "
            "Please request fewer output tokens.",
            field,
        )
    check_length(prompt_tokens, arguments)
    room = arguments.max_model_len - prompt_tokens
    limits = [room, room if chat else 16] if wanted is None else [room, wanted]
    limits.append(arguments.generation_config.get("max_new_tokens", room))
    limits.append(1 if setup.knobs.fault.name == "one-token" else room)
    if min(limits) < 1:
        raise bad(f"max_tokens must be at least 1, got {min(limits)}.", "max_tokens")
    return int(min(limits))


def check_length(prompt_tokens: int, arguments: Arguments) -> None:
    """Raises RequestError for a prompt that does not fit."""
    if prompt_tokens > arguments.max_model_len:
        raise bad(
            f"This model's maximum context length is {arguments.max_model_len} tokens. However, "
            f"your prompt contains {prompt_tokens} input tokens, which exceeds this limit even "
            "without any output tokens. Please reduce the length of the input prompt.",
            "input_tokens",
        )

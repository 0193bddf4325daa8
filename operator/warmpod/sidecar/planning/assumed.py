"""What an engine can be expected to serve, by its spec alone: for a plan before any engine runs."""

from dataclasses import replace

from warmpod.api import WarmModel
from warmpod.engine import EngineTraits, facts_of
from warmpod.sidecar.planning.make import candidates
from warmpod.sidecar.planning.model import Endpoint, Served, TokenCost

# Tokens that chat templates add, about.
TEMPLATE_TOKENS = 12

_POOLING: dict[str, tuple[Endpoint, ...]] = {
    "embed": ("embeddings", "pooling", "score", "rerank"),
    "embedding": ("embeddings", "pooling", "score", "rerank"),
    "classify": ("classify", "pooling"),
    "score": ("score", "rerank", "pooling"),
    "reward": ("pooling",),
    "pooling": ("embeddings", "pooling"),
    "transcription": ("transcription",),
}


def assumed(model: WarmModel) -> Served:
    """Everything that the arguments do not speak against is assumed to be served."""
    facts = facts_of(model.spec)
    traits = facts.traits
    served = Served(
        model=(facts.served_names or (model.served_name,))[0],
        max_model_len=traits.max_model_len,
        costs={endpoint: _cost(endpoint) for endpoint in _endpoints(traits)},
        notes=tuple(_notes(traits)),
        adapters=traits.lora_modules,
        traits=traits,
        token_ids=(1,),
    )
    features = {
        bucket.name
        for bucket in candidates(served, model.spec.warmup)
        # Images are served by default by models that take them, and arguments rarely say so.
        if traits.images_per_prompt or not bucket.name.startswith("image/")
    }
    return replace(served, features=frozenset(features))


def _endpoints(traits: EngineTraits) -> tuple[Endpoint, ...]:
    return _POOLING.get(traits.task or "", ("chat", "completion"))


def _cost(endpoint: Endpoint) -> TokenCost:
    return TokenCost(1.0, TEMPLATE_TOKENS if endpoint == "chat" else 0.0)


def _notes(traits: EngineTraits) -> list[str]:
    notes = ["made from the spec alone: a running engine may serve less, or more"]
    if traits.max_model_len is None:
        notes.append(
            "the arguments do not show --max-model-len, so no prompt is cut to the context length"
        )
    return notes

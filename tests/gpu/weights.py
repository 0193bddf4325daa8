"""A random-weight Llama of a real shape: it is loaded, compiled and run as a real one.

What it says makes no sense. Runs on the machine's own Python with torch.
"""

from __future__ import annotations

import itertools
import json
import string
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tiny_model

JsonObject = dict[str, Any]
SHARD_BYTES = 4 * 2**30
SPREAD = 0.02
SEED = 2024


@dataclass(frozen=True)
class Shape:
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int
    tied: bool  # one matrix for embedding and output

    @property
    def head(self) -> int:
        return self.hidden // self.heads


SHAPES = {
    "1b": Shape(2048, 8192, 16, 32, 8, 128256, tied=True),  # as Llama 3.2 1B
    "8b": Shape(4096, 14336, 32, 32, 8, 128256, tied=False),  # as Llama 3 8B
}


def write(shape: Shape, directory: Path) -> JsonObject:
    """Gives the size and the seconds it took."""
    started = time.monotonic()
    directory.mkdir(parents=True, exist_ok=True)
    placed: dict[str, str] = {}
    for number, shard in enumerate(_shards(shape), start=1):
        name = f"model-{number:05}.safetensors"
        _write_shard(shard, directory / name)
        placed |= dict.fromkeys((tensor for tensor, _ in shard), name)
    total = sum(path.stat().st_size for path in directory.glob("*.safetensors"))
    documents = {
        "config.json": config(shape),
        "generation_config.json": {"bos_token_id": tiny_model.BOS, "eos_token_id": tiny_model.EOS},
        "model.safetensors.index.json": {
            "metadata": {"total_size": total},
            "weight_map": placed,
        },
        "tokenizer.json": tokenizer(shape.vocabulary),
        "tokenizer_config.json": tiny_model.tokenizer_config()
        | {"chat_template": tiny_model.CHAT_TEMPLATE, "model_max_length": 131072},
    }
    for name, document in documents.items():
        (directory / name).write_text(json.dumps(document) + "\n")
    return {"bytes": total, "seconds": round(time.monotonic() - started, 1)}


def tensors(shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes in the order of their use."""
    yield "model.embed_tokens.weight", (shape.vocabulary, shape.hidden)
    queries, keys = shape.heads * shape.head, shape.kv_heads * shape.head
    for number in range(shape.layers):
        prefix = f"model.layers.{number}."
        yield f"{prefix}self_attn.q_proj.weight", (queries, shape.hidden)
        yield f"{prefix}self_attn.k_proj.weight", (keys, shape.hidden)
        yield f"{prefix}self_attn.v_proj.weight", (keys, shape.hidden)
        yield f"{prefix}self_attn.o_proj.weight", (shape.hidden, queries)
        yield f"{prefix}mlp.gate_proj.weight", (shape.intermediate, shape.hidden)
        yield f"{prefix}mlp.up_proj.weight", (shape.intermediate, shape.hidden)
        yield f"{prefix}mlp.down_proj.weight", (shape.hidden, shape.intermediate)
        yield f"{prefix}input_layernorm.weight", (shape.hidden,)
        yield f"{prefix}post_attention_layernorm.weight", (shape.hidden,)
    yield "model.norm.weight", (shape.hidden,)
    if not shape.tied:
        yield "lm_head.weight", (shape.vocabulary, shape.hidden)


def _shards(shape: Shape) -> Iterator[list[tuple[str, tuple[int, ...]]]]:
    shard, size = [], 0
    for name, dimensions in tensors(shape):
        count = 2
        for dimension in dimensions:
            count *= dimension
        if shard and size + count > SHARD_BYTES:
            yield shard
            shard, size = [], 0
        shard.append((name, dimensions))
        size += count
    yield shard


def _write_shard(shard: list[tuple[str, tuple[int, ...]]], path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    device = "cuda" if torch.cuda.is_available() else "cpu"
    numbers = torch.Generator(device).manual_seed(SEED)

    def filled(dimensions: tuple[int, ...]) -> torch.Tensor:
        if len(dimensions) == 1:
            return torch.ones(dimensions, dtype=torch.bfloat16)
        values = torch.empty(dimensions, device=device, dtype=torch.bfloat16)
        return values.normal_(0, SPREAD, generator=numbers).cpu()

    values = {name: filled(dimensions) for name, dimensions in shard}
    save_file(values, str(path), metadata={"format": "pt"})
    path.chmod(0o644)  # engines and agents may run as other users


def config(shape: Shape) -> JsonObject:
    return tiny_model.model_config() | {
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": 131072,
        "rope_theta": 500000.0,
        "tie_word_embeddings": shape.tied,
    }


def tokenizer(vocabulary: int) -> JsonObject:
    """One token a byte of the prompt. Every other token is a word of its own, so that whatever the
    random weights choose is text."""
    document: JsonObject = dict(tiny_model.tokenizer())
    words = map("".join, itertools.product(string.ascii_lowercase, repeat=4))
    numbers = range(tiny_model.VOCABULARY, vocabulary)
    fillers = {f"{word}-": number for number, word in zip(numbers, words, strict=False)}
    model = document["model"]
    document["model"] = model | {"vocab": model["vocab"] | fillers}
    return document

"""A random-weight Llama of a real shape: it is loaded, compiled and run as a real one.

What it says makes no sense. In 16 bits, or in 4 as GPTQ and AWQ pack them: eight numbers a word of
32 bits, along the inputs or along the outputs, with a scale and a zero for 128 of them. Runs on the
machine's own Python with torch.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import string
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import tiny_model
import tiny_packed

JsonObject = dict[str, Any]
SHARD_BYTES = 4 * 2**30
SPREAD = 0.02
SEED = 2024
PACKED, GROUP = tiny_packed.IN_A_WORD, 128  # 4-bit numbers in a word; of one scale
RANK = 16  # of the adapter
ADAPTED = ("q_proj", "v_proj")


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
CHOSEN = os.environ.get("WARMPOD_GPU_SHAPE", "1b")


class Form(Enum):
    """How the matrices of the layers are kept."""

    BF16 = "bf16"
    GPTQ = "gptq"
    AWQ = "awq"


# What a checkpoint says of itself, by which vLLM chooses its kernels.
QUANTISATION: dict[Form, JsonObject] = {
    form: tiny_packed.METHODS[form.value] | {"group_size": GROUP} for form in (Form.GPTQ, Form.AWQ)
}


class Content(Enum):
    RANDOM = "random"
    ONES = "ones"
    WORDS = "words"  # eight random numbers each
    GPTQ_ZEROS = "gptq"  # eight times the middle of what four bits can say, as the form writes it
    AWQ_ZEROS = "awq"
    SCALES = "scales"  # with which the numbers spread as far as random ones
    GROUPS = "groups"  # of which group each input is


_WORDS = (Content.WORDS, Content.GPTQ_ZEROS, Content.AWQ_ZEROS, Content.GROUPS)


@dataclass(frozen=True)
class Tensor:
    name: str
    dimensions: tuple[int, ...]
    content: Content = Content.RANDOM

    @property
    def size(self) -> int:
        """Bytes."""
        return math.prod(self.dimensions) * (4 if self.content in _WORDS else 2)


def write(shape: Shape, directory: Path, form: Form = Form.BF16) -> JsonObject:
    """Gives the size and the seconds it took."""
    started = time.monotonic()
    directory.mkdir(parents=True, exist_ok=True)
    placed: dict[str, str] = {}
    for number, shard in enumerate(_shards(shape, form), start=1):
        name = f"model-{number:05}.safetensors"
        _write_tensors(shard, directory / name)
        placed |= dict.fromkeys((tensor.name for tensor in shard), name)
    total = sum(path.stat().st_size for path in directory.glob("*.safetensors"))
    documents = {
        "config.json": config(shape, form),
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


def write_adapter(shape: Shape, directory: Path) -> None:
    """A LoRA adapter for it, as PEFT writes them."""
    directory.mkdir(parents=True, exist_ok=True)
    _write_tensors(adapter_tensors(shape), directory / "adapter_model.safetensors")
    said = tiny_model.adapter_config() | {"r": RANK, "lora_alpha": RANK}
    (directory / "adapter_config.json").write_text(json.dumps(said) + "\n")


def adapter_tensors(shape: Shape) -> Iterator[Tensor]:
    for number, name in itertools.product(range(shape.layers), ADAPTED):
        inputs, outputs = _projections(shape)[f"self_attn.{name}"]
        prefix = f"base_model.model.model.layers.{number}.self_attn.{name}."
        yield Tensor(f"{prefix}lora_A.weight", (RANK, inputs))
        yield Tensor(f"{prefix}lora_B.weight", (outputs, RANK))


def tensors(shape: Shape, form: Form = Form.BF16) -> Iterator[Tensor]:
    """In the order of their use."""
    yield Tensor("model.embed_tokens.weight", (shape.vocabulary, shape.hidden))
    for number in range(shape.layers):
        prefix = f"model.layers.{number}."
        for name, (inputs, outputs) in _projections(shape).items():
            yield from _matrix(f"{prefix}{name}", inputs, outputs, form)
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield Tensor(f"{prefix}{name}.weight", (shape.hidden,), Content.ONES)
    yield Tensor("model.norm.weight", (shape.hidden,), Content.ONES)
    if not shape.tied:
        yield Tensor("lm_head.weight", (shape.vocabulary, shape.hidden))


def _projections(shape: Shape) -> dict[str, tuple[int, int]]:
    """Inputs and outputs of each matrix of a layer."""
    queries, keys = shape.heads * shape.head, shape.kv_heads * shape.head
    return {
        "self_attn.q_proj": (shape.hidden, queries),
        "self_attn.k_proj": (shape.hidden, keys),
        "self_attn.v_proj": (shape.hidden, keys),
        "self_attn.o_proj": (queries, shape.hidden),
        "mlp.gate_proj": (shape.hidden, shape.intermediate),
        "mlp.up_proj": (shape.hidden, shape.intermediate),
        "mlp.down_proj": (shape.intermediate, shape.hidden),
    }


def _matrix(name: str, inputs: int, outputs: int, form: Form) -> Iterator[Tensor]:
    if form is Form.BF16:
        yield Tensor(f"{name}.weight", (outputs, inputs))
        return
    words = (inputs // PACKED, outputs) if form is Form.GPTQ else (inputs, outputs // PACKED)
    groups = inputs // GROUP
    yield Tensor(f"{name}.qweight", words, Content.WORDS)
    yield Tensor(f"{name}.qzeros", (groups, outputs // PACKED), Content(form.value))
    yield Tensor(f"{name}.scales", (groups, outputs), Content.SCALES)
    if form is Form.GPTQ:
        yield Tensor(f"{name}.g_idx", (inputs,), Content.GROUPS)


def _shards(shape: Shape, form: Form) -> Iterator[list[Tensor]]:
    shard: list[Tensor] = []
    for tensor in tensors(shape, form):
        if shard and sum(each.size for each in shard) + tensor.size > SHARD_BYTES:
            yield shard
            shard = []
        shard.append(tensor)
    yield shard


def _write_tensors(shard: Iterable[Tensor], path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    device = "cuda" if torch.cuda.is_available() else "cpu"
    numbers = torch.Generator(device).manual_seed(SEED)

    def filled(tensor: Tensor) -> torch.Tensor:
        dimensions, kind = tensor.dimensions, torch.int32
        match tensor.content:
            case Content.RANDOM:
                values = torch.empty(dimensions, device=device, dtype=torch.bfloat16)
                return values.normal_(0, SPREAD, generator=numbers).cpu()
            case Content.ONES:
                return torch.ones(dimensions, dtype=torch.bfloat16)
            case Content.SCALES:
                return torch.full(dimensions, tiny_packed.SCALE, dtype=torch.bfloat16)
            case Content.GPTQ_ZEROS | Content.AWQ_ZEROS:
                return torch.full(dimensions, tiny_packed.ZEROS[tensor.content.value], dtype=kind)
            case Content.GROUPS:
                return torch.arange(*dimensions, dtype=kind) // GROUP
            case Content.WORDS:
                words = torch.empty(dimensions, device=device, dtype=kind)
                return words.random_(-(2**31), 2**31 - 1, generator=numbers).cpu()

    save_file({tensor.name: filled(tensor) for tensor in shard}, str(path), {"format": "pt"})
    path.chmod(0o644)  # engines and agents may run as other users


def config(shape: Shape, form: Form = Form.BF16) -> JsonObject:
    packed = {"quantization_config": QUANTISATION[form]} if form in QUANTISATION else {}
    return {
        **tiny_model.model_config(),
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
        **packed,
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

#!/usr/bin/env python3
"""Writes the tiny Llama of the demo and the tests: seconds to load, the files of a real model.

    hack/tiny_model.py [--kind chat|base|adapter] DIRECTORY

Two layers in two shards, and a tokenizer with one token a byte. The weights are
random but for one trait: it answers in printable ASCII and never ends a reply
before the token limit, so that every reply has text and a known length. The
same files come out on every run.

The kind base has no chat template; adapter is a LoRA adapter for either of them,
with which answers differ from those without it.
"""

import argparse
import json
import random
import struct
from pathlib import Path

HIDDEN, INTERMEDIATE, LAYERS, HEADS, MAX_POSITIONS = 64, 128, 2, 2, 512
BYTES = 256  # token n is byte n
BOS, EOS, VOCABULARY = BYTES, BYTES + 1, BYTES + 2
PRINTABLE = range(ord(" "), ord("~") + 1)
SEED = 2024

# The first component of every embedding; it outweighs the others, so after the
# last norm it is about sqrt(HIDDEN) whatever the prompt is.
CONSTANT = 1.0
# Times that constant: no token that is not printable ever comes close.
NOT_PRINTABLE = -4.0

RANK = 8
ADAPTED = ("q_proj", "v_proj")
ADAPTER_SEED = 2025
# Spread of the second factor: with it the adapter weighs as much as what it adapts.
ADAPTER_SPREAD = 0.5

CHAT_TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"

# Its shape and its numbers: whole ones have 32 bits, all others 16.
Tensor = tuple[tuple[int, ...], list[float] | list[int]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--kind", choices=KINDS, default="chat")
    arguments = parser.parse_args()
    KINDS[arguments.kind](arguments.directory)


def write(directory: Path) -> None:
    write_model(directory, make_shards(), model_config(), chat_tokenizer_config())


def write_base(directory: Path) -> None:
    write_model(directory, make_shards(), model_config(), tokenizer_config())


def write_model(
    directory: Path,
    shards: list[dict[str, Tensor]],
    config: dict[str, object],
    of_tokenizer: dict[str, object],
) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    names = [f"model-{n:05}-of-{len(shards):05}.safetensors" for n in range(1, len(shards) + 1)]
    for name, tensors in zip(names, shards, strict=True):
        (directory / name).write_bytes(safetensors(tensors))
    documents = {
        "config.json": config,
        "generation_config.json": {"bos_token_id": BOS, "eos_token_id": EOS},
        "model.safetensors.index.json": shard_index(dict(zip(names, shards, strict=True))),
        "tokenizer.json": tokenizer(),
        "tokenizer_config.json": of_tokenizer,
    }
    write_documents(directory, documents)


def write_adapter(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    tensors = adapter_tensors(random.Random(ADAPTER_SEED))
    (directory / "adapter_model.safetensors").write_bytes(safetensors(tensors))
    write_documents(directory, {"adapter_config.json": adapter_config()})


def write_documents(directory: Path, documents: dict[str, dict[str, object]]) -> None:
    for name, document in documents.items():
        (directory / name).write_text(json.dumps(document, indent=2) + "\n")


def adapter_tensors(numbers: random.Random) -> dict[str, Tensor]:
    """Two factors a projection, under the names that PEFT gives them."""
    tensors: dict[str, Tensor] = {}
    for number in range(LAYERS):
        for name in ADAPTED:
            prefix = f"base_model.model.model.layers.{number}.self_attn.{name}."
            first, second = (RANK, HIDDEN), (HIDDEN, RANK)
            tensors[prefix + "lora_A.weight"] = first, noise(numbers, HIDDEN * RANK)
            tensors[prefix + "lora_B.weight"] = (
                second,
                noise(numbers, HIDDEN * RANK, ADAPTER_SPREAD),
            )
    return tensors


def adapter_config() -> dict[str, object]:
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "tiny",
        "r": RANK,
        "lora_alpha": RANK,
        "target_modules": list(ADAPTED),
        "lora_dropout": 0.0,
        "bias": "none",
        "inference_mode": True,
    }


def make_shards() -> list[dict[str, Tensor]]:
    numbers = random.Random(SEED)
    first: dict[str, Tensor] = {"model.embed_tokens.weight": embedding(numbers)}
    first |= layer(numbers, 0)
    last: dict[str, Tensor] = layer(numbers, 1)
    last["model.norm.weight"] = ones()
    last["lm_head.weight"] = output_head(numbers)
    return [first, last]


def embedding(numbers: random.Random) -> Tensor:
    rows = ([CONSTANT, *noise(numbers, HIDDEN - 1)] for _ in range(VOCABULARY))
    return (VOCABULARY, HIDDEN), [value for row in rows for value in row]


def output_head(numbers: random.Random) -> Tensor:
    printable = set(PRINTABLE)
    rows = (
        [
            0.0 if token in printable else NOT_PRINTABLE,
            *(numbers.gauss(0, 1) for _ in range(HIDDEN - 1)),
        ]
        for token in range(VOCABULARY)
    )
    return (VOCABULARY, HIDDEN), [value for row in rows for value in row]


def layer(numbers: random.Random, number: int) -> dict[str, Tensor]:
    prefix = f"model.layers.{number}."
    square, up, down = (HIDDEN, HIDDEN), (INTERMEDIATE, HIDDEN), (HIDDEN, INTERMEDIATE)
    shapes = {
        "self_attn.q_proj.weight": square,
        "self_attn.k_proj.weight": square,
        "self_attn.v_proj.weight": square,
        "self_attn.o_proj.weight": square,
        "mlp.gate_proj.weight": up,
        "mlp.up_proj.weight": up,
        "mlp.down_proj.weight": down,
    }
    tensors: dict[str, Tensor] = {
        prefix + name: (shape, noise(numbers, shape[0] * shape[1]))
        for name, shape in shapes.items()
    }
    tensors[prefix + "input_layernorm.weight"] = ones()
    tensors[prefix + "post_attention_layernorm.weight"] = ones()
    return tensors


def noise(numbers: random.Random, count: int, spread: float = 0.02) -> list[float]:
    return [numbers.gauss(0, spread) for _ in range(count)]


def ones() -> Tensor:
    return (HIDDEN,), [1.0] * HIDDEN


def safetensors(tensors: dict[str, Tensor]) -> bytes:
    """A safetensors file: the header's length, the header as JSON, the tensors' bytes."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    body = bytearray()
    for name, (shape, values) in tensors.items():
        start = len(body)
        kind, encoded = encode(values)
        body += encoded
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [start, len(body)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # tensors start at a multiple of eight
    return struct.pack("<Q", len(text)) + text + bytes(body)


def encode(values: list[float] | list[int]) -> tuple[str, bytes]:
    if isinstance(values[0], int):
        return "I32", struct.pack(f"<{len(values)}i", *values)
    return "BF16", b"".join(map(bfloat16, values))


def bfloat16(value: float) -> bytes:
    """The upper half of a float32, least significant byte first."""
    return struct.pack("<f", value)[2:]


def shard_index(shards: dict[str, dict[str, Tensor]]) -> dict[str, object]:
    weight_map = {tensor: file for file, tensors in shards.items() for tensor in tensors}
    tensors = [values for tensors in shards.values() for _, values in tensors.values()]
    size = sum(len(encode(values)[1]) for values in tensors)
    return {"metadata": {"total_size": size}, "weight_map": weight_map}


def model_config() -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "head_dim": HIDDEN // HEADS,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": MAX_POSITIONS,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "bos_token_id": BOS,
        "eos_token_id": EOS,
    }


def byte_alphabet() -> list[str]:
    """The character that byte-level tokenizers use for each byte: itself where it can be seen."""
    visible = {*PRINTABLE[1:], *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    substitutes = iter(range(0x100, 0x200))
    return [chr(byte if byte in visible else next(substitutes)) for byte in range(BYTES)]


def tokenizer() -> dict[str, object]:
    vocabulary = {character: byte for byte, character in enumerate(byte_alphabet())}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    byte_level["use_regex"] = True
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [added_token(BOS, "<s>"), added_token(EOS, "</s>")],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": vocabulary | {"<s>": BOS, "</s>": EOS},
            "merges": [],
        },
    }


def added_token(number: int, content: str) -> dict[str, object]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": content, **flags, "special": True}


def chat_tokenizer_config() -> dict[str, object]:
    return tokenizer_config() | {"chat_template": CHAT_TEMPLATE}


def tokenizer_config() -> dict[str, object]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "model_max_length": MAX_POSITIONS,
        "clean_up_tokenization_spaces": False,
    }


KINDS = {"chat": write, "base": write_base, "adapter": write_adapter}


if __name__ == "__main__":
    main()

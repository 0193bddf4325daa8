#!/usr/bin/env python3
"""Writes tiny BERTs for the tests of pooling engines: they embed, or score a text for a query.

    hack/tiny_bert.py [--kind embedding|reranker] DIRECTORY

One layer of random weights in one shard; the tokenizer has one token a byte. The
same files come out on every run.
"""

import argparse
import random
from pathlib import Path

import tiny_model
from tiny_model import Tensor, noise

HIDDEN, INTERMEDIATE, LAYERS, HEADS, MAX_POSITIONS = 64, 128, 1, 2, 512
CLS, SEP, PAD = tiny_model.BYTES, tiny_model.BYTES + 1, tiny_model.BYTES + 2
VOCABULARY = PAD + 1
SEGMENTS = 2
SEED = 2026


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--kind", choices=KINDS, default="embedding")
    arguments = parser.parse_args()
    KINDS[arguments.kind](arguments.directory)


def write_embedding(directory: Path) -> None:
    write_model(directory, "BertModel", encoder(random.Random(SEED), ""), {})


def write_reranker(directory: Path) -> None:
    numbers = random.Random(SEED)
    head = linear(numbers, "classifier", 1, HIDDEN)
    tensors = encoder(numbers, "bert.") | head
    labels = {"id2label": {"0": "relevance"}, "label2id": {"relevance": 0}}
    write_model(directory, "BertForSequenceClassification", tensors, labels)


def write_model(
    directory: Path, architecture: str, tensors: dict[str, Tensor], traits: dict[str, object]
) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "model.safetensors").write_bytes(tiny_model.safetensors(tensors))
    documents = {
        "config.json": model_config(architecture) | traits,
        "tokenizer.json": tokenizer(),
        "tokenizer_config.json": tokenizer_config(),
    }
    tiny_model.write_documents(directory, documents)


def encoder(numbers: random.Random, prefix: str) -> dict[str, Tensor]:
    tables = {"word": VOCABULARY, "position": MAX_POSITIONS, "token_type": SEGMENTS}
    tensors: dict[str, Tensor] = {
        f"{prefix}embeddings.{name}_embeddings.weight": (
            (rows, HIDDEN),
            noise(numbers, rows * HIDDEN),
        )
        for name, rows in tables.items()
    }
    tensors |= norm(f"{prefix}embeddings.LayerNorm")
    for number in range(LAYERS):
        tensors |= layer(numbers, f"{prefix}encoder.layer.{number}")
    return tensors | linear(numbers, f"{prefix}pooler.dense", HIDDEN, HIDDEN)


def layer(numbers: random.Random, name: str) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for part in ("self.query", "self.key", "self.value", "output.dense"):
        tensors |= linear(numbers, f"{name}.attention.{part}", HIDDEN, HIDDEN)
    tensors |= norm(f"{name}.attention.output.LayerNorm")
    tensors |= linear(numbers, f"{name}.intermediate.dense", INTERMEDIATE, HIDDEN)
    tensors |= linear(numbers, f"{name}.output.dense", HIDDEN, INTERMEDIATE)
    return tensors | norm(f"{name}.output.LayerNorm")


def linear(numbers: random.Random, name: str, out: int, into: int) -> dict[str, Tensor]:
    return {
        f"{name}.weight": ((out, into), noise(numbers, out * into)),
        f"{name}.bias": ((out,), [0.0] * out),
    }


def norm(name: str) -> dict[str, Tensor]:
    return {
        f"{name}.weight": ((HIDDEN,), [1.0] * HIDDEN),
        f"{name}.bias": ((HIDDEN,), [0.0] * HIDDEN),
    }


def model_config(architecture: str) -> dict[str, object]:
    return {
        "architectures": [architecture],
        "model_type": "bert",
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "vocab_size": VOCABULARY,
        "type_vocab_size": SEGMENTS,
        "max_position_embeddings": MAX_POSITIONS,
        "layer_norm_eps": 1e-12,
        "hidden_act": "gelu",
        "pad_token_id": PAD,
        "torch_dtype": "bfloat16",
    }


def tokenizer() -> dict[str, object]:
    """Bytes between [CLS] and [SEP]; a second text has the second segment's type."""
    special = {"[CLS]": CLS, "[SEP]": SEP, "[PAD]": PAD}
    document = tiny_model.tokenizer()
    model = document["model"]
    assert isinstance(model, dict)
    letters = {text: token for text, token in model["vocab"].items() if token < tiny_model.BYTES}
    first, second = {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}
    single = [token("[CLS]", 0), first, token("[SEP]", 0)]
    return document | {
        "added_tokens": [
            tiny_model.added_token(number, content) for content, number in special.items()
        ],
        "model": model | {"vocab": letters | special},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": single,
            "pair": [*single, second, token("[SEP]", 1)],
            "special_tokens": {
                content: {"id": content, "ids": [number], "tokens": [content]}
                for content, number in special.items()
                if number != PAD
            },
        },
    }


def token(content: str, segment: int) -> dict[str, object]:
    return {"SpecialToken": {"id": content, "type_id": segment}}


def tokenizer_config() -> dict[str, object]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "pad_token": "[PAD]",
        "model_max_length": MAX_POSITIONS,
        "clean_up_tokenization_spaces": False,
    }


KINDS = {"embedding": write_embedding, "reranker": write_reranker}


if __name__ == "__main__":
    main()

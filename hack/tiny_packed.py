#!/usr/bin/env python3
"""Writes the tiny Llama with its layers in 4 bits, as GPTQ and AWQ keep them.

    hack/tiny_packed.py [--kind gptq|awq] DIRECTORY

Random numbers in place of quantised ones, which spread as far as those of the tiny Llama in 16
bits. Eight of them are a word of 32 bits, along the inputs (GPTQ) or the outputs (AWQ); 32 inputs
share a scale and a zero. The same files come out on every run.
"""

import argparse
import random
from functools import partial
from pathlib import Path

import tiny_model
from tiny_model import Tensor

IN_A_WORD, IN_A_GROUP = 8, 32
SEED = 2027
# Sixteen numbers, each as likely as the others, spread by 4.6; those in 16 bits by 0.02.
SCALE = 0.02 / 4.6
# Eight times the middle of what four bits can say. AWQ writes it as it is, GPTQ less one.
ZEROS = {"gptq": 0x77777777, "awq": 0x88888888 - 2**32}

METHODS: dict[str, dict[str, object]] = {
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": IN_A_GROUP, "desc_act": False}
    | {"sym": True, "lm_head": False},
    "awq": {"quant_method": "awq", "bits": 4, "group_size": IN_A_GROUP, "zero_point": True}
    | {"version": "gemm"},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--kind", choices=KINDS, default="gptq")
    arguments = parser.parse_args()
    KINDS[arguments.kind](arguments.directory)


def write(method: str, directory: Path) -> None:
    numbers = random.Random(SEED)
    shards = [packed(shard, method, numbers) for shard in tiny_model.make_shards()]
    config = tiny_model.model_config() | {"quantization_config": METHODS[method]}
    tiny_model.write_model(directory, shards, config, tiny_model.chat_tokenizer_config())


def packed(tensors: dict[str, Tensor], method: str, numbers: random.Random) -> dict[str, Tensor]:
    """Matrices of layers in 4 bits; embedding, norms and output stay as they are."""
    found: dict[str, Tensor] = {}
    for name, (shape, values) in tensors.items():
        if ".layers." in name and len(shape) == 2:
            found |= matrix(name.removesuffix(".weight"), shape, method, numbers)
        else:
            found[name] = shape, values
    return found


def matrix(
    name: str, shape: tuple[int, ...], method: str, numbers: random.Random
) -> dict[str, Tensor]:
    outputs, inputs = shape
    groups = inputs // IN_A_GROUP
    words = (inputs // IN_A_WORD, outputs) if method == "gptq" else (inputs, outputs // IN_A_WORD)
    zeros = (groups, outputs // IN_A_WORD)
    tensors: dict[str, Tensor] = {
        f"{name}.qweight": (words, [word(numbers) for _ in range(words[0] * words[1])]),
        f"{name}.qzeros": (zeros, [ZEROS[method]] * (zeros[0] * zeros[1])),
        f"{name}.scales": ((groups, outputs), [SCALE] * (groups * outputs)),
    }
    if method == "gptq":
        tensors[f"{name}.g_idx"] = (inputs,), [number // IN_A_GROUP for number in range(inputs)]
    return tensors


def word(numbers: random.Random) -> int:
    return numbers.getrandbits(32) - 2**31


KINDS = {method: partial(write, method) for method in METHODS}


if __name__ == "__main__":
    main()

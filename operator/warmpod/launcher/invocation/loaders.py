"""spec.weights.loader as arguments of vLLM, where this image and these weights have what it needs.

What the image has is known only inside it, and vLLM fails late when something is missing: its
parser takes any load format, and the worker ends when it comes to the weights. So what is missing
is found before, the arguments are left out, and the engine loads as it does by itself.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from warmpod.commandline import leading
from warmpod.launcher.invocation.command import with_options
from warmpod.launcher.invocation.installed import Engine, installed

BY_ITSELF = "Auto"

# Where vLLM names the load formats that it knows, and the keys of its own loader's settings.
_SOURCES = (
    "model_executor/model_loader/__init__.py",
    "model_executor/model_loader/default_loader.py",
)


@dataclass(frozen=True)
class Loader:
    """What gives it to vLLM, and what it needs there."""

    argument: str
    word: str
    """What stands in the source of a vLLM that has it."""
    package: str = ""
    files: tuple[str, ...] = ()
    """Patterns; the model's directory has at least one such file."""
    gpu: bool = False


@dataclass(frozen=True)
class Choice:
    """`used` is `wanted`, or BY_ITSELF."""

    wanted: str
    used: str
    why: str
    argv: list[str]


LOADERS: Mapping[str, Loader] = {
    "Multithread": Loader(
        '--model-loader-extra-config={"enable_multithread_load":true}', "enable_multithread_load"
    ),
    "RunaiStreamer": Loader(
        "--load-format=runai_streamer", '"runai_streamer"', package="runai_model_streamer"
    ),
    # It puts tensors on CUDA devices, whatever the engine runs on.
    "FastSafetensors": Loader(
        "--load-format=fastsafetensors", '"fastsafetensors"', package="fastsafetensors", gpu=True
    ),
    "ShardedState": Loader(
        "--load-format=sharded_state",
        '"sharded_state"',
        files=("model-rank-*-part-*.safetensors", "model-pp-*-tp-*-part-*.safetensors"),
    ),
    "Tensorizer": Loader(
        "--load-format=tensorizer",
        '"tensorizer"',
        package="tensorizer",
        files=("model.tensors",),
    ),
}


def choose(wanted: str, argv: Sequence[str]) -> Choice:
    """Look at the image, and at the model that `argv`, `vllm serve MODEL …`, names."""
    engine = installed(_SOURCES)
    loader = LOADERS[wanted]
    if lack := _lack(loader, engine, Path(leading(argv)[-1])):
        return Choice(wanted, BY_ITSELF, lack, list(argv))
    return Choice(wanted, wanted, f"{engine} has it", with_options(argv, loader.argument))


def _lack(loader: Loader, engine: Engine, model: Path) -> str:
    """What is missing, in words; empty if nothing is."""
    if lack := engine.lack(loader.word):
        return lack
    if loader.gpu and "cpu" in engine.version:
        return f"it needs a GPU, and {engine} is built for none"
    if loader.package and importlib.util.find_spec(loader.package) is None:
        return f"the engine image does not have its package {loader.package}"
    if loader.files and not any(any(model.glob(pattern)) for pattern in loader.files):
        return f"{model} has no file {' or '.join(loader.files)}"
    return ""

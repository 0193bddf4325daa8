"""Which loader vLLM is given: what the image and the weights have decides."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from warmpod.api.weights import Loader
from warmpod.launcher.invocation.loaders import LOADERS, Choice, choose

SOURCES = {
    "__init__.py": '"runai_streamer" "fastsafetensors" "sharded_state" "tensorizer"',
    "default_loader.py": '"enable_multithread_load"',
}
Image = Callable[..., None]


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Image:
    """Makes packages that Python finds, as in an engine image."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])

    def make(version: str = "0.32.0", packages: tuple[str, ...] = (), **sources: str) -> None:
        loader = site / "vllm/model_executor/model_loader"
        loader.mkdir(parents=True)
        (site / "vllm/__init__.py").write_text("raise AssertionError('vLLM was imported')")
        for name, text in (SOURCES | {f"{n}.py": t for n, t in sources.items()}).items():
            (loader / name).write_text(text)
        if version:
            metadata = site / f"vllm-{version}.dist-info"
            metadata.mkdir()
            (metadata / "METADATA").write_text(f"Name: vllm\nVersion: {version}\n")
        for package in packages:
            (site / package).mkdir()
            (site / package / "__init__.py").touch()

    return make


def chosen(wanted: str, model: Path = Path("/models/m")) -> Choice:
    return choose(wanted, ["vllm", "serve", str(model), "--port=1", "last"])


def test_there_is_a_loader_for_each_word_of_the_api() -> None:
    assert ["Auto", *LOADERS] == list(get_args(Loader))


@pytest.mark.parametrize("wanted", LOADERS)
def test_a_loader_that_the_image_has_is_given_before_the_users_arguments(
    image: Image, tmp_path: Path, wanted: str
) -> None:
    image(packages=tuple(loader.package for loader in LOADERS.values() if loader.package))
    (tmp_path / "model-rank-0-part-0.safetensors").touch()
    (tmp_path / "model.tensors").touch()
    found = chosen(wanted, tmp_path)
    assert (found.used, found.why) == (wanted, "vLLM 0.32.0 has it")
    argument = LOADERS[wanted].argument
    assert found.argv == ["vllm", "serve", str(tmp_path), argument, "--port=1", "last"]


@pytest.mark.parametrize(
    ("wanted", "engine", "why"),
    [
        ("RunaiStreamer", {}, "the engine image does not have its package runai_model_streamer"),
        ("Tensorizer", {}, "the engine image does not have its package tensorizer"),
        ("Multithread", {"default_loader": ""}, "vLLM 0.32.0 does not have it"),
        ("Multithread", {"version": "", "default_loader": ""}, "vLLM does not have it"),
        (
            "FastSafetensors",
            {"version": "0.32.0+cpu", "packages": ("fastsafetensors",)},
            "it needs a GPU, and vLLM 0.32.0+cpu is built for none",
        ),
        (
            "ShardedState",
            {},
            "/models/m has no file model-rank-*-part-*.safetensors or "
            "model-pp-*-tp-*-part-*.safetensors",
        ),
        (
            "Tensorizer",
            {"packages": ("tensorizer",)},
            "/models/m has no file model.tensors",
        ),
    ],
)
def test_what_is_missing_is_named_and_the_argument_left_out(
    image: Image, wanted: str, engine: dict[str, object], why: str
) -> None:
    image(**engine)
    found = chosen(wanted)
    assert (found.wanted, found.used, found.why) == (wanted, "Auto", why)
    assert found.argv == ["vllm", "serve", "/models/m", "--port=1", "last"]


def test_an_image_in_which_python_finds_no_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    assert chosen("Multithread").why == "python3 of the engine image finds no vLLM"

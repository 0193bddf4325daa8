"""What the engine image adds to its base: kernels, compiled Python, and when it is built anew."""

import importlib.util
import os
import py_compile
import sys
from pathlib import Path
from types import ModuleType

import pytest

from devtools import engine_image, places
from devtools.buildah import Build
from devtools.steps import StepError


def script(name: str) -> ModuleType:
    path = places.ROOT / "images" / "engine" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"engine_image_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "pycache_prefix", None)
    path = tmp_path / "package" / "module.py"
    path.parent.mkdir()
    path.write_text("ANSWER = 42\n")
    return path


MODES = py_compile.PycInvalidationMode


def test_what_is_not_compiled_is(source: Path):
    bytecode = script("bytecode")
    assert not bytecode.is_compiled(source)
    assert bytecode.compile_file(str(source)) > 0
    assert bytecode.is_compiled(source)


@pytest.mark.parametrize("mode", list(MODES))
def test_what_the_base_has_compiled_stays(source: Path, mode: py_compile.PycInvalidationMode):
    py_compile.compile(str(source), invalidation_mode=mode)
    assert script("bytecode").is_compiled(source)


def test_what_was_compiled_of_another_source_does_not_count(source: Path):
    bytecode = script("bytecode")
    bytecode.compile_file(str(source))
    os.utime(source, (1, 1))
    assert not bytecode.is_compiled(source)


def test_half_a_file_does_not_count(source: Path):
    compiled = Path(importlib.util.cache_from_source(str(source)))
    compiled.parent.mkdir()
    compiled.write_bytes(importlib.util.MAGIC_NUMBER)
    assert not script("bytecode").is_compiled(source)


def test_a_template_is_no_python(source: Path):
    source.write_text("{{ name }} = \n")
    assert script("bytecode").compile_file(str(source)) is None


def test_each_source_once(source: Path):
    package = str(source.parent)
    found = script("bytecode").sources(["", package, package, str(source.parent.parent)])
    assert list(found) == [source]


def test_kernels_of_an_older_vllm(monkeypatch: pytest.MonkeyPatch):
    kernels = script("kernels")
    monkeypatch.setattr(kernels.importlib.util, "find_spec", lambda name: None)
    cubins, compiled = kernels.commands("0.6.14", "13.0", "https://flashinfer.ai/whl")
    assert cubins[-1] == "flashinfer-cubin==0.6.14"
    assert compiled[-2:] == [
        "flashinfer-jit-cache==0.6.14",
        "--index-url=https://flashinfer.ai/whl/cu130",
    ]
    assert cubins[:4] == [sys.executable, "-m", "pip", "install"]


def test_kernels_of_a_vllm_that_fetches_them_itself(monkeypatch: pytest.MonkeyPatch):
    kernels = script("kernels")
    monkeypatch.setattr(kernels.importlib.util, "find_spec", lambda name: object())
    assert kernels.commands("0.6.16", "13.0", "unused") == [["vllm", "download-kernels"]]


def test_no_kernels_without_flashinfer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", ["kernels.py", "--index=unused"])
    assert script("kernels").main() == 0
    assert "No kernels" in capsys.readouterr().out


def test_another_cache_is_another_image(tmp_path: Path):
    entry = tmp_path / "published" / "k" / "entry.json"
    entry.parent.mkdir(parents=True)
    entry.write_text("{}")
    before = engine_image.cache_version(str(tmp_path))
    entry.write_text('{"format": 1}')
    assert engine_image.cache_version(str(tmp_path)) != before


def test_a_reference_to_a_cache_is_its_own_version():
    for reference in ("registry.example.com/cache@sha256:0", ""):
        assert engine_image.cache_version(reference) == reference


def test_a_directory_without_a_cache_is_refused(tmp_path: Path):
    with pytest.raises(StepError, match="has no directory published"):
        engine_image.cache_version(str(tmp_path))


def test_a_build_sees_further_contexts(tmp_path: Path):
    build = Build(tmp_path / "Containerfile", tmp_path, contexts={"cache": "/var/tmp/cache"})
    assert "--build-context=cache=/var/tmp/cache" in build.flags()

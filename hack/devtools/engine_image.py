"""The precompiled engine image: a base, what images/engine adds to it, maybe a compile cache."""

import hashlib
import os
import shutil
from pathlib import Path

from devtools import buildah, fingerprint, images, places
from devtools.images import DIRECTORY, BuiltImage
from devtools.layout import Layer, config_of, graft, layers_of, manifest_digest
from devtools.push import crane
from devtools.steps import StepError, say, step

NAME = "engine"
SOURCES = places.ROOT / "images" / "engine"
CACHE_NAME = "published"
DEFAULT_BASE = "engine-cpu"


def build(base: str, cache: str = "") -> BuiltImage:
    """Gives the image for a base; builds it if base, sources or cache have changed.

    `base`: an image of this project, an OCI layout, or a reference. `cache`: a directory with
    `published`, or a reference.
    """
    below = _base_layout(base)
    version = fingerprint.of_sources(
        places.ROOT, ("images/engine",), manifest_digest(below), cache_version(cache)
    )[:12]
    image = BuiltImage(NAME, DIRECTORY / NAME, version)
    recorded = image.layout / "version"
    if not (recorded.exists() and recorded.read_text() == version):
        with step(f"Image {NAME} on {base}"):
            _rebuild(image, below, cache)
    tell_layers(layers_of(image.layout), len(layers_of(below)))
    return image


def tell_layers(layers: list[Layer], of_base: int) -> None:
    """Prints what a node has to pull beyond the base."""
    size = sum(layer.size for layer in layers[:of_base])
    say(f"    {size / 2**20:9.1f} MiB in {of_base} layers of the base")
    for layer in layers[of_base:]:
        say(f"    {layer.size / 2**20:9.1f} MiB  {layer.made_by}")


def _rebuild(image: BuiltImage, below: Path, cache: str) -> None:
    built = image.layout.with_name(f"{NAME}.new")
    shutil.rmtree(built, ignore_errors=True)
    name = f"localhost/warmpod/{NAME}"
    buildah.load(below, f"{name}-base")
    buildah.build(name, _first_stage(f"{name}-base", below))
    if cache:
        buildah.build(name, _second_stage(name, cache))
    buildah.save_plain(name, built)
    graft(built, below)
    buildah.remove_unused()
    (built / "version").write_text(image.version)
    shutil.rmtree(image.layout, ignore_errors=True)
    built.rename(image.layout)


def _first_stage(base: str, below: Path) -> buildah.Build:
    user = config_of(below).get("config", {}).get("User") or "0:0"
    arguments = {"BASE": base, "ENGINE_USER": user}
    # pip itself is the base's; only where it finds packages is this machine's.
    arguments |= {name: os.environ[name] for name in buildah.PIP_INDEXES if os.environ.get(name)}
    return buildah.Build(SOURCES / "Containerfile", SOURCES, arguments)


def _second_stage(first: str, cache: str) -> buildah.Build:
    context = cache if Path(cache).is_dir() else f"docker://{cache}"
    return buildah.Build(
        SOURCES / "Containerfile.cache", SOURCES, {"BASE": first}, contexts={"cache": context}
    )


def cache_version(cache: str) -> str:
    """Changes when the cache does; a reference is taken at its word."""
    if not cache or not Path(cache).is_dir():
        return cache
    if not (Path(cache) / CACHE_NAME).is_dir():
        raise StepError(f"--cache={cache} has no directory {CACHE_NAME}: name its parent")
    return fingerprint.of_sources(Path(cache), (CACHE_NAME,))


def _base_layout(base: str) -> Path:
    """The base as an OCI layout on this machine, with the layers that it has in its registry."""
    if Path(base).is_dir():
        return Path(base).resolve()
    if base in images.RECIPES:
        return images.ensure(base).layout
    layout = DIRECTORY / f"base-{hashlib.sha256(base.encode()).hexdigest()[:12]}"
    if not layout.exists():
        with step(f"Pull {base}"):
            unfinished = layout.with_suffix(".new")
            shutil.rmtree(unfinished, ignore_errors=True)
            crane("pull", "--format=oci", "--platform=linux/amd64", base, str(unfinished))
            unfinished.rename(layout)
    return layout

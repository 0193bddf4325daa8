"""Bringing images into the registry that the cluster pulls from."""

import os
from pathlib import Path

from devtools import places
from devtools.images import BuiltImage
from devtools.steps import run


def push(image: BuiltImage) -> str:
    """Pushes the image under all its tags; gives the reference that never changes."""
    if places.registry() == places.LOCAL_REGISTRY:
        _share_blobs(image.layout)
    repository = f"{places.registry()}/{image.name}"
    first, *others = (f"{repository}:{tag}" for tag in image.tags)
    crane("push", str(image.layout), first)
    for reference in others:
        crane("tag", first, reference.rpartition(":")[2])
    return first


def crane(*arguments: str) -> str:
    environment = dict(os.environ)
    if places.registry() == places.LOCAL_REGISTRY:
        environment["NO_PROXY"] = "*"
    return run(places.program("crane"), *arguments, env=environment)


def _share_blobs(layout: Path) -> None:
    """Links the layout's blobs into the local registry, which then asks for none of them."""
    places.LOCAL_REGISTRY_BLOBS.mkdir(parents=True, exist_ok=True)
    for blob in (layout / "blobs" / "sha256").iterdir():
        target = places.LOCAL_REGISTRY_BLOBS / blob.name
        if not target.exists():
            os.link(blob, target)

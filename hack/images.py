#!/usr/bin/env python3
"""Builds the images whose sources have changed and pushes all of them.

    hack/images.py [--no-push] [NAME...]
    hack/images.py [--no-push] engine [--base REF] [--cache DIRECTORY|REF]

The second one makes the precompiled engine image (docs/fast-start.md).
Environment: REGISTRY (default: the local cluster's), WARMPOD_WHEELS.
"""

import argparse
import fcntl
from typing import TextIO

from devtools import engine_image, images, places, push, steps


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="*", help="; ".join([*images.RECIPES, engine_image.NAME]))
    parser.add_argument("--no-push", action="store_true", help="only build")
    parser.add_argument(
        "--base",
        default=engine_image.DEFAULT_BASE,
        help="of `engine`: an image with vLLM, or one of the names above (%(default)s)",
    )
    parser.add_argument(
        "--cache", default="", help="of `engine`: a directory with `published`, or an image"
    )
    arguments = parser.parse_args()
    names = arguments.name or list(images.RECIPES)
    known = [*images.RECIPES, engine_image.NAME]
    if unknown := sorted(set(names) - set(known)):
        parser.error(f"no image {', '.join(unknown)}; choose from {', '.join(known)}")
    places.CACHE.mkdir(parents=True, exist_ok=True)
    with (places.CACHE / "images.lock").open("w") as lock:
        wait_for(lock)
        for name in names:
            if name == engine_image.NAME:
                image = engine_image.build(arguments.base, arguments.cache)
            else:
                image = images.ensure(name)
            if not arguments.no_push:
                push_image(image)


def wait_for(lock: TextIO) -> None:
    """Two builds would write the same layouts."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with steps.step(f"Wait for {lock.name}, which another build holds"):
            fcntl.flock(lock, fcntl.LOCK_EX)


def push_image(image: images.BuiltImage) -> None:
    with steps.step(f"Push {image.name}"):
        reference = push.push(image)
    steps.say(f"    {reference}")


if __name__ == "__main__":
    try:
        main()
    except steps.StepError as error:
        steps.exit_with_message(error)

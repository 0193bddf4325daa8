"""The local base image: Debian's Python without apt, made by mmdebstrap."""

import os
import platform
from pathlib import Path

from devtools import buildah, fingerprint, places
from devtools.steps import run, step

SUITE = "bookworm"
PACKAGES = ("python3", "libnuma1", "libstdc++6", "ca-certificates")
# Nobody reads these in a container; half of a small image is theirs.
LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*")

NAME = "localhost/warmpod-base"
DIRECTORY = places.CACHE / "base"


def version() -> str:
    """Changes when another base would be made."""
    parts = (SUITE, *PACKAGES, *LEFT_OUT, platform.machine())
    return fingerprint.of_sources(places.ROOT, (), *parts)[:12]


def ensure() -> str:
    """Gives the name of the base image; makes it if it does not exist."""
    name = f"{NAME}:{version()}"
    if buildah.has_image(name):
        return name
    with step(f"Base image from Debian {SUITE}"):
        _import(_root_file_system(), name)
    return name


def _root_file_system() -> Path:
    archive = DIRECTORY / f"{version()}.tar"
    if not archive.exists():
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        unfinished = archive.with_suffix(".new.tar")
        excludes = [f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT]
        packages = f"--include={','.join(PACKAGES)}"
        run("mmdebstrap", "--variant=essential", packages, *excludes, SUITE, unfinished)
        os.replace(unfinished, archive)
    return archive


def _import(archive: Path, name: str) -> None:
    containerfile = DIRECTORY / "Containerfile"
    containerfile.write_text(f"FROM scratch\nADD {archive.name} /\n")
    buildah.build(name, buildah.Build(containerfile, DIRECTORY))

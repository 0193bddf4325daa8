"""Building container images as root, apart from what else buildah has on this machine."""

import importlib.util
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from devtools import places
from devtools.steps import StepError, run

STORAGE = (
    "--root", str(places.CACHE / "buildah"),
    "--runroot", "/run/warmpod-buildah",
    "--storage-driver", "overlay",
)  # fmt: skip
LOADED = Path("/run/warmpod-layout")
CERTIFICATES = Path("/etc/ssl/certs")
# Where Debian's Python looks for packages: the base has no pip of its own.
PIP_IN_BASE = "/usr/lib/python3/dist-packages/pip"
PIP_CONFIG = Path("/etc/pip.conf")
PIP_INDEXES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")
PIP_CACHE = places.CACHE / "pip"
PIP_CACHE_IN_BUILD = "/pip-cache"
WHEELS_IN_BUILD = "/wheels"


def has_image(name: str) -> bool:
    return _attempt("inspect", "--type", "image", name).returncode == 0


@dataclass(frozen=True)
class Build:
    """What an image is built from; RUN steps see `volumes`, which stay out of the image."""

    containerfile: Path
    context: Path
    arguments: dict[str, str] = field(default_factory=dict)
    volumes: dict[Path, str] = field(default_factory=dict)
    contexts: dict[str, str] = field(default_factory=dict)  # further ones, by name

    def flags(self) -> list[str]:
        flags = [f"--build-arg={key}={value}" for key, value in self.arguments.items()]
        flags += [f"--volume={source}:{target}" for source, target in self.volumes.items()]
        flags += [f"--build-context={name}={place}" for name, place in self.contexts.items()]
        # The same files give the same layers, whenever they are built.
        return [*flags, "--timestamp=0", f"--file={self.containerfile}"]


def build(name: str, source: Build) -> None:
    """Builds an image into buildah's storage, and keeps each step for the next build."""
    _run("build", "--layers", *source.flags(), f"--tag={name}", str(source.context))


def build_layout(layout: Path, source: Build) -> None:
    """Builds an image straight into an OCI layout, all steps in one plain layer.

    For large images: every kept step would be written and read several times.
    """
    _run("build", "--layers=false", *source.flags(), f"--tag=oci:{layout}", str(source.context))


def save(name: str, layout: Path) -> None:
    """Writes an image from buildah's storage as an OCI layout."""
    _run("push", "--compression-format=zstd", name, f"oci:{layout}")


def load(layout: Path, name: str) -> None:
    """Brings an OCI layout's image into buildah's storage, under a name."""
    # buildah makes a name of the path first, and fails at one with a dot before a word.
    LOADED.unlink(missing_ok=True)
    LOADED.symlink_to(layout)
    _run("tag", output("pull", "--quiet", f"oci:{LOADED}").strip(), name)
    _run("rmi", f"localhost{LOADED}")  # the name alone
    LOADED.unlink()


def save_plain(name: str, layout: Path) -> None:
    """Writes an image as an OCI layout with layers that are not compressed."""
    _run("push", "--disable-compression", name, f"oci:{layout}")


def output(command: str, *arguments: str) -> str:
    """What a command of buildah prints."""
    return run("buildah", *STORAGE, command, *arguments, env=_environment())


def remove_unused() -> None:
    """Removes images that no name leads to any more, such as those of older sources."""
    _run("rmi", "--prune", "--force")


def pip_volumes(wheels: Path | None) -> dict[Path, str]:
    """What pip needs to work in a build as it does on this machine, and its cache."""
    PIP_CACHE.mkdir(parents=True, exist_ok=True)
    volumes = {_pip_package(): f"{PIP_IN_BASE}:ro", PIP_CACHE: PIP_CACHE_IN_BUILD}
    for path in (CERTIFICATES, PIP_CONFIG):
        if path.exists():
            volumes[path] = f"{path}:ro"
    if wheels:
        volumes[wheels] = f"{WHEELS_IN_BUILD}:ro"
    return volumes


def pip_arguments(wheels: Path | None) -> dict[str, str]:
    """The build arguments that go with these volumes."""
    arguments = {name: os.environ[name] for name in PIP_INDEXES if os.environ.get(name)}
    arguments["PIP_CACHE_DIR"] = PIP_CACHE_IN_BUILD
    if wheels:
        arguments["PIP_FIND_LINKS"] = WHEELS_IN_BUILD
    return arguments


def _pip_package() -> Path:
    found = importlib.util.find_spec("pip")
    if found is None or found.origin is None:
        raise StepError("this Python has no pip: run `make` again, which makes a virtualenv")
    return Path(found.origin).parent


def _run(command: str, *arguments: str) -> None:
    output(command, *arguments)


def _attempt(command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["buildah", *STORAGE, command, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=_environment(),
    )


def _environment() -> dict[str, str]:
    """chroot needs no container runtime and works where namespaces are restricted."""
    return {**os.environ, "BUILDAH_ISOLATION": "chroot"}

"""What a machine with a GPU is brought: archives of files, by their place in its directory."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from devtools import images, places
from devtools.steps import StepError, run, step

DIRECTORY = places.CACHE / "gpu"
ENGINE = "vllm"
ENGINE_REQUIREMENTS = Path(__file__).with_name("engine-requirements.txt")
# The Python of the machine, and the newest of its C library that wheels may ask for.
PYTHON = "3.12"
NEWEST_GLIBC = 39
# xz would take minutes to save a quarter.
GZIP_LEVEL = "-4"

Files = dict[str, Path]  # path below the machine's root directory: the file here

# kwok and helm stay here, and metrics-server, which is large.
CLUSTER_PROGRAMS = (
    "containerd", "containerd-shim-runc-v2", "ctr", "crictl", "coredns", "crane", "etcd",
    "host-local", "kubernetes", "pause", "portmap", "ptp",
    # Links to `kubernetes`.
    "kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl",
    "kubelet",
)  # fmt: skip

# What the cluster needs of Debian 12, with the libraries that another system may not have.
DEBIAN_PACKAGES = (
    "iproute2", "libbpf1", "libbsd0", "libcap2", "libelf1", "libmd0", "libmnl0", "libxtables12",
    "libedit2", "libjansson4", "libnftables1", "libnftnl11", "libtinfo6", "nftables",
    "libseccomp2", "runc",
    "libssl3", "openssl",
)  # fmt: skip

# Of this harness, as far as the machine's Python does not have them; all are plain Python.
PYTHON_PACKAGES = (
    "kubernetes", "durationpy", "oauthlib", "requests_oauthlib", "websocket", "dateutil",
    "requests", "urllib3", "certifi", "idna",
)  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    """Wheels and layers of images are compressed already."""

    files: Callable[[], Files]
    compress: bool = False


def debian_files() -> Files:
    """The packages, unpacked into one directory."""
    root, archives = DIRECTORY / "programs", DIRECTORY / "debian"
    archives.mkdir(parents=True, exist_ok=True)
    if not all(any(archives.glob(f"{name}_*.deb")) for name in DEBIAN_PACKAGES):
        run("apt-get", "download", "-qq", *DEBIAN_PACKAGES, cwd=archives)
    shutil.rmtree(root, ignore_errors=True)
    for archive in sorted(archives.glob("*.deb")):
        run("dpkg-deb", "--extract", archive, root)
    shutil.rmtree(root / "usr" / "share", ignore_errors=True)  # nobody reads manuals there
    return _below(root, "programs")


def cluster_files() -> Files:
    return {f"cache/warmpod/bin/{name}": _built(name) for name in CLUSTER_PROGRAMS}


def operator_files() -> Files:
    """The operator's image, and the packages that the harness asks the cluster with."""
    image = images.built("operator")
    if image.version != images.version_of(image.name):
        raise StepError("the operator's image is of another tree: run hack/images.py operator")
    packages = (_package(name) for name in PYTHON_PACKAGES)
    files = _below(image.layout, "cache/warmpod/images/operator")
    for path in packages:
        files |= _below(path, f"packages/{path.name}") if path.is_dir() else {}
        files |= {f"packages/{path.name}": path} if path.is_file() else {}
    return files


def engine_files() -> Files:
    return {place: path for place, path in _wheels().items() if _project(path) == ENGINE}


def engine_package_files() -> Files:
    return {place: path for place, path in _wheels().items() if _project(path) != ENGINE}


def _wheels() -> Files:
    """vLLM and what it needs, as far as the machine's Python does not have it."""
    wheels = DIRECTORY / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    platforms = ["manylinux1_x86_64", "manylinux2014_x86_64", "manylinux2010_x86_64"]
    platforms += [f"manylinux_2_{minor}_x86_64" for minor in range(5, NEWEST_GLIBC + 1)]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", "--implementation=cp", f"--python-version={PYTHON}"]
    command += [f"--platform={name}" for name in platforms]
    if _absent(wheels):
        run(*command, f"--requirement={ENGINE_REQUIREMENTS}", f"--dest={wheels}")
    found = {_pinned(path): path for path in wheels.glob("*.whl")}
    return {f"wheels/{found[pin].name}": found[pin] for pin in _pins()}


# The engine first: it is looked at while the rest, which is up within seconds, is on its way.
RECIPES = {
    "engine": Recipe(engine_files),
    "engine-packages": Recipe(engine_package_files),
    "programs": Recipe(debian_files, compress=True),
    "cluster": Recipe(cluster_files, compress=True),
    "operator": Recipe(operator_files, compress=True),
}


def archive(name: str) -> Path:
    """The archive of a bundle, made anew where its files have changed."""
    files = RECIPES[name].files()
    suffix = ".tar.gz" if RECIPES[name].compress else ".tar"
    path = DIRECTORY / "bundles" / f"{name}-{_fingerprint(files)}{suffix}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        for older in path.parent.glob(f"{name}-*"):
            older.unlink()
        with step(f"Archive {name}, {len(files)} files"):
            _write(files, path)
    return path


def _write(files: Files, path: Path) -> None:
    plain = path.with_suffix(".new")
    with tarfile.open(plain, "w") as tar:
        for place, source in sorted(files.items()):
            tar.add(source, arcname=place, recursive=False, filter=_owned_by_root)
    if path.suffix == ".gz":
        run("gzip", GZIP_LEVEL, "--force", "--no-name", plain)
        plain = plain.with_name(f"{plain.name}.gz")
    plain.rename(path)


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = "root"
    return member


def _below(root: Path, place: str) -> Files:
    found = (path for path in root.rglob("*") if path.is_symlink() or path.is_file())
    kept = (path for path in found if "__pycache__" not in path.parts)
    return {f"{place}/{path.relative_to(root)}": path for path in kept}


def _fingerprint(files: Files) -> str:
    digest = hashlib.sha256()
    for place, path in sorted(files.items()):
        status = path.lstat()
        digest.update(f"{place}\0{status.st_size}\0{status.st_mode:o}\0".encode())
        digest.update(_content(path))
    return digest.hexdigest()[:12]


def _content(path: Path) -> bytes:
    if path.is_symlink():
        return str(path.readlink()).encode()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _built(name: str) -> Path:
    path = places.BIN / name
    if not path.exists():
        raise StepError(f"{path} is missing: run hack/cluster/build first")
    return path


def _package(name: str) -> Path:
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise StepError(f"this Python has no package {name}: run it by the virtualenv of `make`")
    path = Path(found.origin)
    return path.parent if path.name == "__init__.py" else path


def _absent(wheels: Path) -> set[str]:
    return _pins() - {_pinned(path) for path in wheels.glob("*.whl")}


def _pins() -> set[str]:
    lines = ENGINE_REQUIREMENTS.read_text().splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def _pinned(wheel: Path) -> str:
    return f"{_project(wheel)}=={wheel.name.split('-')[1]}"


def _project(wheel: Path) -> str:
    return wheel.name.partition("-")[0].replace("_", "-").replace(".", "-").lower()


def tree_files() -> Iterator[str]:
    """Paths of the files of this tree, committed or not."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=places.ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in listed.stdout.split("\0"):
        if name and (places.ROOT / name).is_file():
            yield name

"""An engine image without files of its own: its pods see the machine's Python, torch and CUDA, and
the vLLM that was brought.

An image of several GB would have to travel; what the machine has already need not.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gpu import machine

JsonObject = dict[str, Any]

REFERENCE = "127.0.0.1:5000/warmpod/engine-gpu:dev"
ENGINE_VARIABLES = "WARMPOD_GPU_ENGINE_ENV"  # NAME=VALUE NAME=VALUE
MOUNT = Path("/engine")
SITE = MOUNT / "site"
DRIVER = Path("/usr/local/nvidia")  # where some machines have the driver's libraries
CUDA = Path("/usr/local/cuda")
LINKS = {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64", "sbin": "usr/sbin"}
# Programs below /usr are links to the first; Triton finds the driver's library by the second.
_OF_THE_SYSTEM = (Path("/etc/alternatives"), Path("/etc/ld.so.cache"))
# The machine's own settings of these libraries hold in its pods as well.
_OF_LIBRARIES = ("NCCL_", "NVSHMEM_", "TORCH_SYMM_MEM_")
# As installers write it: the launcher reads the first line to find the engine's interpreter.
_VLLM = f"""#!{sys.executable}
from vllm.entrypoints.cli.main import main

if __name__ == "__main__":  # its processes import this file anew
    raise SystemExit(main())
"""


def unpack_wheels() -> int:
    """Makes the directory that pods see as /engine; gives the number of wheels."""
    wheels = sorted(machine.WHEELS.glob("*.whl"))
    site = machine.ENGINE / "site"
    with ThreadPoolExecutor() as pool:
        for _ in pool.map(lambda wheel: _unpack(wheel, site), wheels):
            pass
    program = machine.ENGINE / "bin" / "vllm"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(_VLLM)
    program.chmod(0o755)
    return len(wheels)


def _unpack(wheel: Path, site: Path) -> None:
    """Files of `NAME.data/purelib` and `platlib` lie beside the others; programs are left out."""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            place = _place(member.filename)
            if place is None or member.is_dir():
                continue
            target = site / place
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, target.open("wb") as file:
                shutil.copyfileobj(source, file, 2**20)


def _place(name: str) -> str | None:
    first, _, rest = name.partition("/")
    if not first.endswith(".data"):
        return name
    scheme, _, rest = rest.partition("/")
    return rest if scheme in ("purelib", "platlib") else None


def environment() -> dict[str, str]:
    """Of the image: what is found where."""
    path = [MOUNT / "bin", Path(sys.executable).parent, DRIVER / "bin", CUDA / "bin"]
    path += [Path("/usr/local/bin"), Path("/usr/bin"), Path("/bin")]
    kept = {name: value for name, value in os.environ.items() if name.startswith(_OF_LIBRARIES)}
    return kept | {
        "PATH": ":".join(map(str, path)),
        "PYTHONPATH": str(SITE),
        "LD_LIBRARY_PATH": str(DRIVER / "lib64"),
        "CUDA_HOME": str(CUDA),
    }


def variables() -> list[JsonObject]:
    """For `engine.env`. What FlashInfer builds at run time, vLLM's own image has built; without its
    sampler nothing is left of that, which would take nvcc two minutes."""
    words = os.environ.get(ENGINE_VARIABLES, "VLLM_USE_FLASHINFER_SAMPLER=0").split()
    given = dict(word.split("=", 1) for word in words)
    chosen = {"FLASHINFER_WORKSPACE_BASE": str(MOUNT / "flashinfer")} | given
    return [{"name": name, "value": value} for name, value in chosen.items()]


def mounted() -> dict[str, str]:
    """Paths in the pods, and those of the machine behind them."""
    paths = [Path("/usr"), *_OF_THE_SYSTEM, *_python_directories()]
    own = {str(path): str(path) for path in paths if path.exists()}
    return own | {str(MOUNT): str(machine.ENGINE)}


def _python_directories() -> Iterator[Path]:
    """Of the Python that runs this and of its packages, as far as they are not below /usr."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", "import sys; print(*sys.path, sep='\\n')"]
    listed = subprocess.run(command, env=clean, cwd="/", capture_output=True, text=True, check=True)
    places = [Path(line) for line in listed.stdout.splitlines() if line]
    wanted = [Path(sys.prefix), Path(sys.base_prefix), *places]
    found: list[Path] = []
    for path in sorted({path for path in wanted if path.is_dir()}):
        if not any(path.is_relative_to(known) for known in (Path("/usr"), *found)):
            found.append(path)
    yield from found


def volumes() -> list[JsonObject]:
    """For `pod.volumes` of a WarmModel, and for pods."""
    paths = mounted().values()
    return [{"name": f"machine-{n}", "hostPath": {"path": path}} for n, path in enumerate(paths)]


def volume_mounts() -> list[JsonObject]:
    """Only what the engine writes to is writable."""
    return [
        {"name": f"machine-{number}", "mountPath": path, "readOnly": path != str(MOUNT)}
        for number, path in enumerate(mounted())
    ]


def push() -> JsonObject:
    """Makes the image and pushes it to the cluster's registry."""
    sys.path.insert(0, str(machine.CLUSTER.parent))
    from clusterlib.image import Image

    from devtools.push import crane

    users, layout = machine.ROOT / "passwd", machine.ROOT / "engine-image"
    users.write_text("root:x:0:0:root:/root:/bin/sh\n")
    files = {"/etc/passwd": users}
    image = Image(REFERENCE, files, ["vllm"], environment=environment(), links=LINKS)
    archive = machine.ROOT / "engine-image.tar"
    image.write_archive(archive)
    with tarfile.open(archive) as tar:
        tar.extractall(layout, filter="data")
    crane("push", str(layout), REFERENCE)
    return {"environment": environment(), "mounted": mounted()}

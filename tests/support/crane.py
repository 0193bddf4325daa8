"""A registry of go-containerregistry, and crane to look at what is in it."""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.images import binary


class CraneRegistry:
    """Blobs outlive `restart`, manifests do not."""

    def __init__(self, disk: Path) -> None:
        self.disk = disk
        self._process: subprocess.Popen[str] | None = None
        self.host = "127.0.0.1:0"

    def start(self) -> None:
        self.disk.mkdir(exist_ok=True)
        command = [str(binary("crane")), "registry", "serve"]
        self._process = subprocess.Popen(
            [*command, f"--address={self.host}", f"--disk={self.disk}"],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if found := re.search(r"serving on port (\d+)", line):
                self.host = f"127.0.0.1:{found[1]}"
                return
        raise AssertionError("the registry did not start")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stderr is not None
            self._process.stderr.close()


def crane(*arguments: str) -> bytes:
    return subprocess.run(
        [str(binary("crane")), *arguments, "--insecure"],
        stdout=subprocess.PIPE,
        check=True,
        env=os.environ | {"NO_PROXY": "*"},
    ).stdout


@contextmanager
def pulled(reference: str, folder: Path) -> Iterator[dict[str, bytes]]:
    """The files of an image as crane unpacks them."""
    archive = folder / "pulled.tar"
    archive.write_bytes(crane("export", reference, "-"))
    with tarfile.open(archive) as opened:
        yield {
            member.name: file.read()
            for member in opened.getmembers()
            if (file := opened.extractfile(member)) is not None
        }


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[CraneRegistry]:
    if not binary("crane").exists():
        pytest.skip("crane is not built; run: hack/cluster/build registry")
    registry = CraneRegistry(tmp_path / "registry")
    registry.start()
    yield registry
    registry.stop()

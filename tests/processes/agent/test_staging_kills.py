"""`stage` in a process of its own, killed at random moments: it converges, and never lies."""

import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest
from forking import end, fork

from support.file_server import FileServer, running
from support.hub_server import HubServer
from support.s3_server import S3Server
from warmpod.agent.staging import assembly, stage
from warmpod.weights import manifest as manifests

Remote = Mapping[str, Any]
Source = Callable[[Path], AbstractContextManager[Remote]]

KILLS = 25  # of each source: a hundred in all
FILES = {
    f"model-0000{number}-of-00004.safetensors": 5_000_000 + number for number in range(1, 5)
} | {"config.json": 200, "sub/tokenizer.json": 700_000}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "served"
    for name, size in FILES.items():
        path = root / "org" / "model" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(random.Random(name).randbytes(size))
    return root


@contextmanager
def hub(root: Path) -> Iterator[Remote]:
    with running(HubServer(root)) as server:
        yield {"huggingFace": {"repository": "org/model", "endpoint": server.url}}


@contextmanager
def s3(root: Path) -> Iterator[Remote]:
    with running(S3Server(root)) as server:
        yield {"s3": {"uri": "s3://org/model", "endpoint": server.url}}


@contextmanager
def listing(root: Path) -> Iterator[Remote]:
    with running(FileServer(root)) as server:
        yield {"http": {"url": f"{server.url}/org/model/"}}


@contextmanager
def archive(root: Path) -> Iterator[Remote]:
    # Without a common top folder, which would be taken off.
    subprocess.run(
        ["tar", "-C", root / "org/model", "-cf", root / "model.tar", *sorted(FILES)], check=True
    )
    with running(FileServer(root)) as server:
        yield {"http": {"url": f"{server.url}/model.tar"}}


@pytest.mark.parametrize("source", [hub, s3, listing, archive])
def test_converges(source: Source, root: Path, tmp_path: Path) -> None:
    target, chance = tmp_path / "target", random.Random(source.__name__)
    wanted = {name: (root / "org/model" / name).read_bytes() for name in FILES}
    with source(root) as remote:
        whole_s = measured(remote, tmp_path / "timing")
        for _ in range(KILLS):
            if (target / manifests.MANIFEST_NAME).exists():
                shutil.rmtree(target)  # it was done; from the beginning
            process = fork(stage_small, remote, target)
            time.sleep(chance.uniform(0, whole_s))
            end(process, signal.SIGKILL)
            assert_no_lie(target, wanted)
        finished(fork(stage_small, remote, target))
    assert_no_lie(target, wanted)
    manifest = manifests.read(target)
    assert manifest is not None
    assert {entry.path for entry in manifest.files} == set(wanted)
    assert [path.name for path in (target / ".staging").iterdir()] == ["known.jsonl"]


def stage_small(remote: Remote, target: Path) -> None:
    """With so many segments and lines of the journal that a kill comes between two of them."""
    assembly.SEGMENT_BYTES = 1_000_000
    assembly.JOURNAL_BYTES = 200_000
    stage(remote, None, target, lambda _: None, lambda _: None)


def measured(remote: Remote, target: Path) -> float:
    """Seconds that nobody kills it in; the second time, when all is imported that ever will be."""
    finished(fork(stage_small, remote, target))
    shutil.rmtree(target)
    begun = time.monotonic()
    finished(fork(stage_small, remote, target))
    return time.monotonic() - begun


def finished(process: ForkServerProcess) -> None:
    process.join(60)
    assert process.exitcode == 0


def assert_no_lie(target: Path, wanted: dict[str, bytes]) -> None:
    """Whatever has its name has its content, and with a manifest all of it is there."""
    visible = [path for path in target.rglob("*") if path.is_file()]
    for path in visible:
        name = path.relative_to(target).as_posix()
        if not name.startswith(".") and name != manifests.MANIFEST_NAME:
            assert path.read_bytes() == wanted[name]
    if (target / manifests.MANIFEST_NAME).exists():
        assert manifests.from_directory(target) == manifests.read(target)

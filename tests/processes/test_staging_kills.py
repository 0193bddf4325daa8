"""`stage` in a process of its own, killed at random moments: it converges, and never lies."""

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.file_server import FileServer, running
from support.hub_server import HubServer
from support.s3_server import S3Server
from warmpod.weights import manifest as manifests

KILLS = 30
FILES = {
    f"model-0000{number}-of-00004.safetensors": 5_000_000 + number for number in range(1, 5)
} | {"config.json": 200, "sub/tokenizer.json": 700_000}

PROGRAM = """
import json, sys
from pathlib import Path
from warmpod.agent.staging import assembly, stage
assembly.SEGMENT_BYTES = 1_000_000
assembly.JOURNAL_BYTES = 200_000
remote, directory = json.loads(sys.argv[1]), Path(sys.argv[2])
manifest = stage(remote, None, directory, lambda _: None, lambda _: print("begin", flush=True))
sys.stdout.write(manifest.to_json().decode())
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "served"
    for name, size in FILES.items():
        path = root / "org" / "model" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(random.Random(name).randbytes(size))
    return root


@contextmanager
def hub(root: Path) -> Iterator[dict[str, object]]:
    with running(HubServer(root)) as server:
        yield {"huggingFace": {"repository": "org/model", "endpoint": server.url}}


@contextmanager
def s3(root: Path) -> Iterator[dict[str, object]]:
    with running(S3Server(root)) as server:
        yield {"s3": {"uri": "s3://org/model", "endpoint": server.url}}


@contextmanager
def listing(root: Path) -> Iterator[dict[str, object]]:
    with running(FileServer(root)) as server:
        yield {"http": {"url": f"{server.url}/org/model/"}}


@contextmanager
def archive(root: Path) -> Iterator[dict[str, object]]:
    subprocess.run(["tar", "-C", root, "-cf", root / "model.tar", "org/model"], check=True)
    with running(FileServer(root)) as server:
        yield {"http": {"url": f"{server.url}/model.tar"}}


@pytest.mark.parametrize("source", [hub, s3, listing, archive])
def test_converges(source: Callable, root: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    wanted = {
        path.relative_to(root / "org/model").as_posix(): path.read_bytes()
        for path in (root / "org/model").rglob("*")
        if path.is_file()
    }
    if source is archive:  # one common top folder is taken off
        wanted = {f"model/{name}": content for name, content in wanted.items()}
    with source(root) as remote:
        whole_s = measured(remote, tmp_path / "timing")
        for _ in range(KILLS):
            if (target / manifests.MANIFEST_NAME).exists():
                shutil.rmtree(target)  # it was done; from the beginning
            process = start(remote, target)
            time.sleep(random.uniform(0, whole_s))
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert_no_lie(target, wanted)
        process = start(remote, target)
        output, _ = process.communicate()
        assert process.returncode == 0
    assert output.partition("\n")[2] == (target / manifests.MANIFEST_NAME).read_text()
    assert_no_lie(target, wanted)
    found = {entry.path for entry in manifests.parse(output.partition("\n")[2].encode()).files}
    assert found == set(wanted)
    assert [path.name for path in (target / ".staging").iterdir()] == ["known.jsonl"]


def measured(remote: dict[str, object], target: Path) -> float:
    begun = time.monotonic()
    assert start(remote, target).wait() == 0
    return time.monotonic() - begun


def start(remote: dict[str, object], target: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", PROGRAM, json.dumps(remote), str(target)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def assert_no_lie(target: Path, wanted: dict[str, bytes]) -> None:
    """Whatever has its name has its content, and with a manifest all of it is there."""
    visible = [path for path in target.rglob("*") if path.is_file()]
    for path in visible:
        name = path.relative_to(target).as_posix()
        if not name.startswith(".") and name != manifests.MANIFEST_NAME:
            assert path.read_bytes() == wanted[name]
    if (target / manifests.MANIFEST_NAME).exists():
        assert manifests.from_directory(target) == manifests.read(target)

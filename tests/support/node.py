"""The processes of pods on the local node, seen from the machine itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

from support.api import JsonObject
from support.images import binary
from support.waiting import wait_until

CONTAINERD_SOCKET = Path("/run/warmpod-cluster/containerd.sock")


class Node:
    """The one real node: its container runtime and the processes of its pods."""

    def crictl(self, *arguments: str) -> str:
        endpoint = f"unix://{CONTAINERD_SOCKET}"
        command = [
            str(binary("crictl")),
            f"--runtime-endpoint={endpoint}",
            f"--image-endpoint={endpoint}",
            "--timeout=120s",
            *arguments,
        ]
        completed = subprocess.run(command, capture_output=True, text=True, check=False)
        assert completed.returncode == 0, completed.stderr
        return completed.stdout

    def images(self) -> dict[str, list[str]]:
        """Names of every image on the node, by its id."""
        listed = json.loads(self.crictl("images", "--output", "json"))["images"]
        return {image["id"]: [*image["repoTags"], *image["repoDigests"]] for image in listed}

    def has_image(self, repository: str) -> bool:
        return any(repository in name for names in self.images().values() for name in names)

    def remove_images(self, *repositories: str) -> None:
        """Removes all names of the images of these repositories, as people do by hand.

        Nothing asks whether a pod uses them; one that does keeps what it has mounted.
        """
        for identity, names in self.images().items():
            if any(repository in name for repository in repositories for name in names):
                self._ctr("images", "rm", "--sync", *names, identity)

    def _ctr(self, *arguments: str) -> None:
        command = [str(binary("ctr")), f"--address={CONTAINERD_SOCKET}", "--namespace=k8s.io"]
        completed = subprocess.run([*command, *arguments], capture_output=True, text=True)
        assert completed.returncode == 0, completed.stderr

    def container_pid(self, pod_uid: str, container: str) -> int:
        """The process that is PID 1 of a running container."""
        pid = self.running_pid(pod_uid, container)
        assert pid is not None, f"container {container} does not run"
        return pid

    def running_pid(self, pod_uid: str, container: str) -> int | None:
        """The same; None while it does not run."""
        selector = ["--label", f"io.kubernetes.pod.uid={pod_uid}", "--name", f"^{container}$"]
        listed = json.loads(self.crictl("ps", "--state", "Running", "--output", "json", *selector))[
            "containers"
        ]
        assert len(listed) <= 1, f"{len(listed)} running containers {container}"
        if not listed:
            return None
        inspected = json.loads(self.crictl("inspect", listed[0]["id"]))
        pid = int(inspected["info"]["pid"])
        return pid if is_alive(pid) else None

    def files_in(self, pod: JsonObject, container: str, path: str) -> Path:
        """A directory of a running container, as its processes see it."""
        pid = self.container_pid(pod["metadata"]["uid"], container)
        return Path(f"/proc/{pid}/root{path}")

    def engine_main(self, pod_uid: str) -> int:
        """The engine's main process: the child of the launcher."""
        launcher = self.container_pid(pod_uid, "engine")

        def child() -> int | None:
            found = [p for p in children(launcher) if is_alive(p) and not is_fork_server(p)]
            return found[0] if found else None

        pid = wait_until("the launcher has started an engine", child, timeout_s=30)
        assert pid is not None
        return pid

    def engine_core(self, pod_uid: str) -> int:
        """The engine's own worker process, which holds the model."""

        def core() -> int | None:
            for pid in descendants(self.engine_main(pod_uid)):
                if title(pid).startswith("VLLM::EngineCo"):
                    return pid
            return None

        pid = wait_until("the engine has a core process", core, timeout_s=60)
        assert pid is not None
        return pid


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def descendants(pid: int) -> list[int]:
    found = children(pid)
    return found + [grandchild for child in found for grandchild in descendants(child)]


def is_fork_server(pid: int) -> bool:
    """Its engines have its command line, but the name of a plain one."""
    try:
        server = b"/forkserver\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
        return server and Path(f"/proc/{pid}/comm").read_text() != "vllm\n"
    except (FileNotFoundError, ProcessLookupError):
        return False


def title(pid: int) -> str:
    """The title that a process gave itself: its command line, or else its short name."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
        return command if command.startswith("VLLM") else Path(f"/proc/{pid}/comm").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"

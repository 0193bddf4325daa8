"""What the commands of the `cluster` program do."""

import base64
import string
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path

from . import components, host, pki, processes, rebooting, settings, shell
from .image import Image
from .settings import ClusterError, binary

Starter = Callable[[], components.Command]

API = {
    "etcd": components.etcd,
    "kube-apiserver": components.kube_apiserver,
}
# These end at once if the API server does not know their permissions yet.
CONTROLLERS = {
    "kube-controller-manager": components.kube_controller_manager,
    "kube-scheduler": components.kube_scheduler,
}
RUNTIME = {"containerd": components.containerd}
# The kubelet ends at once if containerd does not answer yet.
NODE = {
    "kubelet": components.kubelet,
    "kube-proxy": components.kube_proxy,
    "coredns": components.coredns,
    "metrics-server": components.metrics_server,
    "registry": components.registry,
    "kwok": components.kwok,  # plays further nodes
}
PROCESSES = API | CONTROLLERS | RUNTIME | NODE
# What the API server is told only where the process of that name runs.
MANIFESTS = {"metrics-server": "metrics.yaml"}
TIMEOUT_S = 120.0


def up() -> None:
    """Starts the cluster; fine if it is up already, and after a start that failed."""
    started = time.monotonic()
    host.require_root_and_programs()
    if _is_up():
        configure_crictl()
        print(f"The cluster is up already. {_how_to_use()}")
        return
    if settings.STATE_DIR.exists():
        print("Parts of a cluster are left over: removing them first.")
        down()
    if settings.KUBELET_DIR.exists():
        raise ClusterError(f"{settings.KUBELET_DIR} exists: is this machine a node of a cluster?")
    for command in _wanted(PROCESSES).values():
        command()  # complains about a missing program before anything has started
    _prepare()
    start(API)
    wait_for("the API server", _api_is_ready)
    start(CONTROLLERS)
    _start_node()
    print(f"The cluster is up after {time.monotonic() - started:.1f} s. {_how_to_use()}")


def down() -> None:
    host.require_root_and_programs()
    if not settings.STATE_DIR.exists():
        return
    _say("Ending the kubelet.")
    processes.stop("kubelet")  # or it would start the pods anew
    if processes.was_started("containerd"):
        _say("Removing all pods.")
        _remove_all_pods()
    for process in reversed(processes.recorded()):
        _say(f"Ending {process.name}.")
        processes.stop(process.name)
    _say("Removing mounts, cgroups, network rules and files.")
    rebooting.show_own_boot_id()
    host.delete_network_rules()
    host.unmount_all()
    host.delete_cgroups()
    host.delete_log_links()
    host.delete_node_address()
    host.restore_kernel_settings()
    host.delete_files()
    _say("The cluster is down.")


def restart(name: str, flags: Iterable[str]) -> None:
    """Ends a process and starts it anew, for this life of it with further flags."""
    require_cluster()
    processes.stop(name)
    start({name: lambda: [*PROCESSES[name](), *flags]})
    wait_for(name, _READY.get(name, lambda: processes.is_alive(name)))


def reboot() -> None:
    """Ends all pods, kubelet and containerd, forgets what memory held, and starts them again.

    The API server and everything else that is no part of a node goes on.
    """
    require_cluster()
    processes.stop("kubelet")  # or it would start the pods anew
    try:
        rebooting.kill_pods()
        processes.stop("containerd")
        rebooting.forget_memory()
        rebooting.begin_another_boot()
    finally:
        for name in ("containerd", "kubelet"):
            restart(name, ())


def status() -> bool:
    """Prints the state of every process; true if there are some and all run."""
    all_processes = processes.recorded()
    alive = [process for process in all_processes if process.is_alive()]
    for process in all_processes:
        if process in alive:
            print(f"{process.name:<24} pid {process.pid:<8} {process.memory_mib():>5.0f} MiB")
        else:
            print(f"{process.name:<24} ended; see {processes.log_file(process.name)}")
    if not all_processes:
        print("The cluster is down.")
    return bool(alive) and alive == all_processes


def kubeconfig() -> Path:
    if not settings.KUBECONFIG.exists():
        raise ClusterError("the cluster is down: run up first")
    return settings.KUBECONFIG


def _wanted(commands: dict[str, Starter]) -> dict[str, Starter]:
    left_out = settings.left_out()
    return {name: command for name, command in commands.items() if name not in left_out}


def _is_up() -> bool:
    return all(map(processes.is_alive, _wanted(PROCESSES))) and _api_is_ready() and _node_is_ready()


def _how_to_use() -> str:
    return f"To use it:\nexport KUBECONFIG={settings.KUBECONFIG} PATH={settings.BIN_DIR}:$PATH"


def require_cluster() -> None:
    host.require_root_and_programs()
    if not settings.KUBECONFIG.exists():
        raise ClusterError("the cluster is down: run up first")


def _prepare() -> None:
    settings.STATE_DIR.mkdir(parents=True)
    settings.RUN_DIR.mkdir(parents=True, exist_ok=True)
    settings.RENDERED_DIR.mkdir()
    _keep_shared_blobs()
    configure_crictl()
    pki.create_all()
    render(settings.CONFIG_DIR, settings.RENDERED_DIR)
    host.save_kernel_settings()
    host.create_node_address()


def configure_crictl() -> None:
    """It looks for its settings beside its program, so that `crictl rmi IMAGE` works as messages
    and documentation say it."""
    endpoint = f"unix://{settings.CONTAINERD_SOCKET}"
    settings.BIN_DIR.mkdir(parents=True, exist_ok=True)
    (settings.BIN_DIR / "crictl.yaml").write_text(
        f"runtime-endpoint: {endpoint}\nimage-endpoint: {endpoint}\ntimeout: 60\n"
    )


def _keep_shared_blobs() -> None:
    """Removes what only the last cluster's registry had: it no longer knows whose blobs they are.

    Those of the tree's own images are hard links to the image cache, and stay.
    """
    settings.REGISTRY_DIR.mkdir(parents=True, exist_ok=True)
    for blob in settings.REGISTRY_DIR.glob("*/*"):
        if blob.stat().st_nlink == 1:
            blob.unlink()


def render(templates: Path, rendered: Path) -> None:
    """Fills in all files below a directory."""
    ca_bundle = base64.b64encode(pki.certificate("ca").read_bytes()).decode()
    values = settings.template_values() | {"ca_bundle": ca_bundle}
    for template in templates.rglob("*"):
        if template.is_file():
            target = rendered / template.relative_to(templates)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(string.Template(template.read_text()).substitute(values))


def start(commands: dict[str, Starter]) -> None:
    for name, command in _wanted(commands).items():
        _say(f"Starting {name}.")
        processes.start(name, command())


def _start_node() -> None:
    host.enable_forwarding()
    start(RUNTIME)
    for name in settings.left_out() & MANIFESTS.keys():
        (settings.RENDERED_DIR / "manifests" / MANIFESTS[name]).unlink()
    shell.run(*shell.as_admin("apply", "--filename", settings.RENDERED_DIR / "manifests"))
    wait_for("containerd", _runtime_is_ready)
    _load_pause_image()
    start(NODE)
    wait_for("the node", _node_is_ready)
    if "metrics-server" not in settings.left_out():
        # An API extension that does not answer blocks the deletion of namespaces.
        wait_for("metrics-server", _metrics_are_served)


def _load_pause_image() -> None:
    archive = settings.STATE_DIR / "pause.tar"
    image = Image(settings.PAUSE_IMAGE, {"/pause": binary("pause")}, entrypoint=["/pause"])
    image.write_archive(archive)
    flags = ("--address", settings.CONTAINERD_SOCKET, "--namespace", "k8s.io")
    shell.run(binary("ctr"), *flags, "images", "import", archive)


def _remove_all_pods() -> None:
    """Lets containerd undo its work: processes, mounts, networks, cgroups."""
    if not processes.is_alive("containerd"):
        start(RUNTIME)
        wait_for("containerd", _runtime_is_ready, others_may_end=True)
    shell.run(*shell.crictl("rmp", "--all", "--force"))


def _say(line: str) -> None:
    print(line, flush=True)


def _api_is_ready() -> bool:
    return shell.attempt(*shell.as_admin("get", "--raw=/readyz")).returncode == 0


def _node_is_ready() -> bool:
    return is_true(f"node/{settings.NODE_NAME}", "Ready")


def _metrics_are_served() -> bool:
    return is_true("apiservice/v1beta1.metrics.k8s.io", "Available")


def _runtime_is_ready() -> bool:
    return shell.attempt(*shell.crictl("version")).returncode == 0


def _kubelet_is_ready() -> bool:
    """Its own word: what the API server tells of the node can be from its life before."""
    try:
        with urllib.request.urlopen(settings.KUBELET_HEALTH_URL, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


_READY = {
    "kube-apiserver": _api_is_ready,
    "containerd": _runtime_is_ready,
    "kubelet": _kubelet_is_ready,
}


def is_true(resource: str, condition: str) -> bool:
    path = f'{{.status.conditions[?(@.type=="{condition}")].status}}'
    command = shell.as_admin("get", resource, f"--output=jsonpath={path}")
    return shell.attempt(*command).stdout == "True"


def wait_for(what: str, is_ready: Callable[[], bool], others_may_end: bool = False) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    _say(f"Waiting for {what}.")
    while not is_ready():
        if not others_may_end:
            processes.require_all_alive()
        if time.monotonic() > deadline:
            raise ClusterError(
                f"{what} is not ready after {TIMEOUT_S:.0f} s: see {settings.LOG_DIR}"
            )
        time.sleep(0.2)

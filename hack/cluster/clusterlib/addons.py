"""Programs that the cluster has on demand: what only some tests need, and long builds.

    ./build prometheus keda && ./cluster add prometheus keda
    ./cluster remove prometheus keda

They run as processes of this machine beside the cluster's own, and end with it.
"""

import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import commands, pki, processes, settings, shell
from .components import Command
from .settings import binary

KEDA_CERTIFICATES = settings.PKI_DIR / "keda"
KEDA_SERVICE = f"127.0.0.1:{settings.KEDA_SERVICE_PORT}"
KEDA_HEALTH = f"127.0.0.1:{settings.KEDA_HEALTH_PORT}"


@dataclass(frozen=True)
class AddOn:
    processes: dict[str, Callable[[], Command]]
    is_ready: Callable[[], bool]
    prepare: Callable[[], None]
    """Makes its certificates."""
    crds: str = ""
    """The file that `build` took them from the module into."""
    owned: tuple[str, ...] = ()
    """Kinds of objects with finalizers of its own: they go while it can still let them go."""


def add(name: str) -> None:
    """Starts an add-on and waits until it works; fine if it does."""
    commands.require_cluster()
    addon = ADD_ONS[name]
    if all(map(processes.is_alive, addon.processes)):
        print(f"{name} runs already.")
        return
    for command in addon.processes.values():
        command()  # complains about a missing program before anything has started
    addon.prepare()
    commands.render(settings.ADD_ONS_DIR / name, _rendered(name))
    if addon.crds:
        _apply("--server-side", "--filename", settings.MANIFESTS_DIR / addon.crds)
        shell.run(*shell.as_admin("wait", *_crds(addon), "--for=condition=Established"))
    _apply("--filename", _rendered(name) / "manifests")
    commands.start(addon.processes)
    commands.wait_for(name, addon.is_ready)
    print(f"{name} runs.")


def remove(name: str) -> None:
    """Ends an add-on and removes its objects; fine if it was never added."""
    commands.require_cluster()
    addon = ADD_ONS[name]
    if not _rendered(name).exists():
        return
    for kind in addon.owned:
        shell.run(*shell.as_admin("delete", kind, "--all", "--all-namespaces"))
    # An API extension that does not answer blocks the deletion of namespaces, so it goes first.
    _delete("--filename", _rendered(name) / "manifests")
    if addon.crds:
        _delete(*_crds(addon))
    for process in reversed(addon.processes):
        processes.stop(process)
    shutil.rmtree(_rendered(name))
    print(f"{name} is gone.")


def prometheus() -> Command:
    return [
        binary("prometheus", "prometheus"),
        f"--config.file={_rendered('prometheus')}/prometheus.yaml",
        f"--storage.tsdb.path={settings.STATE_DIR}/prometheus",
        f"--web.listen-address={settings.NODE_IP}:{settings.PROMETHEUS_PORT}",
    ]


def keda_operator() -> Command:
    return [
        *_keda_environment(),
        binary("keda-operator", "keda"),
        f"--cert-dir={KEDA_CERTIFICATES}",
        f"--metrics-service-bind-address={KEDA_SERVICE}",
        f"--health-probe-bind-address={KEDA_HEALTH}",
        "--metrics-bind-address=0",  # none
        "--leader-elect=false",
    ]


def keda_metrics_server() -> Command:
    kubeconfig = pki.kubeconfig("keda")
    return [
        *_keda_environment(),
        binary("keda-metrics-server", "keda"),
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--lister-kubeconfig={kubeconfig}",
        f"--bind-address={settings.NODE_IP}",
        f"--secure-port={settings.KEDA_PORT}",
        f"--cert-dir={KEDA_CERTIFICATES}",
        f"--tls-cert-file={KEDA_CERTIFICATES}/tls.crt",
        f"--tls-private-key-file={KEDA_CERTIFICATES}/tls.key",
        f"--metrics-service-address={KEDA_SERVICE}",
        "--port=0",  # any: nobody asks for metrics of its own
    ]


def _keda_environment() -> Command:
    """What KEDA reads from nowhere else; an empty namespace is all of them."""
    return [
        "env",
        f"KUBECONFIG={pki.kubeconfig('keda')}",
        "WATCH_NAMESPACE=",
        f"POD_NAMESPACE={settings.KEDA_NAMESPACE}",
        f"KEDA_CLUSTER_OBJECT_NAMESPACE={settings.KEDA_NAMESPACE}",
    ]


def _prepare_prometheus() -> None:
    pki.create_client("prometheus", "/O=system:masters/CN=warmpod-cluster:prometheus")


def _prepare_keda() -> None:
    """One certificate for both programs, which show it to each other."""
    pki.create_client("keda", "/O=system:masters/CN=warmpod-cluster:keda")
    names = [f"DNS:{settings.KEDA_METRICS_HOST}", "IP:127.0.0.1"]
    pki.create_certificate("keda-tls", "/CN=keda", "serverAuth,clientAuth", names)
    KEDA_CERTIFICATES.mkdir(exist_ok=True)
    shutil.copyfile(pki.certificate("ca"), KEDA_CERTIFICATES / "ca.crt")
    shutil.copyfile(pki.certificate("keda-tls"), KEDA_CERTIFICATES / "tls.crt")
    shutil.copyfile(pki.key("keda-tls"), KEDA_CERTIFICATES / "tls.key")


def _prometheus_is_ready() -> bool:
    return _answers(f"http://{settings.NODE_IP}:{settings.PROMETHEUS_PORT}/-/ready")


def _keda_is_ready() -> bool:
    served = commands.is_true("apiservice/v1beta1.external.metrics.k8s.io", "Available")
    return served and _answers(f"http://{KEDA_HEALTH}/readyz")


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _rendered(name: str) -> Path:
    return settings.RENDERED_DIR / "addons" / name


def _crds(addon: AddOn) -> tuple[str | Path, ...]:
    return ("--filename", settings.MANIFESTS_DIR / addon.crds)


def _apply(*arguments: str | Path) -> None:
    shell.run(*shell.as_admin("apply", *arguments))


def _delete(*arguments: str | Path) -> None:
    shell.run(*shell.as_admin("delete", "--ignore-not-found", *arguments))


ADD_ONS = {
    "prometheus": AddOn({"prometheus": prometheus}, _prometheus_is_ready, _prepare_prometheus),
    "keda": AddOn(
        {"keda-operator": keda_operator, "keda-metrics-server": keda_metrics_server},
        _keda_is_ready,
        _prepare_keda,
        crds="keda.yaml",
        owned=("scaledobjects.keda.sh", "scaledjobs.keda.sh"),
    ),
}

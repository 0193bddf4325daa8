"""Names, addresses and places of the cluster, all in one file."""

import os
from pathlib import Path

SOURCE_DIR = Path(__file__).resolve().parent.parent
CONFIG_DIR = SOURCE_DIR / "config"  # templates: see template_values
ADD_ONS_DIR = SOURCE_DIR / "addons"  # the same, of what `add` starts
KWOK_STAGES = SOURCE_DIR / "kwok" / "stages.yaml"

CACHE_DIR = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "warmpod"
BIN_DIR = CACHE_DIR / "bin"
MANIFESTS_DIR = CACHE_DIR / "manifests"  # of the modules that come with some
# Blobs outlive the cluster: pushing the same image to the next one costs no copy.
REGISTRY_DIR = CACHE_DIR / "registry"

# What the cluster writes lies in these places, which `down` removes.
STATE_DIR = Path("/var/lib/warmpod-cluster")
RUN_DIR = Path("/run/warmpod-cluster")  # sockets and mounts; short, for socket paths
KUBELET_DIR = Path("/var/lib/kubelet")  # the path is fixed for device plugins
# Weights that agents hold in the node's memory; they cannot clean up when the cluster just ends.
NODE_MEMORY_DIR = Path("/dev/shm/warmpod")
# Weights that agents have downloaded.
NODE_DISK_DIR = Path("/var/lib/warmpod")
# STATE_DIR last: it marks a cluster.
ALL_DIRS = (NODE_MEMORY_DIR, NODE_DISK_DIR, KUBELET_DIR, RUN_DIR, STATE_DIR)

PKI_DIR = STATE_DIR / "pki"
RENDERED_DIR = STATE_DIR / "config"
LOG_DIR = STATE_DIR / "logs"
PID_DIR = STATE_DIR / "pids"
KUBECONFIG = RENDERED_DIR / "admin.kubeconfig"
CONTAINERD_SOCKET = RUN_DIR / "containerd.sock"

NODE_NAME = "node-1"
# The node's address lives on a bridge of its own without ports, so that
# nothing listens on, or depends on, the machine's real network.
NODE_DEVICE = "warmpod0"
NODE_IP = "172.31.255.1"
POD_CIDR = "10.244.0.0/24"
SERVICE_CIDR = "10.96.0.0/16"
API_SERVICE_IP = "10.96.0.1"
DNS_SERVICE_IP = "10.96.0.10"

API_SERVER = f"https://{NODE_IP}:6443"
ETCD_URL = "http://127.0.0.1:2379"
ETCD_PEER_URL = "http://127.0.0.1:2380"
KUBELET_HEALTH_URL = "http://127.0.0.1:10248/healthz"  # the kubelet's default
REGISTRY_ADDRESS = "127.0.0.1:5000"
METRICS_SERVER_PORT = 4443
PROMETHEUS_PORT = 9090
KEDA_PORT = 4444
KEDA_SERVICE_PORT = 9666  # where its metrics server asks its operator
KEDA_HEALTH_PORT = 9667
KEDA_NAMESPACE = "keda"
KEDA_METRICS_HOST = "keda-operator-metrics-apiserver.keda.svc"

PAUSE_IMAGE = "warmpod.local/pause:1"

# Processes that a cluster can do without, where a machine is to have few programs.
OPTIONAL = frozenset({"kwok", "metrics-server"})
LEFT_OUT_VARIABLE = "WARMPOD_CLUSTER_WITHOUT"


class ClusterError(Exception):
    """Something the user has to act on; the message says what to do."""


def binary(name: str, module: str = "") -> Path:
    """`module`: the one that it is built from, if it is built only when that is named."""
    path = BIN_DIR / name
    if not path.exists():
        command = f"{SOURCE_DIR / 'build'} {module}".rstrip()
        raise ClusterError(f"{path} is missing: run {command} first")
    return path


def left_out() -> frozenset[str]:
    """The optional processes that are not to run, as the environment names them."""
    named = frozenset(os.environ.get(LEFT_OUT_VARIABLE, "").split())
    if unknown := sorted(named - OPTIONAL):
        raise ClusterError(
            f"{LEFT_OUT_VARIABLE} names {', '.join(unknown)}: "
            f"choose from {', '.join(sorted(OPTIONAL))}"
        )
    return named


def environment() -> dict[str, str]:
    """For all programs: they find each other, and no proxy gets their traffic."""
    return {**os.environ, "PATH": f"{BIN_DIR}:{os.environ['PATH']}", "NO_PROXY": "*"}


def template_values() -> dict[str, str]:
    """The values that `$name` in the files of config/ may refer to."""
    return {
        "api_server": API_SERVER,
        "bin_dir": str(BIN_DIR),
        "containerd_socket": str(CONTAINERD_SOCKET),
        "dns_service_ip": DNS_SERVICE_IP,
        "keda_port": str(KEDA_PORT),
        "log_dir": str(LOG_DIR),
        "metrics_server_port": str(METRICS_SERVER_PORT),
        "node_ip": NODE_IP,
        "node_name": NODE_NAME,
        "pause_image": PAUSE_IMAGE,
        "pki_dir": str(PKI_DIR),
        "prometheus_port": str(PROMETHEUS_PORT),
        "pod_cidr": POD_CIDR,
        "rendered_dir": str(RENDERED_DIR),
        "run_dir": str(RUN_DIR),
        "state_dir": str(STATE_DIR),
    }

"""Keys, certificates and kubeconfig files, made with the openssl program."""

import json
from pathlib import Path

from . import settings
from .shell import run

DAYS_VALID = "30"

# name: (subject, subject alternative names)
SERVER_CERTIFICATES = {
    "kube-apiserver": (
        "/CN=kube-apiserver",
        [
            "DNS:kubernetes",
            "DNS:kubernetes.default",
            "DNS:kubernetes.default.svc",
            "DNS:kubernetes.default.svc.cluster.local",
            f"IP:{settings.API_SERVICE_IP}",
            f"IP:{settings.NODE_IP}",
        ],
    ),
    "kubelet-server": (
        f"/O=system:nodes/CN=system:node:{settings.NODE_NAME}",
        [f"DNS:{settings.NODE_NAME}", f"IP:{settings.NODE_IP}"],
    ),
    "metrics-server-server": (
        "/CN=metrics-server",
        ["DNS:metrics-server.kube-system.svc"],
    ),
}

# Clients with a kubeconfig file of the same name. The API server takes the
# user name from CN and the group from O.
KUBECONFIG_CLIENTS = {
    "admin": "/O=system:masters/CN=admin",
    "coredns": "/CN=warmpod-cluster:coredns",
    "kube-controller-manager": "/CN=system:kube-controller-manager",
    "kube-proxy": "/CN=system:kube-proxy",
    "kube-scheduler": "/CN=system:kube-scheduler",
    "kubelet": f"/O=system:nodes/CN=system:node:{settings.NODE_NAME}",
    "kwok": "/O=system:masters/CN=warmpod-cluster:kwok",
    "metrics-server": "/CN=warmpod-cluster:metrics-server",
}

# Clients that the API server itself is, towards kubelets and API extensions.
API_SERVER_CLIENTS = {
    "apiserver-kubelet-client": "/O=system:masters/CN=apiserver-kubelet-client",
    "front-proxy-client": "/CN=front-proxy-client",
}


def create_all() -> None:
    settings.PKI_DIR.mkdir(parents=True)
    settings.PKI_DIR.chmod(0o700)
    _create_authority()
    for name, (subject, alternative_names) in SERVER_CERTIFICATES.items():
        create_certificate(name, subject, "serverAuth", alternative_names)
    for name, subject in API_SERVER_CLIENTS.items():
        create_certificate(name, subject, "clientAuth")
    for name, subject in KUBECONFIG_CLIENTS.items():
        create_client(name, subject)
    _create_service_account_keys()


def create_client(name: str, subject: str) -> None:
    """A certificate and the kubeconfig that uses it."""
    create_certificate(name, subject, "clientAuth")
    _write_kubeconfig(name)


def certificate(name: str) -> Path:
    return settings.PKI_DIR / f"{name}.crt"


def key(name: str) -> Path:
    return settings.PKI_DIR / f"{name}.key"


def kubeconfig(name: str) -> Path:
    return settings.RENDERED_DIR / f"{name}.kubeconfig"


def _openssl(*arguments: str | Path) -> None:
    run("openssl", *arguments)


def _request_arguments(name: str, subject: str) -> list[str | Path]:
    return [
        "req", "-x509", "-nodes", "-days", DAYS_VALID, "-subj", subject,
        "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-keyout", key(name), "-out", certificate(name),
    ]  # fmt: skip


def _create_authority() -> None:
    _openssl(
        *_request_arguments("ca", "/CN=warmpod-cluster-ca"),
        "-addext", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature",
    )  # fmt: skip


def create_certificate(
    name: str, subject: str, usage: str, alternative_names: list[str] | None = None
) -> None:
    extensions = ["basicConstraints=critical,CA:FALSE", f"extendedKeyUsage={usage}"]
    if alternative_names:
        extensions.append("subjectAltName=" + ",".join(alternative_names))
    extension_arguments = [word for line in extensions for word in ("-addext", line)]
    _openssl(
        *_request_arguments(name, subject),
        "-CA", certificate("ca"), "-CAkey", key("ca"),
        *extension_arguments,
    )  # fmt: skip


def _create_service_account_keys() -> None:
    private, public = key("service-account"), settings.PKI_DIR / "service-account.pub"
    _openssl("genrsa", "-out", private, "2048")
    _openssl("rsa", "-in", private, "-pubout", "-out", public)


def _write_kubeconfig(name: str) -> None:
    cluster = {
        "server": settings.API_SERVER,
        "certificate-authority": str(certificate("ca")),
    }
    user = {
        "client-certificate": str(certificate(name)),
        "client-key": str(key(name)),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "warmpod", "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": "warmpod", "context": {"cluster": "warmpod", "user": name}}],
        "current-context": "warmpod",
    }
    kubeconfig(name).write_text(json.dumps(document, indent=2) + "\n")

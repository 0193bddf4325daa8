"""References of images: `[host/]repository[:tag][@digest]`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reference:
    host: str
    repository: str
    tag: str
    digest: str

    @property
    def base_url(self) -> str:
        """Where the API for the repository begins."""
        host = "registry-1.docker.io" if self.host == "docker.io" else self.host
        scheme = "http" if is_local(host) else "https"
        return f"{scheme}://{host}/v2/{self.repository}"

    @property
    def name(self) -> str:
        """Host and repository, without tag and digest."""
        return f"{self.host}/{self.repository}"


def parse_reference(image: str) -> Reference:
    """Fills in what is left out with Docker's defaults, as the kubelet does."""
    name, _, digest = image.partition("@")
    head, slash, rest = name.partition("/")
    if slash and ("." in head or ":" in head or head == "localhost"):
        host, path = head, rest
    else:
        host, path = "docker.io", name
    repository, colon, tag = path.rpartition(":")
    if not colon:
        repository, tag = path, "latest"
    if host == "docker.io" and "/" not in repository:
        repository = f"library/{repository}"
    return Reference(host, repository, tag, digest)


def is_local(host: str) -> bool:
    """Hosts for which container tools speak plain HTTP."""
    return is_loopback(host) or _without_port(host).endswith(".local")


def is_loopback(host: str) -> bool:
    """Hosts that are another one for everybody who asks: the node for its container runtime, a pod
    for its own processes."""
    name = _without_port(host)
    return name == "localhost" or name.startswith("127.")


def _without_port(host: str) -> str:
    return host.rpartition(":")[0] or host

"""What the operator is told through its environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from warmpod.api.cost import DECIMAL_PATTERN
from warmpod.protocol import service_account_user

_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class InvalidSettings(ValueError):
    """An environment variable is missing or cannot be read."""


@dataclass(frozen=True)
class OperatorSettings:
    operator_image: str
    """The image that is brought into engine and prefetch pods (launcher, sidecar, agent)."""
    namespace: str
    """The operator's own namespace: its Lease lives there."""
    watch_namespaces: tuple[str, ...]
    """Empty: all namespaces, which needs cluster-wide rights."""
    port: int
    identity: str
    """Who holds the Lease: the pod's name."""
    service_account: str = ""
    """The operator's own, in its namespace; empty outside of a cluster."""
    pulls_per_registry: int = 5
    """Nodes that may pull images from one registry at a time."""
    remove_startup_taint: bool = False
    """Whether nodes that are ready to serve lose the taint warmpod.io/not-ready."""
    gpu_hour_price: Decimal | None = None
    """Of one GPU for one hour, where a WarmModel names none."""

    @property
    def user(self) -> str:
        """As the API server calls it; empty without a service account."""
        if not self.service_account:
            return ""
        return service_account_user(self.namespace, self.service_account)

    prometheus_url: str = ""
    """Where load from before the operator recorded any is asked for; empty for nowhere."""

    @property
    def heartbeat_watched(self) -> bool:
        """Whether the watch covers the operator's own Lease, which proves that events arrive."""
        return not self.watch_namespaces or self.namespace in self.watch_namespaces


def from_environment(environ: Mapping[str, str], hostname: str) -> OperatorSettings:
    """Raises InvalidSettings, naming the variable."""
    image = environ.get("WARMPOD_OPERATOR_IMAGE", "")
    if not image:
        raise InvalidSettings(
            "WARMPOD_OPERATOR_IMAGE: not set; give the image that this operator runs from"
        )
    watched = environ.get("WARMPOD_WATCH_NAMESPACES", "").split(",")
    return OperatorSettings(
        operator_image=image,
        namespace=_namespace(environ),
        watch_namespaces=tuple(sorted({name.strip() for name in watched} - {""})),
        port=_port(environ.get("WARMPOD_PORT", "8080")),
        identity=environ.get("POD_NAME") or hostname,
        service_account=environ.get("WARMPOD_SERVICE_ACCOUNT", ""),
        pulls_per_registry=_count(environ, "WARMPOD_PULLS_PER_REGISTRY", "5"),
        remove_startup_taint=_switch(environ, "WARMPOD_REMOVE_STARTUP_TAINT"),
        gpu_hour_price=_price(environ, "WARMPOD_GPU_HOUR_PRICE"),
        prometheus_url=_url(environ, "WARMPOD_PROMETHEUS_URL"),
    )


def _namespace(environ: Mapping[str, str]) -> str:
    if named := environ.get("WARMPOD_NAMESPACE") or environ.get("POD_NAMESPACE"):
        return named
    if _NAMESPACE_FILE.exists():
        return _NAMESPACE_FILE.read_text().strip()
    raise InvalidSettings(
        "WARMPOD_NAMESPACE: not set, and there is no service account to tell it; "
        "give the namespace for the operator's Lease"
    )


def _count(environ: Mapping[str, str], name: str, default: str) -> int:
    text = environ.get(name, default)
    if text.isdigit() and int(text) > 0:
        return int(text)
    raise InvalidSettings(f"{name}: {text!r} is not a number of 1 or more")


def _switch(environ: Mapping[str, str], name: str) -> bool:
    text = environ.get(name, "false")
    if text in ("true", "false"):
        return text == "true"
    raise InvalidSettings(f"{name}: {text!r} is neither true nor false")


def _price(environ: Mapping[str, str], name: str) -> Decimal | None:
    text = environ.get(name, "")
    if not text:
        return None
    if re.fullmatch(DECIMAL_PATTERN, text):
        return Decimal(text)
    raise InvalidSettings(f"{name}: {text!r} is not a price such as 2.50")


def _url(environ: Mapping[str, str], name: str) -> str:
    text = environ.get(name, "")
    if not text or text.startswith(("http://", "https://")):
        return text
    raise InvalidSettings(f"{name}: {text!r} does not begin with http:// or https://")


def _port(text: str) -> int:
    if text.isdigit() and 0 < int(text) < 65536:
        return int(text)
    raise InvalidSettings(f"WARMPOD_PORT: {text!r} is not a port number (1..65535)")

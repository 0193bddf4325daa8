"""kopf as the source of events, and as nothing else.

Only `on.event` handlers are registered: they keep no state, so kopf writes no annotation and no
finalizer on anything. Selection by label happens in the API server (`watching.label_selectors`);
a handler's own `labels=` would filter only after everything was sent.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import kopf

from warmpod.controller.apiserver import lease
from warmpod.controller.apiserver.kinds import CACHED, LEASE, OPTIONAL, WARM_MODEL, Kind
from warmpod.controller.apiserver.kube import PAGE, Object
from warmpod.resources.names import MANAGED_BY_LABEL

#: All children and their pods carry it.
CHILD_SELECTOR = f"{MANAGED_BY_LABEL}=warmpod"
#: How long kopf uses credentials before it asks for them again: the token of a service account is
#: replaced on disk long before it expires, and kopf itself would only notice by a 401.
LOGIN_LIFETIME = timedelta(minutes=10)

#: Kind, type of the event (None: from a list), object.
Receive = Callable[[Kind, str | None, Object], None]
#: Server, CA, certificate and token as `kopf.ConnectionInfo` has them.
Login = Callable[[], Awaitable[dict[str, Any]]]


def label_selector(kind: Kind) -> str:
    """Which objects of a kind are looked at; empty for all."""
    return "" if kind in (WARM_MODEL, *OPTIONAL) else CHILD_SELECTOR


def registry(
    receive: Receive, login: Login, kinds: Iterable[Kind] = CACHED
) -> kopf.OperatorRegistry:
    handlers = kopf.OperatorRegistry()
    for kind in (*kinds, LEASE):
        _listen(handlers, kind, receive)

    async def authenticate(**_: object) -> kopf.ConnectionInfo:
        expiration = datetime.now(UTC) + LOGIN_LIFETIME
        return kopf.ConnectionInfo(**await login(), expiration=expiration)

    kopf.on.login(registry=handlers)(authenticate)
    return handlers


def _listen(handlers: kopf.OperatorRegistry, kind: Kind, receive: Receive) -> None:
    async def handle(event: kopf.RawEvent, **_: object) -> None:
        receive(kind, event["type"], dict(event["object"]))

    kopf.on.event(kind.group, kind.version, kind.plural, id=kind.plural, registry=handlers)(handle)


def settings() -> kopf.OperatorSettings:
    chosen = kopf.OperatorSettings()
    chosen.peering.standalone = True  # peering is no lock; the Lease is
    chosen.scanning.disabled = True  # else it lists namespaces and CRDs cluster-wide
    chosen.posting.enabled = False
    chosen.persistence.finalizer = "warmpod.io/never-used"
    # A watch that dies without a sign must not last: the server ends it after five minutes, spread
    # so that all watches do not come back together, and kopf ends one that is silent for 70 s.
    chosen.watching.server_timeout = 300 + random.randrange(30)  # noqa: S311 (no secret)
    chosen.watching.client_timeout = chosen.watching.server_timeout + 10
    chosen.watching.connect_timeout = 30
    chosen.watching.reconnect_backoff = 1
    chosen.watching.chunk_size = PAGE
    chosen.networking.request_timeout = 30
    chosen.networking.connect_timeout = 10
    chosen.networking.enforce_retry_after = True
    for kind in CACHED:
        if selector := label_selector(kind):
            chosen.watching.label_selectors[kind.group, kind.version, kind.plural] = selector
    own = f"metadata.name={lease.NAME}"
    chosen.watching.field_selectors[LEASE.group, LEASE.version, LEASE.plural] = own
    return chosen

"""Since when pods have no requests: what their sidecars answered, remembered between decisions.

Lost with the process, and then asked anew: that costs a scale-in some seconds and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from warmpod.controller.clients.sidecars import Load
from warmpod.controller.objects.views import Key


class Idle:
    def __init__(self) -> None:
        self._since: dict[Key, dict[str, datetime]] = {}

    def note(self, key: Key, uid: str, load: Load | None, now: datetime) -> None:
        """A pod that gives no answer is not known to be idle."""
        known = self._since.setdefault(key, {})
        if load is not None and not load.running and not load.waiting:
            known.setdefault(uid, now)
        else:
            known.pop(uid, None)

    def of(self, key: Key) -> dict[str, datetime]:
        return dict(self._since.get(key, ()))

    def keep(self, key: Key, uids: Iterable[str]) -> None:
        """Forgets all others: what is not asked for again and again is old."""
        known = self._since.get(key)
        if known is None:
            return
        kept = {uid: known[uid] for uid in uids if uid in known}
        if kept:
            self._since[key] = kept
        else:
            del self._since[key]

"""The ledgers of all WarmModels, fed by every change that the operator's cache takes in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from statistics import median
from typing import Any

from warmpod.api import WarmModel
from warmpod.controller.accounting import report
from warmpod.controller.accounting.ledger import Ledger
from warmpod.controller.accounting.rate import rate_of
from warmpod.controller.accounting.report import Account
from warmpod.controller.accounting.totals import Totals
from warmpod.controller.apiserver.kinds import POD
from warmpod.controller.objects import start_times
from warmpod.controller.objects.views import Key, ModelView, PodView, View, owner_key
from warmpod.resources.names import COMPONENT_LABEL


@dataclass
class _Open:
    ledger: Ledger
    uid: str = ""
    """Of the WarmModel; empty until it was looked at."""
    before: Totals = field(default_factory=Totals)
    """What operators before this one have counted, as the status told it then."""


class Accounts:
    def __init__(
        self, default_price: Decimal | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`default_price`: of a GPU for an hour, where a WarmModel names none."""
        self._default_price = default_price
        self._clock = clock
        self._open: dict[Key, _Open] = {}

    def changed(self, before: View | None, after: View | None) -> None:
        """To be told of every object that the cache takes in."""
        pod = after or before
        if not isinstance(pod, PodView) or pod.meta.labels.get(COMPONENT_LABEL) != "engine":
            return
        owner = owner_key(POD, pod.meta)
        if owner is None:
            return
        ledger = self._of(owner).ledger
        if after is None:
            ledger.lost(pod, self._clock())
        else:
            ledger.saw(pod, self._clock())

    def look(self, view: ModelView, model: WarmModel) -> Account:
        """The sums so far, and from now on at the rate of this spec."""
        status = view.body.get("status") or {}
        found = self._of(view.meta.key)
        if found.uid != view.meta.uid:
            if found.uid:  # another WarmModel of the same name
                found = self._open[view.meta.key] = _Open(Ledger(self._clock()))
            found.uid = view.meta.uid
            found.before = report.read(status)
        ledger, now = found.ledger, self._clock()
        ledger.start_seconds = start_seconds(status)
        ledger.price(rate_of(model.spec, self._default_price), now)
        return Account(found.before + ledger.totals(now), ledger.rate, ledger.is_accruing)

    def forget(self, key: Key) -> None:
        self._open.pop(key, None)

    def each(self) -> Iterator[tuple[Key, Ledger, Totals]]:
        """What this operator has counted itself, sorted."""
        for key, found in sorted(self._open.items()):
            if found.uid:
                yield key, found.ledger, found.ledger.totals(self._clock())

    def _of(self, key: Key) -> _Open:
        return self._open.setdefault(key, _Open(Ledger(self._clock())))


def start_seconds(status: dict[str, Any]) -> float | None:
    """What the last pods took from their creation to the open gate, in the middle."""
    found = list(start_times.of_pods(status.get("lastStartups") or []))
    return median(found) if found else None

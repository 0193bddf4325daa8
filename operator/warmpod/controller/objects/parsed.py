"""WarmModels as they were read last: most looks at one come without a change of its spec."""

from __future__ import annotations

from warmpod.api import InvalidSpec, WarmModel
from warmpod.controller.objects.views import Key, ModelView


class Parsed:
    def __init__(self) -> None:
        self._known: dict[Key, tuple[str, int, WarmModel]] = {}

    def of(self, view: ModelView) -> WarmModel | InvalidSpec:
        """One that cannot be read is read again each time: a new CRD may mend it without a new
        generation."""
        key, meta = view.meta.key, view.meta
        known = self._known.get(key)
        if known is not None and known[:2] == (meta.uid, meta.generation) and not meta.deleting:
            return known[2]
        try:
            model = WarmModel.parse(view.body)
        except InvalidSpec as invalid:
            self.forget(key)
            return invalid
        self._known[key] = (meta.uid, meta.generation, model)
        return model

    def forget(self, key: Key) -> None:
        self._known.pop(key, None)

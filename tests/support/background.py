"""Something that goes on in a thread of its own for the length of a with block."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

END_SECONDS = 30


@dataclass
class Background(ABC):
    """Calls `step` every `period_s` seconds until the block ends."""

    period_s: float = field(default=0.1, kw_only=True)
    _stop: threading.Event = field(default_factory=threading.Event, init=False, repr=False)
    _thread: threading.Thread | None = field(default=None, init=False, repr=False)

    @abstractmethod
    def step(self) -> None: ...

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join(timeout=END_SECONDS)

    def _run(self) -> None:
        while not self._stop.wait(self.period_s):
            self.step()

"""What holds for the first process of a container, before it has imported anything that takes long.

Standard library only, Python 3.10 or newer: the launcher uses it, too.
"""

from __future__ import annotations

import os
import signal

#: As a shell tells of a process that SIGTERM has ended.
ENDED = 128 + signal.SIGTERM


def end_when_told() -> None:
    """End at once at SIGTERM, until somebody handles it in another way.

    The kernel keeps signals without a handler from the first process, and the kubelet sends no
    second one: a pod that was deleted while its sidecar imported its modules was there, with its
    GPU, until its grace period was over (measured: 90 s for a pod of one second).
    """
    signal.signal(signal.SIGTERM, lambda _number, _frame: os._exit(ENDED))

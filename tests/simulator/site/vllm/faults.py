"""What the import of a module can do to its process."""

import ctypes
import sys
import threading
import time
import types


def initialise_cuda() -> None:
    """As far as can be seen without a GPU."""
    torch = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(is_initialized=lambda: True)  # type: ignore[attr-defined]
    sys.modules["torch"] = torch


def start_thread(name: str = "") -> None:
    """`name`: as the kernel has it; without one it has the process's."""

    def live() -> None:
        if name:
            ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)
        named.set()
        time.sleep(3600)

    named = threading.Event()
    threading.Thread(target=live, daemon=True).start()
    named.wait()

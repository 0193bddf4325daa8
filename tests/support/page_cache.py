"""Which pages of files are in the machine's memory, and ways to lose them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

from warmpod.agent.residency import system

DROP_CACHES = Path("/proc/sys/vm/drop_caches")
# linux/mman.h and the number that the system call has on all architectures.
MADV_PAGEOUT = 21
PROCESS_MADVISE = 440

_libc = ctypes.CDLL(None, use_errno=True)


class _Range(ctypes.Structure):
    _fields_ = (("address", ctypes.c_void_p), ("length", ctypes.c_size_t))


def resident_bytes(files: Iterable[Path]) -> int:
    """Bytes of the files, in whole pages, that are in memory, whoever has read them."""
    return sum(_resident_pages(file) for file in files) * system.PAGE_BYTES


def needed_bytes(files: Iterable[Path]) -> int:
    """The same of files that are wholly in memory."""
    page = system.PAGE_BYTES
    return sum(-(-file.stat().st_size // page) * page for file in files)


def drop_caches() -> None:
    """What the kernel gives up of its own accord: no page that is mapped, locked or dirty."""
    os.sync()
    DROP_CACHES.write_text("1")


def page_out(pid: int, files: Iterable[Path]) -> None:
    """Takes away the pages of files that a process has mapped, as a kernel short of memory does.

    Raises OSError with EINVAL where the process has locked them.
    """
    names = {file.name for file in files}
    descriptor = os.pidfd_open(pid)
    try:
        for start, end in _mappings(pid, names):
            given_up = _libc.syscall(
                PROCESS_MADVISE,
                descriptor,
                ctypes.byref(_Range(start, end - start)),
                ctypes.c_size_t(1),
                MADV_PAGEOUT,
                ctypes.c_uint(0),
            )
            if given_up < 0:
                number = ctypes.get_errno()
                raise OSError(number, f"process_madvise: {os.strerror(number)}")
    finally:
        os.close(descriptor)


def _mappings(pid: int, names: set[str]) -> list[tuple[int, int]]:
    """Address ranges of the mappings of files with these names."""
    found = []
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        addresses, *_, path = line.split(maxsplit=5)
        if Path(path).name in names:
            start, _, end = addresses.partition("-")
            found.append((int(start, 16), int(end, 16)))
    return found


def _resident_pages(file: Path) -> int:
    size = file.stat().st_size
    if not size:
        return 0
    with file.open("rb") as opened:
        address = system.map_shared(opened.fileno(), size)
    try:
        return system.pages_in_core(address, size)
    finally:
        system.unmap(address, size)

"""The few system calls that Python has no words for."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

PAGE_BYTES = mmap.PAGESIZE
CAP_FOWNER = 3  # linux/capability.h
# linux/mman.h, since Linux 5.14: fault all pages in for reading. It reports a bad range as an
# error, whereas touching a truncated file ends the process with SIGBUS.
MADV_POPULATE_READ = 22

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
_MAP_FAILED = ctypes.c_void_p(-1).value


def map_shared(descriptor: int, length: int) -> int:
    """Map a file for reading and return the address. Python's own mmap hides it."""
    address = _libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address is None or address == _MAP_FAILED:
        raise _error("mmap")
    return int(address)


def unmap(address: int, length: int) -> None:
    _check("munmap", _libc.munmap(address, length))


def lock(address: int, length: int) -> None:
    """Read the pages in and keep them until unmapped."""
    _check("mlock", _libc.mlock(address, length))


def populate(address: int, length: int) -> None:
    """Read the pages in and map them, without keeping them."""
    _check("madvise", _libc.madvise(address, length, MADV_POPULATE_READ))


def pages_in_core(address: int, length: int) -> int:
    """Pages of the mapping that are in memory, as mincore tells it."""
    pages = -(-length // PAGE_BYTES)
    vector = ctypes.create_string_buffer(pages)
    _check("mincore", _libc.mincore(address, length, vector))
    return pages - vector.raw.count(0, 0, pages)


def has_capability(number: int) -> bool:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> number & 1)
    return False


def _check(name: str, result: int) -> None:
    if result != 0:
        raise _error(name)


def _error(name: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{name}: {os.strerror(number)}")

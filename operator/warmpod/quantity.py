"""Kubernetes quantities, as far as bytes of memory need them."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal

_QUANTITY = re.compile(
    r"^([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,2})?$"
)
_BINARY = {unit: Decimal(1024) ** power for power, unit in enumerate(("", "Ki", "Mi", "Gi", "Ti"))}
_BINARY |= {"Pi": Decimal(1024) ** 5, "Ei": Decimal(1024) ** 6}
_DECIMAL = {
    unit: Decimal(1000) ** power
    for unit, power in {
        "n": -3,
        "u": -2,
        "m": -1,
        "k": 1,
        "M": 2,
        "G": 3,
        "T": 4,
        "P": 5,
        "E": 6,
    }.items()
}
_MEBIBYTE = 1024**2


def to_bytes(quantity: int | str) -> int:
    """Bytes, rounded up as the API server does; ValueError if it is not a quantity."""
    return int(_number(quantity).to_integral_value(ROUND_CEILING))


def to_thousandths(quantity: int | str) -> int:
    """Thousandths, in which Kubernetes counts processors, rounded up; ValueError as above."""
    return int((_number(quantity) * 1000).to_integral_value(ROUND_CEILING))


def _number(quantity: int | str) -> Decimal:
    match = _QUANTITY.match(str(quantity))
    if match is None:
        raise ValueError(f"{quantity!r} is not a quantity: write it like 17Gi")
    number, unit = match.group(1), match.group(2) or ""
    if unit in _BINARY or unit in _DECIMAL:
        return Decimal(number) * (_BINARY | _DECIMAL)[unit]
    return Decimal(number) * Decimal(10) ** int(unit[1:])


def from_bytes(count: int) -> str:
    """The canonical quantity of a positive number of bytes, rounded up to a whole MiB.

    Canonical, because the API server writes 1024Mi back as 1Gi, and a builder whose output
    differs from what is stored would look like drift for ever.
    """
    value, unit = -(-count // _MEBIBYTE), "Mi"
    for larger in ("Gi", "Ti", "Pi", "Ei"):
        if value % 1024:
            break
        value, unit = value // 1024, larger
    return f"{value}{unit}"


def human(count: int) -> str:
    """Bytes for people, in the units that they write in a WarmModel: `17.2Gi`."""
    for unit, power in (("Ti", 4), ("Gi", 3), ("Mi", 2), ("Ki", 1)):
        if count >= 1024**power:
            return f"{count / 1024**power:.1f}{unit}"
    return f"{count} bytes"

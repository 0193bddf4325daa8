"""Quantities as Kubernetes reads and writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmpod.quantity import from_bytes, human, to_bytes, to_thousandths


@pytest.mark.parametrize(
    ("quantity", "count"),
    [
        ("17Gi", 17 * 1024**3),
        ("1.5Ki", 1536),
        ("1k", 1000),
        ("2M", 2_000_000),
        ("1500m", 2),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        (".5Ki", 512),
        (5, 5),
        ("0", 0),
        ("1n", 1),
    ],
)
def test_to_bytes(quantity: str | int, count: int) -> None:
    assert to_bytes(quantity) == count


@pytest.mark.parametrize(
    ("quantity", "thousandths"),
    [("1", 1000), (2, 2000), ("500m", 500), ("0.1", 100), ("1.5", 1500), ("1u", 1), ("1k", 10**6)],
)
def test_to_thousandths(quantity: str | int, thousandths: int) -> None:
    assert to_thousandths(quantity) == thousandths


@pytest.mark.parametrize("quantity", ["", "Gi", "17 Gi", "17GB", "-1", -1, "1e", "1e999", "0x1"])
def test_what_is_no_quantity(quantity: str | int) -> None:
    with pytest.raises(ValueError, match="write it like 17Gi"):
        to_bytes(quantity)


@pytest.mark.parametrize(
    ("count", "quantity"),
    [
        (192 * 1024**2, "192Mi"),
        (1024**3, "1Gi"),
        (1024**4, "1Ti"),
        (1024**5, "1Pi"),
        (1024**3 + 1, "1025Mi"),
        (1, "1Mi"),
        (1024**7, "1024Ei"),
    ],
)
def test_from_bytes_is_canonical(count: int, quantity: str) -> None:
    assert from_bytes(count) == quantity


@given(st.integers(min_value=1, max_value=2**50))
def test_rounding_up_never_loses_memory(count: int) -> None:
    assert count <= to_bytes(from_bytes(count)) < count + 1024**2


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1536, "1.5Ki"),
        (5 * 1024**2, "5.0Mi"),
        (17 * 1024**3, "17.0Gi"),
        (5000 * 1024**4, "5000.0Ti"),
    ],
)
def test_bytes_for_people(count: int, text: str) -> None:
    assert human(count) == text

"""The WarmModels that a command makes beside those of people."""

from __future__ import annotations

import pytest

from warmpod.api.v1alpha1 import MAX_NAME_LENGTH
from warmpod.cli.temporary import suffixed


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tiny", "tiny-tune"),
        ("x" * MAX_NAME_LENGTH, "x" * (MAX_NAME_LENGTH - 5) + "-tune"),
        ("a" * 44 + "-" + "b" * 5, "a" * 44 + "-tune"),
    ],
)
def test_the_name_is_short_enough(name: str, expected: str) -> None:
    assert suffixed(name, "-tune") == expected
    assert len(expected) <= MAX_NAME_LENGTH

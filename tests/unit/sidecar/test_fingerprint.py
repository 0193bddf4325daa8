from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmpod.sidecar import fingerprint

CHAT = {"choices": [{"message": {"role": "assistant", "content": "six seven"}}]}
REASONING = {"choices": [{"message": {"content": None, "reasoning": "hm"}}]}
COMPLETION = {"choices": [{"text": " six seven"}]}
EMBEDDING = {"data": [{"embedding": [0.25, -0.5]}]}
CLASSES = {"data": [{"probs": [0.9, 0.1]}]}
TOKEN_VECTORS = {"data": [{"data": [[0.1, 0.2], [0.3, 0.4]]}]}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (CHAT, ("six seven",)),
        (REASONING, ("hm",)),
        (COMPLETION, (" six seven",)),
        (EMBEDDING, (0.25, -0.5)),
        (CLASSES, (0.9, 0.1)),
        (TOKEN_VECTORS, (0.1, 0.2)),
    ],
)
def test_what_is_read(document: dict[str, Any], expected: fingerprint.Fingerprint) -> None:
    assert fingerprint.read(document) == expected


@pytest.mark.parametrize(
    "document", [{}, {"choices": []}, {"choices": ["x"]}, {"data": []}, {"data": [7]}]
)
def test_what_is_no_answer(document: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no answer to compare"):
        fingerprint.read(document)


@pytest.mark.parametrize(
    ("recorded", "found", "same"),
    [
        (("six",), ("six",), True),
        (("six",), ("sex",), False),
        (("six",), (), False),
        ((0.5, 0.25), (0.5049, 0.2501), True),
        ((0.5, 0.25), (0.6, 0.25), False),
        ((0.5,), (float("nan"),), False),
        ((0.5,), ("0.5",), False),
    ],
)
def test_same(
    recorded: fingerprint.Fingerprint, found: fingerprint.Fingerprint, same: bool
) -> None:
    assert fingerprint.same(recorded, found) is same


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=16))
def test_every_answer_is_like_itself(numbers: list[float]) -> None:
    assert fingerprint.same(tuple(numbers), tuple(numbers))

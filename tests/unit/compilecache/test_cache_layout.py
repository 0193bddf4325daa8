"""Names below a store's root, and marks that anybody may have written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from warmpod.compilecache.layout import Arrival, arrival, leave_mark, new_offer, read_mark

KEY = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (f"offer-{KEY}-0123abcd", "offer"),
        (f"used-{KEY}", "used"),
        (f"bad-{KEY}", "bad"),
        (f"offer-{KEY}", None),
        (f"used-{KEY}-0123abcd", None),
        (f".tmp-{KEY}-0123abcd", None),
        (f"bad-{KEY[:-1]}", None),
        (f"bad-{KEY}\n", None),
        ("bad-../" + KEY, None),
        ("lost+found", None),
    ],
)
def test_what_a_name_says(name: str, kind: str | None) -> None:
    assert arrival(name) == (Arrival(kind, KEY, name) if kind else None)


def test_names_of_an_offer() -> None:
    partial, name = new_offer(KEY)
    found = arrival(name)
    assert found is not None
    assert (found.kind, found.key) == ("offer", KEY)
    assert arrival(partial) is None
    assert partial.startswith(".tmp-")
    assert new_offer(KEY)[1] != name


def test_the_first_mark_stays(tmp_path: Path) -> None:
    leave_mark(tmp_path, "bad", KEY, "it crashed" + "!" * 999)
    leave_mark(tmp_path, "bad", KEY, "again")
    mark = Arrival("bad", KEY, f"bad-{KEY}")
    assert read_mark(tmp_path, mark) == "it crashed" + "!" * 290
    assert (tmp_path / mark.name).stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{"why": "x"}', "x"),
        (b'{"why": "a\\nb\\u001b[0m"}', "ab[0m"),
        (b'{"why": 1}', ""),
        (b"[1]", ""),
        (b"", ""),
        (b"\xff", ""),
        (b"[" * 9999, ""),
    ],
)
def test_a_mark_may_hold_anything(tmp_path: Path, data: bytes, why: str) -> None:
    (tmp_path / "bad-x").write_bytes(data)
    assert read_mark(tmp_path, Arrival("bad", KEY, "bad-x")) == why


def test_a_mark_leads_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text('{"why": "secret"}')
    (tmp_path / "bad-x").symlink_to("secret")
    os.mkfifo(tmp_path / "bad-y")
    for name in ("bad-x", "bad-y"):
        with pytest.raises(OSError, match=name):
            read_mark(tmp_path, Arrival("bad", KEY, name))

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.report import _columns


@given(st.integers(0, 10**9), st.integers(1, 10**9))
def test_a_share_is_0_only_of_nothing_and_100_only_of_all(part: int, rest: int) -> None:
    shown = _columns.format_share(part, part + rest)
    assert (shown == "0 %") == (part == 0)
    assert shown != "100 %"
    assert _columns.format_share(part + rest, part + rest) == "100 %"


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [(0, 0, "0 %"), (1, 3, "33.3 %"), (1, 10**6, "< 0.1 %"), (10**6 - 1, 10**6, "> 99.9 %"), (5, 10_000, "0.1 %")],
)
def test_shares(part: int, whole: int, shown: str) -> None:
    assert _columns.format_share(part, whole) == shown


def test_numbers_are_scaled_to_a_unit() -> None:
    assert [_columns.format_megapixels(value) for value in (0.3, 2.0736, 15_000)] == ["0.3 Mpx", "2.07 Mpx", "15 Gpx"]
    assert [_columns.format_short(value) for value in (12, 1.25e6, 3.2e9)] == ["12", "1.25 M", "3.2 G"]


@given(st.text(max_size=300), st.integers(8, 80))
def test_a_shortened_text_keeps_its_ends(text: str, length: int) -> None:
    short = _columns.shorten(text, length)
    assert len(short) <= length
    if len(text) <= length:
        assert short == text
    else:
        head, _, tail = short.partition("…") if "…" not in text else (text[:1], "", text[-1:])
        assert text.startswith(head)
        assert text.endswith(tail)


@given(st.text(max_size=60))
def test_shown_names_are_printable(text: str) -> None:
    assert _columns.show_full_name(text).isprintable()

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from framefeed.report import _columns


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

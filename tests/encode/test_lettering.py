from __future__ import annotations

import pytest

from framefeed.encode._sheets import CAPTION, TITLE, escape_undrawable, shorten


@pytest.mark.parametrize("text", ["video_000.mp4", "a b/c-d_e#%'\"", "1.480 s"])
def test_characters_of_the_font_stay(text: str) -> None:
    assert escape_undrawable(text, TITLE) == text


def test_characters_that_the_font_lacks_are_escaped() -> None:
    assert escape_undrawable("视a", TITLE) == "\\u89c6a"
    assert escape_undrawable("\x1b\n\udce9\u202e", CAPTION) == r"\x1b\n\udce9\u202e"


@pytest.mark.parametrize("width", [1, 10, 40, 80, 200])
def test_long_texts_keep_both_ends(width: int) -> None:
    text = "folder/with/a/long/name/video_000.mp4"
    short = shorten(text, CAPTION, width)
    assert CAPTION.getlength(short) <= width
    if len(short) > 5:
        assert short[0] == text[0]
        assert short[-1] == text[-1]
        assert "..." in short
    assert shorten(text, CAPTION, 1000) == text
    assert CAPTION.getlength(shorten("n" * 100_000, CAPTION, width)) <= width

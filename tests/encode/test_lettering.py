from __future__ import annotations

import pytest

from framefeed.encode._sheets import CAPTION, TITLE, drawable, fitted


@pytest.mark.parametrize("text", ["video_000.mp4", "a b/c-d_e#%'\"", "1.480 s"])
def test_what_the_font_has_stays(text: str) -> None:
    assert drawable(text, TITLE) == text


def test_what_it_lacks_is_escaped() -> None:
    assert drawable("视a", TITLE) == "\\u89c6a"
    assert drawable("\x1b\n\udce9\u202e", CAPTION) == r"\x1b\n\udce9\u202e"


@pytest.mark.parametrize("width", [1, 10, 40, 80, 200])
def test_long_texts_keep_both_ends(width: int) -> None:
    text = "folder/with/a/long/name/video_000.mp4"
    short = fitted(text, CAPTION, width)
    assert CAPTION.getlength(short) <= width
    if len(short) > 5:
        assert short[0] == text[0]
        assert short[-1] == text[-1]
        assert "..." in short
    assert fitted(text, CAPTION, 1000) == text
    assert CAPTION.getlength(fitted("n" * 100_000, CAPTION, width)) <= width

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.encode._sheets import (
    CAPTION,
    MAX_FRAMES,
    MAX_HEIGHT,
    MAX_WIDTH,
    TITLE,
    SheetClip,
    draw_contact_sheet,
    escape_undrawable,
    make_thumbnail,
    shorten,
)
from framefeed.errors import UsageError

COLOURS = [(200, 30, 40), (30, 200, 40), (30, 40, 200), (200, 200, 40), (150, 40, 200), (40, 190, 180)]


def _plain(colour: tuple[int, int, int], height: int = 112, width: int = 112) -> np.ndarray:
    return np.full((height, width, 3), colour, dtype=np.uint8)


def _clip(count: int, height: int = 112, width: int = 112) -> SheetClip:
    frames = [_plain(COLOURS[number % len(COLOURS)], height, width) for number in range(count)]
    return SheetClip("title", frames, [f"#{number}  {number / 25:.3f} s" for number in range(count)])


def _first_places(sheet: np.ndarray, count: int) -> list[tuple[int, int]]:
    """Top left corner of each colour: (row, column)."""
    return [tuple(np.argwhere((sheet == colour).all(2)).min(0).tolist()) for colour in COLOURS[:count]]


def test_frames_are_columns_and_clips_are_rows() -> None:
    sheet = draw_contact_sheet([_clip(3)])
    rows, columns = zip(*_first_places(sheet, 3), strict=True)
    assert len(set(rows)) == 1
    assert np.diff(columns).tolist() == [118, 118]
    assert (sheet == COLOURS[0]).all(2).sum() == 112 * 112
    twice = draw_contact_sheet([_clip(3), _clip(3)])
    assert twice.shape[1] == sheet.shape[1]
    assert (twice == COLOURS[0]).all(2).sum() == 2 * 112 * 112


def test_a_batch_of_sixteen_frames_a_clip_has_one_line_a_clip() -> None:
    sheet = draw_contact_sheet([_clip(16) for _ in range(8)])
    assert sheet.shape[1] <= MAX_WIDTH
    assert sheet.shape[0] < 8 * 175


def test_large_frames_are_reduced_and_long_clips_continue_below() -> None:
    sheet = draw_contact_sheet([_clip(16, 720, 1280)])
    assert sheet.shape[0] <= 1080
    assert sheet.shape[1] <= MAX_WIDTH
    first = np.argwhere((sheet == COLOURS[0]).all(2))
    assert np.ptp(first[:, 0]) > 2 * 180  # frame 0, and frame 6, 12 below it
    assert make_thumbnail(_plain(COLOURS[0], 720, 1280)).shape == (180, 320, 3)
    assert make_thumbnail(_plain(COLOURS[0], 30, 40)).shape == (30, 40, 3)


def test_tiny_frames_are_enlarged_by_integer_factors() -> None:
    frame = np.zeros((4, 5, 3), np.uint8)
    frame[1, 2] = (255, 0, 0)
    sheet = draw_contact_sheet([SheetClip("", [frame], [""])])
    assert (sheet == (255, 0, 0)).all(2).sum() == 22 * 22


def test_captions_and_titles_are_drawn() -> None:
    bare = SheetClip("", [_plain((128, 128, 128))] * 2, ["", ""])
    full = SheetClip("title", [_plain((128, 128, 128))] * 2, ["#0", "#1"])
    one, other = draw_contact_sheet([bare]), draw_contact_sheet([full])
    assert other.shape == one.shape
    for area in (slice(0, 36), slice(150, None)):
        dark = (other[area].astype(int).sum(2) < 400).sum()
        assert dark > 20
    assert (one[:36].astype(int).sum(2) < 400).sum() == 0


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 300), st.integers(1, 300)), min_size=1, max_size=6))
def test_any_mixture_fits_or_says_why(shapes: list[tuple[int, int, int]]) -> None:
    sheet = draw_contact_sheet([_clip(*shape) for shape in shapes])
    assert sheet.dtype == np.uint8
    assert sheet.shape[2] == 3
    assert sheet.shape[0] <= MAX_HEIGHT
    assert sheet.shape[1] <= MAX_WIDTH


def test_extreme_shapes() -> None:
    for height, width in [(1, 4000), (4000, 1), (1, 1), (3000, 3000)]:
        sheet = draw_contact_sheet([_clip(2, height, width)])
        assert max(sheet.shape) < 1000


@pytest.mark.parametrize(
    "text",
    ["", "\x1b[31m\n\0", "caf\udce9", "\u202egpj", "视频.mp4", "n" * 4096, "\U0001f3ac", "e\u0301"],
)
def test_any_text_can_be_drawn(text: str) -> None:
    sheet = draw_contact_sheet([SheetClip(text, [_plain(COLOURS[0])], [text])])
    assert sheet.shape[1] == 112 + 24


def test_too_many_frames() -> None:
    with pytest.raises(UsageError, match=f"1 to {MAX_FRAMES} frames for a contact sheet, got 401"):
        draw_contact_sheet([_clip(401)])
    with pytest.raises(UsageError, match="got 0"):
        draw_contact_sheet([])
    with pytest.raises(UsageError, match="rows, more than 10000"):
        draw_contact_sheet([_clip(1) for _ in range(100)])


def test_captions_must_match_the_frames() -> None:
    with pytest.raises(UsageError, match="got 1 for 2 frames"):
        SheetClip("", [_plain(COLOURS[0])] * 2, ["one"])
    with pytest.raises(UsageError, match="got 0 for 0 frames"):
        SheetClip("", [], [])
    with pytest.raises(UsageError, match="picture: expected"):
        draw_contact_sheet([SheetClip("", [np.zeros((3, 8, 8), np.uint8)], [""])])


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
    assert CAPTION.getlength(shorten("n" * 10_000, CAPTION, width)) <= width

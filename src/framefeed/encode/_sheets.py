"""Draw contact sheets: one picture with a row for each clip and a column for each frame."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from framefeed._arrays import ByteArray
from framefeed.encode._stills import make_image
from framefeed.errors import UsageError

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

# Pillow's own font, in two sizes.
CAPTION: Font = ImageFont.load_default(12)
TITLE: Font = ImageFont.load_default(14)
_ELLIPSIS = "..."


def escape_undrawable(text: str, font: Font) -> str:
    r"""Replace characters that the font lacks, and invisible ones, by escapes such as ``\u89c6``."""
    return "".join(char if _is_drawable(char, font) else char.encode("unicode_escape").decode() for char in text)


def shorten(text: str, font: Font, width: int) -> str:
    """Shorten a text in its middle until it is at most ``width`` pixels wide: the ends of a path matter most."""
    if font.getlength(text) <= width:
        return text
    num_fitting = bisect_right(range(len(text)), width, key=lambda kept: ceil(font.getlength(_cut_middle(text, kept))))
    return _cut_middle(text, num_fitting - 1) if num_fitting else ""


def _cut_middle(text: str, kept: int) -> str:
    return f"{text[: kept // 3]}{_ELLIPSIS}{text[len(text) - (kept - kept // 3) :]}"


@cache
def _is_drawable(char: str, font: Font) -> bool:
    return char == " " or (char.isprintable() and _draw_shape(char, font) != _draw_shape("\uffff", font))


@cache
def _draw_shape(char: str, font: Font) -> bytes:
    # A character that the font lacks has the shape of U+FFFF, which is no character in any font.
    return bytes(font.getmask(char))


MAX_WIDTH = 1920
SCREEN_HEIGHT = 1080
"""A sheet should fit on an ordinary screen at full size."""
MAX_HEIGHT = 10_000
MIN_CELL = 112
"""Width of a caption with an ordinal and a time."""
MAX_CELL = 320
MAX_FRAMES = 400
_CELL_STEP = 4

_MARGIN = 12
_GAP = 6
_CAPTION_HEIGHT = 18
_TITLE_HEIGHT = 26
_PAPER, _INK, _GREY, _EMPTY = (255, 255, 255), (24, 24, 28), (96, 96, 104), (236, 236, 240)


@dataclass(frozen=True, slots=True)
class SheetClip:
    """One clip of a contact sheet."""

    title: str  # line above the clip, such as the name of its source and its label
    frames: Sequence[ByteArray]  # RGB pictures, each uint8 [H, W, 3]
    captions: Sequence[str]

    def __post_init__(self) -> None:
        if not len(self.frames) or len(self.captions) != len(self.frames):
            raise UsageError(
                f"captions: expected one for each frame of at least one, got {len(self.captions)} for "
                f"{len(self.frames)} frames"
            )


class _Layout(NamedTuple):
    """Size of a sheet: columns of cells, each ``cell`` pixels wide."""

    columns: int
    cell: int
    width: int
    height: int


def make_thumbnail(picture: ByteArray) -> ByteArray:
    """Shrink a picture to the largest size on a sheet, so that hundreds of them need little memory."""
    image = make_image(picture)
    image.thumbnail((MAX_CELL, 2 * MAX_CELL), Image.Resampling.LANCZOS)
    return np.asarray(image)


def draw_contact_sheet(clips: Sequence[SheetClip]) -> ByteArray:
    """Draw clips as rows and frames as columns, with captions; long clips continue in the next line.

    Frames are shrunk until the sheet fits on a screen, but never below the width of a caption.

    Returns:
        RGB, uint8 [H, W, 3], at most ``MAX_HEIGHT`` x ``MAX_WIDTH``.

    Raises:
        UsageError: There are no frames, or more than fit.
    """
    if not clips or sum(len(clip.frames) for clip in clips) > MAX_FRAMES:
        count = sum(len(clip.frames) for clip in clips)
        raise UsageError(f"clips: expected 1 to {MAX_FRAMES} frames for a contact sheet, got {count}")
    # The largest cells with which the sheet fits on a screen, or the smallest ones if none fits.
    widest = max(frame.shape[1] for clip in clips for frame in clip.frames)
    layout = _make_layout(clips, MIN_CELL)
    for cell in range(MIN_CELL + _CELL_STEP, max(MIN_CELL, min(MAX_CELL, widest)) + 1, _CELL_STEP):
        larger = _make_layout(clips, cell)
        if larger.height <= SCREEN_HEIGHT:
            layout = larger
    if layout.height > MAX_HEIGHT:
        raise UsageError(
            f"clips: {len(clips)} clips need a contact sheet of {layout.height} rows, more than {MAX_HEIGHT}: use fewer"
        )
    sheet = Image.new("RGB", (layout.width, layout.height), _PAPER)
    top = _MARGIN
    for clip in clips:
        _draw_clip(sheet, clip, layout, top)
        top += _measure_clip(clip, layout.cell, layout.columns)
    return np.asarray(sheet)


def _make_layout(clips: Sequence[SheetClip], cell: int) -> _Layout:
    most = max(len(clip.frames) for clip in clips)
    lines = -(-most // ((MAX_WIDTH - 2 * _MARGIN + _GAP) // (cell + _GAP)))
    columns = -(-most // lines)  # The lines of a clip have the same length if possible.
    height = 2 * _MARGIN + sum(_measure_clip(clip, cell, columns) for clip in clips)
    return _Layout(columns, cell, 2 * _MARGIN + columns * (cell + _GAP) - _GAP, height)


def _fit_picture(picture: ByteArray, cell: int) -> tuple[int, int]:
    """Compute (width, height) in a cell: reduced to fit, or enlarged by an integer factor if tiny."""
    height, width = picture.shape[:2]
    if width * 2 <= cell and height * 2 <= cell:
        factor = min(cell // width, cell // height)
        return width * factor, height * factor
    scale = min(1.0, cell / width, max(cell, MIN_CELL * 2) / height)
    return max(1, round(width * scale)), max(1, round(height * scale))


def _measure_line(clip: SheetClip, cell: int) -> int:
    return max(_fit_picture(frame, cell)[1] for frame in clip.frames)


def _measure_clip(clip: SheetClip, cell: int, columns: int) -> int:
    line = _measure_line(clip, cell) + _CAPTION_HEIGHT
    return _TITLE_HEIGHT + -(-len(clip.frames) // columns) * line + _GAP


def _draw_clip(sheet: Image.Image, clip: SheetClip, layout: _Layout, top: int) -> None:
    draw = ImageDraw.Draw(sheet)
    title = shorten(escape_undrawable(clip.title, TITLE), TITLE, layout.width - 2 * _MARGIN)
    draw.text((_MARGIN, top + _TITLE_HEIGHT - 8), title, fill=_INK, font=TITLE, anchor="ls")
    top += _TITLE_HEIGHT
    cell, height = layout.cell, _measure_line(clip, layout.cell)
    for number, picture in enumerate(clip.frames):
        column = number % layout.columns
        if number and not column:
            top += height + _CAPTION_HEIGHT
        left, bottom = _MARGIN + column * (cell + _GAP), top + height
        draw.rectangle((left, top, left + cell - 1, bottom - 1), fill=_EMPTY)
        size = _fit_picture(picture, cell)
        is_enlarged = size[0] > picture.shape[1]
        image = make_image(picture).resize(size, Image.Resampling.NEAREST if is_enlarged else Image.Resampling.LANCZOS)
        sheet.paste(image, (left + (cell - size[0]) // 2, top + (height - size[1]) // 2))
        caption = shorten(escape_undrawable(clip.captions[number], CAPTION), CAPTION, cell)
        draw.text((left, bottom + 3), caption, fill=_GREY, font=CAPTION, anchor="la")

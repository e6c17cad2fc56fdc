"""Text on pictures, in the font that Pillow brings along."""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from math import ceil

from PIL import ImageFont

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

CAPTION: Font = ImageFont.load_default(12)
TITLE: Font = ImageFont.load_default(14)
_ELLIPSIS = "..."


def drawable(text: str, font: Font) -> str:
    r"""Show what the font cannot draw, and what is no character to see, as escapes such as ``\u89c6``."""
    return "".join(char if _is_drawable(char, font) else char.encode("unicode_escape").decode() for char in text)


def fitted(text: str, font: Font, width: int) -> str:
    """Shorten a text in its middle until it is no wider than ``width`` pixels: both ends of a path say most."""
    if font.getlength(text) <= width:
        return text
    fitting = bisect_right(range(len(text)), width, key=lambda kept: ceil(font.getlength(_shortened(text, kept))))
    return _shortened(text, fitting - 1) if fitting else ""


def _shortened(text: str, kept: int) -> str:
    return f"{text[: kept // 3]}{_ELLIPSIS}{text[len(text) - (kept - kept // 3) :]}"


@cache
def _is_drawable(char: str, font: Font) -> bool:
    return char == " " or (char.isprintable() and _shape(char, font) != _shape("\uffff", font))


@cache
def _shape(char: str, font: Font) -> bytes:
    # A character that the font lacks has the shape of U+FFFF, which is no character in any font.
    return bytes(font.getmask(char))

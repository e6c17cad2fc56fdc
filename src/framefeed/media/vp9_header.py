"""The header of a VP9 frame: VP9 bitstream specification 0.6, clauses 6.2 and 7.2.

It is read to its end, for there stands how long what follows is: of less a decoder gives no frame. Its bits are taken
as a text of 0 and 1, so that what the specification writes as syntax is a regular expression.
"""

from __future__ import annotations

import re
from functools import lru_cache

from framefeed.media.limits import Limits
from framefeed.media.proving import FirstPicture, Unproved

SHOWN, KEY, EXISTING = 1, 2, 4
"""Of a frame: it comes out, it is a key frame, it is one that was decoded earlier."""
_HEADER_BYTES = (24, 96)
"""What nearly all headers take, and more than any does."""
_NUM_SLOTS = 8
_MOST_SMALLER, _MOST_LARGER = 2, 16
"""How many times smaller, and larger, a picture may be than one that it refers to."""
_BLOCK, _MAX_TILE_BLOCKS, _MIN_TILE_BLOCKS = 64, 64, 4
"""Columns of a superblock; superblocks in the columns of a tile."""
_MARKER = 0x80
"""First bit of what is coded arithmetically, which is 0."""

_MARKS = ("00", "10", "01", "110")
"""Of each profile: its low bit comes first, and a reserved one behind the last."""
_SYNC_CODE = f"{0x498342:024b}"
_SIZE = ".{32}"
# Behind the flags: how contexts are kept, and what frames are referred to. A frame that is not shown may be intra-only,
# of another format than the frames before it: that is not read.
_OTHER_FRAME = (
    r"(?(hidden)0)(?(resilient)|..)(?P<refreshed>.{8})(?P<referred>.{12})"
    rf"(?:(?P<same>1|01|001)|000(?P<new_size>{_SIZE}))(?:0|1{_SIZE}).(?:1|0..)"
)
_LOOP_FILTER = r".{9}(?:0|1(?:0|1(?:0|1.{7}){6}))"
_QUANTIZATION = r".{8}(?:0|1.{5}){3}"
_SEGMENTATION = (
    r"(?:0|1(?:0|1(?:0|1.{8}){7}(?:0|1(?:0|1.{8}){3}))"
    r"(?:0|1.(?:(?:0|1.{9})(?:0|1.{7})(?:0|1..).){8}))"
)
# As libav numbers them (ITU-T H.273): unspecified, BT.601, BT.709, SMPTE 170, SMPTE 240, BT.2020, reserved.
_SPACES = (2, 5, 1, 6, 7, 9, 3)
_RGB = 0
_LIMITED, _FULL = 1, 2
_DEPTHS = {"": "", "0": "10le", "1": "12le"}
_CHROMA = {"": "yuv420p", "00": "yuv444p", "10": "yuv422p", "01": "yuv440p"}
"""By whether columns and rows of chroma are halved."""

Size = tuple[int, int]


@lru_cache(maxsize=len(_MARKS))
def _syntax(profile: int) -> re.Pattern[str]:
    """Write the header of a frame of one profile as a regular expression, up to the tiles."""
    is_odd = profile % 2 == 1
    depth = "." if profile >= 2 else ""
    # RGB and chroma that is not halved both ways are for odd profiles alone.
    rgb, halved = ("111", "(?P<halved>00|10|01)0") if is_odd else ("(?!)", "(?P<halved>)")
    colors = rf"(?P<depth>{depth})(?:(?P<rgb>{rgb})0|(?!111)(?P<space>...)(?P<range>.){halved})"
    key_frame = rf"{_SYNC_CODE}{colors}(?P<size>{_SIZE})(?:0|1{_SIZE})"
    return re.compile(
        rf"10{_MARKS[profile]}(?:(?P<existing>1)|0(?:(?P<key>0)|1)(?:1|(?P<hidden>0))(?:(?P<resilient>1)|0)"
        rf"(?(key){key_frame}|{_OTHER_FRAME})(?(resilient)..|....){_LOOP_FILTER}{_QUANTIZATION}{_SEGMENTATION})"
    )


@lru_cache(maxsize=64)
def _tile_syntax(width: int) -> tuple[int, re.Pattern[str]]:
    """Give the fewest columns of tiles of pictures of a width, and what follows: tiles, bytes of the rest."""
    blocks, fewest, most = -(-width // _BLOCK), 1, 1
    while fewest * _MAX_TILE_BLOCKS < blocks:
        fewest *= 2
    while blocks // (2 * most) >= _MIN_TILE_BLOCKS:
        most *= 2
    doublings = max(most // fewest, 1).bit_length() - 1
    columns = "|".join([*("1" * count + "0" for count in range(doublings)), "1" * doublings])
    return fewest, re.compile(rf"(?P<columns>{columns})(?P<rows>0|10|11)(?P<bytes>.{{16}})")


class FrameReader:
    """Reads one frame after the other, and remembers the sizes of those that are referred to.

    Args:
        limits: How large pictures may be.

    Attributes:
        picture: What the last key frame says.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._syntax: re.Pattern[str] | None = None
        self._sizes: list[Size] = []
        self._common: Size | None = None
        self.picture: FirstPicture | None = None

    def read(self, frame: memoryview) -> int:
        """Read one frame: what it is, of ``SHOWN``, ``KEY`` and ``EXISTING``.

        Raises:
            Unproved: A decoder may give no frame of it.
        """
        syntax = self._syntax = self._syntax or _syntax(frame[0] >> 5 & 1 | frame[0] >> 3 & 2)
        for length in _HEADER_BYTES:
            text = bin(int.from_bytes(frame[:length], "big"))[2:]
            header = syntax.match(text) if frame[0] & 0x80 else None
            if header is None or (header["key"] is None and not self._sizes):
                continue
            if header["existing"]:
                return SHOWN | EXISTING
            size = self._size_of(header)
            fewest, tile_syntax = _tile_syntax(size[0])
            tiles = tile_syntax.match(text, header.end())
            if tiles is not None:
                self._remember(header, size)
                _check_coded_parts(frame, text, fewest, tiles)
                return SHOWN * (header["hidden"] is None) | KEY * (header["key"] is not None)
        raise Unproved("a header that breaks off, is damaged, or is of another kind than frames behind a key frame")

    def _size_of(self, header: re.Match[str]) -> Size:
        """Read how large a picture is."""
        if header["same"]:
            # Nearly always all are as large.
            return self._common or self._references(header)[len(header["same"]) - 1]
        text = header["size"] or header["new_size"]
        width, height = int(text[:16], 2) + 1, int(text[16:], 2) + 1
        if width * height > self._limits.max_pixels:
            raise Unproved("pictures larger than allowed")
        return width, height

    def _references(self, header: re.Match[str]) -> list[Size]:
        text = header["referred"]
        return [self._sizes[int(text[at : at + 3], 2)] for at in (0, 4, 8)]

    def _remember(self, header: re.Match[str], size: Size) -> None:
        """Keep a picture's size for those that refer to it."""
        if header["key"] is not None:
            self._sizes, self._common = [size] * _NUM_SLOTS, size
            self.picture = FirstPicture(*size, *_format_of(header))
        elif size != self._common:
            _check_scale(size, self._references(header))
            # The last bit is that of the first slot.
            refreshed = reversed(header["refreshed"])
            self._sizes = [size if bit == "1" else old for bit, old in zip(refreshed, self._sizes, strict=True)]
            self._common = size if self._sizes == [size] * _NUM_SLOTS else None


def _format_of(header: re.Match[str]) -> tuple[str, dict[str, int]]:
    """Tell the pixel format of a key frame, as libav names it, and its colours."""
    depth = _DEPTHS[header["depth"]]
    if header["rgb"]:
        return "gbrp" + depth, {"space": _RGB, "range": _FULL}
    colors = {"space": _SPACES[int(header["space"], 2)], "range": _FULL if header["range"] == "1" else _LIMITED}
    return _CHROMA[header["halved"]] + depth, colors


def _check_scale(size: Size, references: list[Size]) -> None:
    for reference in references:
        for own, other in zip(size, reference, strict=True):
            if own * _MOST_SMALLER < other or own > other * _MOST_LARGER:
                raise Unproved("a picture much larger or smaller than one it refers to")


def _check_coded_parts(frame: memoryview, text: str, fewest: int, tiles: re.Match[str]) -> None:
    """Make sure that what is coded arithmetically is there: the rest of the header, and each tile."""
    end, size = tiles.end(), int(tiles["bytes"], 2)
    at = (end + 7) // 8
    if "1" in text[end : 8 * at]:
        raise Unproved("a header that does not end with zeros")
    _check_coded(frame, at, size)
    at += size
    for _ in range((fewest << (tiles["columns"] + tiles["rows"]).count("1")) - 1):
        size = int.from_bytes(frame[at : at + 4], "big")
        _check_coded(frame, at + 4, size)
        at += 4 + size
    _check_coded(frame, at, len(frame) - at)


def _check_coded(frame: memoryview, at: int, size: int) -> None:
    if not 0 < size <= len(frame) - at or frame[at] & _MARKER:
        raise Unproved("a frame that breaks off")

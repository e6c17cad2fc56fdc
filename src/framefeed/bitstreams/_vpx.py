"""Read the frame headers of VP8 (RFC 6386 9.1) and of VP9 (bitstream specification 0.6, 6.2, 7.2, annex B).

The header of a VP9 frame is read to its end, which has the length of the rest: a decoder gives no frame of less. Its
bits are read as a text of 0 and 1, so that its syntax is a regular expression.
"""

from __future__ import annotations

import re
from functools import lru_cache

from framefeed._values import Limits, PictureFormat, StreamColors
from framefeed.bitstreams._bits import EXISTING, KEY_FRAME, OTHERWISE_PARSED, SHOWN, OddUnits

_IS_INTER, _IS_SHOWN, _FIRST_PARTITION = 1, 16, 5
_TAG_BYTES, _KEY_BYTES = 3, 10
_START_CODE = b"\x9d\x01\x2a"
_SIDE = 0x3FFF


class Vp8Reader:
    """Reads the frame tag of each packet, and the start of each key frame.

    Args:
        limits: How large pictures may be.

    Attributes:
        format: Of the first key frame.
        colors: None: libav reads nothing but the size before it decodes.
        changes_size: Whether a frame has another size than the first.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.format: PictureFormat | None = None
        self.colors: StreamColors | None = None
        self.changes_size = False

    def read(self, packet: memoryview) -> int:
        """Read a packet; return the flags of its frame.

        Raises:
            OddUnits: A decoder may give no frame of it.
        """
        if len(packet) < _TAG_BYTES:
            raise OddUnits("a packet ends in its header")
        tag = packet[0] | packet[1] << 8 | packet[2] << 16
        is_key = not tag & _IS_INTER
        if not 0 < tag >> _FIRST_PARTITION < len(packet) - (_KEY_BYTES if is_key else _TAG_BYTES):
            raise OddUnits("a packet ends with its first partition, or in it")
        if is_key:
            self._read_key_frame(packet)
        return SHOWN * (tag & _IS_SHOWN != 0) | KEY_FRAME * is_key

    def _read_key_frame(self, packet: memoryview) -> None:
        if bytes(packet[_TAG_BYTES:6]) != _START_CODE:
            raise OddUnits("a key frame without a start code")
        width = int.from_bytes(packet[6:8], "little") & _SIDE
        height = int.from_bytes(packet[8:10], "little") & _SIDE
        if not 0 < width * height <= self._limits.max_pixels:
            raise OddUnits("pictures larger than allowed, or of no size")
        self.format = self.format or PictureFormat(width, height, "yuv420p", width, height)
        self.changes_size |= (width, height) != (self.format.width, self.format.height)


_HEADER_BYTES = (24, 96)
"""Bytes of nearly all headers, and more than any has."""
_NUM_SLOTS = 8
_MOST_SMALLER, _MOST_LARGER = 2, 16
"""Times by which a picture may be smaller, or larger, than one that it refers to."""
_BLOCK, _MAX_TILE_BLOCKS, _MIN_TILE_BLOCKS = 64, 64, 4
"""Columns of a superblock; superblocks in the columns of a tile."""
_MARKER = 0x80
"""First bit of an arithmetically coded part, which is 0."""

_MARKS = ("00", "10", "01", "110")
"""Of each profile: its low bit comes first, and a reserved one behind the last."""
_SYNC_CODE = f"{0x498342:024b}"
_SIZE = ".{32}"
# Behind the flags: contexts and reference frames. A hidden frame may be intra-only, of another format than the frames
# before it: such a header does not match.
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
def make_header_syntax(profile: int) -> re.Pattern[str]:
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
def make_tile_syntax(width: int) -> tuple[int, re.Pattern[str]]:
    """Compute the fewest tile columns of a width, and the syntax of tiles and of the bytes of the rest."""
    blocks, fewest, most = -(-width // _BLOCK), 1, 1
    while fewest * _MAX_TILE_BLOCKS < blocks:
        fewest *= 2
    while blocks // (2 * most) >= _MIN_TILE_BLOCKS:
        most *= 2
    doublings = max(most // fewest, 1).bit_length() - 1
    columns = "|".join([*("1" * count + "0" for count in range(doublings)), "1" * doublings])
    return fewest, re.compile(rf"(?P<columns>{columns})(?P<rows>0|10|11)(?P<bytes>.{{16}})")


class Vp9Reader:
    """Reads one packet after the other, and keeps the sizes of reference frames.

    Args:
        limits: How large pictures may be.

    Attributes:
        format: Of the last key frame.
        colors: Colour tags of the last key frame.
        changes_size: Whether a frame has another size than the first.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._syntax: re.Pattern[str] | None = None
        self._sizes: list[Size] = []
        self._common: Size | None = None
        self._first: Size | None = None
        self.changes_size = False
        self.format: PictureFormat | None = None
        self.colors: StreamColors | None = None

    def read(self, packet: memoryview) -> int:
        """Read the superframe index of a packet, and the header of each of its frames; return the flags of the packet.

        Raises:
            OddUnits: A decoder may give no frame of it, or more than one.
        """
        if packet[-1] & _SUPERFRAME_BITS != _SUPERFRAME:
            flags = self._read_frame(packet)
        else:
            each = [self._read_frame(frame) for frame in _split_superframe(packet)]
            shown = [flags for flags in each if flags & SHOWN]
            if len(shown) > 1:
                raise OddUnits("two frames come of one packet")
            # A key frame in two parts: the one that shows it takes its flag.
            flags = SHOWN | KEY_FRAME if each == [KEY_FRAME, SHOWN | EXISTING] else sum(shown)
            flags |= OTHERWISE_PARSED * ((each[0] ^ flags) & KEY_FRAME != 0)
        # A frame that is not shown is no frame of the packet.
        return flags if flags & SHOWN else 0

    def _read_frame(self, frame: memoryview) -> int:
        syntax = self._syntax = self._syntax or make_header_syntax(frame[0] >> 5 & 1 | frame[0] >> 3 & 2)
        for length in _HEADER_BYTES:
            text = bin(int.from_bytes(frame[:length], "big"))[2:]
            header = syntax.match(text) if frame[0] & 0x80 else None
            if header is None or (header["key"] is None and not self._sizes):
                continue
            if header["existing"]:
                return SHOWN | EXISTING
            size = self._read_size(header)
            fewest, tile_syntax = make_tile_syntax(size[0])
            tiles = tile_syntax.match(text, header.end())
            if tiles is not None:
                self._remember(header, size)
                _check_parts(frame, text, fewest, tiles)
                return SHOWN * (header["hidden"] is None) | KEY_FRAME * (header["key"] is not None)
        raise OddUnits("a header that breaks off, is damaged, or is of another kind than frames behind a key frame")

    def _read_size(self, header: re.Match[str]) -> Size:
        if header["same"]:
            # Nearly always all references have one size.
            return self._common or self._find_references(header)[len(header["same"]) - 1]
        text = header["size"] or header["new_size"]
        width, height = int(text[:16], 2) + 1, int(text[16:], 2) + 1
        if width * height > self._limits.max_pixels:
            raise OddUnits("pictures larger than allowed")
        return width, height

    def _find_references(self, header: re.Match[str]) -> list[Size]:
        text = header["referred"]
        return [self._sizes[int(text[at : at + 3], 2)] for at in (0, 4, 8)]

    def _remember(self, header: re.Match[str], size: Size) -> None:
        """Keep a picture's size for frames that refer to it."""
        self._first = self._first or size
        self.changes_size |= size != self._first
        if header["key"] is not None:
            self._sizes, self._common = [size] * _NUM_SLOTS, size
            pixel_format, self.colors = _read_format(header)
            self.format = PictureFormat(*size, pixel_format, *size)
        elif size != self._common:
            for reference in self._find_references(header):
                for own, other in zip(size, reference, strict=True):
                    if own * _MOST_SMALLER < other or own > other * _MOST_LARGER:
                        raise OddUnits("a picture much larger or smaller than one it refers to")
            # The last bit is that of the first slot.
            refreshed = reversed(header["refreshed"])
            self._sizes = [size if bit == "1" else old for bit, old in zip(refreshed, self._sizes, strict=True)]
            self._common = size if self._sizes == [size] * _NUM_SLOTS else None


def _read_format(header: re.Match[str]) -> tuple[str, StreamColors]:
    """Read the pixel format of a key frame, as libav names it, and its colours."""
    depth = _DEPTHS[header["depth"]]
    if header["rgb"]:
        return "gbrp" + depth, StreamColors(space=_RGB, range=_FULL)
    space, color_range = _SPACES[int(header["space"], 2)], _FULL if header["range"] == "1" else _LIMITED
    return _CHROMA[header["halved"]] + depth, StreamColors(space=space, range=color_range)


def _check_parts(frame: memoryview, text: str, fewest: int, tiles: re.Match[str]) -> None:
    """Check that the arithmetically coded parts are there: the rest of the header, and each tile."""
    end, size = tiles.end(), int(tiles["bytes"], 2)
    at = (end + 7) // 8
    if "1" in text[end : 8 * at]:
        raise OddUnits("a header that does not end with zeros")
    _check_part(frame, at, size)
    at += size
    for _ in range((fewest << (tiles["columns"] + tiles["rows"]).count("1")) - 1):
        size = int.from_bytes(frame[at : at + 4], "big")
        _check_part(frame, at + 4, size)
        at += 4 + size
    _check_part(frame, at, len(frame) - at)


def _check_part(frame: memoryview, at: int, size: int) -> None:
    if not 0 < size <= len(frame) - at or frame[at] & _MARKER:
        raise OddUnits("a frame that breaks off")


_SUPERFRAME_BITS, _SUPERFRAME = 0xE0, 0xC0
_INDEX_MARKERS = 2
"""Bytes of a superframe index besides the sizes of its frames."""


def _split_superframe(packet: memoryview) -> list[memoryview]:
    """Split a superframe, whose index is at its end.

    An index that does not begin as it ends is no index by the specification, and damage for libav.
    """
    marker = packet[-1]
    count, length = (marker & 7) + 1, (marker >> 3 & 3) + 1
    end = len(packet) - count * length - _INDEX_MARKERS
    if end < 0 or packet[end] != marker:
        raise OddUnits("a packet that ends like a superframe, and is none")
    frames, at = [], 0
    for number in range(count):
        start = end + 1 + number * length
        size = int.from_bytes(packet[start : start + length], "little")
        if not 0 < size <= end - at:
            raise OddUnits("a superframe whose sizes do not fit")
        frames.append(packet[at : at + size])
        at += size
    return frames

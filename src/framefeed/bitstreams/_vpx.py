"""Read the frame headers of VP8 (RFC 6386 9.1) and of VP9 (bitstream specification 0.6, 6.2, 7.2, annex B).

The header of a VP9 frame is read to its end, which has the length of the rest: a decoder gives no frame of less.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from framefeed._values import Limits, PictureFormat, StreamColors
from framefeed.bitstreams._bits import EXISTING, KEY_FRAME, OTHERWISE_PARSED, SHOWN, HeaderBits, OddUnits

_IS_INTER, _IS_SHOWN, _FIRST_PARTITION = 1, 16, 5
_TAG_BYTES, _KEY_BYTES = 3, 10
_START_CODE = b"\x9d\x01\x2a"
_SIDE = 0x3FFF


class Vp8Reader:
    """Reads the frame tag of each packet, and the start of each key frame."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.format: PictureFormat | None = None
        self.colors: StreamColors | None = None
        self.changes_size = False

    def read(self, packet: memoryview) -> int:
        """Read a packet; return the flags of its frame."""
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


_HEADER_BYTES = 96
"""More than any header has."""
_PROFILES = {0b1000: 0, 0b1010: 1, 0b1001: 2, 0b1011: 3}
"""By the first four bits: a marker, and the profile, whose low bit comes first."""
_SYNC_CODE = 0x498342
_NUM_SLOTS = 8
_NUM_REFERENCES = 3
_MOST_SMALLER, _MOST_LARGER = 2, 16
"""Times by which a picture may be smaller, or larger, than one that it refers to."""
_BLOCK, _MAX_TILE_BLOCKS, _MIN_TILE_BLOCKS = 64, 64, 4
"""Columns of a superblock; superblocks in the columns of a tile."""
_MARKER = 0x80
"""First bit of an arithmetically coded part, which is 0."""
_SEGMENTS, _FEATURE_BITS = 8, (9, 7, 2, 0)
"""Bits of the features of a segment, with their signs."""

# As libav numbers them (ITU-T H.273): unspecified, BT.601, BT.709, SMPTE 170, SMPTE 240, BT.2020, reserved.
_SPACES = (2, 5, 1, 6, 7, 9, 3)
_CODED_RGB, _RGB = 7, 0
_LIMITED, _FULL = 1, 2
_CHROMA = {(1, 1): "yuv420p", (0, 0): "yuv444p", (1, 0): "yuv422p", (0, 1): "yuv440p"}
"""By whether columns and rows of chroma are halved."""

Size = tuple[int, int]


class Vp9Reader:
    """Reads one packet after the other, and keeps the sizes of reference frames.

    Attributes:
        format: Of the last key frame.
        colors: Colour tags of the last key frame.
        changes_size: Whether a frame has another size than the first.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._profile: int | None = None
        self._sizes: list[Size] = []
        self._common: Size | None = None
        self._first: Size | None = None
        self.changes_size = False
        self.format: PictureFormat | None = None
        self.colors: StreamColors | None = None

    def read(self, packet: memoryview) -> int:
        """Read the headers of a packet, those of all frames of a superframe; return the flags of the packet."""
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
        bits = HeaderBits(frame, _HEADER_BYTES)
        profile = _PROFILES.get(bits.read(4))
        if self._profile is None:
            self._profile = profile
        if profile is None or profile != self._profile or (profile == 3 and bits.read_flag()):
            raise OddUnits("a header that is damaged, or of another profile than the first one")
        is_existing = bits.read_flag()
        is_key = not is_existing and not bits.read_flag()
        if not self._sizes and not is_key:
            raise OddUnits("a frame without a key frame before it")
        if is_existing:
            return SHOWN | EXISTING
        is_shown, is_resilient = bits.read_flag(), bits.read_flag()
        if is_key:
            size = self._read_key_frame(bits, profile)
        else:
            size = self._read_other_frame(bits, is_shown, is_resilient)
        bits.read(2 if is_resilient else 4)  # contexts
        bits.read(9)  # level and sharpness of the loop filter
        if bits.read_flag() and bits.read_flag():  # its deltas are used, and change
            _skip_numbers(bits, (7,) * 6)
        bits.read(8)  # quantization, and how it differs for parts of the picture
        _skip_numbers(bits, (5,) * 3)
        if bits.read_flag():
            _skip_segmentation(bits)
        _check_parts(frame, bits, size[0])
        return SHOWN * is_shown | KEY_FRAME * is_key

    def _read_key_frame(self, bits: HeaderBits, profile: int) -> Size:
        sync_code = bits.read(24)
        depth = ("10le", "12le")[bits.read(1)] if profile >= 2 else ""
        space = bits.read(3)
        is_rgb, is_odd = space == _CODED_RGB, profile % 2 == 1
        color_range = _FULL if is_rgb or bits.read_flag() else _LIMITED
        halved = (1, 1)
        if is_odd and not is_rgb:
            halved = bits.read(1), bits.read(1)
        is_reserved = is_odd and bits.read_flag()
        # RGB and chroma that is not halved both ways are for odd profiles alone.
        if sync_code != _SYNC_CODE or is_reserved or (is_rgb or halved != (1, 1)) != is_odd:
            raise OddUnits("a key frame without its start code, or of colours that its profile does not have")
        size = self._read_size(bits)
        if bits.read_flag():
            bits.read(32)  # the size for display
        self._sizes, self._common = [size] * _NUM_SLOTS, size
        self.format = PictureFormat(*size, ("gbrp" if is_rgb else _CHROMA[halved]) + depth, *size)
        self.colors = StreamColors(space=_RGB if is_rgb else _SPACES[space], range=color_range)
        return size

    def _read_other_frame(self, bits: HeaderBits, is_shown: bool, is_resilient: bool) -> Size:
        if not is_shown and bits.read_flag():
            raise OddUnits("an intra-only frame, which may be of another format than the frames before it")
        if not is_resilient:
            bits.read(2)  # reset_frame_context
        refreshed = bits.read(_NUM_SLOTS)
        # Of each reference its slot, and a sign.
        referred = bits.read(4 * _NUM_REFERENCES)
        size = None
        for number in range(_NUM_REFERENCES):
            if bits.read_flag():  # found_ref
                # Nearly always all references have one size.
                size = self._common or self._find_references(referred)[number]
                break
        if size is None:
            size = self._read_size(bits)
        if bits.read_flag():
            bits.read(32)  # the size for display
        bits.read(1)  # allow_high_precision_mv
        if not bits.read_flag():  # is_filter_switchable
            bits.read(2)
        if size != self._common:
            self._replace_sizes(size, refreshed, self._find_references(referred))
        return size

    def _read_size(self, bits: HeaderBits) -> Size:
        width, height = bits.read(16) + 1, bits.read(16) + 1
        if width * height > self._limits.max_pixels:
            raise OddUnits("pictures larger than allowed")
        self._first = self._first or (width, height)
        self.changes_size |= (width, height) != self._first
        return width, height

    def _find_references(self, referred: int) -> list[Size]:
        return [self._sizes[referred >> shift & 7] for shift in (9, 5, 1)]

    def _replace_sizes(self, size: Size, refreshed: int, references: list[Size]) -> None:
        """Keep a picture's size for frames that refer to it."""
        self.changes_size |= size != self._first
        for reference in references:
            for own, other in zip(size, reference, strict=True):
                if own * _MOST_SMALLER < other or own > other * _MOST_LARGER:
                    raise OddUnits("a picture much larger or smaller than one it refers to")
        self._sizes = [size if refreshed >> slot & 1 else old for slot, old in enumerate(self._sizes)]
        self._common = size if self._sizes == [size] * _NUM_SLOTS else None


def _skip_numbers(bits: HeaderBits, counts: Iterable[int]) -> None:
    """Skip numbers that are there if the flag before each is set."""
    for count in counts:
        if bits.read_flag():
            bits.read(count)


def _skip_segmentation(bits: HeaderBits) -> None:
    if bits.read_flag():  # update_map
        _skip_numbers(bits, (8,) * 7)
        if bits.read_flag():  # temporal_update
            _skip_numbers(bits, (8,) * 3)
    if bits.read_flag():  # update_data
        bits.read(1)
        _skip_numbers(bits, _FEATURE_BITS * _SEGMENTS)


@lru_cache(maxsize=64)
def _find_tile_columns(width: int) -> tuple[int, int]:
    """Find the fewest and the most columns of tiles in pictures of a width."""
    blocks, fewest, most = -(-width // _BLOCK), 1, 1
    while fewest * _MAX_TILE_BLOCKS < blocks:
        fewest *= 2
    while blocks // (2 * most) >= _MIN_TILE_BLOCKS:
        most *= 2
    return fewest, most


def _count_tiles(bits: HeaderBits, width: int) -> int:
    columns, most = _find_tile_columns(width)
    while columns < most and bits.read_flag():
        columns *= 2
    if not bits.read_flag():
        return columns
    return columns * (4 if bits.read_flag() else 2)


def _check_parts(frame: memoryview, bits: HeaderBits, width: int) -> None:
    """Check that the arithmetically coded parts are there: the rest of the header, and each tile."""
    tiles, size = _count_tiles(bits, width), bits.read(16)
    at, rest = bits.align()
    if rest:
        raise OddUnits("a header that does not end with zeros")
    _check_part(frame, at, size)
    at += size
    for _ in range(tiles - 1):
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

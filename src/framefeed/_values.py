"""Plain values that several rooms share: limits, facts of files, packets and units, bytes by offset; no files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass, field
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from framefeed._arrays import BoolArray, ByteArray, IntArray
from framefeed._checks import check_integer, expected
from framefeed.errors import LimitExceeded, UsageError


def rotate_size(width: int, height: int, rotation: int) -> tuple[int, int]:
    """Apply a rotation in degrees to a size: (width, height) as displayed."""
    return (height, width) if rotation in (90, 270) else (width, height)


@dataclass(frozen=True, slots=True)
class MediaInfo:
    """Facts that the headers of one file claim.

    Attributes:
        kind: "image" or "video", decided by the bytes, not by the name.
        container: Name of the format, as libav (videos) or Pillow (pictures) calls it.
        codec: Codec name.
        width: Columns as displayed: rotation and EXIF orientation applied, sample aspect ratio not.
        height: Rows as displayed.
        coded_width: Columns as stored.
        coded_height: Rows as stored.
        rotation: Degrees counter-clockwise by which the stored picture is rotated for display: 0, 90, 180 or 270.
        mirrored: Whether left and right are swapped after that rotation.
        pixel_format: Name of the stored pixel format; empty where unknown.
        num_frames_from_header: Number of frames that the header claims, or None. The frames were not counted.
        duration_seconds_from_header: Seconds that the header claims, or None.
        average_fps_from_header: Frames per second that the header claims, or None.
        bytes: Size of the source in bytes.
    """

    kind: Literal["image", "video"]
    container: str
    codec: str
    width: int
    height: int
    coded_width: int
    coded_height: int
    rotation: int
    mirrored: bool
    pixel_format: str
    num_frames_from_header: int | None
    duration_seconds_from_header: float | None
    average_fps_from_header: float | None
    bytes: int


# Columns and rows that libavcodec adds to a picture before it compares its size with `max_pixels`. CineForm adds most:
# 64 for each eighth and up to 56 more; MPEG-4 and its relatives also compare 280 rows of any picture.
_PADDING = 640


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what a file may claim, checked before memory is allocated; more is LimitExceeded.

    Attributes:
        max_side: Columns or rows of one picture; 16384 covers 16K video.
        max_pixels: Columns times rows of one picture; 2**26 is 8192 x 8192.
        max_streams: Streams of one container.
        max_packets: Packets of one stream; 2**25 is 155 hours at 60 frames per second.
        max_packet_bytes: Bytes of one packet.
        max_header_bytes: Bytes that are read to understand a header; each frame takes 8 to 32 bytes in the header of
            an MP4 file. In other containers, a byte that is read while searching for a header counts as eight. Each
            read of a picture's header counts as at least 1024, each box of an MP4 file as 512 to 8192, each byte of a
            long name or pax header in a tar archive as 256, so that reading a header always ends.
        max_members: Members of one archive, or rows of a Parquet file with media.
        max_row_group_bytes: Bytes of media in one row group of a Parquet file, where they are compressed or encoded,
            so that the row group is read as a whole.

    Example:
        >>> Limits(max_pixels=1920 * 1080).max_side
        16384
    """

    max_side: int = 16_384
    max_pixels: int = 2**26
    max_streams: int = 64
    max_packets: int = 2**25
    max_packet_bytes: int = 2**28
    max_header_bytes: int = 2**28
    max_members: int = 2**23
    max_row_group_bytes: int = 2**30

    def __post_init__(self) -> None:
        for name in self.__slots__:
            object.__setattr__(self, name, check_integer(name, getattr(self, name), 1))

    def check_picture(self, width: int, height: int, name: str) -> None:
        """Raise LimitExceeded if a picture of this size is larger than allowed."""
        if not is_size_allowed(self, width, height):
            raise make_size_error(self, (width, height), name, "open")


DEFAULT_LIMITS = Limits()


def resolve_limits(limits: Limits | None) -> Limits:
    """Return the limits, or the defaults for None."""
    if limits is None:
        return DEFAULT_LIMITS
    if not isinstance(limits, Limits):
        raise expected("limits", "an ff.Limits or None", limits)
    return limits


def override_limits(limits: Limits, others: Limits) -> Limits:
    """Replace limits by those of the others that are not the defaults."""
    own, new, default = astuple(limits), astuple(others), astuple(DEFAULT_LIMITS)
    return Limits(*(a if b == c else b for a, b, c in zip(own, new, default, strict=True)))


def is_size_allowed(limits: Limits, width: int, height: int) -> bool:
    """Whether a picture may have this size."""
    return max(width, height) <= limits.max_side and width * height <= limits.max_pixels


def bound_padded_pixels(limits: Limits, factor: int = 1) -> int:
    """Bound the pixels of a picture within the limits, of any shape, after its decoder has padded it.

    ``factor`` is the decoder's own: `Codec.size_factor`.
    """
    longest = min(limits.max_side, limits.max_pixels)
    other = min(longest, limits.max_pixels // longest)
    padded = limits.max_pixels + _PADDING * (longest + other + 1) + _PADDING**2
    return padded * factor


def make_size_error(limits: Limits, size: tuple[int, int], name: str, stage: str) -> LimitExceeded:
    """Build the error for a picture, given as (width, height), that is larger than allowed."""
    claim = f"pictures of {size[0]}x{size[1]}"
    if max(size) > limits.max_side:
        return make_limit_error(limits, "max_side", claim, name, stage)
    option = f" (on the command line: --max-pixels {size[0] * size[1]})"
    return make_limit_error(limits, "max_pixels", claim, name, stage, option)


def make_limit_error(limits: Limits, limit: str, claim: str, name: str, stage: str, option: str = "") -> LimitExceeded:
    """Build the error for a claim beyond one of the limits.

    ``claim`` is what the file has, such as "65 streams"; ``option`` that of the command line, behind a blank.
    """
    return LimitExceeded(
        f"{name}: has {claim}, more than {limit}={getattr(limits, limit)} allows: "
        f"if you trust the file, give limits=ff.Limits({limit}=...) with a larger number{option}",
        limit=limit,
        source=name,
        stage=stage,
    )


@dataclass(frozen=True, slots=True)
class PictureFormat:
    """Format of a picture before rotation, as libav has it of a decoded frame.

    Colours are facts of the stream, not of a picture: see `StreamColors`. Width and height are those behind the codec's
    own cropping; those that are coded, as they are stored.
    """

    width: int
    height: int
    pixel_format: str
    coded_width: int
    coded_height: int


@dataclass(frozen=True, slots=True)
class StreamColors:
    """Colour tags of a stream, from the container and the codec configuration."""

    primaries: int = 2  # ITU-T H.273 code; 2 is unspecified
    transfer: int = 2  # ITU-T H.273 code of the transfer characteristic; 2 is unspecified
    space: int = 2  # ITU-T H.273 code of the matrix; 2 is unspecified
    range: int = 0  # libav's: 0 unspecified, 1 limited, 2 full

    def fill(self, other: StreamColors) -> StreamColors:
        """Replace unspecified tags by those of ``other``; as in libav, the container counts before the codec."""
        own, others, unspecified = astuple(self), astuple(other), astuple(StreamColors())
        return StreamColors(*(b if a == none else a for a, b, none in zip(own, others, unspecified, strict=True)))


MISSING_PTS = int(np.iinfo(np.int64).min)
"""No presentation time."""
KEY = 1
"""Decoding can start at the packet, as far as container, headers and, of decoded streams, the decoder tell."""
DISCARD = 2
"""The packet is decoded for others and never shown (edit lists)."""
DISPOSABLE = 4
"""No other picture refers to this packet's picture, and the packet holds nothing else."""


@dataclass(frozen=True, slots=True, eq=False)
class PacketTable:
    """The packets of one stream in decode order."""

    offset: IntArray  # byte position in the file, int64 [P]; -1 where unknown
    size: IntArray  # bytes, int64 [P]
    pts: IntArray  # in the stream's time base, int64 [P]; ``MISSING_PTS`` where unknown
    flags: npt.NDArray[np.uint8]  # ``KEY | DISCARD | DISPOSABLE``, uint8 [P]

    def __post_init__(self) -> None:
        if not self.offset.shape == self.size.shape == self.pts.shape == self.flags.shape or self.offset.ndim != 1:
            raise UsageError("a packet table needs four columns of one length")

    def __len__(self) -> int:
        return len(self.offset)

    def __repr__(self) -> str:
        return f"PacketTable({len(self)} packets)"

    @property
    def is_key(self) -> BoolArray:
        """Packets that have the flag ``KEY``, bool [P]."""
        return (self.flags & KEY).astype(np.bool_)

    @property
    def is_discarded(self) -> BoolArray:
        """Packets that have the flag ``DISCARD``, bool [P]."""
        return (self.flags & DISCARD).astype(np.bool_)

    @property
    def is_disposable(self) -> BoolArray:
        """Packets that have the flag ``DISPOSABLE``, bool [P]."""
        return (self.flags & DISPOSABLE).astype(np.bool_)

    @property
    def has_unique_times(self) -> bool:
        """Whether every packet has a pts and no two share one."""
        times = np.sort(self.pts)
        return not len(times) or (times[0] != MISSING_PTS and bool((times[1:] != times[:-1]).all()))

    def replace_flags(self, is_key: BoolArray, is_disposable: BoolArray | None = None) -> PacketTable:
        """Copy with other flags ``KEY``, and with more flags ``DISPOSABLE``; the other columns are shared.

        Both masks are bool [P].
        """
        flags = self.flags & np.uint8(DISCARD | DISPOSABLE) | is_key * np.uint8(KEY)
        if is_disposable is not None:
            flags |= is_disposable * np.uint8(DISPOSABLE)
        return PacketTable(self.offset, self.size, self.pts, flags)


@dataclass(frozen=True, slots=True)
class PacketWalk:
    """What a demuxer says of one stream."""

    packets: PacketTable  # in demuxing order
    duration: IntArray  # of each packet in ticks, int64 [P]; 0 where unknown
    # Each packet's bytes are those of the file at its offset, and one configuration serves all.
    is_contiguous: bool = False
    is_encrypted: bool = False  # some packet is encrypted
    # Distinct ones that packets carry, in the order met, at most ``MAX_PARAMETER_SETS``.
    parameter_sets: tuple[bytes, ...] = ()
    is_damaged: bool = False  # the demuxer flags some packet as damaged
    is_reconfigured: bool = False  # some packet comes with another codec configuration
    # What the NAL units of H.264 and HEVC say; None of other codecs, and where no packet was read.
    units: UnitFacts | None = field(default=None, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.packets)


@dataclass(frozen=True, slots=True)
class UnitFacts:
    """Facts of the NAL units of packets, columns of length P in demuxing order."""

    slice_kind: IntArray  # NAL unit type of the first slice, int64; -1 if there is none
    head: ByteArray  # bytes behind that slice's NAL unit header, uint8 [P, HEAD_BYTES]
    head_bytes: IntArray  # count of these bytes that are the slice's, int64
    is_start: BoolArray  # its slices, or an exact recovery point, say that decoding can start here, bool
    # Other pictures of its own temporal layer may refer to it, or leaving it out loses more, bool.
    is_reference: BoolArray
    layer: IntArray  # nal_ref_idc of an H.264 slice; HEVC's temporal sub-layer, int64
    has_sub_layers: bool  # ``layer`` is the latter
    has_unknown_messages: BoolArray  # it has messages that may change pictures, or are not one short message, bool
    has_end: BoolArray  # it has the end of a sequence or of the stream, bool
    kinds: frozenset[int]  # all NAL unit types
    is_plain: bool  # each packet is whole NAL units; those with slices hold one picture, whose slices are of one type
    fault: str  # reason why libav's parser may read the packets in its own way; empty if there is none
    parameter_sets: tuple[bytes, ...]  # distinct ones, in the order met

    @property
    def is_disposable(self) -> BoolArray:
        """Whether no other picture refers to a packet's, and it has nothing else, bool [P]."""
        if not self.has_sub_layers:
            return ~self.is_reference
        # No picture refers to one of the highest sub-layer to which its own sub-layer does not refer.
        disposable: BoolArray = ~self.is_reference & (self.layer == self.layer.max(initial=0))
        return disposable

    @property
    def has_slice(self) -> BoolArray:
        """Whether a packet has a picture, bool [P]."""
        has_slice: BoolArray = self.slice_kind >= 0
        return has_slice


HEAD_BYTES = 4096
"""First bytes of a source, by which its kind is known."""


def clamp_ns(ns: int) -> int:
    """Clamp a file's time in ns to 64 bits, 1677 to 2262: file systems have a larger range."""
    return max(-(2**63), min(ns, 2**63 - 1))


@dataclass(frozen=True, slots=True)
class SourceStat:
    """Size in bytes, and modification time in ns if there is one."""

    bytes: int
    mtime_ns: int | None = None

    @classmethod
    def of(cls, facts: os.stat_result) -> SourceStat:
        """Take size and time from what the system says of a file; the time is clamped."""
        return cls(facts.st_size, clamp_ns(facts.st_mtime_ns))


class ByteReader(Protocol):
    """Random access to the bytes of a source."""

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill ``buffer`` from byte ``offset`` on; return the number of bytes read."""
        ...

    def stat(self) -> SourceStat:
        """Size and time of the open source."""
        ...

    def close(self) -> None:
        """Release the file, if this reader opened it."""
        ...


class BytesReader:
    """Reads an encoded buffer in memory."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill ``buffer`` from byte ``offset`` on; return the number of bytes read."""
        part = self._data[offset : offset + len(buffer)]
        buffer[: len(part)] = part
        return len(part)

    def stat(self) -> SourceStat:
        """Size of the buffer."""
        return SourceStat(len(self._data))

    def close(self) -> None:
        """Nothing to release."""


def announce_reads(reader: ByteReader, make_ranges: Callable[[], Iterable[tuple[int, int]]]) -> None:
    """Say which bytes are read next, first and behind the last, so that a reader of remote ones asks for them at once.

    Those of files need not know, and ``make_ranges`` is called if it is needed.
    """
    announce = getattr(reader, "announce", None)
    if announce is not None:
        announce(make_ranges())


def count_kept_bytes(reader: ByteReader) -> int:
    """Count the bytes of the file that a reader has in memory; readers of files have none."""
    kept: int = getattr(reader, "kept_bytes", 0)
    return kept


def read_bytes(reader: ByteReader, offset: int, count: int) -> bytes:
    """Read up to ``count`` bytes at ``offset``."""
    # A file's reader gives what `read_into` would fill, without a buffer to copy from.
    if (read := getattr(reader, "read", None)) is not None:
        data: bytes = read(offset, count)
        return data
    buffer = bytearray(count)
    got = reader.read_into(memoryview(buffer), offset)
    return bytes(buffer[:got])

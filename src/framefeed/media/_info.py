"""MediaInfo, the facts that a file's headers claim; Limits on them; names of colour tags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from framefeed._checks import check_integer, expected
from framefeed.errors import LimitExceeded


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
# Dirac, and so VC-2, compares a multiple of the size.
_MULTIPLES = {"dirac": 5}


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
            read of a picture's header counts as at least 1024, each box of an MP4 file as 512 to 8192, so that reading
            a header always ends.

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

    def __post_init__(self) -> None:
        for name in self.__slots__:
            object.__setattr__(self, name, check_integer(name, getattr(self, name), 1))

    def check_picture(self, width: int, height: int, name: str) -> None:
        """Raise LimitExceeded if a picture of this size is larger than allowed."""
        if not is_size_allowed(self, width, height):
            raise make_size_error(self, (width, height), name, "open")


DEFAULT_LIMITS = Limits()


def resolve_limits(limits: Limits | None) -> Limits:
    """Return the limits, or the defaults for None.

    Raises:
        UsageError: What is given is no `Limits`.
    """
    if limits is None:
        return DEFAULT_LIMITS
    if not isinstance(limits, Limits):
        raise expected("limits", "an ff.Limits or None", limits)
    return limits


def is_size_allowed(limits: Limits, width: int, height: int) -> bool:
    """Whether a picture may have this size."""
    return max(width, height) <= limits.max_side and width * height <= limits.max_pixels


def bound_padded_pixels(limits: Limits, codec: str = "") -> int:
    """Bound the pixels of a picture within the limits, of any shape, after its decoder has padded it."""
    longest = min(limits.max_side, limits.max_pixels)
    other = min(longest, limits.max_pixels // longest)
    padded = limits.max_pixels + _PADDING * (longest + other + 1) + _PADDING**2
    return padded * _MULTIPLES.get(codec, 1)


def make_size_error(limits: Limits, size: tuple[int, int], name: str, stage: str) -> LimitExceeded:
    """Build the error for a picture, given as (width, height), that is larger than allowed."""
    claim = f"pictures of {size[0]}x{size[1]}"
    if max(size) > limits.max_side:
        return make_limit_error(limits, "max_side", claim, name, stage)
    option = f" (on the command line: --max-pixels {size[0] * size[1]})"
    return make_limit_error(limits, "max_pixels", claim, name, stage, option)


def make_limit_error(limits: Limits, limit: str, claim: str, name: str, stage: str, option: str = "") -> LimitExceeded:
    """Build the error for a claim beyond one of the limits.

    Args:
        limits: The limits.
        limit: Name of the one that is exceeded.
        claim: What the file has or claims: "65 streams".
        name: Of the source.
        stage: "open", "index" or "decode".
        option: Option of the command line that raises the limit, behind a blank; empty if there is none.
    """
    return LimitExceeded(
        f"{name}: has {claim}, more than {limit}={getattr(limits, limit)} allows: "
        f"if you trust the file, give limits=ff.Limits({limit}=...) with a larger number{option}",
        limit=limit,
        source=name,
        stage=stage,
    )


# Codes of ITU-T H.273 (07/2024), tables 2, 3 and 4; names of FFmpeg (libavutil/pixdesc.c), which its options take and
# ffprobe prints.
PRIMARIES = {
    1: "bt709", 4: "bt470m", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "film", 9: "bt2020", 10: "smpte428",
    11: "smpte431", 12: "smpte432", 22: "ebu3213",
}  # fmt: skip
TRANSFERS = {
    1: "bt709", 4: "bt470m", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "linear", 9: "log100", 10: "log316",
    11: "iec61966-2-4", 12: "bt1361e", 13: "iec61966-2-1", 14: "bt2020-10", 15: "bt2020-12", 16: "smpte2084",
    17: "smpte428", 18: "arib-std-b67",
}  # fmt: skip
MATRICES = {
    0: "gbr", 1: "bt709", 4: "fcc", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "ycgco", 9: "bt2020nc",
    10: "bt2020c", 11: "smpte2085", 12: "chroma-derived-nc", 13: "chroma-derived-c", 14: "ictcp", 15: "ipt-c2",
    16: "ycgco-re", 17: "ycgco-ro",
}  # fmt: skip

"""image_info: a still picture described, by its header's first bytes or by Pillow."""

from __future__ import annotations

import logging
from typing import IO, NamedTuple, cast

from PIL import ExifTags, Image, UnidentifiedImageError
from PIL.TiffImagePlugin import TiffImageFile

from framefeed.errors import MediaError, UnreadableMedia, UnsupportedCodec
from framefeed.media.headers.exif import upright
from framefeed.media.headers.facts import HEAD_BYTES, CountedReads, OddHeader, StillHeader
from framefeed.media.headers.picture_file import PILLOW_ERRORS, PictureFile, bomb, pillow_reads
from framefeed.media.headers.stills import still_header
from framefeed.media.headers.turns import orientation_of
from framefeed.media.headers.undecoded import undecoded_header
from framefeed.media.info import MediaInfo, shown_size
from framefeed.media.limits import Limits
from framefeed.media.sniff import beyond_pillow
from framefeed.media.source import ByteReader, MediaSource, read_bytes

FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "AVIF", "PPM")
"""Pillow's plug-ins that may look at a file; none of them starts another program (S10)."""

MODES_WITHOUT_RULE = frozenset({"I", "F", "LAB"})
"""Pillow's modes that no rule leads to RGB: nothing says what is white in 32-bit whole numbers and floats, and Pillow
does not convert L*a*b*."""
_DECODED = frozenset({*FORMATS, "MPO"})  # which Pillow's plug-in for JPEG reads

_log = logging.getLogger("framefeed.media")

_BITS = {"1": 1, "I": 32, "F": 32, "I;16": 16, "I;16B": 16, "I;16L": 16}
_COUNTED_BYTES = 2**22
"""Files of up to this many bytes have their pictures counted by Pillow, which takes its time."""


def image_info(source: MediaSource, limits: Limits) -> MediaInfo:
    """Describe a still picture from its header, by Pillow where that is an odd one.

    Raises:
        UnreadableMedia: None of the known formats, or a damaged header.
        UnsupportedCodec: HEIC, which ``probe`` reads through libav, or JPEG XL; or no rule leads from its pixels to
            RGB.
        LimitExceeded: It claims more pixels than ``limits``, or its header goes on without end.
    """
    described = describe_picture(source, limits)
    if described.problem is not None:
        raise UnsupportedCodec(described.problem, source=source.name, stage="open")
    return described.info


class Described(NamedTuple):
    """A picture whose header is sound.

    Attributes:
        info: What the header claims.
        problem: Why nothing here decodes it; None where it is decoded.
    """

    info: MediaInfo
    problem: str | None = None


def describe_picture(source: MediaSource, limits: Limits) -> Described:
    """Describe a still picture from its header, also one that nothing here decodes.

    Raises:
        UnreadableMedia: None of the known formats, or a damaged header.
        UnsupportedCodec: A format that is known, and whose header cannot be read.
        LimitExceeded: It claims more pixels than ``limits``, or its header goes on without end.
    """
    problem = None
    with source.opened() as reader:
        size = reader.stat().bytes
        head = read_bytes(reader, 0, HEAD_BYTES)
        more = CountedReads(_read, reader, limits.max_header_bytes)
        try:
            header = still_header(head, more, size)
        except OddHeader as odd:
            _log.debug("%s: left to Pillow: %s", source.name, odd)
            undecoded = undecoded_header(head, CountedReads(_read, reader, limits.max_header_bytes))
            if undecoded is not None:
                problem, header = _unsupported(undecoded[0], source.name), undecoded[1]
            elif (kind := beyond_pillow(head)) is not None:
                message = _unsupported(f"{kind} picture", source.name)
                raise UnsupportedCodec(message, source=source.name, stage="open") from None
            else:
                header = _pillow_header(reader, size, source.name, limits)
    limits.check_picture(header.width, header.height, source.name)
    if header.mode in MODES_WITHOUT_RULE:
        problem = _no_rule(header.mode, source.name)
    return Described(still_info(header, size), problem)


def without_rule(mode: str, name: str, stage: str) -> UnsupportedCodec:
    """Build the error of a picture whose pixels are of a mode that no rule leads to RGB."""
    return UnsupportedCodec(_no_rule(mode, name), source=name, stage=stage)


def _no_rule(mode: str, name: str) -> str:
    return f"{name}: pixels of kind {mode!r} cannot be converted to RGB: save it as PNG with 8 or 16 bits per channel"


def still_info(header: StillHeader, size_bytes: int) -> MediaInfo:
    """Describe a still picture whose header was read.

    Args:
        header: What ``still_header`` gave.
        size_bytes: Bytes of the file.
    """
    rotation, mirrored = orientation_of(header.orientation)
    width, height = shown_size(header.width, header.height, rotation)
    return MediaInfo(
        kind="image",
        container=header.container,
        codec=header.codec,
        width=width,
        height=height,
        coded_width=header.width,
        coded_height=header.height,
        rotation=rotation,
        mirrored=mirrored,
        pixel_format=header.mode,
        num_frames_from_header=header.num_frames or None,
        duration_seconds_from_header=None,
        average_fps_from_header=None,
        bytes=size_bytes,
    )


def check_decodable(info: MediaInfo, name: str) -> None:
    """Raise UnsupportedCodec for a picture that ``probe`` describes and no backend decodes: HEIC."""
    if info.kind == "image" and info.container.upper() not in _DECODED:
        raise UnsupportedCodec(_unsupported("HEIC picture", name), source=name, stage="open")


def _unsupported(kind: str, name: str) -> str:
    return f"{name}: is a {kind}, which framefeed cannot decode: convert it to JPEG, PNG or AVIF"


def _read(reader: ByteReader, count: int, offset: int) -> bytes:
    return read_bytes(reader, offset, count)


def _pillow_header(reader: ByteReader, size: int, source_name: str, limits: Limits) -> StillHeader:
    file = PictureFile(reader, size, source_name, limits)
    with (
        pillow_reads(file, lambda error: _translated(error, source_name)),
        Image.open(cast("IO[bytes]", file), formats=FORMATS) as image,
    ):
        width, height = image.size
        limits.check_picture(width, height, source_name)
        orientation = _pillow_orientation(image, source_name)
        if isinstance(image, TiffImageFile) and image.tag_v2.get(ExifTags.Base.Orientation) in (5, 6, 7, 8):
            width, height = height, width  # Pillow gives the size of a TIFF as displayed
        name = str(image.format).lower()
        # A walk through a large animation, or through a ring of pages, has no bounds of its own: 0 is "not counted".
        is_counted = name not in ("gif", "tiff") or size <= _COUNTED_BYTES
        num_frames = int(getattr(image, "n_frames", 1)) if is_counted else 0
        codec = "mjpeg" if name in ("jpeg", "mpo") else name
        bit_depth = _BITS.get(image.mode, 8)
        return StillHeader(name, codec, width, height, image.mode, bit_depth, orientation, num_frames, num_frames > 1)


def _pillow_orientation(image: Image.Image, name: str) -> int:
    if image.format == "PNG" and "exif" not in image.info:
        image.load()  # it may lie behind the pixels, which must be whole then
    try:
        return upright(int(image.getexif().get(ExifTags.Base.Orientation, 1)))
    except PILLOW_ERRORS as error:
        _log.debug("%s: damaged EXIF, taken as upright: %s", name, error)
        return 1


def _translated(error: BaseException, name: str) -> MediaError:
    if isinstance(error, Image.DecompressionBombError):
        return bomb(error, name, "open")
    # Pillow's own words for this one are those of a file object.
    what = "Pillow does not recognise it" if isinstance(error, UnidentifiedImageError) else error
    return UnreadableMedia(f"{name}: damaged picture header: {what}", source=name, stage="open")

"""image_info: a still picture described, by its header's first bytes or by Pillow.

A picture as Pillow reads it: counted, stopped from outside, and with the errors of reads kept.

Still pictures, decoded: the border to Pillow. Strict: a picture comes whole, or an error does.

Suppress Pillow's warnings about unusual files while any thread reads one.
"""

from __future__ import annotations

import logging
import os
import struct
import threading
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, NamedTuple, cast

from PIL import ExifTags, Image, ImageFile, UnidentifiedImageError
from PIL.TiffImagePlugin import TiffImageFile

from framefeed.errors import (
    CorruptMedia,
    FramefeedError,
    LimitExceeded,
    MediaError,
    UnreadableMedia,
    UnsupportedCodec,
    UsageError,
)
from framefeed.media._info import DEFAULT_LIMITS, Limits, MediaInfo, shown_size
from framefeed.media._sniff import HEAD_BYTES, name_undecoded_format
from framefeed.media._source import ByteReader, BytesReader, MediaSource, read_bytes
from framefeed.media.headers._exif import check_orientation, orientation_of
from framefeed.media.headers._reach import LEAST_READ_BYTES, PICTURE_HEAD_BYTES, CountedReads, OddHeader, StillHeader
from framefeed.media.headers._still import still_header
from framefeed.media.headers._undecoded import read_undecoded_header
from framefeed.parallel import check_stop, renew_after_fork, shortage_in


class Quiet:
    """Suppress Pillow's warnings, so that they cannot become errors, while any thread is within the block.

    ``warnings.catch_warnings`` would put back, at the end of one thread's block, what another thread is still using.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._filters: list[Any] = []
        self._own: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                warnings.filterwarnings("ignore", module=r"PIL\.")
                self._filters = cast("list[Any]", warnings.filters)
                self._own = self._filters[0]

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._take_back()

    def begin_anew(self) -> None:
        """Forget who was within the block: in a forked process they are not."""
        if self._depth:
            self._take_back()
        self._begin()

    def _take_back(self) -> None:
        # A catch_warnings elsewhere may have put another list in the place of that one, or a copy.
        for filters in (self._filters, cast("list[Any]", warnings.filters)):
            if self._own in filters:
                filters.remove(self._own)


QUIET = Quiet()
"""The one of this process."""
renew_after_fork(QUIET)


PILLOW_ERRORS = (
    OSError,  # also UnidentifiedImageError
    SyntaxError,
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    ArithmeticError,
    RuntimeError,
    AssertionError,
    AttributeError,
    struct.error,
    zlib.error,
)
"""What Pillow's readers raise over damaged files."""
_FREE_READS = 128
_READS_PER_STOP = 64
"""Of a picture in memory, whose reads take no time."""
_WINDOW_BYTES = 2**13
"""Read at once, for Pillow reads by bytes."""
# IMAGING_CODEC_MEMORY of Pillow, -9 in ImageFile.ERRORS and as libtiff's: its decoders raise no MemoryError.
_NO_MEMORY = ("out of memory error", "decoder error -9")


class PictureFile:
    """A source as Pillow reads it, from its start.

    What a read raises is kept: Pillow takes some of it for damage, and passes over some.

    Args:
        reader: The source.
        size: Its bytes.
        name: For messages.
        limits: ``max_header_bytes`` bounds what is read.
        whole: All bytes, where they are in memory: then only how often something is read counts, which is for pixels.
    """

    def __init__(self, reader: ByteReader, size: int, name: str, limits: Limits, whole: bytes | None = None) -> None:
        self._reader = reader
        self._size = size
        self._name = name
        self._most = limits.max_header_bytes
        self._left = self._most + _FREE_READS * LEAST_READ_BYTES
        self._counts_bytes = whole is None
        self._at = self._start = 0
        self._window = whole or b""
        self._error: BaseException | None = None
        self._num_reads = 0

    def read(self, count: int | None = -1) -> bytes:
        """Read on, up to the end without a count."""
        if self._error is not None:
            raise self._error
        left = max(0, self._size - self._at)
        try:
            return self._read(left if count is None or count < 0 else min(count, left))
        except BaseException as error:
            self._error = error
            raise

    def _read(self, count: int) -> bytes:
        self._num_reads += 1
        if self._counts_bytes or self._num_reads % _READS_PER_STOP == 1:
            check_stop()
        self._left -= max(count if self._counts_bytes else 0, LEAST_READ_BYTES)
        if self._left < 0:
            raise LimitExceeded(
                f"{self._name}: its header goes on for more bytes than max_header_bytes allows ({self._most}): it may "
                "be damaged; if you trust the file, give limits=ff.Limits(max_header_bytes=...) with a larger number",
                limit="max_header_bytes",
                source=self._name,
                stage="open",
            )
        begin = self._at - self._start
        if begin < 0 or begin + count > len(self._window):
            self._window = read_bytes(self._reader, self._at, max(count, min(_WINDOW_BYTES, self._size - self._at)))
            self._start, begin = self._at, 0
        data = self._window[begin : begin + count]
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the position."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if offset + start < 0:
            raise ValueError(f"a position of {offset + start}")
        self._at = offset + start
        return self._at

    def tell(self) -> int:
        """Give the position."""
        return self._at

    def raise_error(self) -> None:
        """Raise what a read raised."""
        error, self._error = self._error, None
        if error is not None:
            raise error


@contextmanager
def pillow_errors(file: PictureFile, translate: Callable[[BaseException], MediaError]) -> Iterator[None]:
    """Turn what Pillow raises over damaged pictures into framefeed's errors.

    What a read raised comes out as it is, and so does a shortage of the machine, whatever Pillow makes of them.

    Args:
        file: What it reads.
        translate: Builds the error.
    """
    try:
        with QUIET:  # Pillow warns of large or odd pictures: our limits decide.
            yield
    except FramefeedError:
        file.raise_error()
        raise
    except (Image.DecompressionBombError, *PILLOW_ERRORS) as error:
        file.raise_error()
        if str(error).startswith(_NO_MEMORY):
            raise MemoryError(str(error)) from error
        if shortage_in(error) is not None:
            raise
        raise translate(error) from error
    file.raise_error()


def make_bomb_error(error: Image.DecompressionBombError, name: str, stage: str) -> LimitExceeded:
    """Build the error for a picture that is beyond the bound which Pillow has for the whole program."""
    return LimitExceeded(
        f"{name}: {error}: if you trust the file, set PIL.Image.MAX_IMAGE_PIXELS and "
        "limits=ff.Limits(max_pixels=...) to larger numbers",
        limit="max_pixels",
        source=name,
        stage=stage,
    )


PILLOW_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "AVIF", "PPM")
"""Pillow's plug-ins that may look at a file; none of them starts another program (S10)."""

MODES_WITHOUT_RULE = frozenset({"I", "F", "LAB"})
"""Pillow's modes that no rule leads to RGB: nothing says what is white in 32-bit whole numbers and floats, and Pillow
does not convert L*a*b*."""
_DECODED = frozenset({*PILLOW_FORMATS, "MPO"})  # which Pillow's plug-in for JPEG reads

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


class PictureDescription(NamedTuple):
    """A picture whose header is sound.

    Attributes:
        info: What the header claims.
        problem: Why nothing here decodes it; None where it is decoded.
    """

    info: MediaInfo
    problem: str | None = None


def describe_picture(source: MediaSource, limits: Limits) -> PictureDescription:
    """Describe a still picture from its header, also one that nothing here decodes.

    Raises:
        UnreadableMedia: None of the known formats, or a damaged header.
        UnsupportedCodec: A format that is known, and whose header cannot be read.
        LimitExceeded: It claims more pixels than ``limits``, or its header goes on without end.
    """
    problem = None
    with source.opened() as reader:
        size = reader.stat().bytes
        head = read_bytes(reader, 0, PICTURE_HEAD_BYTES)
        more = CountedReads(_read_at, reader, limits.max_header_bytes)
        try:
            header = still_header(head, more, size)
        except OddHeader as odd:
            _log.debug("%s: left to Pillow: %s", source.name, odd)
            undecoded = read_undecoded_header(head, CountedReads(_read_at, reader, limits.max_header_bytes))
            if undecoded is not None:
                problem, header = _explain_format(undecoded[0], source.name), undecoded[1]
            elif (kind := name_undecoded_format(head)) is not None:
                message = _explain_format(f"{kind} picture", source.name)
                raise UnsupportedCodec(message, source=source.name, stage="open") from None
            else:
                header = _read_header(reader, size, source.name, limits)
    limits.check_picture(header.width, header.height, source.name)
    if header.mode in MODES_WITHOUT_RULE:
        problem = _explain_mode(header.mode, source.name)
    return PictureDescription(describe_header(header, size), problem)


def without_rule(mode: str, name: str, stage: str) -> UnsupportedCodec:
    """Build the error of a picture whose pixels are of a mode that no rule leads to RGB."""
    return UnsupportedCodec(_explain_mode(mode, name), source=name, stage=stage)


def _explain_mode(mode: str, name: str) -> str:
    return f"{name}: pixels of kind {mode!r} cannot be converted to RGB: save it as PNG with 8 or 16 bits per channel"


def describe_header(header: StillHeader, size_bytes: int) -> MediaInfo:
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
        raise UnsupportedCodec(_explain_format("HEIC picture", name), source=name, stage="open")


def _explain_format(kind: str, name: str) -> str:
    return f"{name}: is a {kind}, which framefeed cannot decode: convert it to JPEG, PNG or AVIF"


def _read_at(reader: ByteReader, count: int, offset: int) -> bytes:
    return read_bytes(reader, offset, count)


def _read_header(reader: ByteReader, size: int, source_name: str, limits: Limits) -> StillHeader:
    file = PictureFile(reader, size, source_name, limits)
    with (
        pillow_errors(file, lambda error: _make_header_error(error, source_name)),
        Image.open(cast("IO[bytes]", file), formats=PILLOW_FORMATS) as image,
    ):
        width, height = image.size
        limits.check_picture(width, height, source_name)
        orientation = _read_orientation(image, source_name)
        if isinstance(image, TiffImageFile) and image.tag_v2.get(ExifTags.Base.Orientation) in (5, 6, 7, 8):
            width, height = height, width  # Pillow gives the size of a TIFF as displayed
        name = str(image.format).lower()
        # A walk through a large animation, or through a ring of pages, has no bounds of its own: 0 is "not counted".
        is_counted = name not in ("gif", "tiff") or size <= _COUNTED_BYTES
        num_frames = int(getattr(image, "n_frames", 1)) if is_counted else 0
        codec = "mjpeg" if name in ("jpeg", "mpo") else name
        bit_depth = _BITS.get(image.mode, 8)
        return StillHeader(name, codec, width, height, image.mode, bit_depth, orientation, num_frames, num_frames > 1)


def _read_orientation(image: Image.Image, name: str) -> int:
    if image.format == "PNG" and "exif" not in image.info:
        image.load()  # it may lie behind the pixels, which must be whole then
    try:
        return check_orientation(int(image.getexif().get(ExifTags.Base.Orientation, 1)))
    except PILLOW_ERRORS as error:
        _log.debug("%s: damaged EXIF, taken as upright: %s", name, error)
        return 1


def _make_header_error(error: BaseException, name: str) -> MediaError:
    if isinstance(error, Image.DecompressionBombError):
        return make_bomb_error(error, name, "open")
    # Pillow's own words for this one are those of a file object.
    what = "Pillow does not recognise it" if isinstance(error, UnidentifiedImageError) else error
    return UnreadableMedia(f"{name}: damaged picture header: {what}", source=name, stage="open")


_TURNS = {90: Image.Transpose.ROTATE_90, 180: Image.Transpose.ROTATE_180, 270: Image.Transpose.ROTATE_270}
_TILE_SIZE = (322, 323)  # TIFF 6.0 section 15: TileWidth, TileLength


def decode_still(data: bytes, name: str, limits: Limits) -> Image.Image:
    """Decode a picture, and turn it upright as EXIF asks for; of an animation, the first.

    Damage that the format's own library corrects in silence, as libjpeg does with flipped bits, is not seen.

    Args:
        data: The whole file.
        name: For messages.
        limits: What it may claim.

    Raises:
        CorruptMedia: It is damaged or cut short.
        UnsupportedCodec: A format that Pillow does not read here.
        LimitExceeded: It claims more pixels than ``limits``, and nothing was allocated; or its parts go on without end.
        UsageError: Pillow was told to fill what is missing with grey.
    """
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise UsageError(
            "PIL.ImageFile.LOAD_TRUNCATED_IMAGES is True in this program, so Pillow replaces missing parts of pictures "
            "with grey: set it to False; to skip broken pictures, use on_error='skip'"
        )
    file = PictureFile(BytesReader(data), len(data), name, limits, data)
    with (
        pillow_errors(file, lambda error: _make_picture_error(error, data, name)),
        Image.open(cast("IO[bytes]", file), formats=PILLOW_FORMATS) as image,
    ):
        limits.check_picture(*image.size, name)
        if isinstance(image, TiffImageFile):
            # libtiff allocates whole tiles, which may be larger than the picture, and than the limits of a small one.
            wide, high = (int(image.tag_v2.get(tag, 1)) for tag in _TILE_SIZE)
            DEFAULT_LIMITS.check_picture(wide, high, name)
        image.load()
        # Only now is the tag right: reading a TIFF turns it, and takes the tag away.
        return _turn_upright(image)


def _turn_upright(image: Image.Image) -> Image.Image:
    try:
        rotation, mirrored = orientation_of(int(image.getexif().get(ExifTags.Base.Orientation, 1)))
    except PILLOW_ERRORS:
        return image  # a broken tag turns nothing
    turned = image.transpose(_TURNS[rotation]) if rotation else image
    return turned.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if mirrored else turned


def _make_picture_error(error: BaseException, data: bytes, name: str) -> MediaError:
    if isinstance(error, Image.DecompressionBombError):
        return make_bomb_error(error, name, "decode")
    if isinstance(error, UnidentifiedImageError):
        return _unidentified(data, name)
    reason = str(error) or type(error).__name__
    return CorruptMedia(f"{name}: the picture is damaged or cut short: {reason}", source=name, stage="decode")


def _unidentified(data: bytes, name: str) -> MediaError:
    other = name_undecoded_format(data[:HEAD_BYTES])
    if other is None:
        message = f"{name}: is not a picture that Pillow can read here ({', '.join(PILLOW_FORMATS)}), or its header is damaged"
        return CorruptMedia(message, source=name, stage="decode")
    message = f"{name}: is a {other} picture, which framefeed cannot decode: convert it to JPEG, PNG or AVIF"
    return UnsupportedCodec(message, source=name, stage="decode")

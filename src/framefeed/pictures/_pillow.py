"""Describe and decode still pictures by Pillow: with bounded reads, without its warnings, with framefeed's errors."""

from __future__ import annotations

import logging
import os
import struct
import threading
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from typing import IO, Any, Protocol, cast

import PIL
from PIL import ExifTags, Image, ImageFile, UnidentifiedImageError
from PIL.TiffImagePlugin import TiffImageFile

from framefeed._per_process import PerProcess
from framefeed._shortage import find_shortage
from framefeed._stopping import check_stop
from framefeed._values import (
    DEFAULT_LIMITS,
    HEAD_BYTES,
    ByteReader,
    BytesReader,
    Limits,
    MediaInfo,
    read_bytes,
    rotate_size,
)
from framefeed.errors import (
    CorruptMedia,
    FramefeedError,
    LimitExceeded,
    MediaError,
    UnreadableMedia,
    UnsupportedCodec,
    UsageError,
)
from framefeed.pictures._damage import find_damage
from framefeed.pictures._exif import check_orientation, convert_exif_orientation, find_xmp_orientation
from framefeed.pictures._plug_ins import find_left_orientation, find_plug_in, read_own_header, register_plug_in
from framefeed.pictures._reads import LEAST_READ_BYTES, PICTURE_HEAD_BYTES, CountedReads, OddHeader, StillHeader
from framefeed.pictures._still import read_still_header
from framefeed.pictures._undecoded import is_avif, name_undecoded_format, read_undecoded_jpeg


class Quiet:
    """Suppress Pillow's warnings, so that they cannot become errors, while any thread is within the block.

    ``warnings.catch_warnings`` would restore the filters at the end of one thread's block, while others still need it.
    """

    def __init__(self) -> None:
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
                self._remove_filter()

    def begin_in_child(self) -> Quiet:
        """Begin in a forked child, in which the threads that were within the block do not exist."""
        if self._depth:
            self._remove_filter()
        return Quiet()

    def _remove_filter(self) -> None:
        # A catch_warnings elsewhere may have replaced the list by another one, or by a copy.
        for filters in (self._filters, cast("list[Any]", warnings.filters)):
            if self._own in filters:
                filters.remove(self._own)


QUIET = PerProcess(Quiet, Quiet.begin_in_child)
"""The instance of this process."""


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
"""Exceptions of Pillow's readers for damaged files."""
_FREE_READS = 128
_READS_PER_STOP = 64
"""Reads of a picture in memory between two checks for a stop."""
_WINDOW_BYTES = 2**13
"""Bytes read at once: Pillow's own reads may be of one byte."""
# IMAGING_CODEC_MEMORY of Pillow, -9 in ImageFile.ERRORS and as libtiff's: its decoders raise no MemoryError.
_NO_MEMORY = ("out of memory error", "decoder error -9")


class PictureFile:
    """File object for Pillow, with bounded reads and checks for a stop.

    An exception of a read is kept: Pillow takes some exceptions for damage, and ignores some.

    Args:
        limits: ``max_header_bytes`` bounds the bytes read.
        whole: All bytes, if they are in memory: each read then counts the same, however long it is.
    """

    def __init__(self, reader: ByteReader, size: int, name: str, limits: Limits, whole: bytes | None = None) -> None:
        self._reader = reader
        self._size = size
        self._name = name
        self._most = limits.max_header_bytes
        self._left = self._most + _FREE_READS * LEAST_READ_BYTES
        self._counts_bytes = whole is None
        self._offset = self._start = 0
        self._window = whole or b""
        self._error: BaseException | None = None
        self._num_reads = 0

    def read(self, count: int | None = -1) -> bytes:
        """Read the next ``count`` bytes, or all up to the end."""
        if self._error is not None:
            raise self._error
        left = max(0, self._size - self._offset)
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
        begin = self._offset - self._start
        if begin < 0 or begin + count > len(self._window):
            window_bytes = max(count, min(_WINDOW_BYTES, self._size - self._offset))
            self._window = read_bytes(self._reader, self._offset, window_bytes)
            self._start, begin = self._offset, 0
        data = self._window[begin : begin + count]
        self._offset += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the position."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._offset, os.SEEK_END: self._size}[whence]
        if offset + start < 0:
            raise ValueError(f"a position of {offset + start}")
        self._offset = offset + start
        return self._offset

    def tell(self) -> int:
        """Give the position."""
        return self._offset

    def raise_error(self) -> None:
        """Raise the exception of a read, if there is one."""
        error, self._error = self._error, None
        if error is not None:
            raise error


@contextmanager
def pillow_errors(file: PictureFile, translate: Callable[[BaseException], MediaError]) -> Iterator[None]:
    """Turn Pillow's exceptions for damaged pictures into framefeed's errors.

    Exceptions of reads and shortages of the machine are raised unchanged, also if Pillow hides them.
    """
    try:
        with QUIET.value:  # Pillow warns of large or odd pictures: our limits decide.
            yield
    except FramefeedError:
        file.raise_error()
        raise
    except (Image.DecompressionBombError, *PILLOW_ERRORS) as error:
        file.raise_error()
        if str(error).startswith(_NO_MEMORY):
            raise MemoryError(str(error)) from error
        if find_shortage(error) is not None:
            raise
        raise translate(error) from error
    file.raise_error()


def make_bomb_error(error: Image.DecompressionBombError, name: str, stage: str) -> LimitExceeded:
    """Build the error for a picture that is larger than Pillow's own bound, which holds for the whole program."""
    return LimitExceeded(
        f"{name}: {error}: if you trust the file, set PIL.Image.MAX_IMAGE_PIXELS and "
        "limits=ff.Limits(max_pixels=...) to larger numbers",
        limit="max_pixels",
        source=name,
        stage=stage,
    )


HAS_AVIF = find_spec("PIL._avif") is not None
"""Whether Pillow reads AVIF; Pillow 11.2 may have the plug-in without the library behind it."""
PILLOW_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", *(("AVIF",) if HAS_AVIF else ()), "PPM")
"""Pillow's plug-ins that may read a file; none of them starts another program (S10)."""

UNCONVERTIBLE_MODES = frozenset({"I", "F", "LAB"})
"""Pillow's modes without a rule for conversion to RGB: white is not defined for 32-bit integers and floats, and Pillow
does not convert L*a*b*."""

_log = logging.getLogger("framefeed.media")

_COUNTED_BYTES = 2**22
"""Pictures of a GIF are counted in files of up to this many bytes: Pillow reads the whole file for it."""
_MOST_PAGES = 2**16
"""Pages of a TIFF with more are not counted."""


class OpenSource(Protocol):
    """A source of bytes that can be opened; `MediaSource` is one."""

    @property
    def name(self) -> str:
        """Printable name for messages."""
        ...

    def opened(self) -> AbstractContextManager[ByteReader]:
        """Open the source; the block's end closes it."""
        ...


def probe_image(source: OpenSource, limits: Limits) -> MediaInfo:
    """Describe a still picture from its header, as `describe_picture`, if framefeed can decode it."""
    info, problem = describe_picture(source, limits)
    if problem is not None:
        raise UnsupportedCodec(problem, source=source.name, stage="open")
    return info


def describe_picture(source: OpenSource, limits: Limits) -> tuple[MediaInfo, str | None]:
    """Describe a still picture from its header, also one that framefeed cannot decode.

    Returns:
        What the header claims; and why framefeed cannot decode it, None if it can.
    """
    problem = None
    with source.opened() as reader:
        size = reader.stat().bytes
        head = read_bytes(reader, 0, PICTURE_HEAD_BYTES)
        more = CountedReads(_read_at, reader, limits.max_header_bytes)
        try:
            header = read_still_header(head, more, size)
        except OddHeader as odd:
            _log.debug("%s: left to Pillow: %s", source.name, odd)
            undecoded = read_undecoded_jpeg(head, CountedReads(_read_at, reader, limits.max_header_bytes))
            if undecoded is not None:
                problem, header = _explain_format(undecoded[0], source.name), undecoded[1]
            elif (plug_in := find_plug_in(head)) is not None:
                formats = (register_plug_in(plug_in, source.name, "open"),)
                more = CountedReads(_read_at, reader, limits.max_header_bytes)
                own = read_own_header(plug_in, head, more, source.name, "open")
                header = own or _read_header(reader, size, source.name, limits, formats)
            elif (message := _explain_undecoded(head, source.name)) is not None:
                raise UnsupportedCodec(message, source=source.name, stage="open") from None
            else:
                header = _read_header(reader, size, source.name, limits)
    limits.check_picture(header.width, header.height, source.name)
    if header.mode in UNCONVERTIBLE_MODES:
        problem = _explain_mode(header.mode, source.name)
    return describe_header(header, size), problem


def make_mode_error(mode: str, name: str, stage: str) -> UnsupportedCodec:
    """Build the error for a picture of a mode without a rule for conversion to RGB."""
    return UnsupportedCodec(_explain_mode(mode, name), source=name, stage=stage)


def _explain_mode(mode: str, name: str) -> str:
    return f"{name}: pixels of kind {mode!r} cannot be converted to RGB: save it as PNG with 8 or 16 bits per channel"


def describe_header(header: StillHeader, size_bytes: int) -> MediaInfo:
    """Describe a still picture whose header was read."""
    rotation, mirrored = convert_exif_orientation(header.orientation)
    width, height = rotate_size(header.width, header.height, rotation)
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


def _explain_format(kind: str, name: str) -> str:
    return f"{name}: is a {kind}, which framefeed cannot decode: convert it to JPEG, PNG or AVIF"


def _explain_undecoded(head: bytes, name: str) -> str | None:
    if not HAS_AVIF and is_avif(head):
        return f"{name}: is an AVIF picture, which Pillow {PIL.__version__} cannot decode: install pillow>=11.3"
    kind = name_undecoded_format(head)
    return None if kind is None else _explain_format(f"{kind} picture", name)


def _read_at(reader: ByteReader, count: int, offset: int) -> bytes:
    return read_bytes(reader, offset, count)


def _read_header(
    reader: ByteReader, size: int, source_name: str, limits: Limits, formats: tuple[str, ...] = PILLOW_FORMATS
) -> StillHeader:
    file = PictureFile(reader, size, source_name, limits)
    with (
        pillow_errors(file, lambda error: _make_header_error(error, source_name)),
        Image.open(cast("IO[bytes]", file), formats=formats) as image,
    ):
        width, height = image.size
        if isinstance(image, TiffImageFile):  # of which some versions of Pillow give the size as displayed
            width, height = int(image.tag_v2[ExifTags.Base.ImageWidth]), int(image.tag_v2[ExifTags.Base.ImageLength])
        limits.check_picture(width, height, source_name)
        if image.format == "PNG" and "exif" not in image.info:
            image.load()  # EXIF may be behind the pixels, which must be whole then
        try:
            tag = _find_missed_orientation(image) or int(image.getexif().get(_ORIENTATION, 1))
        except PILLOW_ERRORS as error:
            _log.debug("%s: damaged EXIF, taken as upright: %s", source_name, error)
            tag = 1
        name = str(image.format).lower()
        if name == "tiff":
            num_frames = _count_pages(file, size)
        elif name == "gif" and size > _COUNTED_BYTES:
            num_frames = 0  # not counted
        else:
            num_frames = int(getattr(image, "n_frames", 1))
        codec = "mjpeg" if name in ("jpeg", "mpo") else name
        return StillHeader(name, codec, width, height, image.mode, check_orientation(tag), num_frames)


def _count_pages(file: PictureFile, size: int) -> int:
    """Count the directories of a TIFF, of a ring each once; Pillow would read all of their values to do so."""

    def read_number(offset: int, letter: str) -> int:
        file.seek(offset)
        number: int = struct.unpack(order + letter, file.read(struct.calcsize(order + letter)))[0]
        return number

    file.seek(0)
    start = file.read(4)
    order = "<" if start.startswith(b"II") else ">"
    is_big = 43 in start  # BigTIFF
    offset_letter, count_letter, count_bytes, entry_bytes = ("Q", "Q", 8, 20) if is_big else ("I", "H", 2, 12)
    seen = set[int]()
    directory = read_number(8 if is_big else 4, offset_letter)
    while directory and directory not in seen:
        seen.add(directory)
        if len(seen) > _MOST_PAGES:
            return 0
        end = directory + count_bytes + entry_bytes * read_number(directory, count_letter)
        if len(seen) == 1 and end + struct.calcsize(order + offset_letter) > size:
            break  # Pillow has read this directory, although the file ends in it or without the next one's offset.
        directory = read_number(end, offset_letter)
    return len(seen)


def _find_missed_orientation(image: Image.Image) -> int | None:
    """Find the orientation in XMP if this version of Pillow does not."""
    part = image.info.get("xmp")
    if _READS_XMP or not isinstance(part, bytes):
        return None
    try:
        return None if _ORIENTATION in image.getexif() else find_xmp_orientation(part)
    except PILLOW_ERRORS:
        return None  # a damaged tag counts as upright


def _make_header_error(error: BaseException, name: str) -> MediaError:
    if isinstance(error, Image.DecompressionBombError):
        return make_bomb_error(error, name, "open")
    # Pillow's own message names the file object.
    what = "Pillow does not recognise it" if isinstance(error, UnidentifiedImageError) else error
    return UnreadableMedia(f"{name}: damaged picture header: {what}", source=name, stage="open")


_ORIENTATION = ExifTags.Base.Orientation
_READS_XMP = int(PIL.__version__.split(".")[0]) >= 11
"""Whether Pillow looks for the orientation in XMP; before 11.0, it does so in PNG alone."""
_TURNS = {90: Image.Transpose.ROTATE_90, 180: Image.Transpose.ROTATE_180, 270: Image.Transpose.ROTATE_270}
_TILE_SIZE = (322, 323)  # TIFF 6.0 section 15: TileWidth, TileLength


def decode_still(
    data: bytes, name: str, limits: Limits, reduction: int = 1, *, accepts_damage: bool = False
) -> Image.Image:
    """Decode a picture, or the first of an animation, and apply its EXIF orientation.

    ``reduction``: 1, 2, 4 or 8, by which height and width of a JPEG are divided; other formats ignore it.
    ``accepts_damage``: return also what Pillow makes of a picture in which `find_damage` finds damage.

    Raises:
        LimitExceeded: It claims more pixels than ``limits``, and nothing was allocated; or its parts go on without end.
        UsageError: Pillow is set to fill missing parts with grey.
    """
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise UsageError(
            "PIL.ImageFile.LOAD_TRUNCATED_IMAGES is True in this program, so Pillow replaces missing parts of pictures "
            "with grey: set it to False; to skip broken pictures, use on_error='skip'"
        )
    formats, own = PILLOW_FORMATS, None
    if (plug_in := find_plug_in(data[:HEAD_BYTES])) is not None:
        formats = (register_plug_in(plug_in, name, "decode"),)
        own = read_own_header(plug_in, data, lambda *_: b"", name, "decode")
    if own is not None:
        limits.check_picture(own.width, own.height, name)
    image = _decode_upright(data, name, limits, reduction, formats, own)
    if not accepts_damage and (damage := find_damage(data)) is not None:
        raise CorruptMedia(f"{name}: the picture is damaged: {damage}", source=name, stage="decode")
    return image


def _decode_upright(
    data: bytes, name: str, limits: Limits, reduction: int, formats: tuple[str, ...], own: StillHeader | None
) -> Image.Image:
    file = PictureFile(BytesReader(data), len(data), name, limits, data)
    with (
        pillow_errors(file, lambda error: _make_picture_error(error, data, name)),
        Image.open(cast("IO[bytes]", file), formats=formats) as image,
    ):
        limits.check_picture(*image.size, name)
        if isinstance(image, TiffImageFile):
            # libtiff allocates whole tiles, which may be larger than the picture, and than user limits for it.
            wide, high = (int(image.tag_v2.get(tag, 1)) for tag in _TILE_SIZE)
            DEFAULT_LIMITS.check_picture(wide, high, name)
        missed = _find_missed_orientation(image) if own is None else find_left_orientation(image, own)
        if reduction > 1:
            # The largest of 1/1, 1/2, 1/4 and 1/8 that is at least this size.
            image.draft(None, (max(1, image.width // reduction), max(1, image.height // reduction)))
        image.load()
        # After loading: Pillow applies the orientation of a TIFF itself, and removes the tag.
        try:
            rotation, mirrored = convert_exif_orientation(missed or int(image.getexif().get(_ORIENTATION, 1)))
        except PILLOW_ERRORS:
            return image  # a damaged tag counts as upright
        turned = image.transpose(_TURNS[rotation]) if rotation else image
        return turned.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if mirrored else turned


def _make_picture_error(error: BaseException, data: bytes, name: str) -> MediaError:
    if isinstance(error, Image.DecompressionBombError):
        return make_bomb_error(error, name, "decode")
    is_unknown, head = isinstance(error, UnidentifiedImageError), data[:HEAD_BYTES]
    if is_unknown and find_plug_in(head) is None:
        if (reason := _explain_undecoded(head, name)) is not None:
            return UnsupportedCodec(reason, source=name, stage="decode")
        formats = ", ".join(PILLOW_FORMATS)
        message = f"{name}: is not a picture that Pillow can read here ({formats}), or its header is damaged"
        return CorruptMedia(message, source=name, stage="decode")
    # Pillow's message for an unknown file names the file object; the rest of a plug-in's is about building it.
    reason = "its header" if is_unknown else str(error).partition("\n")[0].strip() or type(error).__name__
    return CorruptMedia(f"{name}: the picture is damaged or cut short: {reason}", source=name, stage="decode")

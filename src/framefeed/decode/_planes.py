"""PlaneLayout: pixel format, size and colour properties of a decoded picture, as values and as text.

From the decoder's picture to a flat run of bytes, and back.

Find the location of a picture's chroma samples, which PyAV does not give.

libav's decoder of raw video: it makes a picture of bytes where they lie, with the properties that it is told.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import numpy as np
from av import CodecContext, VideoCodecContext
from av.packet import Packet
from av.video.format import VideoFormat
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter

from framefeed._checks import expected
from framefeed.decode._convert import plane_view
from framefeed.decode._decoder import Pixels
from framefeed.errors import UsageError
from framefeed.media import DEFAULT_LIMITS, FOREIGN
from framefeed.plan import OutputSpec

RGB_PLANAR = "rgbp"
"""Pixel format of an output uint8 [3, H, W], red, green, blue: no format of libav, whose gbrp has another order."""

CHROMA_LOCATIONS = ("unspecified", "left", "center", "topleft", "top", "bottomleft", "bottom")
"""libav's names by AVChromaLocation, which are ITU-T H.273's ChromaLocType plus one."""

_RANGES = 3
_FORMATS = re.compile(
    r"(yuv[aj]?4\d\dp|gbra?p|gray)(9|10|12|14|16)?(le|be)?|nv(12|16|21|24|42)|p[024]1[026](le|be)|ya(8|16(le|be))|"
    r"rgb24|bgr24|rgba|bgra|argb|abgr|0rgb|rgb0|bgr0|0bgr|(rgb|bgr)48(le|be)|(rgba|bgra)64(le|be)|pal8|mono[wb]|"
    r"y[uv]y[uv]422|uyvy422"
)
"""Pixel formats of libav that are known to be converted: of others swscale refuses some, and does not survive a few."""
_MATRICES = frozenset({0, 1, 2, 4, 5, 6, 7, 9})
"""Codes of ITU-T H.273 that swscale converts from."""
_SCAN = {"p": False, "i": True}


@dataclass(frozen=True, slots=True)
class PlaneLayout:
    """Properties from which a decoded picture can be rebuilt, together with the bytes of its planes.

    Example:
        >>> PlaneLayout("yuv420p", 1280, 720, color_space=1).text
        'yuv420p 1280x720 1 0 p 0'

    Attributes:
        pixel_format: libav's name, or ``RGB_PLANAR``.
        width: Columns.
        height: Rows.
        color_space: ITU-T H.273 code of the matrix; 2 is unspecified.
        color_range: libav's: 0 unspecified, 1 limited, 2 full.
        interlaced: Whether odd and even rows were recorded at two times.
        chroma_location: Location of chroma samples, an index into ``CHROMA_LOCATIONS``.
    """

    pixel_format: str
    width: int
    height: int
    color_space: int = 2
    color_range: int = 0
    interlaced: bool = False
    chroma_location: int = 0

    def __post_init__(self) -> None:
        _check_size(self.width, self.height)
        if not geometry(self.pixel_format, self.width, self.height):
            raise expected("pixel_format", "an FFmpeg pixel format that is stored in memory", self.pixel_format)
        if not (0 <= self.color_space < 256 and 0 <= self.color_range < _RANGES):
            raise UsageError(
                f"expected color_space 0 to 255 and color_range 0 to {_RANGES - 1}, got {self.color_space} and "
                f"{self.color_range}"
            )
        if not 0 <= self.chroma_location < len(CHROMA_LOCATIONS):
            raise expected("chroma_location", f"0 to {len(CHROMA_LOCATIONS) - 1}", self.chroma_location)

    @property
    def planes(self) -> tuple[tuple[int, int], ...]:
        """(rows, bytes of a row) of each plane, in order."""
        return geometry(self.pixel_format, self.width, self.height)

    @property
    def nbytes(self) -> int:
        """Bytes of all planes."""
        return sum(rows * row_bytes for rows, row_bytes in self.planes)

    @property
    def is_convertible(self) -> bool:
        """Whether swscale is known to convert such pictures safely."""
        return self.color_space in _MATRICES and _FORMATS.fullmatch(self.pixel_format) is not None

    @property
    def is_settled(self) -> bool:
        """Whether conversion reads only samples of the planes, so that equal planes give equal pixels.

        It is False for two kinds: of some interlaced pictures swscale reads one row of chroma too many in the lower
        field, and of a Bayer pattern with an odd number of rows or columns it reads beyond the last sample.
        """
        return _is_settled(self.pixel_format, self.width, self.height, self.interlaced)

    @property
    def text(self) -> str:
        """The layout as one line of text for ``parse``."""
        scan = "i" if self.interlaced else "p"
        numbers = f"{self.color_space} {self.color_range} {scan} {self.chroma_location}"
        return f"{self.pixel_format} {self.width}x{self.height} {numbers}"

    @staticmethod
    def parse(text: str) -> PlaneLayout:
        """Read a layout from its ``text``.

        Raises:
            UsageError: The text is not a layout, its pixel format is unknown, or its picture exceeds the limits.
        """
        return _parsed(text)


def output_layout(output: OutputSpec, height: int, width: int) -> PlaneLayout:
    """Give the layout of an output picture, for a source that is displayed at height x width."""
    planar = output.dimension_order == "NCHW"
    shape = output.shape(height, width)
    rows, columns = shape[1:] if planar else shape[:2]
    return PlaneLayout(RGB_PLANAR if planar else "rgb24", columns, rows)


def _check_size(width: int, height: int) -> None:
    limits = DEFAULT_LIMITS
    if not (0 < width <= limits.max_side and 0 < height <= limits.max_side) or width * height > limits.max_pixels:
        raise UsageError(
            f"expected a picture with sides of 1 to {limits.max_side} and at most {limits.max_pixels} pixels, got "
            f"{width}x{height}"
        )


@lru_cache(maxsize=1024)
def geometry(pixel_format: str, width: int, height: int) -> tuple[tuple[int, int], ...]:
    """Give (rows, bytes of a row) of each plane; empty for an unknown format, or one that is not stored in memory."""
    if pixel_format == RGB_PLANAR:
        return ((height, width),) * 3
    try:
        form = VideoFormat(pixel_format, width, height)
    except ValueError:
        return ()
    if form.name != pixel_format:  # another name of the same format
        return ()
    if form.has_palette:
        return ((height, width), (1, 1024))
    parts = form.components
    planes = []
    for number in range(max((part.plane for part in parts), default=-1) + 1):
        of_plane = [part for part in parts if part.plane == number]
        columns = of_plane[0].width
        bits = sum(-(-part.bits // 8) * 8 for part in of_plane)
        if all(part.plane == 0 for part in parts):
            bits = form.padded_bits_per_pixel
            # Packed chroma that several columns share is whole for the last of them too.
            shared = next(count for count in (4, 2, 1) if form.chroma_width(count) == 1)
            columns = -(-columns // shared) * shared
        planes.append((of_plane[0].height, -(-columns * bits // 8)))
    return tuple(planes)


@lru_cache(maxsize=1024)
def _is_settled(pixel_format: str, width: int, height: int, interlaced: bool) -> bool:
    if pixel_format == RGB_PLANAR:
        return True
    form = VideoFormat(pixel_format, width, height)
    if form.is_bayer:
        return not (width % 2 or height % 2)
    return not interlaced or form.chroma_height(height // 2) <= form.chroma_height() // 2


@lru_cache(maxsize=1024)
def _parsed(text: str) -> PlaneLayout:
    try:
        pixel_format, size, color_space, color_range, scan, location = text.split(" ")
        width, height = size.split("x")
        layout = PlaneLayout(
            pixel_format, int(width), int(height), int(color_space), int(color_range), _SCAN[scan], int(location)
        )
    except (ValueError, KeyError) as error:
        raise UsageError(f"expected the text of a PlaneLayout, got {text[:80]!r}: {error}") from error
    if layout.text != text:
        raise UsageError(f"expected the text of a PlaneLayout such as {layout.text!r}, got {text[:80]!r}")
    return layout


def raw_video(layout: PlaneLayout) -> VideoCodecContext:
    """Make a decoder whose every packet is the planes of one picture, in the order of the layout."""
    context = CodecContext.create("rawvideo", "r")
    assert isinstance(context, VideoCodecContext)
    context.width, context.height, context.pix_fmt = layout.width, layout.height, layout.pixel_format
    context.colorspace, context.color_range = layout.color_space, layout.color_range
    context.thread_count, context.thread_type = 1, "NONE"
    context.options = {"chroma_sample_location": CHROMA_LOCATIONS[layout.chroma_location]}
    if layout.interlaced:
        context.options["top"] = "1"
    if layout.pixel_format == "pal8":
        # NUT's name for it: the palette lies behind the picture (libavcodec/rawdec.c, is_nut_pal8).
        context.codec_tag = "PAL\x08"
    return context


class LocationProbe:
    """Find the location of chroma samples by a conversion with swscale. Each thread needs its own probe.

    A resized copy of the picture has the same chroma location. Its samples are replaced by a pattern that swscale
    converts to different colours for each location. Locations with the same colours count as one.
    """

    _SIZES = (16, 20)

    def __init__(self) -> None:
        self._shrink = VideoReformatter()
        self._read = VideoReformatter()
        self._known: dict[tuple[int, bool, bytes], int] = {}

    def find(self, frame: VideoFrame) -> int:
        """Give the index into ``CHROMA_LOCATIONS``; 0 if the location makes no difference.

        Raises:
            UsageError: The location is none of ``CHROMA_LOCATIONS``.
        """
        if not _is_subsampled(frame.format.name):
            return 0
        # A picture of the very size and format would be given back itself, and be overwritten.
        side = self._SIZES[frame.width == self._SIZES[0]]
        try:
            small = self._shrink.reformat(frame, side, side, "yuv420p", 1, 1, Interpolation.POINT, 1, 1, threads=1)
        except FOREIGN:
            return 0  # swscale does not read this format: there will be no conversion either
        reading = self._reading(small)
        key = (side, small.interlaced_frame, reading)
        if key not in self._known:
            self._known.update(self._readings(side, small.interlaced_frame))
        try:
            return self._known[key]
        except KeyError:
            raise UsageError(f"the chroma samples of {frame} have a location that FFmpeg does not name") from None

    def _readings(self, side: int, interlaced: bool) -> dict[tuple[int, bool, bytes], int]:
        found: dict[tuple[int, bool, bytes], int] = {}
        for location in range(len(CHROMA_LOCATIONS)):
            layout = PlaneLayout("yuv420p", side, side, interlaced=interlaced, chroma_location=location)
            (frame,) = raw_video(layout).decode(Packet(layout.nbytes))
            frame.make_writable()
            found.setdefault((side, interlaced, self._reading(frame)), location)
        return found

    def _reading(self, frame: VideoFrame) -> bytes:
        for number, plane in enumerate(frame.planes):
            view = plane_view(plane, plane.width)
            view[:] = _pattern(*view.shape) if number else 128
        half = frame.width // 2
        colours = self._read.reformat(frame, half, half, "gbrp", 1, 1, Interpolation.BILINEAR, 1, 1, threads=1)
        return b"".join(plane_view(plane, colours.width).tobytes() for plane in colours.planes)


@lru_cache(maxsize=256)
def _is_subsampled(pixel_format: str) -> bool:
    form = VideoFormat(pixel_format)
    return form.chroma_width(4) < 4 or form.chroma_height(4) < 4


@lru_cache(maxsize=8)
def _pattern(height: int, width: int) -> Pixels:
    """Steps of both directions, uint8 [height, width]."""
    rows, columns = np.mgrid[:height, :width]
    pattern: Pixels = (16 + (rows * 37 + columns * 91) % 220).astype(np.uint8)
    return pattern


_MAX_CONTEXTS = 8
_ALIGNMENT = 64
_READ_IN_PLACE = frozenset(
    {"yuv420p", "yuvj420p", "yuv422p", "yuvj422p", "yuv444p", "yuvj444p", "yuv420p10le", "gray", "gbrp", "rgb24"}
)
"""Formats that swscale reads where they lie, if rows are whole multiples of the alignment and memory begins at one: it
then touches no byte beyond them (tests/decode/guarded.py). Others are copied into memory with room behind each row."""


def layout_of(frame: VideoFrame) -> PlaneLayout:
    """Describe a decoded picture.

    Raises:
        UsageError: It has no planes in memory, or is larger than the limits.
    """
    return PlaneLayout(
        pixel_format=frame.format.name,
        width=frame.width,
        height=frame.height,
        color_space=int(frame.colorspace),
        color_range=int(frame.color_range),
        interlaced=frame.interlaced_frame,
        chroma_location=_tools.location.find(frame),
    )


def copy_planes(frame: VideoFrame, out: Pixels) -> None:
    """Copy the planes of a decoded picture, without padding, one after the other.

    Args:
        frame: The picture.
        out: uint8 [nbytes] of its layout, contiguous; wholly overwritten.

    Raises:
        UsageError: ``out`` is of another size.
    """
    planes = geometry(frame.format.name, frame.width, frame.height)
    _check_bytes(out, sum(rows * row_bytes for rows, row_bytes in planes))
    start = 0
    for (rows, row_bytes), plane in zip(planes, frame.planes, strict=True):
        stop = start + rows * row_bytes
        view = plane_view(plane, row_bytes)
        target = out[start:stop].reshape(rows, row_bytes)
        target[:, : view.shape[1]] = view
        # Packed chroma that the last columns share: a decoder may not have a whole sample for them.
        target[:, view.shape[1] :] = 0
        start = stop


def picture_of(layout: PlaneLayout, data: Pixels) -> VideoFrame:
    """Rebuild the decoder's picture.

    Args:
        layout: Of the planes.
        data: uint8 [nbytes], contiguous. The picture may be a view of it: it stays as it is until the picture is gone.

    Raises:
        UsageError: ``data`` is of another size, or the layout is of an output that no decoder gave.
    """
    _check_bytes(data, layout.nbytes)
    if layout.pixel_format == RGB_PLANAR:
        raise UsageError(f"layout: expected the layout of a decoded picture, got that of output pixels, {layout.text}")
    packet = Packet(cast("bytes", data))  # any buffer will do; the stub names bytes only
    (frame,) = _tools.wrapper(layout).decode(packet)
    if not _is_read_in_place(layout, data):
        # Copies, for the packet holds the memory too.
        frame.make_writable()
    return frame


def _is_read_in_place(layout: PlaneLayout, data: Pixels) -> bool:
    if layout.pixel_format not in _READ_IN_PLACE or data.ctypes.data % _ALIGNMENT:
        return False
    return all(row_bytes % _ALIGNMENT == 0 for _, row_bytes in layout.planes)


def _check_bytes(data: Pixels, nbytes: int) -> None:
    if data.dtype != np.uint8 or data.shape != (nbytes,) or not data.flags.c_contiguous:
        raise UsageError(f"expected contiguous uint8 [{nbytes}] for the planes, got {data.dtype} {list(data.shape)}")


class _Tools(threading.local):
    """What one thread keeps."""

    def __init__(self) -> None:
        self.location = LocationProbe()
        self._wrappers: OrderedDict[PlaneLayout, VideoCodecContext] = OrderedDict()

    def wrapper(self, layout: PlaneLayout) -> VideoCodecContext:
        """A decoder of raw video."""
        context = self._wrappers.pop(layout, None) or raw_video(layout)
        self._wrappers[layout] = context
        if len(self._wrappers) > _MAX_CONTEXTS:
            self._wrappers.popitem(last=False)
        return context


_tools = _Tools()

"""PlaneLayout: properties of a decoded picture. Copy a picture to flat bytes, and rebuild it from them.

PyAV does not give the location of chroma samples, so it is measured. Pictures are rebuilt by libav's decoder of raw
video, which does not copy the bytes.
"""

from __future__ import annotations

import re
import threading
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
from framefeed._lru import Lru
from framefeed._values import DEFAULT_LIMITS
from framefeed.decode._convert import view_plane
from framefeed.decode._decoder import Pixels
from framefeed.errors import UsageError
from framefeed.media import LIBAV_EXCEPTIONS
from framefeed.request import OutputSpec

# Pixel format of an output uint8 [3, H, W], red, green, blue. libav has no such format: its gbrp has another order.
RGB_PLANAR = "rgbp"
# libav's names by AVChromaLocation, which is ITU-T H.273's ChromaLocType plus one.
CHROMA_LOCATIONS = ("unspecified", "left", "center", "topleft", "top", "bottomleft", "bottom")

_NUM_RANGES = 3
# Pixel formats that swscale is known to convert: it refuses some others, and crashes on a few.
_FORMATS = re.compile(
    r"(yuv[aj]?4\d\dp|gbra?p|gray)(9|10|12|14|16)?(le|be)?|nv(12|16|21|24|42)|p[024]1[026](le|be)|ya(8|16(le|be))|"
    r"rgb24|bgr24|rgba|bgra|argb|abgr|0rgb|rgb0|bgr0|0bgr|(rgb|bgr)48(le|be)|(rgba|bgra)64(le|be)|pal8|mono[wb]|"
    r"y[uv]y[uv]422|uyvy422"
)
# Matrix codes of ITU-T H.273 that swscale converts from.
_MATRICES = frozenset({0, 1, 2, 4, 5, 6, 7, 9})
_IS_INTERLACED = {"p": False, "i": True}
_MAX_CONTEXTS = 8
_ALIGNMENT = 64
# swscale reads these formats without a copy if rows are multiples of the alignment and memory begins at one: it then
# touches no byte beyond them (tests/decode/guarded.py). Others are copied to memory with room after each row.
_READ_IN_PLACE = frozenset(
    {"yuv420p", "yuvj420p", "yuv422p", "yuvj422p", "yuv444p", "yuvj444p", "yuv420p10le", "gray", "gbrp", "rgb24"}
)


@dataclass(frozen=True, slots=True)
class PlaneLayout:
    """Properties from which a decoded picture can be rebuilt, together with the bytes of its planes.

    Example:
        >>> PlaneLayout("yuv420p", 1280, 720, color_space=1).text
        'yuv420p 1280x720 1 0 p 0'
    """

    pixel_format: str  # libav's name, or RGB_PLANAR
    width: int
    height: int
    color_space: int = 2  # ITU-T H.273 code of the matrix; 2 is unspecified
    color_range: int = 0  # libav's: 0 unspecified, 1 limited, 2 full
    interlaced: bool = False  # odd and even rows were recorded at two times
    chroma_location: int = 0  # an index into CHROMA_LOCATIONS

    def __post_init__(self) -> None:
        limits = DEFAULT_LIMITS
        is_inside = 0 < self.width <= limits.max_side and 0 < self.height <= limits.max_side
        if not is_inside or self.width * self.height > limits.max_pixels:
            raise UsageError(
                f"expected a picture with sides of 1 to {limits.max_side} and at most {limits.max_pixels} pixels, got "
                f"{self.width}x{self.height}"
            )
        if not measure_planes(self.pixel_format, self.width, self.height):
            raise expected("pixel_format", "an FFmpeg pixel format that is stored in memory", self.pixel_format)
        if not (0 <= self.color_space < 256 and 0 <= self.color_range < _NUM_RANGES):
            raise UsageError(
                f"expected color_space 0 to 255 and color_range 0 to {_NUM_RANGES - 1}, got {self.color_space} and "
                f"{self.color_range}"
            )
        if not 0 <= self.chroma_location < len(CHROMA_LOCATIONS):
            raise expected("chroma_location", f"0 to {len(CHROMA_LOCATIONS) - 1}", self.chroma_location)

    @property
    def planes(self) -> tuple[tuple[int, int], ...]:
        """(rows, bytes of a row) of each plane, in order."""
        return measure_planes(self.pixel_format, self.width, self.height)

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

        It is False for two kinds of pictures: in the lower field of some interlaced pictures swscale reads one row of
        chroma too many, and in a Bayer pattern with an odd number of rows or columns it reads beyond the last sample.
        """
        return _is_settled(self.pixel_format, self.width, self.height, self.interlaced)

    @property
    def text(self) -> str:
        """The layout as one line of text for ``parse``."""
        scan = "i" if self.interlaced else "p"
        numbers = f"{self.color_space} {self.color_range} {scan} {self.chroma_location}"
        return f"{self.pixel_format} {self.width}x{self.height} {numbers}"

    @staticmethod
    @lru_cache(maxsize=1024)
    def parse(text: str) -> PlaneLayout:
        """Read a layout from its ``text``; UsageError if it is none, or exceeds the limits."""
        try:
            pixel_format, size, color_space, color_range, scan, location = text.split(" ")
            width, height = size.split("x")
            layout = PlaneLayout(
                pixel_format,
                int(width),
                int(height),
                int(color_space),
                int(color_range),
                _IS_INTERLACED[scan],
                int(location),
            )
        except (ValueError, KeyError) as error:
            raise UsageError(f"expected the text of a PlaneLayout, got {text[:80]!r}: {error}") from error
        if layout.text != text:
            raise UsageError(f"expected the text of a PlaneLayout such as {layout.text!r}, got {text[:80]!r}")
        return layout


def make_output_layout(output: OutputSpec, height: int, width: int) -> PlaneLayout:
    """Make the layout of an output picture, for a source that is displayed at height x width."""
    planar = output.dimension_order == "NCHW"
    shape = output.shape(height, width)
    rows, columns = shape[1:] if planar else shape[:2]
    return PlaneLayout(RGB_PLANAR if planar else "rgb24", columns, rows)


@lru_cache(maxsize=1024)
def measure_planes(pixel_format: str, width: int, height: int) -> tuple[tuple[int, int], ...]:
    """List (rows, bytes of a row) of each plane; empty if the format is unknown or is not stored in memory."""
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
        components = [part for part in parts if part.plane == number]
        columns = components[0].width
        bits = sum(-(-part.bits // 8) * 8 for part in components)
        if all(part.plane == 0 for part in parts):
            bits = form.padded_bits_per_pixel
            # The last columns have a whole sample of shared packed chroma, even if they are fewer than share one.
            shared = next(count for count in (4, 2, 1) if form.chroma_width(count) == 1)
            columns = -(-columns // shared) * shared
        planes.append((components[0].height, -(-columns * bits // 8)))
    return tuple(planes)


@lru_cache(maxsize=1024)
def _is_settled(pixel_format: str, width: int, height: int, interlaced: bool) -> bool:
    if pixel_format == RGB_PLANAR:
        return True
    form = VideoFormat(pixel_format, width, height)
    if form.is_bayer:
        return not (width % 2 or height % 2)
    return not interlaced or form.chroma_height(height // 2) <= form.chroma_height() // 2


def make_raw_video_decoder(layout: PlaneLayout) -> VideoCodecContext:
    """Make a decoder of packets that are the planes of one picture each, in the order of the layout."""
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


class ChromaLocationProbe:
    """Measures the location of chroma samples by a conversion with swscale. Each thread needs its own probe.

    A resized copy of the picture has the same chroma location. Its samples are replaced by a pattern that swscale
    converts to different colours for each location. Locations with the same colours count as one.
    """

    _SIDES = (16, 20)

    def __init__(self) -> None:
        self._shrinker = VideoReformatter()
        self._converter = VideoReformatter()
        self._locations: dict[tuple[int, bool, bytes], int] = {}

    def find(self, frame: VideoFrame) -> int:
        """Find the index into ``CHROMA_LOCATIONS``; 0 if the location makes no difference."""
        if not _is_subsampled(frame.format.name):
            return 0
        # A picture that has this size and format already would not be copied, but overwritten.
        side = self._SIDES[frame.width == self._SIDES[0]]
        try:
            small = self._shrinker.reformat(frame, side, side, "yuv420p", 1, 1, Interpolation.POINT, 1, 1, threads=1)
        except LIBAV_EXCEPTIONS:
            return 0  # swscale does not convert this format, so the location makes no difference
        key = (side, small.interlaced_frame, self._convert_pattern(small))
        if key not in self._locations:
            for location in range(len(CHROMA_LOCATIONS)):
                layout = PlaneLayout("yuv420p", side, side, interlaced=small.interlaced_frame, chroma_location=location)
                (pattern,) = make_raw_video_decoder(layout).decode(Packet(layout.nbytes))
                pattern.make_writable()
                self._locations.setdefault((*key[:2], self._convert_pattern(pattern)), location)
        try:
            return self._locations[key]
        except KeyError:
            raise UsageError(f"the chroma samples of {frame} have a location that FFmpeg does not name") from None

    def _convert_pattern(self, frame: VideoFrame) -> bytes:
        for number, plane in enumerate(frame.planes):
            view = view_plane(plane, plane.width)
            view[:] = _make_pattern(*view.shape) if number else 128
        half = frame.width // 2
        colours = self._converter.reformat(frame, half, half, "gbrp", 1, 1, Interpolation.BILINEAR, 1, 1, threads=1)
        return b"".join(view_plane(plane, colours.width).tobytes() for plane in colours.planes)


@lru_cache(maxsize=256)
def _is_subsampled(pixel_format: str) -> bool:
    form = VideoFormat(pixel_format)
    return form.chroma_width(4) < 4 or form.chroma_height(4) < 4


@lru_cache(maxsize=8)
def _make_pattern(height: int, width: int) -> Pixels:
    """Steps of both directions, uint8 [height, width]."""
    rows, columns = np.mgrid[:height, :width]
    pattern: Pixels = (16 + (rows * 37 + columns * 91) % 220).astype(np.uint8)
    return pattern


def describe_layout(frame: VideoFrame) -> PlaneLayout:
    """Describe a decoded picture; UsageError if it has no planes in memory, or is larger than the limits."""
    return PlaneLayout(
        pixel_format=frame.format.name,
        width=frame.width,
        height=frame.height,
        color_space=int(frame.colorspace),
        color_range=int(frame.color_range),
        interlaced=frame.interlaced_frame,
        chroma_location=_local.chroma_location.find(frame),
    )


def copy_planes(frame: VideoFrame, out: Pixels) -> None:
    """Copy the planes of a decoded picture, without padding, one after the other, to uint8 [nbytes] of its layout."""
    planes = measure_planes(frame.format.name, frame.width, frame.height)
    _check_bytes(out, sum(rows * row_bytes for rows, row_bytes in planes))
    start = 0
    for (rows, row_bytes), plane in zip(planes, frame.planes, strict=True):
        stop = start + rows * row_bytes
        view = view_plane(plane, row_bytes)
        target = out[start:stop].reshape(rows, row_bytes)
        target[:, : view.shape[1]] = view
        # The last sample of shared packed chroma may be cut off in the decoder's picture.
        target[:, view.shape[1] :] = 0
        start = stop


def rebuild_picture(layout: PlaneLayout, data: Pixels) -> VideoFrame:
    """Rebuild the decoder's picture from uint8 [nbytes], contiguous.

    The picture may be a view of ``data``: do not change it while the picture is used.
    """
    _check_bytes(data, layout.nbytes)
    if layout.pixel_format == RGB_PLANAR:
        raise UsageError(f"layout: expected the layout of a decoded picture, got that of output pixels, {layout.text}")
    packet = Packet(cast("bytes", data))  # PyAV takes any buffer; its stub names bytes only
    decoder = _local.decoders.get(layout)
    if decoder is None:
        decoder = make_raw_video_decoder(layout)
        _local.decoders.put(layout, decoder)
    (frame,) = decoder.decode(packet)
    is_read_in_place = layout.pixel_format in _READ_IN_PLACE and not data.ctypes.data % _ALIGNMENT
    if not is_read_in_place or any(row_bytes % _ALIGNMENT for _, row_bytes in layout.planes):
        # This copies, because the packet holds the memory too.
        frame.make_writable()
    return frame


def _check_bytes(data: Pixels, nbytes: int) -> None:
    if data.dtype != np.uint8 or data.shape != (nbytes,) or not data.flags.c_contiguous:
        raise UsageError(f"expected contiguous uint8 [{nbytes}] for the planes, got {data.dtype} {list(data.shape)}")


class _ThreadState(threading.local):
    """State of one thread."""

    def __init__(self) -> None:
        self.chroma_location = ChromaLocationProbe()
        self.decoders = Lru[PlaneLayout, VideoCodecContext](_MAX_CONTEXTS)


_local = _ThreadState()

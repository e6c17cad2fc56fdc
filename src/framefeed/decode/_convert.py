"""Convert a decoded picture to RGB in the caller's memory, by one recipe with a version.

Recipe ``rgb/1``:
    - Not resized: swscale to rgb24 with bilinear flags and nothing else, the pixels of PyAV's own conversion and, of
      8 bits, of TorchCodec's on x86 (verified against TorchCodec's reference frames).
    - Resized: one swscale pass to planar RGB (gbrp) with bilinear flags. It is closer to an antialiased resize of
      full-chroma RGB than the pass to rgb24, and faster, and its planes are channel-first already.
    - Resized by ``filter="bicubic"``: from the pixels that are delivered without a resize, by swscale's cubic filter
      with a = -0.5, as torch's and Pillow's (docs/pixels.md has the figures). One pass from YUV is far from theirs.
    - The stream's matrix and range are honoured; where it names none, swscale's default: BT.601, limited range.
    - Crop, then resize, then turn: a turn by a quarter and a resize commute.

Recipe ``rgb/1 accurate``, for pictures that are encoded again: the same through planar RGB with accurate rounding and
interpolated chroma. By ``rgb/1``, pictures that are not resized are up to 1 too dark.
"""

from __future__ import annotations

import platform
from typing import Any, NoReturn

import av
import numpy as np
from av.filter import Graph
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter

from framefeed._lru import Lru
from framefeed._shortage import find_shortage
from framefeed.decode._decoder import Pixels
from framefeed.decode._reduction import fit_to_proxy
from framefeed.errors import FormatChanged, UnsupportedCodec, UsageError
from framefeed.index import StreamFacts
from framefeed.media import LIBAV_EXCEPTIONS
from framefeed.request import Box, OutputSpec

RECIPE = "rgb/1"
_FLAGS = Interpolation.BILINEAR
_ACCURATE_FLAGS = Interpolation.BILINEAR | Interpolation.ACCURATE_RND
# swscale scales RGB as YUV: without the flags of chroma it leaves out half of the colours where the width is halved.
# PyAV's reformatter sets no parameters: B = 0 and C = 0.5 of Mitchell and Netravali's cubics are a = -0.5.
_CUBIC_OPTIONS = "flags=bicubic+accurate_rnd+full_chroma_int+full_chroma_inp:param0=0:param1=0.5"
_MAX_GRAPHS = 4
# Formats of which swscale converts a part to the same pixels as within the whole picture.
_EXACTLY_CROPPED_FORMATS = frozenset({"yuv420p", "yuvj420p", "yuv422p", "yuvj422p"})
# Formats that swscale 9.5 converts to planes directly, with the pixels of its conversion to rgb24. For some widths it
# leaves the last columns unwritten.
_DIRECTLY_SPLIT_FORMATS = frozenset({*_EXACTLY_CROPPED_FORMATS, "yuva420p"})
# PyAV allocates rows of a multiple of so many pixels: those of other widths have padding.
_ALIGNED_WIDTH = 16
# The fastest of 16 to 128 for turned pictures of 270 to 2160 rows.
_ROWS_COPIED = 64
# Rows or columns; more than share a chroma sample in any format.
_PROBE_SIDE = 64
# The colour planes of gbrp in the order of red, green and blue.
_GBRP_PLANES = (2, 0, 1)
# Processors on which the conversion to planes is verified against the conversion to rgb24.
_IS_PROVEN_PROCESSOR = platform.machine() in {"x86_64", "AMD64"}


def describe_conversion(*, is_accurate: bool = False) -> str:
    """Name all that decides the pixels of a conversion: this recipe, the library's version and the processor."""
    numbers = ".".join(map(str, av.library_versions["libswscale"]))
    return f"{RECIPE}{' accurate' if is_accurate else ''}, libswscale {numbers} on {platform.machine()}"


class Converter:
    """Converts decoded pictures to RGB. It keeps swscale's set-up between calls: each thread needs its own."""

    def __init__(self, *, is_accurate: bool = False) -> None:
        self._is_accurate = is_accurate
        self._flags = _ACCURATE_FLAGS if is_accurate else _FLAGS
        self._scaler = VideoReformatter()
        self._packer = VideoReformatter()
        self._splitter = VideoReformatter()
        self._graphs = Lru[tuple[int, ...], Graph](_MAX_GRAPHS)

    def write(self, frame: VideoFrame, stream: StreamFacts, output: OutputSpec, out: Pixels) -> None:
        """Convert one picture, as stored, to ``out``, uint8 [3, H, W] or [H, W, 3].

        A picture of another size than the stream's is accepted only if ``output`` has a size and no crop.

        Raises:
            FormatChanged: The picture's size is not the stream's.
            UnsupportedCodec: swscale does not convert pictures of this format.
        """
        output = fit_to_proxy(output, stream)
        if (frame.width, frame.height) != (stream.width, stream.height) and (output.crop or not output.size):
            height, width = stream.displayed
            raise FormatChanged(
                f"the picture size changes mid-stream from {stream.width}x{stream.height} to "
                f"{frame.width}x{frame.height}: give size=(height, width) without crop to resize all to one size "
                f"(on the command line: --size HEIGHTxWIDTH, such as --size {height}x{width}); for map_video, which "
                "takes no size, convert the file to one size first"
            )
        target = out if output.dimension_order == "NCHW" else out.transpose(2, 0, 1)
        # In the orientation of the stored picture, so that writing the view turns the picture.
        target = target[:, :, ::-1] if stream.mirrored else target
        target = np.rot90(target, -(stream.rotation // 90), axes=(1, 2)) if stream.rotation else target
        box = (0, 0, frame.height, frame.width) if output.crop is None else _turn_to_stored_box(output.crop, stream)
        if box[0] + box[2] > frame.height or box[1] + box[3] > frame.width:
            raise UsageError(
                f"crop: expected a box inside the picture, {frame.height} rows x {frame.width} columns as stored, got "
                f"(top, left, height, width) {box}"
            )
        rows, columns = target.shape[1:]
        if output.size is None and (rows, columns) != box[2:]:
            raise UsageError(
                f"out: expected memory for {box[2]} rows x {box[3]} columns as stored, got {rows} x {columns}"
            )
        try:
            if (rows, columns) == box[2:]:
                self._write_unscaled(frame, box, target, output)
                return
            if output.filter == "bicubic":
                small = self._resize_by_cubic(frame, box, rows, columns)
            else:
                part = frame if output.crop is None else self._crop(frame, box)
                small = self._scaler.reformat(part, columns, rows, "gbrp", interpolation=self._flags, threads=1)
            _copy_colours(small, target)
        except LIBAV_EXCEPTIONS as error:
            _raise_unsupported(frame, error)

    def convert(self, frame: VideoFrame, stream: StreamFacts, output: OutputSpec) -> Pixels | None:
        """Convert one picture to memory that swscale allocates, uint8 [H, W, 3]: the pixels of ``write``, not copied.

        None where only ``write`` makes them as ``output`` asks.
        """
        is_as_stored = (frame.width, frame.height) == (stream.width, stream.height) and not (
            stream.rotation or stream.mirrored or output.size or output.crop or stream.is_proxy
        )
        if self._is_accurate or not is_as_stored or output.dimension_order != "NHWC" or frame.width % _ALIGNED_WIDTH:
            return None
        if frame.format.name == "rgb24":  # not converted: the decoder may still refer to this memory
            return None
        try:
            rgb = self._to_packed_rgb(frame)
        except LIBAV_EXCEPTIONS as error:
            _raise_unsupported(frame, error)
        if rgb.planes[0].line_size != 3 * frame.width:
            return None
        return view_plane(rgb.planes[0], 3 * frame.width).reshape(frame.height, frame.width, 3)

    def _write_unscaled(self, frame: VideoFrame, box: Box, target: Pixels, output: OutputSpec) -> None:
        if not self._is_accurate and _can_crop_exactly(frame, box):
            frame, box = _crop_planes(frame, box), (0, 0, *box[2:])
        # Accurate rgb24 takes swscale five times as long as planes.
        if self._is_accurate or (output.dimension_order == "NCHW" and _can_split_directly(frame)):
            _copy_colours(self._to_planar_rgb(frame), target, *box[:2])
            return
        top, left, rows, columns = box
        rgb = self._to_packed_rgb(frame)
        whole = view_plane(rgb.planes[0], 3 * frame.width).reshape(frame.height, frame.width, 3)
        part = whole[top : top + rows, left : left + columns].transpose(2, 0, 1)
        if target.strides[::2] == (1, 3):
            target[:] = part  # as whole rows
        else:
            # At once, NumPy would copy turned packed pixels three bytes at a time, which takes two to seven times as
            # long; and the lines of memory of few rows stay in the processor's cache.
            for first in range(0, rows, _ROWS_COPIED):
                for channel in range(3):
                    target[channel, first : first + _ROWS_COPIED] = part[channel, first : first + _ROWS_COPIED]

    def _resize_by_cubic(self, frame: VideoFrame, box: Box, rows: int, columns: int) -> VideoFrame:
        """Resize the pixels that ``_write_unscaled`` writes to planar RGB."""
        if not self._is_accurate and _can_crop_exactly(frame, box):
            frame, box = _crop_planes(frame, box), (0, 0, *box[2:])
        rgb = self._to_packed_rgb(self._to_planar_rgb(frame) if self._is_accurate else frame)
        key = box[2], box[3], rows, columns
        # One that failed is not used again: a picture may have stayed in it.
        graph = self._graphs.pop(key) or _make_cubic_graph(*key)
        # The view has no tags: swscale refuses some of them, and resizes the fields of an interlaced picture apart.
        graph.vpush(_view_part(rgb, box))
        small = graph.vpull()
        self._graphs.put(key, graph)
        return small

    def _crop(self, frame: VideoFrame, box: Box) -> VideoFrame:
        if box == (0, 0, frame.height, frame.width):
            return frame
        if frame.format.name == "rgb24":
            return _view_part(frame, box)
        if not _is_between_samples(frame, box):
            # The crop would split a chroma sample: crop full-chroma RGB instead.
            frame = self._to_planar_rgb(self._to_packed_rgb(frame) if _has_unwritten_columns(frame) else frame)
        return _crop_planes(frame, box)

    def _to_packed_rgb(self, frame: VideoFrame) -> VideoFrame:
        return self._packer.reformat(frame, frame.width, frame.height, "rgb24", interpolation=self._flags, threads=1)

    def _to_planar_rgb(self, frame: VideoFrame) -> VideoFrame:
        return self._splitter.reformat(frame, frame.width, frame.height, "gbrp", interpolation=self._flags, threads=1)


def _raise_unsupported(frame: VideoFrame, error: Exception) -> NoReturn:
    if find_shortage(error) is not None:
        raise error
    raise UnsupportedCodec(
        f"pictures of {frame.width}x{frame.height} in pixel format {frame.format.name} cannot be converted to "
        f"RGB: {error}: convert the file to a common pixel format such as yuv420p"
    ) from error


def _make_cubic_graph(height: int, width: int, rows: int, columns: int) -> Graph:
    """Make a graph that resizes rgb24 of height x width to gbrp of rows x columns."""
    graph = Graph()
    graph.threads = 1
    source = graph.add("buffer", f"video_size={width}x{height}:pix_fmt=rgb24:time_base=1/1")
    scale = graph.add("scale", f"{columns}:{rows}:{_CUBIC_OPTIONS}")
    graph.link_nodes(source, scale, graph.add("format", "gbrp"), graph.add("buffersink")).configure()
    return graph


def view_plane(plane: Any, row_bytes: int) -> Pixels:
    """View the bytes of a plane without its padding, top row first, uint8 [rows, row_bytes]."""
    flat = np.frombuffer(plane, dtype=np.uint8)
    if not plane.line_size:  # a palette
        return flat.reshape(1, -1)
    # A negative line size means rows from bottom to top; the buffer begins at the lowest address.
    rows = flat.reshape(plane.height, abs(plane.line_size))[:, :row_bytes]
    return rows[::-1] if plane.line_size < 0 else rows


def _copy_colours(frame: VideoFrame, target: Pixels, top: int = 0, left: int = 0) -> None:
    """Copy a part of a gbrp picture of swscale, whose rows run from top to bottom, to uint8 [3, H, W]."""
    planes: Any = frame.planes
    for channel, number in enumerate(_GBRP_PLANES):
        plane = planes[number]
        start, strides = top * plane.line_size + left, (plane.line_size, 1)
        target[channel] = np.ndarray(target.shape[1:], np.uint8, plane, start, strides)


def _turn_to_stored_box(box: Box, stream: StreamFacts) -> Box:
    """Turn a crop of the displayed picture to the stored picture."""
    top, left, rows, columns = box
    shown_rows, shown_columns = stream.upright
    if stream.mirrored:
        left = shown_columns - left - columns
    for _ in range(stream.rotation // 90):
        # A quarter clockwise undoes a quarter counter-clockwise: rows from the bottom become columns.
        top, left, rows, columns = left, shown_rows - top - rows, columns, rows
        shown_rows, shown_columns = shown_columns, shown_rows
    return top, left, rows, columns


def _is_between_samples(frame: VideoFrame, box: Box) -> bool:
    """Whether no chroma sample lies across the box's upper or left edge; False for interlaced pictures."""
    if frame.interlaced_frame or len(frame.planes) != len(frame.format.components):
        return False
    if not frame.format.is_planar or any(component.bits != 8 for component in frame.format.components):
        return False
    # From the format, because a chroma plane of an odd picture is more than half as large.
    return not box[0] % (_PROBE_SIDE // frame.format.chroma_height(_PROBE_SIDE)) and not box[1] % (
        _PROBE_SIDE // frame.format.chroma_width(_PROBE_SIDE)
    )


def _has_unwritten_columns(frame: VideoFrame) -> bool:
    """Whether swscale would leave the last columns of planar RGB unwritten."""
    return frame.format.name in _DIRECTLY_SPLIT_FORMATS and 1 <= frame.width % 16 <= 8


def _can_split_directly(frame: VideoFrame) -> bool:
    """Whether conversion to planes gives the pixels of rgb24; it takes a third of the time of splitting rgb24."""
    if frame.format.name not in _DIRECTLY_SPLIT_FORMATS or not _IS_PROVEN_PROCESSOR:
        return False
    return not (frame.interlaced_frame or frame.height % 2 or _has_unwritten_columns(frame))


def _can_crop_exactly(frame: VideoFrame, box: Box) -> bool:
    """Whether swscale converts the cropped picture to the same pixels as that part of the whole picture.

    For some formats, swscale uses other converters for an even number of rows, which read chroma in pairs. Formats and
    boxes that are not verified are converted whole.
    """
    if box == (0, 0, frame.height, frame.width):
        return False
    even = not any((frame.height | number) % 2 for number in box)
    return even and frame.format.name in _EXACTLY_CROPPED_FORMATS and _is_between_samples(frame, box)


def _view_part(frame: VideoFrame, box: Box) -> VideoFrame:
    """View a part of rgb24, without a copy where PyAV can; it gives the pixels of a crop of planar RGB (verified)."""
    top, left, rows, columns = box
    whole = view_plane(frame.planes[0], 3 * frame.width).reshape(frame.height, frame.width, 3)
    part = whole[top : top + rows, left : left + columns]
    # PyAV takes no rows that are stored from bottom to top.
    return VideoFrame.from_numpy_buffer(part if part.strides[0] > 0 else part.copy(), "rgb24")


def _crop_planes(frame: VideoFrame, box: Box) -> VideoFrame:
    top, left, rows, columns = box
    part = VideoFrame(columns, rows, frame.format.name)
    for source, target in zip(frame.planes, part.planes, strict=True):
        y, x = (top * source.height) // frame.height, (left * source.width) // frame.width
        cut = view_plane(source, abs(source.line_size))[y : y + target.height, x : x + target.width]
        view_plane(target, target.width)[:] = cut
    part.colorspace, part.color_range = frame.colorspace, frame.color_range
    return part

"""Decoded picture -> RGB in the caller's memory. One recipe, with a version.

Recipe ``rgb/1``:
    - Not resized: swscale to rgb24 with bilinear flags and nothing else, the pixels of PyAV's own conversion and of
      TorchCodec's on x86 (verified against TorchCodec's reference frames).
    - Resized: one swscale pass to planar RGB (gbrp) with bilinear flags. It is closer to an antialiased resize of
      full-chroma RGB than the pass to rgb24, and faster, and its planes are channel-first already.
    - The stream's matrix and range are honoured; where it names none, swscale's default: BT.601, limited range.
    - Crop, then resize, then turn: a turn by a quarter and a resize commute.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter

from framefeed.decode.decoder import Pixels
from framefeed.errors import FormatChanged, UsageError
from framefeed.index.frame_index import StreamFacts
from framefeed.plan.request import Box, OutputSpec

RECIPE = "rgb/1"
_FLAGS = Interpolation.BILINEAR
# The colour planes of gbrp in the order of red, green and blue.
_GBRP_PLANES = (2, 0, 1)


class Converter:
    """Writes decoded pictures as RGB; keeps swscale's set-up between calls, so: one a thread."""

    def __init__(self) -> None:
        self._scaled = VideoReformatter()
        self._unscaled = VideoReformatter()

    def write(self, frame: VideoFrame, stream: StreamFacts, output: OutputSpec, out: Pixels) -> None:
        """Convert one picture.

        Args:
            frame: A decoded picture, as stored: not yet turned.
            stream: Its stream; pictures of another size than it says are only taken where ``output.size`` is set
                and ``output.crop`` is not.
            output: Form of the pixels.
            out: uint8 [3, H, W] or [H, W, 3], wholly overwritten.

        Raises:
            FormatChanged: The picture's size is not the stream's.
            UsageError: The crop lies outside the picture, or ``out`` has another shape.
        """
        if (frame.width, frame.height) != (stream.width, stream.height) and (output.crop or not output.size):
            raise FormatChanged(
                f"the picture size changes mid-stream from {stream.width}x{stream.height} to "
                f"{frame.width}x{frame.height}: give size=(height, width) without crop to bring all to one size"
            )
        planar = output.dimension_order == "NCHW"
        upright = out if planar else out.transpose(2, 0, 1)
        target = _unturned(upright, stream)
        if output.crop is not None:
            frame = self._cropped(frame, _stored_box(output.crop, stream))
        rows, columns = target.shape[1:]
        if (rows, columns) == (frame.height, frame.width):
            self._write_unscaled(frame, target)
        elif output.size is None:
            raise UsageError(f"a picture of {frame.height}x{frame.width} does not fit memory of {rows}x{columns}")
        else:
            self._write_scaled(frame, target)

    def _write_scaled(self, frame: VideoFrame, target: Pixels) -> None:
        rows, columns = target.shape[1:]
        small = self._scaled.reformat(frame, columns, rows, "gbrp", interpolation=_FLAGS, threads=1)
        for channel, plane in enumerate(_GBRP_PLANES):
            target[channel] = plane_view(small.planes[plane], columns)

    def _write_unscaled(self, frame: VideoFrame, target: Pixels) -> None:
        rows, columns = target.shape[1:]
        rgb = self._unscaled.reformat(frame, columns, rows, "rgb24", interpolation=_FLAGS, threads=1)
        target[:] = plane_view(rgb.planes[0], 3 * columns).reshape(rows, columns, 3).transpose(2, 0, 1)

    def _cropped(self, frame: VideoFrame, box: Box) -> VideoFrame:
        top, left, rows, columns = box
        if top + rows > frame.height or left + columns > frame.width:
            raise UsageError(f"the crop {box} lies outside the stored picture of {frame.height}x{frame.width}")
        if box == (0, 0, frame.height, frame.width):
            return frame
        if not _cuts_between_samples(frame, box):
            # Chroma would be cut through the middle of a sample: cut full-chroma RGB instead.
            frame = self._unscaled.reformat(frame, frame.width, frame.height, "gbrp", interpolation=_FLAGS, threads=1)
        return _cut(frame, box)


def plane_view(plane: Any, row_bytes: int) -> Pixels:
    """The bytes of a plane without its padding, uint8 [rows, row_bytes], not copied."""
    flat = np.frombuffer(plane, dtype=np.uint8)
    return flat.reshape(plane.height, plane.line_size)[:, :row_bytes]


def native_planes(frame: VideoFrame) -> list[bytes]:
    """The picture's planes as the decoder made them, without padding: what exactness is measured on."""
    return [_without_padding(frame, number) for number in range(len(frame.planes))]


def _without_padding(frame: VideoFrame, number: int) -> bytes:
    plane = frame.planes[number]
    if len(frame.planes) == 1:
        bits = frame.format.padded_bits_per_pixel
    else:
        bits = sum(-(-part.bits // 8) * 8 for part in frame.format.components if part.plane == number)
    row_bytes = min(-(-plane.width * bits // 8), plane.line_size) or plane.line_size
    return plane_view(plane, row_bytes).tobytes()


def _unturned(upright: Pixels, stream: StreamFacts) -> Pixels:
    """View the upright memory as the stored picture lies in it, so that writing the view turns the picture."""
    view = upright[:, :, ::-1] if stream.mirrored else upright
    return np.rot90(view, -(stream.rotation // 90), axes=(1, 2)) if stream.rotation else view


def _stored_box(box: Box, stream: StreamFacts) -> Box:
    """Turn a crop of the displayed picture into one of the stored picture."""
    top, left, rows, columns = box
    turned = stream.rotation in (90, 270)
    shown_rows, shown_columns = (stream.width, stream.height) if turned else (stream.height, stream.width)
    if stream.mirrored:
        left = shown_columns - left - columns
    for _ in range(stream.rotation // 90):
        # One quarter clockwise undoes one counter-clockwise: the row from below becomes the column.
        top, left, rows, columns = left, shown_rows - top - rows, columns, rows
        shown_rows, shown_columns = shown_columns, shown_rows
    return top, left, rows, columns


def _cuts_between_samples(frame: VideoFrame, box: Box) -> bool:
    if not frame.format.is_planar or any(component.bits != 8 for component in frame.format.components):
        return False
    if len(frame.planes) != len(frame.format.components):
        return False
    return all(not box[0] % (frame.height // plane.height or 1) and not box[1] % (frame.width // plane.width or 1)
               for plane in frame.planes)  # fmt: skip


def _cut(frame: VideoFrame, box: Box) -> VideoFrame:
    top, left, rows, columns = box
    part = VideoFrame(columns, rows, frame.format.name)
    for source, target in zip(frame.planes, part.planes, strict=True):
        y, x = (top * source.height) // frame.height, (left * source.width) // frame.width
        cut = plane_view(source, source.line_size)[y : y + target.height, x : x + target.width]
        plane_view(target, target.width)[:] = cut
    part.colorspace, part.color_range = frame.colorspace, frame.color_range
    return part

"""From the decoder's picture to a flat run of bytes, and back."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import cast

import numpy as np
from av import VideoCodecContext
from av.packet import Packet
from av.video.frame import VideoFrame

from framefeed.decode.convert import plane_view
from framefeed.decode.decoder import Pixels
from framefeed.decode.planes.layout import RGB_PLANAR, PlaneLayout, geometry
from framefeed.decode.planes.location import LocationProbe
from framefeed.decode.planes.raw_video import raw_video
from framefeed.errors import UsageError

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

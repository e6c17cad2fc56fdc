"""Find the location of a picture's chroma samples, which PyAV does not give."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from av.packet import Packet
from av.video.format import VideoFormat
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter

from framefeed.decode.convert import plane_view
from framefeed.decode.decoder import Pixels
from framefeed.decode.planes.layout import CHROMA_LOCATIONS, PlaneLayout
from framefeed.decode.planes.raw_video import raw_video
from framefeed.errors import UsageError
from framefeed.media.foreign import FOREIGN


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

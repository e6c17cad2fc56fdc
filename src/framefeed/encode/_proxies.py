"""Write the smaller copy of a video: its decoded pictures as planes, scaled, as H.264 of short GOPs."""

from __future__ import annotations

from fractions import Fraction
from types import TracebackType
from typing import Any, Self

import numpy as np
from av.container import OutputContainer
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter

from framefeed._arrays import ByteArray
from framefeed.bitstreams import Codec
from framefeed.encode._codecs import CONTAINERS, VideoOptions
from framefeed.encode._encoder import Recipe, limit_rate
from framefeed.encode._muxing import mux_errors
from framefeed.encode._sinks import FinalSink
from framefeed.encode._tags import VideoTags
from framefeed.index import StreamFacts

_PRESET = "medium"
# Of 1,253 frames of a 720p trailer at 256 rows, GOP 8: 0.15 ms to decode a frame in place of 0.30, for 13 % more bytes.
# libx264's tune "fastdecode" leaves out weighted prediction too: no faster to decode, and 31 % more bytes.
_PARAMETERS = "cabac=0:no-deblock=1"
_FORMAT = "yuv420p"
_FLAGS = Interpolation.BILINEAR | Interpolation.ACCURATE_RND


class ProxyShrinker:
    """Scales decoded pictures to planes of 4:2:0, upright; it keeps swscale's set-up: each thread needs its own.

    Args:
        stream: Of the original.
        size: (height, width) of the result, both even.

    Attributes:
        size: As given.
        tags: Colours of the result.
        chroma_location: Where its colour samples lie, by x264's ``chromaloc``: where swscale takes those of the
            original to be. Else they move by half a pixel.
    """

    def __init__(self, stream: StreamFacts, size: tuple[int, int]) -> None:
        self._stream, self.size = stream, size
        # Samples at the left lie at another side in a turned picture.
        is_left = Codec.of(stream.codec).has_left_colours and not (stream.rotation or stream.mirrored)
        self.chroma_location = 0 if is_left else 1
        options = VideoOptions("h264")
        self.tags = VideoTags.of(stream).fit(options)
        self._scaler = VideoReformatter()

    def shrink(self, frame: VideoFrame) -> VideoFrame:
        """Scale a picture, as stored, in one pass; the colours keep the original's matrix and range."""
        stream, tags = self._stream, self.tags
        is_upright = frame.format.name in ("rgb24", "bgr24")  # of the backend for still pictures
        rotation, mirrored = (0, False) if is_upright else (stream.rotation, stream.mirrored)
        rows, columns = self.size if rotation % 180 == 0 else self.size[::-1]
        small = self._scaler.reformat(
            frame,
            columns,
            rows,
            _FORMAT,
            dst_colorspace=tags.matrix,
            dst_color_range=tags.swscale_range,
            interpolation=_FLAGS,
            threads=1,
        )
        if rotation or mirrored:
            small = _turn(small, rotation, mirrored=mirrored)
        elif small is frame:
            small = _turn(frame, 0, mirrored=False)  # the encoder keeps it, and the decoder its own
        small.colorspace, small.color_range = tags.space, tags.range
        small.color_primaries, small.color_trc = tags.primaries, tags.transfer
        return small


def _turn(frame: VideoFrame, rotation: int, *, mirrored: bool) -> VideoFrame:
    """Turn a picture counter-clockwise, then flip it, as `StreamFacts` says, in new memory."""
    rows, columns = (frame.height, frame.width) if rotation % 180 == 0 else (frame.width, frame.height)
    turned = VideoFrame(columns, rows, _FORMAT)
    for source, target in zip(frame.planes, turned.planes, strict=True):
        plane = np.rot90(view_samples(source), rotation // 90)
        view_samples(target)[:] = plane[:, ::-1] if mirrored else plane
    return turned


def view_samples(plane: Any) -> ByteArray:
    """View the samples of an 8-bit plane, uint8 [rows, columns]."""
    flat = np.frombuffer(plane, dtype=np.uint8)
    return flat.reshape(plane.height, plane.line_size)[:, : plane.width]


class ProxyWriter:
    """Writes pictures of `ProxyShrinker` as one .mp4 file, which appears whole when it is closed, or not at all.

    The file has frame numbers for times, at an even rate: those of the original are not in it.

    Args:
        path: The file.
        shrinker: Makes the pictures.
        rate: Frames a second, about.
        quality: crf of x264, 0 to 51.
        gop: Distance of key frames.
        comment: Text in the header.
    """

    def __init__(
        self,
        path: str,
        shrinker: ProxyShrinker,
        rate: Fraction | None,
        *,
        quality: int,
        gop: int,
        comment: str,
    ) -> None:
        parameters = f"{_PARAMETERS}:chromaloc={shrinker.chroma_location}"
        options = VideoOptions("h264", quality, gop=gop, preset=_PRESET, parameters=parameters)
        even = limit_rate(rate or Fraction(25))
        self._path = path
        self.num_pictures = 0
        with mux_errors(path):
            self._sink = _ProxySink(Recipe(path, options, shrinker.tags, 1 / even, even, shrinker.size, 1), comment)

    def write(self, picture: VideoFrame) -> None:
        """Write the next picture, which must not be changed afterwards."""
        try:
            with mux_errors(self._path):
                self._sink.write(picture, self.num_pictures, 1)
        except BaseException:
            self._sink.discard()
            raise
        self.num_pictures += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self._sink.discard()
            return
        try:
            with mux_errors(self._path):
                self._sink.finish()
        except BaseException:
            self._sink.discard()
            raise


class _ProxySink(FinalSink):
    """An MP4 file with a comment."""

    def __init__(self, recipe: Recipe, comment: str) -> None:
        self._comment = comment
        super().__init__(recipe, CONTAINERS["mp4"])

    def _prepare(self, container: OutputContainer) -> None:
        super()._prepare(container)
        container.metadata["comment"] = self._comment


def read_planes(frame: VideoFrame) -> tuple[ByteArray, ByteArray]:
    """Read the luma, uint8 [H, W], and the colours, RGB uint8 [H, W, 3], of a decoded or scaled picture."""
    luma = view_samples(frame.planes[0]).copy()
    rgb = VideoReformatter().reformat(
        frame, format="rgb24", interpolation=_FLAGS | Interpolation.FULL_CHR_H_INT, threads=1
    )
    return luma, rgb.to_ndarray()  # type: ignore[return-value]  # uint8

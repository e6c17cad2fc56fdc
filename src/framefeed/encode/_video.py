"""Write pictures as a video: `VideoWriter`."""

from __future__ import annotations

import os
from fractions import Fraction
from types import TracebackType
from typing import Any, Self

import numpy as np

from framefeed._arrays import ByteArray
from framefeed._checks import check_integer, expected
from framefeed._names import check_local_path
from framefeed.encode._codecs import CONTAINERS, SEGMENT_CONTAINER, ContainerRule, VideoOptions
from framefeed.encode._encoder import Recipe, limit_rate
from framefeed.encode._muxing import mux_errors
from framefeed.encode._sinks import FinalSink, SegmentSink, Sink
from framefeed.encode._tags import VideoTags, resolve_video
from framefeed.errors import UsageError

_MOST_INT = 2**31 - 1
"""Of libav's fractions."""
_MOST_PTS = 2**62
"""Half of libav's, so that sums stay within it."""
_MOST_RATE = 65535
_NOMINAL_RATE = Fraction(30)
_MOST_LIKELY = 240
"""Frames a second up to which the first duration is taken for that of all frames."""


class VideoWriter:
    """Writes RGB pictures as one video file, which appears whole when it is closed, or not at all.

    Example:
        ::

            with VideoWriter("out.mp4", VideoOptions(quality=20), VideoTags(), Fraction(1, 25)) as writer:
                for number, picture in enumerate(pictures):
                    writer.write(picture, number, 1)

    The same pictures, options and number of threads give the same bytes. Encoders see frame numbers at a constant
    rate; the times are the container's: a frame lasts until the next one, the last one for its duration.

    - .mp4, .mov: every time as given, also that of the first frame (by an edit list), in the given time base.
    - .mkv, .webm: rounded to milliseconds.
    - .avi: frames at equal distances from 0 on.
    - Where the first time is negative, all are shifted, so that it is 0.

    Args:
        path: The file; its ending chooses the container, unless ``container`` is given.
        options: Codec, quality, pixel format and distance of key frames.
        tags: Colours and shape of samples. Pictures are converted with the matrix and range that the tags name.
        time_base: Seconds in one tick of ``pts`` and ``duration``.
        container: An ending such as "mp4"; or `SEGMENT_CONTAINER` for a segment, whose options and tags must come from
            `resolve_video`.
        threads: Threads of the encoder; 1 where several videos are written at once.
        rate: Frames a second, about: for the levels of the codec, and exactly for .avi. Segments of one video need
            the same. None: from the first picture's duration, and for a segment 30.

    Raises:
        UsageError: An argument is wrong, or the container does not hold the codec.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        options: VideoOptions,
        tags: VideoTags,
        time_base: Fraction,
        *,
        container: str | None = None,
        threads: int = 1,
        rate: Fraction | float | None = None,
    ) -> None:
        check_local_path("path", path, "out.mp4")
        if not isinstance(options, VideoOptions):
            raise expected("options", "VideoOptions(...)", options)
        if not isinstance(tags, VideoTags):
            raise expected("tags", "VideoTags(...)", tags)
        if not isinstance(time_base, Fraction) or time_base <= 0 or max(time_base.as_integer_ratio()) > _MOST_INT:
            raise expected("time_base", "a positive Fraction of 32-bit integers, such as Fraction(1, 25)", time_base)
        if rate is not None and not 0 < rate <= _MOST_RATE:
            raise expected("rate", f"a positive number of frames a second, at most {_MOST_RATE}", rate)
        self._path = os.fsdecode(path)
        self._container: ContainerRule | None = None
        if container == SEGMENT_CONTAINER:
            self._options, self._tags = options, tags.fit(options)
        else:
            shown = self._path if container is None else f"{self._path}.{container}"
            self._options, self._tags = resolve_video(shown, options, tags)
            self._container = CONTAINERS[os.path.splitext(shown)[1][1:].lower()]
        self._time_base = time_base
        self._threads = check_integer("threads", threads, 1)
        self._rate = rate
        self._sink: Sink | None = None
        self._shape: tuple[int, ...] = ()
        self._last_pts = 0
        self._count = 0
        self._is_closed = False

    def write(self, picture: ByteArray, pts: int, duration: int) -> None:
        """Write the next picture.

        Args:
            picture: RGB, uint8 [H, W, 3]; any strides. It may be changed after the call.
            pts: Its time in ticks, later than the one before.
            duration: Ticks that it is shown if it is the last one, at least 1.

        Raises:
            UsageError: The picture or its time is not acceptable: it is not written, and the writer goes on. Or the
                file cannot be written: it is discarded, and the writer closed.
        """
        if self._is_closed:
            raise UsageError(f"{self._path}: the writer is closed")
        pts, duration = check_integer("pts", pts), check_integer("duration", duration, 1)
        self._check(picture, pts)
        try:
            with mux_errors(self._path):
                if self._sink is None:
                    self._sink = self._open(picture.shape[:2], duration)
                self._sink.write(picture, pts, duration)
        except BaseException:
            self.discard()
            raise
        self._shape, self._last_pts = picture.shape, pts
        self._count += 1

    def _check(self, picture: Any, pts: int) -> None:
        number = self._count
        if abs(pts) > _MOST_PTS:
            raise UsageError(f"pts: expected at most 2**62 ticks for picture {number}, got {pts}")
        is_picture = isinstance(picture, np.ndarray) and picture.dtype == np.uint8 and picture.ndim == 3
        if not is_picture or picture.shape[2] != 3 or not picture.size:
            is_array = isinstance(picture, np.ndarray)
            given = f"{picture.dtype} {list(picture.shape)}" if is_array else type(picture).__name__
            raise UsageError(f"picture {number}: expected uint8 [H, W, 3], got {given}")
        height, width = picture.shape[:2]
        if number == 0:
            rows, columns = self._options.chroma_step
            least = self._options.rule.least_side
            if min(height, width) < least:
                raise UsageError(
                    f"the pictures have {width} x {height} pixels (width x height), and {self._options.codec} needs at "
                    f"least {least} x {least}: pad or enlarge them, or choose another codec, such as vp9"
                )
            if height % rows or width % columns:
                raise UsageError(
                    f"the pictures have {width} x {height} pixels (width x height), and {self._options.coded_format} "
                    f"needs a width divisible by {columns} and a height divisible by {rows}: crop or pad them, or give "
                    'pixel_format="yuv444p" (with a codec that has it, such as h264)'
                )
        elif picture.shape != self._shape:
            raise UsageError(
                f"picture {number} has {width} x {height} pixels (width x height), and those "
                f"before it {self._shape[1]} x {self._shape[0]}: a video has one size"
            )
        elif pts <= self._last_pts:
            raise UsageError(f"pts: expected more than {self._last_pts} for picture {number}, got {pts}")

    def _open(self, size: tuple[int, int], duration: int) -> Sink:
        first = 1 / (duration * self._time_base)
        is_of_first = self._container is not None and (self._container.name == "avi" or 1 <= first <= _MOST_LIKELY)
        rate = limit_rate(Fraction(self._rate or (first if is_of_first else _NOMINAL_RATE)))
        recipe = Recipe(self._path, self._options, self._tags, self._time_base, rate, size, self._threads)
        if self._container is not None:
            return FinalSink(recipe, self._container)
        return SegmentSink(recipe, None if self._rate is None else rate)

    def close(self) -> None:
        """Finish the file, which then replaces one of its name; more than once is fine.

        Raises:
            UsageError: No picture was written, or the file cannot be written.
        """
        if self._is_closed:
            return
        if self._sink is None:
            self._is_closed = True
            raise UsageError(f"{self._path}: no picture was written, and a video needs at least one")
        try:
            with mux_errors(self._path):
                self._sink.finish()
        except BaseException:
            self.discard()
            raise
        self._is_closed = True

    def discard(self) -> None:
        """Stop, and remove what was written; more than once, or after `close`, does nothing."""
        if not self._is_closed and self._sink is not None:
            self._sink.discard()
        self._is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

"""OpenCV's VideoCapture with its own FFmpeg as a decoder: ``backend="opencv"``.

It seeks by frame number, which it computes from times and the average rate, so that streams of a variable rate come
out wrong: their frames are refused by their times. Pictures are taken as stored, and turned by our own conversion.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from framefeed._absence import describe_absence
from framefeed.decode._decoder import Pixels
from framefeed.decode.backends._engine import EngineDecoder, EngineFailure, NotOpened, Picture
from framefeed.decode.backends._engine_facts import MADE_OF_MISSING, EngineFacts
from framefeed.decode.backends._standard_error import keeping_output
from framefeed.errors import MissingDependency
from framefeed.index import FrameIndex
from framefeed.media import MediaSource

try:
    import cv2
except ImportError as error:
    raise MissingDependency(
        f"backend='opencv' needs OpenCV, which {describe_absence(error, 'cv2')}: pip install 'framefeed[engines]'"
    ) from error

# libavutil's levels.
_QUIET, _ERROR = -8, 16
# What libav's demuxer of AVI writes into the extradata.
_BOTTOM_UP = b"BottomUp"


class OpenCVDecoder(EngineDecoder):
    """Decode with OpenCV's VideoCapture, one thread; see ``EngineDecoder``."""

    name = "opencv"
    facts = EngineFacts(
        "OpenCV",
        # Its FFmpeg has no decoder of AV1 in software.
        refused_codecs=frozenset({"av1"}),
        refused_pairs=MADE_OF_MISSING,
        # Its conversion fails on them, and gives memory that was not written.
        interlaced=False,
        times="first frame",
        one_size=True,
    )

    def open_file(self, source: MediaSource, index: FrameIndex) -> _OpenCVFile:
        """Open a source with OpenCV; see ``EngineDecoder.open_file``."""
        if index.stream.codec == "rawvideo" and _BOTTOM_UP in (index.stream.extradata or b""):
            raise NotOpened("its pictures are stored bottom-up, and OpenCV then writes beside their memory")
        return _OpenCVFile(source.path, index)

    def set_loud(self, loud: bool) -> None:
        """Set the log level of OpenCV's FFmpeg; OpenCV itself reads it from an environment variable, once a process."""
        for library in _LIBRARIES:
            if hasattr(library, "av_log_set_level"):
                library.av_log_set_level(_ERROR if loud else _QUIET)

    def describe_versions(self) -> str:
        """Name OpenCV with its version."""
        return f"OpenCV {cv2.__version__}"


class _OpenCVFile:
    """An open VideoCapture, and the frame that it gives next."""

    def __init__(self, path: str, index: FrameIndex) -> None:
        try:
            self._capture: Any = cv2.VideoCapture(path, cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
        except (cv2.error, ValueError) as error:
            raise NotOpened(str(error)) from error
        if not self._capture.isOpened():
            raise NotOpened("VideoCapture.isOpened() is False")
        self._capture.set(cv2.CAP_PROP_ORIENTATION_AUTO, 0)
        self.num_frames = int(self._capture.get(cv2.CAP_PROP_FRAME_COUNT))
        self._keys = index.key_frame_indices
        self._next = 0

    def read(self, ordinals: Sequence[int]) -> Iterator[Picture]:
        """Yield the pictures of distinct, ascending ordinals; see ``EngineFile.read``."""
        try:
            for ordinal in ordinals:
                pixels = self._read_picture(ordinal)
                yield Picture(ordinal, pixels, self._capture.get(cv2.CAP_PROP_POS_MSEC) / 1000)
        except cv2.error as error:
            raise EngineFailure(str(error)) from error

    def _read_picture(self, ordinal: int) -> Pixels:
        # Forward without a seek, unless a key frame lies between.
        if ordinal < self._next or np.searchsorted(self._keys, ordinal, "right") > np.searchsorted(
            self._keys, self._next, "right"
        ):
            self._capture.set(cv2.CAP_PROP_POS_FRAMES, ordinal)
            self._next = ordinal
        while self._next < ordinal and self._capture.grab():
            self._next += 1
        came, picture = self._capture.read()
        self._next += 1
        if not came:
            raise EngineFailure("it gave no picture")
        rgb: Pixels = cv2.cvtColor(picture, cv2.COLOR_BGR2RGB)
        return rgb

    def close(self) -> None:
        self._capture.release()


def _find_libraries() -> list[ctypes.CDLL]:
    with keeping_output():
        cv2.VideoCapture("", cv2.CAP_FFMPEG)  # the first opening of a process sets a level
    # The wheel's own copy, which importing cv2 has loaded. Where another library gives its FFmpeg to the whole process,
    # as decord does, OpenCV may call that one instead.
    own = sorted(Path(cv2.__file__).parents[1].glob("opencv_*python*.libs/libavutil*"))
    return [ctypes.CDLL(None), *(ctypes.CDLL(str(path)) for path in own)]


_LIBRARIES = _find_libraries()

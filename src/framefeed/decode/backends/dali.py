"""DALI's decoder of videos under our plan: ``backend="dali"``.

It decodes VP8, VP9 and MJPEG on the processor, and takes whole encoded files and lists of frame numbers. It tells no
times: only the number of frames that it finds, in the message about one that is not there, is compared with the index.
It prints reasons by C++'s standard error, which no level silences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from framefeed._absence import describe_absence
from framefeed.decode.backends._engine import EngineDecoder, EngineFailure, NotOpened, Picture
from framefeed.decode.backends._engine_facts import EngineFacts
from framefeed.errors import MissingDependency
from framefeed.index import FrameIndex
from framefeed.media import MediaSource

try:
    from nvidia import dali
    from nvidia.dali import fn, types
except (ImportError, OSError) as error:
    raise MissingDependency(
        f"backend='dali' needs NVIDIA DALI, which {describe_absence(error, 'nvidia.dali')}: "
        "pip install 'framefeed[dali]'"
    ) from error

_ERRORS = (RuntimeError, ValueError, TypeError)
# A frame that no file has: DALI then says how many it has.
_BEYOND = 2**31 - 2
_COUNT = re.compile(r"sample containing a ROI with (\d+) frames")


class DaliDecoder(EngineDecoder):
    """Decode with DALI on the processor, one thread; see ``EngineDecoder``."""

    name = "dali"
    # Each call reads the file from its beginning.
    batch_bytes = 2**28
    facts = EngineFacts(
        "DALI",
        sources=frozenset({"path", "bytes"}),
        any_name=True,
        codecs=frozenset({"mjpeg", "vp8", "vp9"}),
        pixel_formats=frozenset(
            {"gbrp", "yuv420p", "yuv422p", "yuv440p", "yuv444p", "yuvj420p", "yuvj422p", "yuvj444p"}
        ),
        counts=True,
        takes_packets=True,
        one_size=True,
    )

    def open_file(self, source: MediaSource, index: FrameIndex) -> _DaliFile:
        """Read a source for DALI, and let it count the frames; see ``EngineDecoder.open_file``."""
        # Its pictures may differ in their sampling of colours, and DALI converts all of a call like the first.
        return _DaliFile(source, one_by_one=index.stream.codec == "mjpeg")

    def describe_versions(self) -> str:
        """Name DALI with its version."""
        return f"DALI {dali.__version__} on the processor"


class _DaliFile:
    """The bytes of a file, and a pipeline that decodes frames of it, many or one in a call."""

    def __init__(self, source: MediaSource, *, one_by_one: bool) -> None:
        self._most = 1 if one_by_one else None
        try:
            self._data = np.fromfile(source.path, np.uint8) if source.path else np.frombuffer(source.data, np.uint8)
        except OSError as error:
            raise NotOpened(str(error)) from error
        self._pipeline: Any = None
        try:
            self._run([_BEYOND])
        except EngineFailure as error:
            count = _COUNT.search(str(error))
            if count is None:
                raise NotOpened(str(error)) from error
            self.num_frames = int(count[1])
        else:
            raise NotOpened("it gave a picture for a frame that no file has")

    def _run(self, ordinals: Sequence[int]) -> Any:
        """Decode frames, uint8 [T, H, W, 3]; valid until the next call."""
        try:
            if self._pipeline is None:
                self._pipeline = _build_pipeline()
            self._pipeline.feed_input("data", [self._data])
            self._pipeline.feed_input("frames", [np.array(ordinals, dtype=np.int32)])
            (output,) = self._pipeline.run()
            return output.at(0)
        except _ERRORS as error:
            self._pipeline = None  # it cannot be used again
            # Without the traceback of the pipeline's definition.
            reason = str(error).rpartition("encountered:")[2].partition("C++ context")[0].strip()
            raise EngineFailure(reason) from error

    def read(self, ordinals: Sequence[int]) -> Iterator[Picture]:
        """Yield the pictures of distinct, ascending ordinals; see ``EngineFile.read``."""
        most = self._most or max(1, len(ordinals))
        for start in range(0, len(ordinals), most):
            some = ordinals[start : start + most]
            for ordinal, pixels in zip(some, self._run(some), strict=True):
                yield Picture(ordinal, pixels)

    def close(self) -> None:
        """Free the pipeline."""
        self._pipeline = None


def _build_pipeline() -> Any:
    pipeline = dali.Pipeline(batch_size=1, num_threads=1, device_id=None, prefetch_queue_depth=1)
    with pipeline:
        data = fn.external_source(name="data", dtype=types.UINT8, ndim=1, no_copy=True)
        frames = fn.external_source(name="frames", dtype=types.INT32, ndim=1)
        # Without pad_mode, a number beyond the end gives a black picture.
        pipeline.set_outputs(fn.decoders.video(data, frames=frames, device="cpu", pad_mode="none"))
    pipeline.build()
    return pipeline

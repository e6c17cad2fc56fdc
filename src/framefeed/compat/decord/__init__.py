"""decord's names over ``ff.VideoDecoder``: a script changes one import. docs/decord.md lists the differences.

>>> from framefeed.compat.decord import VideoReader, cpu
>>> reader = VideoReader("video.mp4", ctx=cpu(0))            # doctest: +SKIP
>>> frames = reader.get_batch([0, 10, 20]).asnumpy()         # doctest: +SKIP
"""

from __future__ import annotations

from framefeed.compat.decord import bridge, logging
from framefeed.compat.decord._absent import AudioReader, AVReader, VideoLoader
from framefeed.compat.decord._array import NDArray
from framefeed.compat.decord._context import Context, cpu, gpu
from framefeed.compat.decord._reader import VideoReader
from framefeed.errors import CorruptMedia, FramefeedError

# For ``except`` clauses: each error of framefeed is one, and damaged frames are what ``fault_tol`` limits in decord.
DECORDError = FramefeedError
DECORDLimitReachedError = CorruptMedia

# Of the decord2 whose results these are (tests/compat/decord_golden.json): scripts print or compare it.
__version__ = "3.4.0"

__all__ = [
    "AVReader",
    "AudioReader",
    "Context",
    "DECORDError",
    "DECORDLimitReachedError",
    "NDArray",
    "VideoLoader",
    "VideoReader",
    "bridge",
    "cpu",
    "gpu",
    "logging",
]

"""decord's VideoReader (the package decord2): ``backend="decord"``.

It scans a file's packets as it opens it, and finds a frame by counting pictures from the key frame before it. The times
that it tells are those of its scan, not of the picture that it decoded. So only containers and codecs are declared in
which counting is right, and a file is refused if a picture after one of its key frames needs an earlier one.

A picture that its decoder leaves out, because the packet is damaged, moves all after it; so codecs whose decoders do
that are not declared (that of H.264 gives a concealed one). It prints warnings by C++'s standard error, which no level
silences.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from importlib.metadata import version

import numpy as np

from framefeed._absence import describe_absence
from framefeed.decode.backends._engine import EngineDecoder, EngineFailure, NotOpened, Picture
from framefeed.decode.backends._engine_facts import EngineFacts
from framefeed.errors import MissingDependency
from framefeed.index import FrameIndex
from framefeed.media import MediaSource

try:
    import decord

    _VERSION = version("decord2")  # the package decord, which is older, has the same module
except (ImportError, OSError, RuntimeError) as error:
    raise MissingDependency(
        f"backend='decord' needs decord2, which {describe_absence(error, 'decord')}: pip install 'framefeed[engines]'"
    ) from error

_PLACE = re.compile(r"\[[0-9:]{8}\] \S+:\d+: ")
_ERRORS = (decord.DECORDError, RuntimeError, ValueError, IndexError, TypeError)


class DecordDecoder(EngineDecoder):
    """Decode with decord, one thread; see ``EngineDecoder``."""

    name = "decord"
    facts = EngineFacts(
        "decord",
        sources=frozenset({"path", "bytes"}),
        codecs=frozenset({"h264", "mjpeg", "prores", "vp8", "vp9"}),
        containers=frozenset({"matroska", "mov"}),
        # It copies pictures to memory of another width.
        refused_widths=frozenset({1, 2, 3, 16, 32, 48}),
        # By a quarter, it copies pictures to memory of the size as stored.
        rotations=frozenset({0, 180}),
        times="first frame",
        counts=True,
        takes_packets=True,
        one_size=True,
    )

    def open_file(self, source: MediaSource, index: FrameIndex) -> _DecordFile:
        """Open a source with decord; see ``EngineDecoder.open_file``."""
        return _DecordFile(source, index)

    def set_loud(self, loud: bool) -> None:
        """Set the log level of decord's FFmpeg."""
        decord.logging.set_level(decord.logging.ERROR if loud else decord.logging.QUIET)

    def describe_versions(self) -> str:
        """Name decord with its version."""
        return f"decord2 {_VERSION}"


class _DecordFile:
    """An open VideoReader."""

    def __init__(self, source: MediaSource, index: FrameIndex) -> None:
        try:
            self._reader = decord.VideoReader(source.path or io.BytesIO(source.data), num_threads=1)
            self.num_frames = len(self._reader)
            keys = self._reader.get_key_indices()  # numbers of packets
        except _ERRORS as error:
            raise NotOpened(_drop_stack(error)) from error
        if self.num_frames == len(index) and not _can_count(index, keys):
            raise NotOpened("pictures after its key frames need earlier ones, so that it cannot count from there")

    def read(self, ordinals: Sequence[int]) -> Iterator[Picture]:
        """Yield the pictures of distinct, ascending ordinals; see ``EngineFile.read``."""
        try:
            pictures = self._reader.get_batch(list(ordinals)).asnumpy()
            times = self._reader.get_frame_timestamp(list(ordinals))[:, 0].tolist()
        except _ERRORS as error:
            raise EngineFailure(_drop_stack(error)) from error
        for ordinal, pixels, seconds in zip(ordinals, pictures, times, strict=True):
            yield Picture(ordinal, pixels, seconds)

    def close(self) -> None:
        """Nothing to do: decord closes the file when the reader is freed."""
        del self._reader


def _can_count(index: FrameIndex, keys: Sequence[int]) -> bool:
    """Whether all pictures come after a seek to any of decord's key frames, numbers of packets."""
    if not len(keys) or not np.isin(keys, np.flatnonzero(index.packets.is_key)).all():
        return False
    before = np.searchsorted(keys, index.frame_packet, side="right") - 1
    return bool((index.frame_start >= np.asarray(keys)[before])[before >= 0].all())


def _drop_stack(error: BaseException) -> str:
    """Take the message of an error without the time and place before it, and the stack of addresses after it."""
    return _PLACE.sub("", str(error).partition("Stack trace")[0])

"""VideoReader: decord's class over ``ff.VideoDecoder``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from framefeed._arrays import FloatArray, IntArray, has_bools
from framefeed._cached import cached_property
from framefeed._checks import check_integer, describe_value, expected, is_number
from framefeed.compat.decord._context import Context, check_context, cpu
from framefeed.compat.decord.bridge import bridge_out
from framefeed.decode import (
    ForwardReader,
    VideoDecoder,
    WrongKind,
    as_decoder,
    clip_slice,
    make_auto_decoder,
    require_times,
)
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import FrameNotFound, TimeUnavailable, UsageError
from framefeed.index import build_index
from framefeed.media import MediaSource
from framefeed.request import OutputSpec

_THIS_CPU = cpu(0)
# More than decoding gains by; each thread holds pictures of its own.
_MOST_THREADS = 64
# A number that fits into 64 bits, and that no video has.
_NO_FRAME = 2**62


class VideoReader:
    """Read frames of one video with decord's calls; frame i is exactly the i-th that the decoder gives.

    ``len()``, ``[i]``, ``[a:b]`` and iteration work as on a sequence. ``next()`` gives the frame behind the last one
    that any call gave. What the calls return is chosen by `bridge`: arrays of NumPy with ``asnumpy()``, or tensors.

    Args:
        uri: Path, URL or bytes, or a binary file object, which is read to its end.
        ctx: ``cpu(0)``.
        width: Columns of the pictures; below 1, those of the displayed video.
        height: Rows of the pictures; below 1, those of the displayed video.
        num_threads: Threads of FFmpeg's decoder. 0 is one thread, as -1 is, because programs open many readers.
        fault_tol: Accepted and not used: a damaged frame is always an error, never the copy of another frame.

    Raises:
        MediaError: The source cannot be read.
        UsageError: An argument is wrong, or ``ctx`` is a GPU.
    """

    def __init__(
        self,
        uri: Any,
        ctx: Context = _THIS_CPU,
        width: int = -1,
        height: int = -1,
        num_threads: int = 0,
        fault_tol: float = -1,
    ) -> None:
        check_context(ctx)
        columns, rows = check_integer("width", width), check_integer("height", height)
        if (threads := check_integer("num_threads", num_threads)) > _MOST_THREADS:
            raise expected("num_threads", f"at most {_MOST_THREADS} threads", threads)
        backend = "auto" if threads <= 1 else make_auto_decoder(PyAVDecoder(threads=threads))
        if not is_number(fault_tol):
            raise expected("fault_tol", "a number such as -1", fault_tol)
        source = _find_source(uri)
        index = build_index(source)
        size = None
        if rows > 0 or columns > 0:
            displayed = index.stream.displayed
            size = rows if rows > 0 else displayed[0], columns if columns > 0 else displayed[1]
        self._name = source.name
        self._index = index
        self._decoder = VideoDecoder(source, frame_index=index, dimension_order="NHWC", size=size, backend=backend)
        self._forward = ForwardReader(as_decoder(backend), source, index, OutputSpec(size, dimension_order="NHWC"))
        self._position = 0
        # How far the position is behind the number that decord counts: it counts on from the number that was sought.
        self._gained = 0

    def __len__(self) -> int:
        return len(self._index)

    def __repr__(self) -> str:
        return f"VideoReader({self._name!r}, {len(self)} frames, next {self._position})"

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            clipped = clip_slice(idx, len(self))
            return self.get_batch(np.arange(clipped.start, clipped.stop, clipped.step))
        if isinstance(idx, list) or (isinstance(idx, np.ndarray) and idx.ndim):
            return self.get_batch(idx)
        # decord takes True for 1.
        number = self._check_number("idx", int(idx) if isinstance(idx, bool) else idx, least=-len(self)) % len(self)
        pixels = self._forward.read(number, goes_on=number == self._position)
        self._go_to(number + 1)
        return bridge_out(pixels)

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in range(len(self)))

    def next(self) -> Any:
        """Give the frame behind the last one that was given, [H, W, C].

        Raises:
            StopIteration: There is none.
            CorruptMedia: It cannot be decoded without damage; the next call goes on behind it.
        """
        number = self._position
        if number >= len(self):
            raise StopIteration
        self._position = number + 1
        return bridge_out(self._forward.read(number, goes_on=True))

    def get_batch(self, indices: Any) -> Any:
        """Decode several frames together, in any order, [N, H, W, C].

        Args:
            indices: Frame numbers: a list, range or array. Negative ones count from the end, fractions are cut off.

        Raises:
            FrameNotFound: There is no such frame.
            CorruptMedia: A frame cannot be decoded without damage.
        """
        batch = self._decoder.get_frames_at(_as_numbers(indices))
        numbers: IntArray = batch.indices
        if len(numbers):
            # decord decodes a repeated frame once, where it comes first.
            _, first = np.unique(numbers, return_index=True)
            self._go_to(int(numbers[first.max()]) + 1)
        return bridge_out(batch.data)

    def get_frame_timestamp(self, idx: Any) -> FloatArray:
        """Give begin and end of frames in seconds after the first frame's begin, float32 [N, 2], or [2] for one number.

        Args:
            idx: A frame number, several as for ``get_batch``, or a slice.

        Raises:
            FrameNotFound: There is no such frame.
            TimeUnavailable: The stream has no usable timestamps.
        """
        if isinstance(idx, slice):
            return self._times[idx]
        is_one = np.ndim(idx) == 0
        numbers = _as_numbers([idx] if is_one else idx)
        for number in numbers.tolist():
            self._check_number("idx", number, least=-len(self))
        times: FloatArray = self._times[numbers]
        return times[0] if is_one else times

    def get_key_indices(self) -> list[int]:
        """List the numbers of the key frames."""
        keys: list[int] = self._index.key_frame_indices.tolist()
        return keys

    def get_avg_fps(self) -> float:
        """Give the mean rate in frames per second, or for a single frame that of the header.

        Raises:
            TimeUnavailable: Neither is known.
        """
        rate = self._index.average_fps
        if rate is None and self._index.has_timestamps:
            rate = self._decoder.metadata.average_fps_from_header
        if rate is None:
            raise TimeUnavailable(
                f"{self._name}: the frame rate is not known: the stream has no usable timestamps; read frames by number"
            )
        return float(rate)

    def seek(self, pos: int) -> None:
        """Go on to the first key frame at or behind a frame, or go back to the last one at or before it.

        Where there is none, it is the last or first key frame. As in decord, a second call with the same number does
        nothing.

        Raises:
            FrameNotFound: There is no such frame.
        """
        number, keys = self._check_number("pos", pos), self._index.key_frame_indices
        counted = self._position - self._gained
        if number == counted:
            return
        found = int(keys.searchsorted(number) if number > counted else keys.searchsorted(number, "right") - 1)
        self._position = int(keys[min(max(found, 0), len(keys) - 1)]) if len(keys) else number
        self._gained = self._position - number

    def seek_accurate(self, pos: int) -> None:
        """Go to a frame: ``next()`` gives it.

        Raises:
            FrameNotFound: There is no such frame.
        """
        self._go_to(self._check_number("pos", pos))

    def _go_to(self, number: int) -> None:
        self._position, self._gained = number, 0

    def skip_frames(self, num: int = 1) -> None:
        """Leave out frames: ``next()`` gives the one behind them.

        Raises:
            UsageError: ``num`` is not an integer of at least 1.
        """
        self._position = min(self._position + check_integer("num", num, least=1), len(self))

    @cached_property
    def _times(self) -> FloatArray:
        index = self._index
        require_times(index, self._name)
        begins = index.pts - index.pts[0]
        shown = np.where(index.duration > 0, index.duration, np.diff(begins, append=begins[-1]))
        ends = begins + np.where(shown > 0, shown, index.step)
        return np.stack([index.to_seconds(begins), index.to_seconds(ends)], axis=1).astype(np.float32)

    def _check_number(self, name: str, number: Any, least: int = 0) -> int:
        whole = check_integer(name, number)
        if not least <= whole < len(self):
            raise FrameNotFound(
                f"{self._name}: {name}: there is no frame {whole} in {len(self)} frames: expected {least} to "
                f"{len(self) - 1}",
                source=self._name,
            )
        return whole


def _find_source(uri: Any) -> MediaSource:
    if hasattr(uri, "read") and not isinstance(uri, type):
        # decord reads a file object to its end too, so that a script may close it afterwards.
        uri = uri.read()
        if not isinstance(uri, (bytes, bytearray, memoryview)):
            raise UsageError("uri: expected a file object that gives bytes, got one of text: open it with mode 'rb'")
    try:
        return MediaSource.of(uri)
    except UsageError as error:
        raise UsageError(f"uri: {str(error).removeprefix('source: ')}") from error


def _as_numbers(indices: Any) -> IntArray:
    """Convert what decord takes as frame numbers: any shape is read row by row, fractions are cut off."""
    try:
        given = np.asarray(indices)
    except ValueError as error:  # lists of unequal lengths
        raise _make_numbers_error(indices) from error
    if given.ndim == 0:
        is_lazy = given.dtype == object and isinstance(indices, Iterable)
        raise _make_numbers_error(indices, ": make a list of it" if is_lazy else ": use reader[i] for one frame")
    if given.size == 0:
        return np.empty(0, dtype=np.int64)
    if given.dtype.kind not in "iuf" or has_bools(indices) or not np.isfinite(given).all():
        raise _make_numbers_error(indices)
    if given.dtype.kind == "f":
        given = np.clip(given, -_NO_FRAME, _NO_FRAME)
    return given.ravel() if given.dtype.kind == "u" else given.astype(np.int64).ravel()


def _make_numbers_error(indices: Any, advice: str = "") -> WrongKind:
    return WrongKind(f"indices: expected a list of frame numbers, got {describe_value(indices)}{advice}")

"""Give the results of the function as an iterator, in the order of the frames."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from framefeed._arrays import FloatArray, IntArray
from framefeed.decode import Pixels
from framefeed.errors import CorruptMedia, DeadlineExceeded, WorkerLost
from framefeed.index import FrameIndex
from framefeed.media import MediaSource
from framefeed.parallel import (
    CLOSE_SECONDS,
    SOON_SECONDS,
    ClosedByWith,
    Err,
    Ok,
    OrderedOutcomes,
    catch_outcome,
    ordered_outcomes,
    raise_shortage,
)
from framefeed.transcode._calling import STAGE, FrameCaller, FrameOutcome
from framefeed.transcode._options import UserFunction, WorkerOptions
from framefeed.transcode._reading import FrameReader, describe_damage
from framefeed.transcode._results import FrameFault, MappedFrame, name_frame
from framefeed.transcode._timetable import Timetable

_MOST_BYTES = 256 << 20
"""Bytes of frames that are decoded ahead, and of results that wait; at least one call for each worker is in work."""
_CALLS_AHEAD = 4
"""Calls for each worker that may be in work or wait, so that one slow frame does not stop the others."""


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """The frames of one call of the function."""

    frames: list[int]
    pixels: list[Pixels]  # each uint8 [H, W, 3]
    damaged: list[FrameOutcome]  # frames before, between or behind them that could not be decoded
    name: str

    def __repr__(self) -> str:
        return self.name


class _Mapper:
    """Calls the user's function in any worker; it is set up in each thread, or in the process that unpickles it."""

    def __init__(self, user: UserFunction, source: str, pts_seconds: FloatArray) -> None:
        self._parts = user, source, pts_seconds
        self._own = threading.local()

    def __reduce__(self) -> tuple[Callable[..., _Mapper], tuple[Any, ...]]:
        return _set_up_mapper, self._parts

    def __repr__(self) -> str:
        return f"the map of {self._parts[1]}"

    def set_up(self) -> Ok[FrameCaller] | Err:
        """Run ``setup`` in this thread, at its first call."""
        if not hasattr(self._own, "caller"):
            self._own.caller = catch_outcome(lambda _: FrameCaller(*self._parts), None)
        caller: Ok[FrameCaller] | Err = self._own.caller
        return caller

    def __call__(self, call: _Call) -> list[FrameOutcome]:
        if not call.frames:
            return call.damaged
        caller = self.set_up()
        if isinstance(caller, Err):
            raise caller.error
        return [*call.damaged, *caller.value(call.frames, call.pixels)]


def _set_up_mapper(user: UserFunction, source: str, pts_seconds: FloatArray) -> _Mapper:
    """Make a mapper in a process: the time of ``setup`` then counts for no frame."""
    mapper = _Mapper(user, source, pts_seconds)
    mapper.set_up()
    return mapper


class MapIterator(Iterator[MappedFrame], ClosedByWith):
    """Iterator that `map_video` returns without ``out``. Use it in ``with``, call `close`, or drop it to end it.

    Frames are decoded ahead by one thread; the function runs in the workers.
    """

    def __init__(
        self, source: MediaSource, index: FrameIndex, times: Timetable, user: UserFunction, options: WorkerOptions
    ) -> None:
        self._source = source
        self._index = index
        self._times = times
        self._ledger: list[FrameFault] = []
        self._waiting: deque[MappedFrame] = deque()
        self._ordinals = np.unique(times.ordinals)
        size, workers = user.batch_size or 1, options.num_workers
        self._size = size
        height, width = index.stream.displayed
        fitting = _MOST_BYTES // max(1, height * width * 3 * size)
        in_flight = max(workers + 1, min(fitting, _CALLS_AHEAD * max(1, workers)))
        with ExitStack() as stack:
            # One thread, so that the frames come in order; without workers, in the thread that iterates.
            self._calls: OrderedOutcomes[int, _Call] = ordered_outcomes(
                _CallReader(source, index, self._ordinals, size),
                range(-(-len(self._ordinals) // size)),
                workers=min(1, workers),
                max_in_flight=max(2, min(fitting, 2 * max(1, workers))),
                deadline_seconds=options.deadline_seconds,
            )
            stack.callback(self._calls.close, SOON_SECONDS)
            self._outcomes: OrderedOutcomes[_Call, list[FrameOutcome]] = ordered_outcomes(
                _Mapper(user, source.name, index.pts_seconds),
                map(_take_value, self._calls),
                workers=workers,
                kind=options.kind,
                max_in_flight=in_flight,
                max_bytes=_MOST_BYTES,
                size_of=lambda outcomes: sum(_count_bytes(each.result) for each in outcomes),
                deadline_seconds=options.deadline_seconds,
            )
            stack.pop_all()

    @property
    def ledger(self) -> tuple[FrameFault, ...]:
        """Frames up to now that could not be decoded, or for which the function failed."""
        return tuple(self._ledger)

    @property
    def num_pictures(self) -> int:
        """Number of results if no frame fails."""
        return len(self._times)

    def __repr__(self) -> str:
        return f"MapIterator({self._source.name!r}, {self.num_pictures} frames)"

    def __next__(self) -> MappedFrame:
        while not self._waiting:
            try:
                self._take(next(self._outcomes))
            except MemoryError as error:
                raise_shortage(error, self._source.name, STAGE)
                raise
            except (DeadlineExceeded, WorkerLost) as error:
                self._raise_with_frame(error)
        return self._waiting.popleft()

    def _take(self, outcome: Any) -> None:
        if isinstance(outcome, Err):
            self.cancel()
            try:
                raise outcome.error
            finally:
                # The traceback refers to this frame, which must not refer to the error.
                del outcome
        faults = [each.fault for each in outcome.value if each.fault is not None]
        self._ledger += sorted(faults, key=lambda fault: fault.frame)
        for each in outcome.value:
            if not each.is_skipped:
                begin, end = np.searchsorted(self._times.ordinals, [each.frame, each.frame + 1]).tolist()
                for position in range(begin, end):
                    seconds = float(self._times.pts_seconds[position])
                    self._waiting.append(MappedFrame(each.frame, seconds, each.result))

    def _raise_with_frame(self, error: DeadlineExceeded | WorkerLost) -> NoReturn:
        """Raise an error of a worker, with the number of its frame in place of that of its call."""
        try:
            if error.source is not None or error.position is None:
                raise error
            frame = int(self._ordinals[error.position * self._size])
            name = name_frame(frame, float(self._index.pts_seconds[frame]))
            raise type(error)(
                f"{self._source.name}: {name}: {error}", position=frame, source=self._source.name, stage=STAGE
            ) from error
        finally:
            # The traceback refers to this frame, which must not refer to the error.
            del error

    def cancel(self) -> None:
        """End the iteration without waiting."""
        self._outcomes.cancel()
        self._calls.cancel()

    def close(self, wait_seconds: float = CLOSE_SECONDS) -> None:
        """End the iteration, and wait until the calls that are running are over.

        Args:
            wait_seconds: Longest wait; calls that take longer continue on their own.
        """
        self._waiting.clear()
        self._outcomes.close(wait_seconds)
        self._calls.close(wait_seconds)

    def _close_soon(self) -> None:
        self.cancel()
        self.close(SOON_SECONDS)


class _CallReader:
    """Reads the frames of one call after the other."""

    def __init__(self, source: MediaSource, index: FrameIndex, ordinals: IntArray, size: int) -> None:
        self._reader = FrameReader(source, index)
        self._index = index
        self._ordinals = ordinals
        self._size = size

    def __call__(self, number: int) -> _Call:
        begin, end = number * self._size, (number + 1) * self._size
        ordinals = self._ordinals[begin:end]
        frame = int(ordinals[0])
        call = _Call([], [], [], name_frame(frame, float(self._index.pts_seconds[frame])))
        for item in self._reader.read(ordinals, self._ordinals[end:]):
            if item is None:
                continue
            ordinal, pixels = item
            if isinstance(pixels, CorruptMedia):
                fault = describe_damage(self._index, ordinal, pixels)
                call.damaged.append(FrameOutcome(ordinal, None, fault))
            else:
                call.frames.append(ordinal)
                call.pixels.append(pixels)
        return call


def _take_value(outcome: Any) -> _Call:
    if isinstance(outcome, Err):
        raise outcome.error
    value: _Call = outcome.value
    return value


def _count_bytes(result: Any) -> int:
    if isinstance(result, list | tuple):
        return sum(map(_count_bytes, result))
    return int(getattr(result, "nbytes", 0))

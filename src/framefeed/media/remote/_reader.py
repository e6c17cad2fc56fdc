"""Read an object by ranges: those that a plan names, and windows around what parsers ask for."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterable
from time import perf_counter

from framefeed import _stopping
from framefeed._outcome import Err
from framefeed._shown import show_name
from framefeed._stopping import PendingCall
from framefeed._values import SourceStat
from framefeed.media.remote._answers import ObjectVersion
from framefeed.media.remote._client import PIECE_BYTES, Answer, RangeGet, Target

Range = tuple[int, int]
"""First byte, and behind the last one."""

FIRST_WINDOW = 2**16
"""Bytes that are fetched for a read which no one announced."""
LAST_WINDOW = 2**22
"""The same, for reads one after the other through a file."""
REQUEST_BYTES = 2**23
"""Most bytes of one request; longer ranges are divided."""
_MOST_KEPT_BYTES = 2**25
_MOST_AHEAD = 8
"""Requests of announced ranges that are made at once."""
GAP_BYTES = 2**18
"""Ranges that are not further apart are one request: at 50 MB/s these bytes take 5 ms, and a request 20."""


def merge_ranges(ranges: Iterable[Range], gap: int) -> list[Range]:
    """Merge ranges that overlap or are at most ``gap`` bytes apart; ascending.

    >>> merge_ranges([(100, 110), (0, 10), (15, 20)], gap=5)
    [(0, 20), (100, 110)]
    """
    merged: list[Range] = []
    for start, stop in sorted(each for each in ranges if each[0] < each[1]):
        if merged and start - merged[-1][1] <= gap:
            merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
        else:
            merged.append((start, stop))
    return merged


class _Part:
    """A range that is here, or on its way."""

    __slots__ = ("call", "data", "start", "stop")

    def __init__(self, start: int, stop: int, call: PendingCall[Answer]) -> None:
        self.start, self.stop = start, stop
        self.data: memoryview | None = None
        self.call = call


class RangeReader:
    """Reads an object by URL; one thread at a time. After a fork it begins anew.

    Args:
        target: The object.

    Attributes:
        version: Of the object, once an answer is there; all bytes are of this version.
        requests: Number of requests so far.
        fetched_bytes: Bytes of their answers.
        wait_seconds: Seconds that reads waited for them.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._name = show_name(target.url)
        self.version: ObjectVersion | None = None
        self.requests = self.fetched_bytes = 0
        self.wait_seconds = 0.0
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._parts: list[_Part] = []  # the one used last is the last
        self._announced: deque[Range] = deque()
        self._window, self._next_offset = FIRST_WINDOW, 0

    def announce(self, ranges: Iterable[Range]) -> None:
        """Say which ranges are read next; the first ones are asked for at once. What was announced before is over."""
        if self._pid != os.getpid():
            self._begin()
        end = sys.maxsize if self.version is None else self.version.size
        wanted = [
            (start, min(stop, start + REQUEST_BYTES))
            for first, stop in merge_ranges(((start, min(stop, end)) for start, stop in ranges), GAP_BYTES)
            for start in range(first, stop, REQUEST_BYTES)
        ]
        here = {(part.start, part.stop): part for part in self._parts}
        for part in here.values():
            if (part.start, part.stop) not in wanted and part.data is None:
                part.call.is_abandoned.set()
                self._parts.remove(part)
        self._announced = deque(each for each in wanted if each not in here)
        self._start_announced()

    def release(self) -> None:
        """Give up what was read and what is under way."""
        if self._pid == os.getpid():
            for part in self._parts:
                part.call.is_abandoned.set()
        self._begin()

    def close(self) -> None:
        """Give up what is under way; more than once is fine."""
        self.release()

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill ``buffer`` from byte ``offset`` on; return the number of bytes read."""
        if self._pid != os.getpid():
            self._begin()
        got = 0
        while got < len(buffer):
            at = offset + got
            if self.version is not None and at >= self.version.size:
                break
            part = self._find(at) or self._fetch(at, len(buffer) - got)
            piece = self._wait(part)[at - part.start : at - part.start + len(buffer) - got]
            if not piece:
                break
            buffer[got : got + len(piece)] = piece
            got += len(piece)
        return got

    def stat(self) -> SourceStat:
        """Bytes of the object."""
        if self.version is None:
            self.read_into(memoryview(bytearray(1)), 0)
        return SourceStat(0 if self.version is None else self.version.size)

    def _find(self, offset: int) -> _Part | None:
        for number in range(len(self._parts) - 1, -1, -1):
            part = self._parts[number]
            if part.start <= offset < part.stop:
                self._parts.append(self._parts.pop(number))
                return part
        return None

    def _fetch(self, offset: int, count: int) -> _Part:
        """Ask for the bytes at an offset, and for what is announced behind them."""
        while self._announced and self._announced[0][1] <= offset:
            self._announced.popleft()
        if self._announced and self._announced[0][0] <= offset:
            part = self._start(*self._announced.popleft())
        else:
            is_sequential = offset == self._next_offset > 0
            self._window = min(2 * self._window, LAST_WINDOW) if is_sequential else FIRST_WINDOW
            part = self._start(offset, offset + min(max(self._window, count), REQUEST_BYTES))
            self._next_offset = part.stop
        self._start_announced()
        return part

    def _start_announced(self) -> None:
        if self.version is None:
            return  # The first answer says of which version the others must be.
        waiting = [part for part in self._parts if part.data is None]
        nbytes = sum(part.stop - part.start for part in waiting)
        count = len(waiting)
        while self._announced and count < _MOST_AHEAD and nbytes < _MOST_KEPT_BYTES // 2:
            start, stop = self._announced[0]
            if start < self.version.size:
                try:
                    self._start(start, stop)
                except OSError:
                    return  # No thread; the read itself will ask, and say so.
                count, nbytes = count + 1, nbytes + stop - start
            self._announced.popleft()

    def _start(self, start: int, stop: int) -> _Part:
        if self.version is not None:
            stop = min(stop, self.version.size)
        part = _Part(start, stop, PendingCall(RangeGet(self._target, start, stop, self.version)))
        self._parts.append(part)
        return part

    def _wait(self, part: _Part) -> memoryview:
        if part.data is None:
            pieces = -(-(part.stop - part.start) // PIECE_BYTES)
            began = perf_counter()
            try:
                # Its own thread knows when the server is silent.
                outcome = part.call.wait(_stopping.SILENCE_SECONDS * (pieces + 2), self._name, "read")
            except BaseException:
                self._parts.remove(part)
                raise
            finally:
                self.wait_seconds += perf_counter() - began
            if isinstance(outcome, Err):
                self._parts.remove(part)
                raise outcome.error
            answer = outcome.value
            part.data = memoryview(answer.data)
            part.stop = part.start + len(answer.data)
            if answer.data or not answer.version.size:
                # The answer to a read behind the end has no other facts than the size.
                self.version = self.version or answer.version
            self.requests += answer.requests
            self.fetched_bytes += len(answer.data)
            self._drop_oldest()
            self._start_announced()
        return part.data

    def _drop_oldest(self) -> None:
        nbytes = sum(part.stop - part.start for part in self._parts)
        for part in [each for each in self._parts[:-1] if each.data is not None]:
            if nbytes <= _MOST_KEPT_BYTES:
                break
            nbytes -= part.stop - part.start
            self._parts.remove(part)

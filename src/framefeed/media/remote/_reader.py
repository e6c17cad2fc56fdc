"""Read an object by ranges: those that a plan names, and windows around what parsers ask for."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from time import perf_counter
from typing import Any

import numpy as np

from framefeed import _stopping
from framefeed._fetched import FetchCounts, count_fetch
from framefeed._live_set import LiveSet
from framefeed._outcome import Err, Ok
from framefeed._per_process import PerProcess
from framefeed._shown import show_name
from framefeed._stopping import PendingCall
from framefeed._values import SourceStat
from framefeed.errors import DeadlineExceeded, FramefeedError, StaleSource
from framefeed.media.remote._answers import FetchedRange, ObjectVersion, make_stale_error
from framefeed.media.remote._client import PIECE_BYTES, RangeGet
from framefeed.media.remote._prices import GAP_PRICES
from framefeed.media.remote._targets import Target

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


def divide_ranges(ranges: Iterable[Range], gap: int) -> list[Range]:
    """Merge ranges, and divide those that are too long for one request; ascending."""
    return [
        (start, min(stop, start + REQUEST_BYTES))
        for first, stop in merge_ranges(ranges, gap)
        for start in range(first, stop, REQUEST_BYTES)
    ]


def _begin_get(target: Target, start: int, stop: int, version: ObjectVersion | None) -> PendingCall[FetchedRange]:
    return PendingCall(RangeGet(target, start, stop, version))


class _EndedCall:
    """A call that ended in another process."""

    def __init__(self, outcome: Ok[FetchedRange] | Err) -> None:
        self._outcome = outcome
        self.was_abandoned = False

    def wait(self, *_: object) -> Ok[FetchedRange] | Err:
        return self._outcome

    def abandon(self) -> None:
        pass


class _Part:
    """A range that is here, or on its way; ``is_shared`` if several readers may use it."""

    __slots__ = ("asked", "call", "data", "is_shared", "start", "stop", "version")

    def __init__(
        self,
        start: int,
        stop: int,
        asked: ObjectVersion | None,
        call: PendingCall[FetchedRange] | _EndedCall,
        *,
        is_shared: bool = False,
    ) -> None:
        self.start, self.stop, self.asked = start, stop, asked
        self.data: memoryview | None = None
        self.version: ObjectVersion | None = None
        self.call = call
        self.is_shared = is_shared

    @property
    def nbytes(self) -> int:
        return self.stop - self.start

    def overlaps(self, ranges: Iterable[Range]) -> bool:
        return any(self.start < stop and start < self.stop for start, stop in ranges)

    def wait(self, name: str) -> Ok[FetchedRange] | Err:
        """Wait for the answer; the thread that asks knows itself when the server is silent."""
        pieces = -(-self.nbytes // PIECE_BYTES)
        began = perf_counter()
        try:
            return self.call.wait(_stopping.SILENCE_SECONDS * (pieces + 2), name, "read")
        finally:
            count_fetch(FetchCounts(wait_seconds=perf_counter() - began))


class FetchedAhead:
    """Ranges of an object that are asked for now, for readers that come later; they are kept as long as this object.

    They must be of ``version``, None for any; ``nbytes`` are their bytes.
    """

    def __init__(self, target: Target, ranges: Iterable[Range], version: ObjectVersion | None = None) -> None:
        gap = GAP_PRICES.value.find_gap(target.url)
        parts = [
            _Part(start, stop, version, _begin_get(target, start, stop, version), is_shared=True)
            for start, stop in divide_ranges(ranges, gap)
        ]
        count_fetch(FetchCounts(gap_bytes=gap))
        self._share(target.key, target.url, parts)

    def _share(self, key: Hashable, url: str, parts: list[_Part]) -> None:
        self._key, self._url, self.parts = key, url, parts
        self.nbytes = sum(part.nbytes for part in parts)
        _AHEAD.value.add(key, self)

    def send(self) -> SentAhead:
        """Wait for the answers; return them, with their errors, for readers of another process."""
        sent: list[_SentPart] = []
        for part in self.parts:
            try:
                outcome = part.wait(show_name(self._url))
            except DeadlineExceeded as error:
                outcome = Err(error)
            if isinstance(outcome, Ok):
                answer = outcome.value
                # Arrays are sent without a copy.
                sent.append((part.start, part.stop, part.asked, (np.asarray(memoryview(answer.data)), answer.version)))
            elif isinstance(outcome.error, FramefeedError):  # Another process may have no shortage.
                sent.append((part.start, part.stop, part.asked, outcome.error))
        return SentAhead(self._key, self._url, sent)

    def drop(self) -> None:
        """Give them up; a reader keeps what it uses."""
        parts, self.parts = self.parts, []
        _AHEAD.value.remove(self._key, self)
        for part in parts:
            part.call.abandon()

    def forget(self, part: _Part) -> None:
        """Let no other reader use a range that failed."""
        self.parts = [each for each in self.parts if each is not part]


_SentPart = tuple[int, int, ObjectVersion | None, Any]


@dataclass(frozen=True, slots=True, repr=False)
class SentAhead:
    """Answers that one process has for readers of another, by the key of the object's target."""

    key: Hashable  # that of the object's target
    url: str  # the object
    # First byte, and behind the last one; the version that was asked for; bytes and their version, or an error.
    answers: list[_SentPart]

    def receive(self) -> FetchedAhead:
        """Give them to the readers of this process, until the result is dropped."""
        ahead, parts = FetchedAhead.__new__(FetchedAhead), []
        for start, stop, asked, answer in self.answers:
            outcome: Ok[FetchedRange] | Err
            if isinstance(answer, FramefeedError):
                outcome = Err(answer)
            else:
                array, version = answer
                outcome = Ok(FetchedRange(memoryview(array), version))
            parts.append(_Part(start, stop, asked, _EndedCall(outcome), is_shared=True))
        ahead._share(self.key, self.url, parts)
        return ahead


class _AheadByTarget:
    """What was asked for ahead, by the key of its target."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ahead: dict[Hashable, LiveSet[FetchedAhead]] = {}
        self._clean_at = _CLEAN_AT

    def add(self, key: Hashable, ahead: FetchedAhead) -> None:
        with self._lock:
            if len(self._ahead) >= self._clean_at:
                self._ahead = {of: each for of, each in self._ahead.items() if each}
                self._clean_at = max(_CLEAN_AT, 2 * len(self._ahead))
            self._ahead.setdefault(key, LiveSet()).add(ahead)

    def remove(self, key: Hashable, ahead: FetchedAhead) -> None:
        with self._lock:
            if (known := self._ahead.get(key)) is not None:
                known.discard(ahead)
                if not known:
                    del self._ahead[key]

    def list_ahead(self, key: Hashable) -> list[FetchedAhead]:
        if key not in self._ahead:
            return []
        with self._lock:
            return list(self._ahead.get(key, ()))


_CLEAN_AT = 1024
"""URLs of which what was asked for may have been freed without being dropped."""
_AHEAD = PerProcess(_AheadByTarget)


class RangeReader:
    """Reads an object by URL; one thread at a time. After a fork it begins anew.

    All bytes are of ``version``: that of the first answer, if none is given. If the first answer is of another one,
    ``confirm`` is called, and returns one whose bytes are the same.
    """

    def __init__(
        self,
        target: Target,
        version: ObjectVersion | None = None,
        confirm: Callable[[], ObjectVersion] | None = None,
    ) -> None:
        self._target = target
        self._confirm = confirm
        self._name = show_name(target.url)
        self.version = version
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._parts: list[_Part] = []  # the one used last is the last
        self._announced: deque[Range] = deque()
        self._window, self._next_offset = FIRST_WINDOW, 0

    @property
    def kept_bytes(self) -> int:
        """Bytes of the object that are here, or on their way."""
        return sum(part.nbytes for part in self._parts)

    def announce(self, ranges: Iterable[Range]) -> None:
        """Say which ranges are read next; the first ones are asked for at once. What was announced before is over."""
        if self._pid != os.getpid():
            self._begin()
        end = sys.maxsize if self.version is None else self.version.size
        gap = GAP_PRICES.value.find_gap(self._target.url)
        wanted = divide_ranges(((start, min(stop, end)) for start, stop in ranges), gap)
        self._add_ahead(wanted)
        # What was asked for ahead may be divided otherwise.
        kept = {part for part in self._parts if part.data is not None or (part.is_shared and part.overlaps(wanted))}
        self._give_up([part for part in self._parts if part not in kept and (part.start, part.stop) not in wanted])
        self._announced = deque(each for each in map(self._find_rest, wanted) if each[0] < each[1])
        if self._announced:
            count_fetch(FetchCounts(gap_bytes=gap))
        self._start_announced()

    def _find_rest(self, wanted: Range) -> Range:
        """Find what is missing of a range, without the middle."""
        start, stop = wanted
        for part in sorted(self._parts, key=attrgetter("start")):
            if part.start <= start < part.stop:
                start = part.stop
        return start, stop

    def close(self) -> None:
        """Give up what was read and what is under way; the reader can be used again, and closed more than once."""
        if self._pid == os.getpid():
            self._give_up(self._parts)
        self._begin()

    def _give_up(self, parts: Iterable[_Part]) -> None:
        for part in list(parts):
            if not part.is_shared:
                part.call.abandon()
            self._parts.remove(part)

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill ``buffer`` from byte ``offset`` on; return the number of bytes read."""
        if self._pid != os.getpid():
            self._begin()
        got = 0
        while got < len(buffer):
            at = offset + got
            if self.version is not None and at >= self.version.size:
                break
            part = self._find(at)
            if part is None:
                self._add_ahead([(at, at + 1)])
                part = self._find(at) or self._fetch(at, len(buffer) - got)
            try:
                data = self._wait(part)
            except StaleSource:
                if part.is_shared and self.version and not (part.asked and self.version.is_same(part.asked)):
                    continue  # It was asked for before this version was known.
                if self._confirm is None:
                    raise
                self._accept_other(self._confirm)
                continue
            if data is None:
                continue
            self._confirm = None
            piece = data[at - part.start : at - part.start + len(buffer) - got]
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

    def _add_ahead(self, ranges: Sequence[Range]) -> None:
        for ahead in _AHEAD.value.list_ahead(self._target.key):
            for part in ahead.parts:
                # A reader of any version must not get what holds for an earlier one.
                is_usable = part.asked is None or self.version is not None
                if is_usable and part.overlaps(ranges) and part not in self._parts:
                    self._parts.append(part)

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
        if self.version is None or not self._announced:
            return  # The first answer says of which version the others must be.
        waiting = [part for part in self._parts if part.data is None]
        nbytes = sum(part.nbytes for part in waiting)
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
        part = _Part(start, stop, self.version, _begin_get(self._target, start, stop, self.version))
        self._parts.append(part)
        return part

    def _wait(self, part: _Part) -> memoryview | None:
        """Wait for a range; None if those who asked for it ahead gave it up meanwhile."""
        if part.data is None:
            try:
                outcome = part.wait(self._name)
            except BaseException:
                self._remove(part)
                raise
            if isinstance(outcome, Err):
                self._remove(part)
                if part.is_shared and part.call.was_abandoned:
                    return None
                raise outcome.error
            answer = outcome.value
            part.stop = part.start + len(answer.data)
            part.data = memoryview(answer.data)
            # The answer to a read behind the end has no other facts than the size.
            part.version = answer.version if answer.data or not answer.version.size else None
            self._drop_oldest()
        if self.version is None:
            self.version = part.version
        elif part.version is not None and not self.version.is_same(part.version):
            self._remove(part)
            raise make_stale_error(self._name)
        self._start_announced()
        return part.data

    def _accept_other(self, confirm: Callable[[], ObjectVersion]) -> None:
        """Begin anew with another version whose bytes are the same; nothing was read of the first one."""
        self._confirm, before = None, self.version
        self._give_up(self._parts)
        self.version = confirm()
        for ahead in _AHEAD.value.list_ahead(self._target.key):
            ahead.parts = [part for part in ahead.parts if before is None or part.asked != before]

    def _remove(self, part: _Part) -> None:
        """Forget a range that failed, so that it is asked for again."""
        self._parts.remove(part)
        if part.is_shared:
            for ahead in _AHEAD.value.list_ahead(self._target.key):
                ahead.forget(part)

    def _drop_oldest(self) -> None:
        nbytes = self.kept_bytes
        for part in [each for each in self._parts[:-1] if each.data is not None]:
            if nbytes <= _MOST_KEPT_BYTES:
                break
            nbytes -= part.nbytes
            self._parts.remove(part)

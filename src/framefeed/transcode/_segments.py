"""Divide the pictures of an output into segments, which workers make independently of each other; pure.

Rules:
    - Each picture is in one segment; segments are in the order of the pictures.
    - Segments do not depend on the workers: a run with other workers continues, and writes the same bytes.
    - A segment begins where decoding can begin if there is such a picture near its best length, else anywhere: a worker
      that makes the segment before it goes on without decoding anything twice (`SegmentQueue`).
    - Segments are shorter towards the end, so that workers end at about the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, takewhile

import numpy as np

from framefeed._arrays import BoolArray
from framefeed.index import FrameIndex
from framefeed.transcode._timetable import Timetable

SHORTEST_SECONDS = 1
"""A segment costs one encoder, and one key frame more than the encoder would choose."""
LONGEST_SECONDS = 10
"""An interruption loses this much of each worker's work at most."""
_LEAST_PICTURES, _MOST_PICTURES = 12, 60
"""Bounds of a second's pictures: for slow and for fast videos."""
_ASSUMED_RATE = Fraction(25)
_PARTS_LEFT = 16
"""A segment is this part of what is left, so that four workers end within a 64th of the time of each other."""
_DECODING_SHARE = Fraction(1, 4)
"""Cost of decoding a frame, as a share of all that is done for one: 1.3 of 5.6 ms without any function (720p)."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Some pictures of an output, one after the other."""

    number: int
    first: int
    stop: int
    is_start: bool = True  # whether decoding can begin at its first picture as cheaply as anywhere
    catch_up: int = 0  # frames to be decoded before its first one, by a worker that did not make the segment before

    def __len__(self) -> int:
        return self.stop - self.first


def plan_segments(times: Timetable, index: FrameIndex) -> tuple[Segment, ...]:
    """Divide the pictures of an output into segments."""
    if not len(times):
        return ()
    starts, packets = index.frame_start[times.ordinals], index.frame_packet[times.ordinals]
    is_new = np.append(True, np.diff(times.ordinals) > 0)
    is_start = np.append(True, starts[1:] != starts[:-1]) & is_new
    catch_up = np.maximum(packets - starts, 0)
    second = min(max(round(times.rate or _ASSUMED_RATE), _LEAST_PICTURES), _MOST_PICTURES)
    bounds = _choose_bounds(is_start, is_new, second)
    return tuple(
        Segment(number, first, stop, bool(is_start[first]), 0 if is_start[first] else int(catch_up[first]))
        for number, (first, stop) in enumerate(pairwise(bounds))
    )


def _choose_bounds(is_start: BoolArray, is_new: BoolArray, second: int) -> list[int]:
    """Choose the first pictures of all segments, and the number of pictures, ``second`` of them in a second."""
    count, bounds = len(is_start), [0]
    # A frame that is repeated is in one segment.
    starts, news = np.flatnonzero(is_start), np.append(np.flatnonzero(is_new), count)
    while bounds[-1] < count:
        first, left = bounds[-1], count - bounds[-1]
        length = min(max(left // _PARTS_LEFT, SHORTEST_SECONDS * second), LONGEST_SECONDS * second)
        least, best, most = first + max(length // 2, SHORTEST_SECONDS * second), first + length, first + 2 * length
        near = starts[np.searchsorted(starts, least) : np.searchsorted(starts, most, side="right")]
        if count <= most or count < least + second:
            bounds.append(count)
        elif len(near):
            bounds.append(int(near[np.abs(near - best).argmin()]))
        else:
            bounds.append(int(news[np.searchsorted(news, best)]))
    return bounds


class SegmentQueue:
    """Hands out segments to workers, so that little is decoded twice; not thread-safe.

    A worker goes on with the next segment if that begins between two starts of decoding: its decoder is there already.
    Otherwise it takes the first start that is free. If there is none, it takes over the end of another worker's run of
    segments, from where both are done soonest, decoding up to there included; if that is no sooner, it is done.

    Segments of the numbers ``finished`` need no work.
    """

    def __init__(self, segments: Sequence[Segment], finished: Iterable[int] = ()) -> None:
        self._segments = segments
        self._free = dict.fromkeys(range(len(segments)))
        for number in finished:
            del self._free[number]
        self._current: dict[int, int] = {}

    def __len__(self) -> int:
        """Count the segments that no worker has taken."""
        return len(self._free)

    def take(self, worker: int) -> Segment | None:
        """Take the next segment for a worker, which has made its last one; None if there is none for it."""
        last = self._current.pop(worker, None)
        following = None if last is None else last + 1
        if following is None or not self._is_inside_run(following):
            following = self._find_start()
        if following is None:
            following = self._find_half()
        if following is None:
            return None
        del self._free[following]
        self._current[worker] = following
        return self._segments[following]

    def _find_start(self) -> int | None:
        """Find the first free segment that begins at a start, or that no worker will come to."""
        busy = self._current.values()
        for number in self._free:
            is_follower = number - 1 in self._free or number - 1 in busy
            if self._segments[number].is_start or not is_follower:
                return number
        return None

    def _find_half(self) -> int | None:
        """Find the segment from which the run of another worker is best taken over."""
        best, most = None, Fraction(0)
        for worked in self._current.values():
            run = list(takewhile(self._is_inside_run, range(worked + 1, len(self._segments))))
            # That worker is on average in the middle of its segment.
            before = Fraction(len(self._segments[worked]), 2)
            behind = sum(len(self._segments[number]) for number in run)
            whole = before + behind
            for number in run:
                ends = max(before, self._segments[number].catch_up * _DECODING_SHARE + behind)
                if whole - ends > most:
                    best, most = number, whole - ends
                before, behind = before + len(self._segments[number]), behind - len(self._segments[number])
        return best

    def _is_inside_run(self, number: int) -> bool:
        """Whether a segment is free, and made by the worker that makes the one before it."""
        return number in self._free and not self._segments[number].is_start

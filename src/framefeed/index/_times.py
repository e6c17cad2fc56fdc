"""Choose the source of a stream's frame times when it is indexed (M07, M22).

In this order: the frames' own times, if all are known and none goes backwards; the times at which the decoder gave the
frames; a constant rate that the container or the bitstream declares; the caller's assumed rate; none. libav's estimate
of a rate is not a declaration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from framefeed._arrays import IntArray
from framefeed._values import MISSING_PTS, PacketWalk
from framefeed.index._declared_rate import find_declared_rate, has_clock
from framefeed.index._frame_index import TimesFrom
from framefeed.media import DecodedFact, VideoContainer

TIMES_FROM_IN_WORDS: Mapping[TimesFrom, str] = {
    "pts": "presentation times in the file",
    "dts": "decoding times in the file, because presentation times are wrong or missing",
    "rate": "the constant rate that the file declares",
    "assumed": "the rate that was given as assume_fps",
    "none": "no times are known",
}
"""Descriptions of the sources, for people."""
_MAX_TICKS = 2**60
"""Times further from 0 are not believed; the sum of a few others fits into int64."""


class FrameTimes(NamedTuple):
    """Presentation times of the output frames of a stream."""

    pts: IntArray  # in ticks of ``time_base``, int64 [N]
    duration: IntArray  # in ticks of ``time_base``, int64 [N]; 0 where unknown
    time_base: Fraction
    times_from: TimesFrom = "pts"
    time_shift: int = 0  # ticks that were added to decoding times


class DecodingTimes(NamedTuple):
    """Decoding times of a whole stream; ``MISSING_PTS`` where unknown."""

    frames: IntArray  # decoding time that the decoder attaches to each output frame, int64 [N]
    packets: IntArray  # decoding time of each packet, in demuxing order, int64 [P]

    @classmethod
    def of(cls, facts: Sequence[DecodedFact], packets: Sequence[int | None]) -> DecodingTimes:
        """Take those of decoded frames, and of the packets, None where unknown."""
        return cls(_to_ticks(fact.dts for fact in facts), _to_ticks(packets))


def read_packet_times(walk: PacketWalk, order: IntArray, time_base: Fraction | None) -> FrameTimes:
    """Read the times of frames from their packets.

    ``order``: packet number of each output frame, in output order, int64 [N]; -1 where unknown.
    """
    pts, duration = walk.packets.pts[order], walk.duration[order]
    is_unknown = order < 0
    if np.count_nonzero(is_unknown):
        pts[is_unknown], duration[is_unknown] = MISSING_PTS, 0
    return FrameTimes(pts, duration, time_base or Fraction(1))


def find_times(
    container: VideoContainer, own: FrameTimes, walk: PacketWalk, decoding: DecodingTimes | None
) -> FrameTimes:
    """Choose the best source of times that the stream itself offers.

    ``container``: open; its position does not change.
    ``own``: the frames' own times, read from the packets.
    ``decoding``: none if not everything was decoded.
    """
    if not has_clock(container):
        # The length of its ticks is unknown.
        unknown = np.full_like(own.pts, MISSING_PTS)
        own = FrameTimes(unknown, np.zeros_like(unknown), own.time_base)
    elif _never_decreases(own.pts):
        return own
    elif decoding is not None and (shifted := _shift_decoding_times(decoding)) is not None:
        pts, shift = shifted
        return FrameTimes(pts, own.duration, own.time_base, "dts", shift)
    rate = find_declared_rate(container, walk)
    return (
        FrameTimes(own.pts, own.duration, own.time_base, "none")
        if rate is None
        else _make_even_times(own, rate, "rate")
    )


def assume_rate(times: FrameTimes, fps: Fraction | None) -> FrameTimes:
    """Replace missing times by those of an assumed rate."""
    return times if fps is None or times.times_from != "none" else _make_even_times(times, fps, "assumed")


def _make_even_times(own: FrameTimes, rate: Fraction, times_from: TimesFrom) -> FrameTimes:
    numbers = np.arange(len(own.pts), dtype=np.int64)
    return FrameTimes(numbers, np.ones_like(numbers), 1 / rate, times_from)


def _to_ticks(values: Iterable[int | None]) -> IntArray:
    return np.array([MISSING_PTS if value is None else value for value in values], dtype=np.int64)


def _never_decreases(ticks: IntArray) -> bool:
    # Not by differences, which overflow between times far apart; a missing time is less than any other.
    return len(ticks) > 0 and ticks[0] != MISSING_PTS and bool((ticks[1:] >= ticks[:-1]).all())


def _shift_decoding_times(decoding: DecodingTimes) -> tuple[IntArray, int] | None:
    """Shift the decoding times of frames so that the first is that of the first packet.

    Returns:
        Times, int64 [N], and the ticks that were added; None if the decoding times are unusable.
    """
    frames, packets = decoding.frames, decoding.packets
    known, sent = (np.flatnonzero(column != MISSING_PTS) for column in (frames, packets))
    if not len(known) or known[-1] - known[0] + 1 != len(known) or not _never_decreases(frames[known]):
        return None
    if max(_find_largest_distance(frames[known]), _find_largest_distance(packets[sent])) > _MAX_TICKS:
        return None
    times = frames[known] if len(known) > 1 else packets[sent]
    step = int(np.median(np.diff(times))) if len(times) > 1 else None
    before, after, unsent = int(known[0]), len(frames) - 1 - int(known[-1]), int(sent[0])
    if step is None:
        return None if before or after or unsent else _shift_start(frames, int(packets[0]))
    if not 0 <= step * max(before, after, unsent) <= _MAX_TICKS:
        return None
    begin = int(frames[known[0]]) + step * np.arange(-before, 0, dtype=np.int64)
    end = int(frames[known[-1]]) + step * np.arange(1, after + 1, dtype=np.int64)
    return _shift_start(np.concatenate([begin, frames[known], end]), int(packets[unsent]) - step * unsent)


def _shift_start(times: IntArray, first: int) -> tuple[IntArray, int]:
    shift = first - int(times[0])
    return times + shift, shift


def _find_largest_distance(ticks: IntArray) -> int:
    return max(-int(ticks.min()), int(ticks.max())) if len(ticks) else _MAX_TICKS + 1

"""Where the times of output frames come from: a tier for each stream, decided when it is indexed (M07, M22).

The frames' own times are taken where all of them are known and none goes backwards; else the decoding times at which
the decoder gave the frames; else a constant rate that the container or the bitstream declares; else one that the caller
assumes; else there are none. A rate that libav estimates is no declaration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from framefeed._arrays import IntArray
from framefeed.index._frame_index import MISSING_PTS, TimesFrom
from framefeed.media import DecodedFact, Packet, PacketWalk, VideoContainer, declared_rate, has_clock

TIMES_IN_WORDS: Mapping[TimesFrom, str] = {
    "pts": "presentation times in the file",
    "dts": "decoding times in the file, because presentation times are wrong or missing",
    "rate": "the constant rate that the file declares",
    "assumed": "the rate that was given as assume_fps",
    "none": "no times are known",
}
"""What each tier means, for people."""
_MAX_TICKS = 2**60
"""Times further from 0 are no times; the sums of a few others fit into int64."""


@dataclass(frozen=True, slots=True)
class FrameTimes:
    """When the output frames of a stream are shown.

    Attributes:
        pts: In units of ``time_base``, int64 [N].
        duration: Likewise; 0 where unknown.
        time_base: Seconds in one tick.
        times_from: Where they come from.
        time_shift: Ticks that were added to decoding times.
    """

    pts: IntArray
    duration: IntArray
    time_base: Fraction
    times_from: TimesFrom = "pts"
    time_shift: int = 0


@dataclass(frozen=True, slots=True)
class DecodingTimes:
    """What decoding a whole stream says of its times; ``MISSING_PTS`` where it says nothing.

    Attributes:
        frames: Decoding time of each output frame as the decoder hands it on, int64 [N].
        packets: Decoding time of each packet, in demuxing order, int64 [P].
    """

    frames: IntArray
    packets: IntArray


@dataclass(slots=True)
class SentPackets:
    """Notes the decoding times of packets on their way to the decoder."""

    _dts: list[int | None] = field(default_factory=list)

    def pass_on(self, packets: Iterator[tuple[int, Packet]]) -> Iterator[tuple[int, Packet]]:
        """Give the same packets."""
        for number, packet in packets:
            self._dts.append(packet.dts)
            yield number, packet

    def decoding_times(self, facts: Sequence[DecodedFact]) -> DecodingTimes:
        """Join them with the times of the frames that the decoder gave for all of them."""
        return DecodingTimes(_ticks(fact.dts for fact in facts), _ticks(self._dts))


def own_times(walk: PacketWalk, order: IntArray, time_base: Fraction | None) -> FrameTimes:
    """Give what packets say of their frames.

    Args:
        walk: The packets.
        order: Packet number of each output frame, in output order, int64 [N]; -1 where unknown.
        time_base: Seconds in one tick.
    """
    pts, duration = walk.pts[order], walk.duration[order]
    is_unknown = order < 0
    if np.count_nonzero(is_unknown):
        pts[is_unknown], duration[is_unknown] = MISSING_PTS, 0
    return FrameTimes(pts, duration, time_base or Fraction(1))


def find_times(
    container: VideoContainer, own: FrameTimes, walk: PacketWalk, decoding: DecodingTimes | None
) -> FrameTimes:
    """Find the first tier that holds, without what a caller assumes.

    Args:
        container: Open; stays where it is.
        own: What the packets say of their frames.
        walk: The packets.
        decoding: None where not all was decoded.
    """
    if not has_clock(container):
        # How long its ticks last is not known.
        unknown = np.full_like(own.pts, MISSING_PTS)
        own = FrameTimes(unknown, np.zeros_like(unknown), own.time_base)
    elif _never_decreases(own.pts):
        return own
    elif decoding is not None and (shifted := _from_decoding(decoding)) is not None:
        pts, shift = shifted
        return FrameTimes(pts, own.duration, own.time_base, "dts", shift)
    rate = declared_rate(container, walk)
    return FrameTimes(own.pts, own.duration, own.time_base, "none") if rate is None else _even(own, rate, "rate")


def assume_rate(times: FrameTimes, fps: Fraction | None) -> FrameTimes:
    """Assume a rate where there are no times."""
    return times if fps is None or times.times_from != "none" else _even(times, fps, "assumed")


def _even(own: FrameTimes, rate: Fraction, times_from: TimesFrom) -> FrameTimes:
    numbers = np.arange(len(own.pts), dtype=np.int64)
    return FrameTimes(numbers, np.ones_like(numbers), 1 / rate, times_from)


def _ticks(values: Iterable[int | None]) -> IntArray:
    return np.array([MISSING_PTS if value is None else value for value in values], dtype=np.int64)


def _never_decreases(ticks: IntArray) -> bool:
    # Not by differences, which overflow between times far apart; a missing time is less than any other.
    return len(ticks) > 0 and ticks[0] != MISSING_PTS and bool((ticks[1:] >= ticks[:-1]).all())


def _from_decoding(decoding: DecodingTimes) -> tuple[IntArray, int] | None:
    """Shift the decoding times of frames so that the first has that of the first packet; None where they are no times.

    Returns:
        Times, int64 [N], and the ticks that were added.
    """
    frames, packets = decoding.frames, decoding.packets
    known, sent = (np.flatnonzero(column != MISSING_PTS) for column in (frames, packets))
    if not len(known) or known[-1] - known[0] + 1 != len(known) or not _never_decreases(frames[known]):
        return None
    if max(_furthest(frames[known]), _furthest(packets[sent])) > _MAX_TICKS:
        return None
    step = _median_step(frames[known] if len(known) > 1 else packets[sent])
    before, after, unsent = int(known[0]), len(frames) - 1 - int(known[-1]), int(sent[0])
    if step is None:
        return None if before or after or unsent else _shifted(frames, int(packets[0]))
    if not 0 <= step * max(before, after, unsent) <= _MAX_TICKS:
        return None
    begin = int(frames[known[0]]) + step * np.arange(-before, 0, dtype=np.int64)
    end = int(frames[known[-1]]) + step * np.arange(1, after + 1, dtype=np.int64)
    return _shifted(np.concatenate([begin, frames[known], end]), int(packets[unsent]) - step * unsent)


def _shifted(times: IntArray, first: int) -> tuple[IntArray, int]:
    shift = first - int(times[0])
    return times + shift, shift


def _furthest(ticks: IntArray) -> int:
    return max(-int(ticks.min()), int(ticks.max())) if len(ticks) else _MAX_TICKS + 1


def _median_step(times: IntArray) -> int | None:
    return int(np.median(np.diff(times))) if len(times) > 1 else None

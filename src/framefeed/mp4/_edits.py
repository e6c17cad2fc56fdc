"""Apply edit lists as libav does: which samples are packets, their times, and which are never shown."""

from __future__ import annotations

from struct import Struct

import numpy as np

from framefeed._arrays import IntArray
from framefeed._values import DISCARD, KEY, Limits, PacketTable, PacketWalk
from framefeed.mp4._boxes import OddMovie, unpack
from framefeed.mp4._movie import Edit, Movie, Track
from framefeed.mp4._samples import MovieSamples, read_samples

_GAP = -1


def apply_edits(movie: Movie, track: Track, samples: MovieSamples) -> tuple[int, PacketWalk]:
    """Apply a track's edit list: none, or one edit, and a gap before it.

    Returns:
        The first sample that is a packet, and the packets as the tables describe them.
    """
    composed = samples.dts if samples.composition is None else samples.dts + samples.composition
    flags = samples.is_sync * np.uint8(KEY)
    if not track.edits:
        return 0, PacketWalk(PacketTable(samples.offset, samples.size, composed, flags), samples.duration)
    gap, begin, length = read_edit_ticks(movie, track)
    if not samples.is_sync[0]:
        raise OddMovie("an edit before the first key frame")
    # The last key frame shown at or before the edit's begin, among those decoded until then.
    decoded = int(samples.dts.searchsorted(begin, side="right"))
    keys = (samples.is_sync[:decoded] & (composed[:decoded] <= begin)).nonzero()[0]
    first = int(keys[-1]) if len(keys) else 0
    is_discarded = (composed < begin) | (composed >= begin + length)
    shown = (~is_discarded[first:]).nonzero()[0] + first
    if not len(shown):
        raise OddMovie("an edit that shows nothing")
    stop = _find_stop(samples, composed, int(shown[0]), first, begin, length)
    shown = shown[shown < stop]
    # Times count from the first sample that is shown, at the end of the gap.
    corrected = composed - samples.dts[shown[0]] + gap
    moved = max(0, _find_least(corrected[shown]) - gap)
    flags[is_discarded] |= DISCARD
    kept = slice(first, stop)
    packets = PacketTable(samples.offset[kept], samples.size[kept], corrected[kept] - moved, flags[kept])
    return first, PacketWalk(packets, samples.duration[kept])


def check_shown(movie: Movie, track: Track, limits: Limits) -> None:
    """Raise OddMovie if an edit list shows nothing, or nothing that needs the first packet.

    No table is expanded if it shows the first sample.
    """
    if not track.edits:
        return
    _, begin, length = read_edit_ticks(movie, track)
    first = 0
    if b"ctts" in track.tables:
        (first,) = unpack(movie.data, track.tables[b"ctts"], Struct(">i"), 12)
    if not begin <= first < begin + length and apply_edits(movie, track, read_samples(movie, track, limits))[0]:
        raise OddMovie("an edit that leaves out the first packet")


def read_edit_offset(movie: Movie, track: Track) -> int:
    """Compute the ticks that libav subtracts from the times of a fragmented track: its edit's begin minus the gap."""
    gap, edits = _split_gap(movie, track)
    if len(edits) > 1 or any(edit.media_time < 0 for edit in edits):
        raise OddMovie(f"{len(track.edits)} edits")
    return (edits[0].media_time if edits else 0) - gap


def read_edit_ticks(movie: Movie, track: Track) -> tuple[int, int, int]:
    """Read the length of the gap, and begin and length of the edit, in the track's ticks."""
    gap, edits = _split_gap(movie, track)
    if len(edits) != 1 or edits[0].media_time < 0:
        raise OddMovie(f"{len(track.edits)} edits")
    begin, length = edits[0].media_time, _rescale(edits[0].duration, track.time_scale, movie.time_scale)
    if not 0 < length < 2**61 or begin >= 2**61 or not 0 <= gap < 2**61:
        raise OddMovie("an edit of nothing, or of everything")
    return gap, begin, length


def _split_gap(movie: Movie, track: Track) -> tuple[int, tuple[Edit, ...]]:
    """Return the length of the gap before the edits, in the track's ticks, and the edits."""
    edits = track.edits
    if edits and edits[0].media_time == _GAP:
        return _rescale(edits[0].duration, track.time_scale, movie.time_scale), edits[1:]
    return 0, edits


def _rescale(value: int, multiplier: int, divisor: int) -> int:
    """Multiply and divide, rounding halves up: av_rescale."""
    return (value * multiplier + divisor // 2) // divisor


def _find_stop(samples: MovieSamples, composed: IntArray, shown: int, first: int, begin: int, length: int) -> int:
    """Find the sample at which libav stops.

    It is behind the first key frame that reaches the edit's end, or behind the second if samples have composition
    times.
    """
    keys = samples.is_sync[first:].nonzero()[0] + first
    step = samples.duration[keys]
    if keys[-1] == len(samples) - 1:
        step[-1] = length  # the last sample counts as long as the whole edit
    reached = keys[composed[keys] + step >= begin + length]
    choice = 0 if samples.composition is None else 1
    stop = int(reached[choice]) + 1 if len(reached) > choice else len(samples)
    if samples.composition is None and (first or stop < len(samples)):
        raise OddMovie("an edit of a part, where libav loses the lengths of samples")
    if stop <= shown:
        raise OddMovie("an edit that ends before its first frame")
    return stop


def _find_least(times: IntArray) -> int:
    """Find the least time as libav's loop does, which starts again behind a negative one."""
    negative = (times < 0).nonzero()[0]
    if not len(negative):
        return int(times.min())
    rest = times[int(negative[-1]) + 1 :]
    return int(rest.min()) if len(rest) else int(times[-1])

"""Times that are uneven, shifted, missing, doubled, wrapped or wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from framefeed.testing import ClipSpec, Coded
from tests.pathologies.build import make_from_spec, write_packets_of
from tests.pathologies.facts import MediaFacts, Pathology

_VARIABLE = ClipSpec(
    pts=tuple(n for n in range(125) if n % 7 or n % 5 > 2)[:100], time_base=Fraction(1, 25), b_frames=2
)
_FORWARD = ClipSpec(b_frames=0)
_NTSC = ClipSpec(fps=Fraction(30000, 1001))
# 2^33 ticks of 90 kHz are 95443.7 seconds: the clip crosses them in its second second.
_WRAPPING = replace(_FORWARD, start_seconds=95442, container_options={"max_delay": "0"})
_NEGATIVE = replace(_FORWARD, start_seconds=-0.4, container_options={"avoid_negative_ts": "disabled"})
_TICKS = ClipSpec(time_base=Fraction(1, 90000), container_options={"video_track_timescale": "90000"})
_MPEG4 = ClipSpec(codec="mpeg4", b_frames=2)


def _is_start_late(facts: MediaFacts) -> bool:
    first = facts.frame_pts[0]
    return first is not None and facts.time_base is not None and first * facts.time_base > 8.3


def _has_no_times(facts: MediaFacts) -> bool:
    return len(facts.frames) > 0 and not any(pts is not None for pts in facts.frame_pts)


def _is_missing_first_times(facts: MediaFacts) -> bool:
    return facts.frame_pts[:10] == (None,) * 10 and None not in facts.frame_pts[10:]


def _double_times(packets: list[Coded]) -> Iterator[Coded]:
    """Give every fifth packet the time of the one before."""
    for number, packet in enumerate(packets):
        pts = packets[number - 1].pts if number % 5 == 4 else packet.pts
        yield replace(packet, pts=pts, dts=pts)


def _shuffle_times(packets: list[Coded]) -> list[Coded]:
    """Swap the times of two neighbouring B-frames here and there, as broken muxers do."""
    shuffled = list(packets)
    for number in range(2, len(packets) - 1, 7):
        one, other = shuffled[number], shuffled[number + 1]
        if _is_pair_of_b_frames(packets[number - 1], one, other):
            shuffled[number], shuffled[number + 1] = replace(one, pts=other.pts), replace(other, pts=one.pts)
    return shuffled


def _is_pair_of_b_frames(before: Coded, one: Coded, other: Coded) -> bool:
    assert None not in (before.pts, one.pts, other.pts)
    return max(one.pts, other.pts) < before.pts


TIMESTAMPS = (
    *(
        make_from_spec(name, "M02", _VARIABLE, "frame distances differ", lambda facts: len(facts.gaps) > 1)
        for name in ("vfr.mp4", "vfr.mkv")
    ),
    *(
        make_from_spec(
            name, "M05", ClipSpec(start_seconds=8.333), "the first frame comes after 8.3 seconds", _is_start_late
        )
        for name in ("start_8s.mp4", "start_8s.mkv")
    ),
    make_from_spec("negative_pts.mkv", "M05", _NEGATIVE, "the first ten frames have no time", _is_missing_first_times),
    make_from_spec("no_pts.avi", "M07", ClipSpec(), "times go back and forth", lambda facts: facts.num_backward > 20),
    make_from_spec("raw.h264", "M07", ClipSpec(), "no frame has a time", _has_no_times),
    make_from_spec("raw.hevc", "M07", ClipSpec(codec="libx265"), "no frame has a time", _has_no_times),
    make_from_spec(
        "mpeg4_bframes.avi",
        "M07",
        _MPEG4,
        "B-frames in a container without display times: libav makes them up",
        lambda facts: facts.longest_b_run == 2 and facts.frame_pts[0] != 0,
    ),
    Pathology(
        "duplicate_pts.mkv",
        "M08",
        "ten frames have the time of the one before",
        write_packets_of(replace(_FORWARD, num_frames=50), _double_times),
        lambda facts: facts.num_backward == 10,
        tuple(range(50)),
    ),
    make_from_spec(
        "wrap.ts",
        "M10",
        _WRAPPING,
        "times start below zero: they wrapped at 2^33",
        lambda facts: (facts.frame_pts[0] or 0) < 0 < (facts.frame_pts[-1] or 0),
    ),
    make_from_spec("ticks_90k.mp4", "M17", _TICKS, "a frame lasts 3600 units", lambda facts: facts.gaps == {3600}),
    make_from_spec(
        "ntsc.mkv", "M17", _NTSC, "a constant rate, rounded to milliseconds", lambda facts: facts.gaps == {33, 34}
    ),
    Pathology(
        "shuffled_pts.mkv",
        "M22",
        "some B-frames carry the time of their neighbour",
        write_packets_of(ClipSpec(), _shuffle_times),
        lambda facts: facts.num_backward > 3,
        tuple(range(100)),
    ),
    make_from_spec(
        "ntsc.mp4",
        "M24",
        _NTSC,
        "a frame lasts 1001/30000 of a second",
        lambda facts: facts.time_base is not None and facts.gaps == {1001 / (30000 * facts.time_base)},
    ),
)

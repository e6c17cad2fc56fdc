"""Segments cover all pictures once, do not depend on workers, and little is decoded twice."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.decode import VideoDecoder
from framefeed.errors import UsageError
from framefeed.index import FrameIndex, build_index
from framefeed.testing import ClipSpec, clip_bytes
from framefeed.transcode._segments import Segment, SegmentQueue, plan_segments
from framefeed.transcode._timetable import Timetable, check_rising, make_timetable


@pytest.fixture(scope="module")
def index() -> FrameIndex:
    return build_index(clip_bytes(ClipSpec(num_frames=400, gop=30, height=32, width=32), "mp4"))


def check_cover(segments: tuple[Segment, ...], count: int) -> None:
    assert segments[0].first == 0
    assert segments[-1].stop == count
    assert all(one.stop == other.first for one, other in pairwise(segments))
    assert [each.number for each in segments] == list(range(len(segments)))
    assert all(len(each) > 0 for each in segments)


@pytest.mark.parametrize("fps", [None, 7, 12.5, 25, 60, Fraction(24000, 1001)])
def test_segments_cover_every_picture_once(index: FrameIndex, fps: Fraction | None) -> None:
    times = make_timetable(index, None if fps is None else Fraction(fps), "clip")
    segments = plan_segments(times, index)
    check_cover(segments, len(times))
    # A frame that is shown several times is in one segment.
    ordinals = [set(times.ordinals[each.first : each.stop].tolist()) for each in segments]
    assert sum(map(len, ordinals)) == times.num_frames


@pytest.mark.parametrize("fps", [50, 70, 110, Fraction(30000, 1001)])
def test_no_frame_is_in_two_segments_of_a_video_with_one_key_frame(fps: Fraction) -> None:
    index = build_index(clip_bytes(ClipSpec(num_frames=150, gop=1000, height=32, width=32), "mp4"))
    times = make_timetable(index, Fraction(fps), "clip")
    segments = plan_segments(times, index)
    check_cover(segments, len(times))
    assert len(segments) > 4
    ordinals = [set(times.ordinals[each.first : each.stop].tolist()) for each in segments]
    assert sum(map(len, ordinals)) == times.num_frames == 150


def test_segments_begin_at_key_frames_where_there_are_some(index: FrameIndex) -> None:
    times = make_timetable(index, None, "clip")
    segments = plan_segments(times, index)
    assert [each.first for each in segments if each.first not in index.key_frame_indices] == []
    assert min(map(len, segments)) >= 25


def test_one_key_frame_gives_several_segments() -> None:
    index = build_index(clip_bytes(ClipSpec(num_frames=150, gop=1000, height=32, width=32), "mp4"))
    segments = plan_segments(make_timetable(index, None, "clip"), index)
    check_cover(segments, 150)
    assert len(segments) > 4
    assert [each.is_start for each in segments] == [True] + [False] * (len(segments) - 1)
    assert segments[3].catch_up >= segments[3].first - 3


@pytest.mark.parametrize("fps", [10, 25, 50, Fraction(30000, 1001)])
def test_resampled_times_are_those_of_the_decoder(fps: Fraction) -> None:
    data = clip_bytes(ClipSpec(num_frames=60, height=32, width=32, start_seconds=0.48), "mp4")
    with VideoDecoder(data) as decoder:
        frames = decoder.get_all_frames(fps=fps)
        times = make_timetable(decoder.frame_index, Fraction(fps), "clip")
    assert times.ordinals.tolist() == frames.indices.tolist()
    np.testing.assert_allclose(times.pts_seconds, frames.pts_seconds, rtol=1e-12)
    np.testing.assert_allclose(times.pts * float(times.time_base), frames.pts_seconds, rtol=1e-12)


def test_frames_of_one_time_are_refused() -> None:
    spec = ClipSpec(num_frames=4, height=32, width=32, pts=(0, 40, 40, 80), time_base=Fraction(1, 1000), b_frames=0)
    times = make_timetable(build_index(clip_bytes(spec, "matroska")), None, "clip")
    if len(set(times.pts.tolist())) == 4:
        pytest.skip("this build of FFmpeg writes other times")
    with pytest.raises(UsageError, match=r"frames 1 and 2 have the same time.*fps="):
        check_rising(times, "clip")


def test_times_that_do_not_rise_are_refused() -> None:
    for pts in ([0, 40, 40, 80], [0, 40, 30, 80]):
        times = Timetable(
            np.arange(4), np.array(pts), np.ones(4, int), np.array(pts) / 1000, Fraction(1, 1000), None, True
        )
        with pytest.raises(UsageError, match=r"frames 1 and 2 have the same time"):
            check_rising(times, "clip")


def make_segments(lengths: list[tuple[int, bool]]) -> list[Segment]:
    """Make segments of given lengths; the first is always a start."""
    segments, first, catch_up = [], 0, 0
    for number, (length, is_start) in enumerate(lengths):
        is_start |= number == 0
        catch_up = 0 if is_start else catch_up
        segments.append(Segment(number, first, first + length, is_start, catch_up))
        first, catch_up = first + length, catch_up + length
    return segments


LENGTHS = st.lists(st.tuples(st.integers(1, 50), st.booleans()), min_size=1, max_size=30)


@given(lengths=LENGTHS, workers=st.integers(1, 6), seed=st.integers(0, 10**6), share=st.floats(0, 1))
def test_every_segment_is_made_once(lengths: list[tuple[int, bool]], workers: int, seed: int, share: float) -> None:
    """Workers that take as long as they like, and a resumed run, leave no segment behind."""
    chance = random.Random(seed)
    segments = make_segments(lengths)
    finished = {each.number for each in segments if chance.random() < share * 0.9}
    queue = SegmentQueue(segments, finished)
    active, made = list(range(workers)), []
    while active:
        worker = chance.choice(active)
        segment = queue.take(worker)
        if segment is None:
            active.remove(worker)
        else:
            made.append(segment.number)
    assert sorted([*made, *finished]) == list(range(len(segments)))
    assert not len(queue)


@given(lengths=LENGTHS)
def test_one_worker_decodes_nothing_twice(lengths: list[tuple[int, bool]]) -> None:
    segments = make_segments(lengths)
    queue, order = SegmentQueue(segments), []
    while (segment := queue.take(0)) is not None:
        order.append(segment.number)
    assert order == list(range(len(segments)))


def test_a_second_worker_takes_the_end_of_a_long_run() -> None:
    # Both are done soonest if it takes three of seven: it has to decode the five before them first.
    queue = SegmentQueue(make_segments([(100, False)] * 8))
    assert [queue.take(worker).number for worker in (0, 1, 0, 1, 0)] == [0, 5, 1, 6, 2]  # type: ignore[union-attr]


def test_a_worker_ends_where_catching_up_costs_more_than_it_saves() -> None:
    segments = [Segment(0, 0, 10), Segment(1, 10, 20, False, 100_000)]
    queue = SegmentQueue(segments)
    assert queue.take(0) == segments[0]
    assert queue.take(1) is None
    assert queue.take(0) == segments[1]

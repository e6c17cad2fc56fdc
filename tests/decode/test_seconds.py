"""Seconds that a decoder is asked for: compared as they are, whatever type they have."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from framefeed import AtSeconds, plan_clips, scan
from framefeed.decode._video_decoder import VideoDecoder
from framefeed.testing import ClipSpec
from tests.corpus import clip_file, corpus_file

TICK = Fraction(1001, 30_000)
FRAMES = 190
SPEC = ClipSpec(FRAMES, 48, 64, fps=1 / TICK, gop=30)
NEAR = Fraction(1, 10**9)


@pytest.fixture(scope="module")
def decoder() -> VideoDecoder:
    return VideoDecoder(clip_file("seconds.mp4", SPEC))


def shown_at(seconds: float) -> int:
    """Say which frame is shown, by exact arithmetic."""
    return math.floor((Fraction(seconds) + NEAR) / TICK)


def test_M24_a_time_printed_with_six_decimals_is_before_the_frame(decoder: VideoDecoder) -> None:
    exact = float(181 * TICK)
    assert f"{exact:.7f}" == "6.0393667"
    assert decoder.get_frame_played_at(6.039366).indices == 180
    assert decoder.get_frame_played_at(exact).indices == 181
    assert decoder.get_frames_played_at([6.039366, exact]).indices.tolist() == [180, 181]
    assert decoder.get_frames_played_in_range(6.039366, 6.05).indices.tolist() == [180, 181]
    assert decoder.get_frames_played_in_range(6.0, 6.039366).indices.tolist() == [179, 180]
    assert decoder.get_frames_played_in_range(6.039366, 6.05, fps=200).indices.tolist() == [180, 181]


@pytest.mark.parametrize("number", [0, 1, 90, 181, FRAMES - 1])
def test_M24_a_range_of_any_length_holds_the_frame_shown_at_its_start(decoder: VideoDecoder, number: int) -> None:
    exact = float(number * TICK)
    for start in (exact, exact + 1e-10, exact + 9e-10, exact + 2e-9, math.nextafter(exact, 9), exact + 0.02):
        for stop in (math.nextafter(start, 9), start + 1e-12, start + 1e-10, start + 1e-6):
            actual = decoder.get_frames_played_in_range(start, stop).indices.tolist()
            assert actual[:1] == [decoder.get_frame_played_at(start).indices] == [shown_at(start)]
            assert len(actual) == 1


KINDS: dict[str, Callable[[VideoDecoder, np.ndarray], list[int]]] = {
    "one by one": lambda one, times: [int(one.get_frame_played_at(time).indices) for time in times],
    "an array": lambda one, times: one.get_frames_played_at(times).indices.tolist(),
    "a list": lambda one, times: one.get_frames_played_at(list(times)).indices.tolist(),
    "ranges": lambda one, times: [
        int(one.get_frames_played_in_range(time, np.float64(time) + 1e-12).indices[0]) for time in times
    ],
    "at a rate": lambda one, times: [
        int(one.get_frames_played_in_range(time, np.float64(time) + 0.01, fps=100).indices[0]) for time in times
    ],
    "an index": lambda one, times: one.frame_index.index_at(times).tolist(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_M24_float32_is_widened_and_not_repaired(kind: str, decoder: VideoDecoder) -> None:
    numbers = range(60, FRAMES - 1, 7)
    times = np.array([float(number * TICK) for number in numbers], dtype=np.float32)
    expected = [shown_at(float(time)) for time in times]
    assert 0 < sum(actual < number for actual, number in zip(expected, numbers, strict=True)) < len(expected)
    assert KINDS[kind](decoder, times) == expected


def test_M24_seconds_of_a_plan_are_widened_too() -> None:
    catalog = scan(clip_file("seconds.mp4", SPEC))
    times = np.array([float(number * TICK) for number in range(60, 120, 7)], dtype=np.float32)
    for given in (times, times.tolist(), list(times)):
        request = plan_clips(catalog, AtSeconds(given), seed=0, shuffle=False)[0]
        assert request.indices.tolist() == [shown_at(float(time)) for time in times]


# --- all frames at a rate ---------------------------------------------------------------------------

RATES: tuple[Any, ...] = (1, 7.3, 24, 25, 29.97, Fraction(30_000, 1001), 60)


@pytest.mark.parametrize(
    ("name", "fps"),
    [
        *((name, fps) for name in ("base.mp4", "vfr.mp4", "start_8s.mkv") for fps in RATES),
        *((name, fps) for name in ("closed_gop.ts", "ntsc.mkv", "no_pts.avi") for fps in RATES[:2]),
    ],
)
def test_all_frames_at_a_rate_are_those_of_the_whole_range(name: str, fps: Any) -> None:
    with VideoDecoder(corpus_file(name)) as decoder:
        index = decoder.frame_index
        begin, end = float(index.pts[0] * index.time_base), float(index.end_pts * index.time_base)
        actual, other = decoder.get_all_frames(fps=fps), decoder.get_frames_played_in_range(begin, end, fps)
        count = math.floor(Fraction(end - begin) * Fraction(fps) + Fraction(1, 2))
        assert actual.indices.tolist() == other.indices.tolist()
        np.testing.assert_array_equal(actual.data, other.data)
        np.testing.assert_allclose(actual.pts_seconds, [begin + k / float(fps) for k in range(count)], atol=1e-9)
        np.testing.assert_allclose(actual.duration_seconds, 1 / float(fps))
        shown = [index.index_at(Fraction(begin) + k / Fraction(fps)) for k in range(count)]
        assert actual.indices.tolist() == shown
        assert len(decoder.get_all_frames()) == len(decoder)

"""read_video and read_video_timestamps keep to what torchvision documents, with exact times."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from framefeed.compat.torchvision import _reading, read_video, read_video_timestamps
from framefeed.errors import MediaError, MissingMedia, UsageError
from framefeed.index import build_index
from framefeed.testing import read_stamps
from tests.compat.torchvision_oracles import list_read
from tests.corpus import corpus_file, expected_stamps

NAMES = ("base.mp4", "vfr.mp4", "closed_gop.ts", "no_pts.avi")


@cache
def pts_of(name: str) -> list[int]:
    pts: list[int] = build_index(str(corpus_file(name))).pts.tolist()
    return pts


def numbers_of(video: torch.Tensor) -> list[int]:
    return read_stamps(video.numpy())


def check_ticks(name: str, start: int, end: int | None) -> None:
    """Compare the frames between two ticks with the oracle."""
    path = str(corpus_file(name))
    stamps = expected_stamps(name)
    expected = [stamps[number] for number in list_read(pts_of(name), start, end)]
    video, audio, info = read_video(path, start, end)
    assert numbers_of(video) == expected
    assert (audio.shape, list(info)) == ((1, 0), ["video_fps"])
    if expected:
        assert video.shape[1:] == (96, 128, 3)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_frames_between_two_ticks(name: str, data: st.DataObject) -> None:
    pts = pts_of(name)
    near = st.sampled_from(pts).flatmap(lambda tick: st.integers(tick - 2, tick + 2))
    start = data.draw(st.one_of(st.just(0), near.filter(lambda tick: tick >= 0)))
    end = data.draw(st.one_of(st.none(), near.filter(lambda tick: tick >= start), st.just(start)))
    check_ticks(name, start, end)


def test_a_start_past_the_end_gives_the_last_frame_and_an_end_before_the_first_none() -> None:
    last = pts_of("base.mp4")[-1]
    check_ticks("base.mp4", last + 1, None)
    first = pts_of("closed_gop.ts")[0]
    check_ticks("closed_gop.ts", 1, first - 1)
    empty = read_video(str(corpus_file("closed_gop.ts")), 1, first - 1, output_format="TCHW")[0]
    assert (empty.shape, empty.dtype) == ((0, 3, 1, 1), torch.uint8)


@pytest.mark.parametrize("leave_out", [lambda found: found[:-1], lambda found: found[1:]], ids=["last", "first"])
def test_another_range_is_noticed(leave_out: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the frame at the end, or without the one that is shown at the start."""
    find_range = _reading._find_range
    monkeypatch.setattr(_reading, "_find_range", lambda *given: leave_out(find_range(*given)))
    pts = pts_of("base.mp4")
    with pytest.raises(AssertionError):
        check_ticks("base.mp4", pts[3] + 1, pts[9])


@pytest.mark.parametrize("name", NAMES)
def test_the_whole_video(name: str) -> None:
    path = str(corpus_file(name))
    assert numbers_of(read_video(path)[0]) == expected_stamps(name)
    assert numbers_of(read_video(path, pts_unit="sec", end_pts=math.inf)[0]) == expected_stamps(name)


@pytest.mark.parametrize("name", NAMES)
def test_times_are_those_of_the_index(name: str) -> None:
    path = str(corpus_file(name))
    index = build_index(path)
    ticks, fps = read_video_timestamps(path)
    assert ticks == index.pts.tolist()
    assert all(type(tick) is int for tick in ticks)
    seconds, _ = read_video_timestamps(path, pts_unit="sec")
    assert seconds == [tick * index.time_base for tick in ticks]
    assert fps == read_video(path, 0, 0)[2]["video_fps"]


@pytest.mark.parametrize("name", NAMES)
def test_a_time_in_seconds_means_the_frame_that_has_it(name: str) -> None:
    path = str(corpus_file(name))
    stamps = expected_stamps(name)
    seconds, _ = read_video_timestamps(path, "sec")
    for number in range(1, len(seconds) - 4, 9):
        for times in ((seconds[number], seconds[number + 3]), (float(seconds[number]), float(seconds[number + 3]))):
            assert numbers_of(read_video(path, *times, pts_unit="sec")[0]) == stamps[number : number + 4]


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_seconds_between_ticks_are_widened_to_both_ticks(name: str, data: st.DataObject) -> None:
    path = str(corpus_file(name))
    index, stamps = build_index(path), expected_stamps(name)
    half = st.sampled_from(index.pts.tolist()).flatmap(lambda tick: st.integers(2 * tick - 3, 2 * tick + 3))
    start, end = sorted(data.draw(st.tuples(half, half).filter(lambda pair: min(pair) >= 0)))
    seconds = (Fraction(tick, 2) * index.time_base for tick in (start, end))
    expected = list_read(index.pts.tolist(), start // 2, -(-end // 2))
    assert numbers_of(read_video(path, *seconds, pts_unit="sec")[0]) == [stamps[number] for number in expected]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Any) -> None:
    (tmp_path / "text.mp4").write_text("no video")
    for call in (read_video, read_video_timestamps):
        with pytest.raises(MediaError, match=r"text\.mp4"):
            call(str(tmp_path / "text.mp4"))
        with pytest.raises(MissingMedia, match=r"missing\.mp4") as raised:
            call(str(tmp_path / "missing.mp4"))
        assert isinstance(raised.value, RuntimeError)
        assert isinstance(pickle.loads(pickle.dumps(raised.value)), MissingMedia)


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        ({"start_pts": 5, "end_pts": 4}, "end_pts: expected at least start_pts"),
        ({"start_pts": "1"}, "start_pts: expected a number"),
        ({"end_pts": math.nan}, "end_pts: expected a number"),
        ({"pts_unit": "ms"}, "pts_unit: expected 'pts' or 'sec'"),
        ({"output_format": "TWHC"}, "output_format: expected 'THWC' or 'TCHW'"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], advice: str) -> None:
    with pytest.raises(UsageError, match=advice):
        read_video(str(corpus_file("base.mp4")), **arguments)

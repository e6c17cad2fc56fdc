"""Seconds of a clip from its source's first frame: wanted ones, else those of frames, and when the last one ends."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.decode import VideoDecoder
from framefeed.index import find_end_seconds
from framefeed.load import ClipLoader
from framefeed.plan import AtIndices, AtSeconds, Dense, EpochPlan, Rates, Uniform, plan_clips, plan_requests
from framefeed.request import DecodeRequest
from framefeed.scanning import scan
from tests.fakes import DamagedSources, FakeCatalog, FlatDecoder, index_of
from tests.load.test_lengths import WAYS, list_requests, plan_lengths
from tests.makers import catalog, plan_of
from tests.media.pictures import write_folder
from tests.plan.test_streams import NamedCatalog

pytestmark = pytest.mark.usefixtures("kept_processes")

BASE = Fraction(1, 90_000)


def plan_one(rule: Any, pts: list[int], **options: Any) -> Any:
    return plan_clips(FakeCatalog([index_of(pts, time_base=BASE)]), rule, seed=0, **options)[0]


@given(st.data())
def test_wanted_seconds_of_rules_by_time_are_those_that_were_asked_for(data: st.DataObject) -> None:
    steps = data.draw(st.lists(st.integers(1, 9000), min_size=1, max_size=12))
    pts = np.cumsum([data.draw(st.integers(-90_000, 90_000)), *steps]).tolist()
    wanted = data.draw(st.lists(st.floats(0, 2), min_size=1, max_size=6))
    clip = plan_one(AtSeconds(wanted), pts)
    # A time within 1 ns of a frame is that of the frame.
    np.testing.assert_allclose(clip.seconds, wanted, rtol=0, atol=1.01e-9)


@given(st.data())
def test_other_clips_have_the_times_of_their_frames(data: st.DataObject) -> None:
    steps = data.draw(st.lists(st.integers(1, 9000), min_size=1, max_size=12))
    pts = np.cumsum([data.draw(st.integers(-90_000, 90_000)), *steps]).tolist()
    indices = data.draw(st.lists(st.integers(0, len(pts) + 2), min_size=1, max_size=6))
    clip = plan_one(AtIndices(indices), pts)
    assert clip.seconds.tolist() == [float((pts[number] - pts[0]) * BASE) for number in clip.indices]
    last = int(clip.indices[-1])
    if last + 1 < len(pts):
        assert clip.end_seconds == float((pts[last + 1] - pts[0]) * BASE)
    assert clip.end_seconds > clip.seconds[-1]


def test_windows_and_bounds_count_from_the_first_frame_of_the_video() -> None:
    windowed = plan_clips(
        FakeCatalog([index_of(range(0, 90_000, 9000), time_base=BASE)], columns={"a": [0.3], "b": [0.8]}),
        AtSeconds([0.0, 0.25]), seed=0, within=("a", "b"),
    )[0]  # fmt: skip
    assert windowed.seconds.tolist() == [0.3, 0.55]
    assert (windowed.indices.tolist(), windowed.end_seconds) == ([3, 5], 0.6)
    request = DecodeRequest(list_requests()[0].source, seconds=[0.0, 1.0, 1.9])
    bounded = plan_requests([request], within=(0.5, 1.5))[0]
    assert bounded.seconds.tolist() == [0.0, 1.0, 1.9]
    assert bounded.valid.tolist() == [False, True, False]


def test_a_random_start_counts_on() -> None:
    plan = plan_of(Rates([(3, 2), (10, 2)]), seed=3)
    for position in range(len(plan)):
        clip = plan[position]
        np.testing.assert_allclose(np.diff(clip.seconds), [1 / 3, 1 / 3, 0.1])
        assert clip.seconds[0] == clip.pts_seconds[0]  # a frame's own time, and these videos begin at 0


def test_end_is_that_of_the_video_and_unknown_of_pictures_and_without_times(tmp_path: Path) -> None:
    with VideoDecoder(catalog().source(0)) as video:
        end = video.metadata.duration_seconds
    assert plan_of(AtIndices([-1]))[0].end_seconds == pytest.approx(end)
    assert plan_of(AtSeconds([5.0]))[0].end_seconds == pytest.approx(end)
    lacking = plan_clips(FakeCatalog([index_of([3, 2, 1])]), Uniform(2), seed=0)[0]
    assert np.isnan(lacking.end_seconds)
    assert np.isnan(lacking.seconds).all()
    picture = plan_clips(scan(write_folder(tmp_path, count=1)), Uniform(1), seed=0)
    assert picture[0].seconds.tolist() == [0.0]
    assert np.isnan(picture[0].end_seconds)


@pytest.mark.parametrize("options", WAYS, ids=str)
@pytest.mark.parametrize(
    "plan", [plan_lengths(), plan_of(Dense(3, fps=7)), plan_of(Uniform(4), shuffle="videos")], ids=str
)
def test_batches_have_the_seconds_of_their_clips(plan: EpochPlan, options: Any) -> None:
    with ClipLoader(plan, batch_size=5, **options) as loader:
        for batch in loader:
            for slot, position in enumerate(batch.positions.tolist()):
                clip = plan.whole[position]
                assert batch.seconds[slot].tolist() == clip.seconds.tolist()
                assert batch.end_seconds[slot] == clip.end_seconds


def test_a_clip_that_failed_has_none_and_a_substitute_its_own() -> None:
    plan = plan_lengths(shuffle=False)
    backend = FlatDecoder(DamagedSources(str(plan[5].source)))
    for on_error in ("skip", "substitute"):
        with ClipLoader(plan, batch_size=7, on_error=on_error, backend=backend) as loader:
            (batch,) = loader
        own = int(batch["number"][5])
        expected = np.full(len(plan[5]), np.nan) if on_error == "skip" else plan[own].seconds
        np.testing.assert_array_equal(batch.seconds[5], expected)
        assert np.isnan(batch.end_seconds[5]) == (on_error == "skip")


def test_streams_that_follow_have_the_wanted_seconds() -> None:
    slow, fast = (NamedCatalog([index_of(range(0, 90_000, step), time_base=BASE)]) for step in (13_000, 3000))
    clip = plan_clips(None, AtSeconds([0.1, 0.45]), streams={"a": fast, "b": slow}, on="stem", seed=0)[0]
    assert clip["a"].seconds.tolist() == [0.1, 0.45]
    np.testing.assert_allclose(clip["b"].seconds, clip["a"].pts_seconds, rtol=0, atol=1e-9)
    assert clip["b"].seconds.tolist() != clip["b"].pts_seconds.tolist()


def test_a_frame_alone_of_unknown_duration_has_no_end() -> None:
    assert np.isnan(find_end_seconds(index_of([0], time_base=BASE, duration=[0]), 0))

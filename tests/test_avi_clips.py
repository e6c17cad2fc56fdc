"""Every rule by time, on every real AVI: the frames are those at the recorded times."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framefeed as ff
from tests.index.record_times import FILES, TIMES, times_of
from tests.plan import oracle
from tests.plan.oracle import Clock, clock_of

AVIS = [name for name in FILES if name.endswith(".avi")]
REAL = json.loads(TIMES.read_text())["files"]
SIZE = (32, 48)


@pytest.fixture(params=AVIS)
def avi(request: pytest.FixtureRequest, media_root: Path) -> Path:
    path: Path = media_root / "video" / request.param
    if not path.exists() or path.stat().st_size != REAL[request.param]["bytes"]:
        pytest.skip(f"{request.param} is not the file whose times were recorded")
    return path


@cache
def catalog_of(path: Path) -> ff.Catalog:
    return ff.scan(path, workers=0)


def recorded_clock(path: Path, time_base: Fraction) -> Clock:
    """Times of an AVI's frames as ffprobe said them: its pts, or its decoding times from the first packet's on."""
    facts = REAL["/".join(path.parts[-2:])]
    pts = list(times_of(facts["pts"]))
    if None in pts or pts != sorted(pts, key=lambda time: time or 0):
        known = [time for time in times_of(facts["dts"]) if time is not None]
        shifted = [time - known[0] + facts["first_packet_dts"] for time in known]
        pts = shifted + [shifted[-1] + number + 1 for number in range(len(pts) - len(shifted))]
    return clock_of([time or 0 for time in pts], [1] * len(pts), time_base)


def played(clock: Clock, wanted: Iterator[Fraction] | list[Fraction]) -> list[int | None]:
    """The frames played at times from the first frame on; None past the end."""
    return [frame for frame, _ in oracle.pick_clip(clock, [clock.times[0] + time for time in wanted], "played", None)]


def test_M07_every_rule_by_time_finds_the_frames_of_an_avi(avi: Path) -> None:
    catalog = catalog_of(avi)
    index = catalog.frame_index(0)
    clock = recorded_clock(avi, index.time_base)
    assert [Fraction(int(ticks)) * index.time_base for ticks in index.pts] == clock.times
    rules: list[tuple[Any, list[Fraction]]] = [
        (ff.AtSeconds([0, 0.5, 1.25]), [Fraction(0), Fraction(1, 2), Fraction(5, 4)]),
        (ff.Rates([(10, 3), (2, 2)], start=0.1), [Fraction(0.1) + Fraction(k, 10) for k in (0, 1, 2, 3, 8)]),
        (ff.Dense(4, fps=7, start=0), [Fraction(k, 7) for k in range(4)]),
    ]
    for rule, wanted in rules:
        request = ff.plan_clips(catalog, rule, seed=0)[0]
        frames = played(clock, wanted)
        assert request.valid.tolist() == [frame is not None for frame in frames]
        assert [frame for frame in frames if frame is not None] == request.indices[request.valid].tolist()
    for rule in (ff.Dense(4, fps=7), ff.Rates([(5, 2), (10, 3)])):
        plan = ff.plan_clips(catalog, rule, seed=3, clips_per_video=4)
        for request in plan:
            assert (np.diff(request.pts_seconds) >= 0).all()
            assert abs(request.pick_error_seconds[request.valid]).max() <= max(np.diff(index.pts_seconds))


def test_M07_clips_of_a_window_of_an_avi_are_loaded(avi: Path, tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text(f"path,start_seconds,end_seconds\n{avi},0.2,0.9\n")
    catalog = ff.scan(tmp_path / "list.csv", workers=0)
    index = catalog.frame_index(0)
    plan = ff.plan_clips(
        catalog, ff.Rates([(8, 4)], start=0), seed=0, within=("start_seconds", "end_seconds"), size=SIZE
    )
    [batch] = list(ff.ClipLoader(plan, batch_size=1, workers=0))
    begin = np.flatnonzero(index.pts_seconds - index.pts_seconds[0] >= 0.2)[0]
    assert plan[0].indices[0] == begin
    assert batch.ok.all()
    with ff.VideoDecoder(catalog_of(avi)[0], size=SIZE) as decoder:
        expected = decoder.get_frames_at(plan[0].indices)
    assert np.array_equal(batch.data[0], expected.data)
    assert np.array_equal(batch.pts_seconds[0], expected.pts_seconds)


def test_M07_M24_frames_of_an_avi_by_their_times(avi: Path) -> None:
    with ff.VideoDecoder(catalog_of(avi)[0], size=SIZE) as decoder:
        clock = recorded_clock(avi, decoder.frame_index.time_base)
        seconds = [float(time) for time in clock.times]
        assert decoder.metadata.begin_stream_seconds == seconds[0]
        assert decoder.metadata.end_stream_seconds == float(clock.end)
        assert decoder.frame_index.index_at(seconds).tolist() == list(range(len(decoder)))
        middle = len(decoder) // 2
        between = float((clock.times[middle] + clock.times[middle + 1]) / 2)
        assert decoder.get_frame_played_at(seconds[0]).indices == 0
        assert decoder.get_frame_played_at(between).indices == middle
        assert decoder.get_frames_played_at([seconds[-1], between]).indices.tolist() == [len(decoder) - 1, middle]
        some = decoder.get_frames_played_in_range(seconds[middle], seconds[middle + 3])
        assert some.indices.tolist() == [middle, middle + 1, middle + 2]
        assert some.pts_seconds.tolist() == seconds[middle : middle + 3]
        resampled = decoder.get_frames_played_in_range(seconds[0], seconds[0] + 0.5, fps=10)
        assert resampled.indices.tolist() == played(clock, [Fraction(k, 10) for k in range(5)])

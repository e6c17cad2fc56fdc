"""What one worker does: it decodes nothing twice, and says how far it is."""

from __future__ import annotations

import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framefeed as ff
from framefeed import _stopping
from framefeed.decode import DecodeCounts
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.media import MediaSource
from framefeed.testing import ClipSpec, write_clip
from framefeed.transcode import _reading, _running
from framefeed.transcode._options import UserFunction
from framefeed.transcode._segments import plan_segments
from framefeed.transcode._targets import ImageTarget
from framefeed.transcode._timetable import make_timetable
from framefeed.transcode._working import BEATS, DONE, FRAME, NUM_COLUMNS, MapJob, SegmentWorker
from tests.transcode import functions


class CountingDecoder(PyAVDecoder):
    """Counts what it decodes in order."""

    def __init__(self) -> None:
        super().__init__(is_accurate=True)
        self.total = DecodeCounts()

    def iter_native(self, source: Any, index: Any, ordinals: Any, counts: DecodeCounts | None = None) -> Any:
        return super().iter_native(source, index, ordinals, self.total)


@pytest.mark.parametrize("out", ["out.mp4", None])
@pytest.mark.parametrize("gop", [12, 1000])
def test_one_worker_decodes_every_frame_once(
    tmp_path: Path, gop: int, out: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip = write_clip(tmp_path / "clip.mp4", ClipSpec(num_frames=150, gop=gop, height=32, width=32))
    decoder = CountingDecoder()
    monkeypatch.setattr(_reading, "DECODER", decoder)
    if out is None:
        with ff.map_video(clip, functions.keep, workers=0) as mapped:
            assert len(list(mapped)) == 150
    else:
        assert ff.map_video(clip, functions.keep, tmp_path / out, workers=1).num_pictures == 150
    assert decoder.total.frames_decoded == 150


@pytest.mark.parametrize("batch_size", [None, 4])
@pytest.mark.parametrize("fps", [None, 50])
def test_progress_is_told_with_every_call(tmp_path: Path, batch_size: int | None, fps: int | None) -> None:
    clip = write_clip(tmp_path / "clip.mp4", ClipSpec(num_frames=40, gop=1000, height=32, width=32))
    media, index = MediaSource.of(clip), ff.build_index(clip)
    times = make_timetable(index, None if fps is None else Fraction(fps), "clip")
    segments = plan_segments(times, index)
    target = ImageTarget("out", str(tmp_path / "out"), ".png", 90, are_numbered=True)
    (tmp_path / "out").mkdir()
    user = UserFunction(functions.keep if batch_size is None else functions.keep_batch, batch_size=batch_size)
    row, size, repeats = np.zeros(NUM_COLUMNS, np.int64), batch_size or 1, 1 if fps is None else 2
    worker = SegmentWorker(MapJob(media, index, times, segments, user, target, str(tmp_path)), row)
    for segment in segments:
        told = []
        steps = worker.work(segment)
        beats = row[BEATS]
        try:
            while True:
                next(steps)
                told.append((int(row[FRAME]), int(row[DONE])))
        except StopIteration as end:
            record = end.value
        assert record.num_pictures == len(segment)
        frames = len(segment) // repeats
        calls = [min(done + size, frames) for done in range(0, frames, size)]
        first = int(times.ordinals[segment.first])
        assert told == [(first + begin, done * repeats) for begin, done in zip([0, *calls], calls, strict=False)]
        assert row[BEATS] - beats == len(calls)
    worker.close()


@pytest.mark.parametrize("has_begun", [False, True])
def test_the_time_of_setup_is_not_that_of_a_frame(has_begun: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(_running, "perf_counter", lambda: now[0])
    row = np.zeros((1, NUM_COLUMNS), np.int64)
    row[0, BEATS] = has_begun
    watch = _running._Watch(row, deadline_seconds=5.0)

    def check_until(end: float) -> None:
        while now[0] < end:
            now[0] += 0.2
            watch.check(now[0] - 0.2, {0: threading.current_thread()}, lambda worker: TimeoutError(str(worker)))

    limit = 5 if has_begun else _running.START_UP_SECONDS
    check_until(limit - 0.5)
    with pytest.raises(TimeoutError):
        check_until(limit + 0.5)


def test_L23_time_in_which_the_program_was_stopped_is_not_that_of_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    for module in (_running, _stopping):
        monkeypatch.setattr(module, "perf_counter", lambda: now[0])
    row = np.ones((1, NUM_COLUMNS), np.int64)
    watch = _running._Watch(row, deadline_seconds=5.0)

    def wait(seconds: float) -> None:
        began, now[0] = now[0], now[0] + seconds
        watch.check(began, {0: threading.current_thread()}, lambda worker: TimeoutError(str(worker)))

    def wait_often(times: list[float]) -> None:
        for seconds in times:
            wait(seconds)

    wait_often([0.2, 1000.0, 0.2, 1000.0, 0.2])  # stopped twice, as by Ctrl-Z
    with pytest.raises(TimeoutError):
        wait_often([0.2] * 30)

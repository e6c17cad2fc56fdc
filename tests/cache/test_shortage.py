"""Where the machine runs out of something, frames of a cache are decoded: they are neither damaged nor stored again."""

from __future__ import annotations

import errno
import gc
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from framefeed.cache import _clips, _keys, _stream_frames
from framefeed.cache._frame_cache import FrameCache
from framefeed.decode import BaseDecoder, ClipSlot, DecodeReport, VideoDecoder, find_decoder
from framefeed.errors import ResourceExhausted
from framefeed.index import FrameIndex
from framefeed.media import MediaSource
from framefeed.parallel import Ok, catch_outcome, find_shortage
from framefeed.request import OutputSpec
from framefeed.testing import ClipSpec, write_clip
from tests.cache.builders import built
from tests.cache.media import SMALL, Video
from tests.cache.store.faults import ALL, SHORTAGES, Faults, faulty
from tests.makers import plan_of

FRAMES = 12
ASKED = [([0, 1, 2, 3], SMALL), ([8, 9, 3], SMALL)]
DISTINCT = 6


def clip(folder: Path) -> Video:
    folder.mkdir(exist_ok=True)
    return Video.of(write_clip(folder / "v.mp4", ClipSpec(num_frames=FRAMES, gop=4)))


def filled(folder: Path, video: Video, **options: Any) -> FrameCache:
    with FrameCache(folder, **options) as cache:
        video.decoded(cache.decoder(find_decoder()), *ASKED)
    assert cache.info().num_frames == DISTINCT
    return FrameCache(folder, **options)


def assert_exact(video: Video, cache: FrameCache, expected: list[np.ndarray]) -> int:
    """Clips are exact, or an error says what ran out; gives how many frames the cache had."""
    try:
        clips, report = video.decoded(cache.decoder(find_decoder()), *ASKED)
        report.raise_first()
    except ResourceExhausted:
        return 0
    for one, other in zip(clips, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    return report.counts.frames_cached


def assert_as_before(video: Video, cache: FrameCache, expected: list[np.ndarray]) -> None:
    """Nothing was lost, stored twice, or taken for damaged, and the cache still fills."""
    assert assert_exact(video, cache, expected) == sum(len(indices) for indices, _ in ASKED)
    assert cache.is_filling
    stats = cache.stats()
    assert (stats.frames_damaged, stats.frames_outdated, stats.trouble) == (0, 0, None)
    cache.flush()
    checked = FrameCache(cache.path).verify()
    assert (checked.damaged, checked.refused, checked.num_frames) == ({}, {}, DISTINCT)


@pytest.mark.parametrize("goes_on", [False, True])
@pytest.mark.parametrize("form", ["output", "planes"])
def test_every_call_of_a_cached_read_runs_out(form: Any, goes_on: bool, tmp_path: Path) -> None:
    video = clip(tmp_path / "v")
    expected = video.fresh(*ASKED)
    filled(tmp_path / "c", video, form=form).close()
    for number in range(0, 10_000, 3 if goes_on else 1):
        faults = Faults(ALL, number, SHORTAGES[number % len(SHORTAGES)], goes_on)
        cache = FrameCache(tmp_path / "c", form=form)
        with faulty(faults, tmp_path / "c"):
            assert_exact(video, cache, expected)
        assert_as_before(video, cache, expected)
        cache.close()
        if not faults.failed:
            break
    assert {"open", "preadv", "scandir", "stat"} <= set(faults.names)


@pytest.mark.parametrize("form", ["output", "planes"])
def test_every_read_of_the_source_runs_out(form: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    video = clip(tmp_path / "v")
    expected = video.fresh(*ASKED)
    filled(tmp_path / "c", video, form=form, codec="raw").close()
    os.utime(tmp_path / "v" / "v.mp4")  # Its bytes must be looked at.
    for number in range(10_000):
        monkeypatch.setattr(_keys, "_CONFIRMED", set())
        faults = Faults(("stat", "open", "pread", "preadv", "fstat"), number, SHORTAGES[number % len(SHORTAGES)])
        cache = FrameCache(tmp_path / "c", form=form)
        with faulty(faults, tmp_path / "v"):
            outcome = catch_outcome(lambda cache: assert_exact(video, cache, expected), cache)
        # An error comes where the source is looked at before the cache is asked.
        assert isinstance(outcome, Ok) or find_shortage(outcome.error), outcome
        assert_as_before(video, cache, expected)
        cache.close()
        if not faults.failed:
            break
    assert number > 3


@contextmanager
def failing(module: Any, name: str, at: int) -> Iterator[list[int]]:
    """Have one call of a function run out of memory."""
    right: Callable[..., Any] = getattr(module, name)
    calls: list[int] = []

    def call(*args: Any, **named: Any) -> Any:
        calls.append(len(calls))
        if calls[-1] == at:
            raise MemoryError
        return right(*args, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, call)
        yield calls


@pytest.mark.parametrize(
    ("module", "name", "form"), [(_stream_frames, "_get_scratch", "output"), (_clips, "rebuild_picture", "planes")]
)
def test_memory_runs_out(module: Any, name: str, form: Any, tmp_path: Path) -> None:
    video = clip(tmp_path / "v")
    expected = video.fresh(*ASKED)
    filled(tmp_path / "c", video, form=form, codec="lz4").close()
    for number in range(100):
        with FrameCache(tmp_path / "c", form=form, codec="lz4") as cache:
            with failing(module, name, number) as calls:
                assert_exact(video, cache, expected)
            assert_as_before(video, cache, expected)
        if len(calls) <= number:
            break
    assert number > 0


@pytest.mark.parametrize("form", ["output", "planes"])
def test_every_call_of_filling_runs_out(form: Any, tmp_path: Path) -> None:
    video = clip(tmp_path / "v")
    expected = video.fresh(*ASKED)
    for number in range(0, 10_000, 5):
        faults = Faults(ALL, number, SHORTAGES[number % len(SHORTAGES)])
        cache = FrameCache(tmp_path / f"c{number}", form=form, codec="raw")
        with faulty(faults, Path(cache.path)):
            assert_exact(video, cache, expected)
            cache.flush()
        assert cache.is_filling
        assert FrameCache(cache.path).info().num_frames == cache.stats().frames_stored
        assert_exact(video, cache, expected)
        assert_as_before(video, cache, expected)
        if not faults.failed:
            break
    assert {"open", "pwritev", "fsync", "rename"} <= set(faults.names)


def test_reading_in_order_runs_out(tmp_path: Path) -> None:
    video = clip(tmp_path / "v")
    path = tmp_path / "v" / "v.mp4"
    with VideoDecoder(path) as plain:
        expected = [np.asarray(frame) for frame in plain]
    with (
        FrameCache(tmp_path / "c", codec="lz4") as cache,
        VideoDecoder(path, backend=cache.decoder(find_decoder())) as first,
    ):
        for _ in first:
            pass
    stored = cache.info().num_frames
    assert stored == FRAMES == len(video.index)
    for number in range(0, 10_000, 3):
        cache = FrameCache(tmp_path / "c", codec="lz4")
        decoder = VideoDecoder(path, backend=cache.decoder(find_decoder()))
        faults = Faults(ALL, number, SHORTAGES[number % len(SHORTAGES)], goes_on=True)
        with faulty(faults, tmp_path / "c"):
            for frame, right in zip(decoder, expected, strict=True):
                np.testing.assert_array_equal(np.asarray(frame), right)
        decoder.close()
        cache.close()
        assert cache.stats().frames_damaged == 0
        assert cache.info().num_frames == stored
        if not faults.failed:
            break


def test_a_lossy_cache_does_not_give_other_pixels(tmp_path: Path) -> None:
    video = clip(tmp_path / "v")
    cache = filled(tmp_path / "c", video, form="output", codec="jpeg:90")
    with (
        faulty(Faults(("preadv",), 0, errno.ENOMEM, goes_on=True), tmp_path / "c"),
        pytest.raises(ResourceExhausted, match="memory"),
    ):
        video.decoded(cache.decoder(find_decoder()), *ASKED)
    cache.close()


@pytest.mark.parametrize("call", ["pwritev", "fsync", "open", "rename"])
def test_a_build_names_the_resource_that_ran_out_and_no_source(call: str, tmp_path: Path) -> None:
    plan = plan_of(size=(24, 32))
    with FrameCache(tmp_path / "c", codec="raw") as cache:
        cache.store.refresh()
        with (
            faulty(Faults((call,), 1 if call == "open" else 0, errno.ENOMEM, goes_on=True), tmp_path / "c"),
            pytest.raises(ResourceExhausted, match="memory"),
        ):
            built(plan, cache, workers=0)
        report = built(plan, cache)
        assert report.is_complete
        assert report.frames_stored == cache.info().num_frames


def test_a_failed_read_releases_its_memory(tmp_path: Path) -> None:
    video = clip(tmp_path / "v")
    cache = filled(tmp_path / "c", video, form="output", codec="lz4")
    video.decoded(cache.decoder(find_decoder()), ([0], OutputSpec()))
    gc.collect()
    opened = len(os.listdir("/proc/self/fd"))
    gc.disable()
    try:
        for _ in range(5):
            with faulty(Faults(("preadv",), 0, errno.ENOMEM, goes_on=True), tmp_path / "c"):
                video.decoded(cache.decoder(find_decoder()), *ASKED)
        assert len(os.listdir("/proc/self/fd")) <= opened
    finally:
        gc.enable()
    cache.close()


class NoStat:
    """The module ``os`` where files cannot be looked at after some calls."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def stat(self, path: str) -> os.stat_result:
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        return os.stat(path)


def test_a_build_blames_no_source_where_it_cannot_be_stamped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(size=(24, 32))
    for number in range(0, 12, 3):
        monkeypatch.setattr(_keys, "os", NoStat(number))
        with FrameCache(tmp_path / f"c{number}", codec="raw") as cache, pytest.raises(ResourceExhausted):
            built(plan, cache, workers=0)


class ExhaustedDecoder(BaseDecoder):
    """Reports of each slot that memory ran out."""

    name = "exhausted"

    def __init__(self) -> None:
        self.memory: list[weakref.ref[np.ndarray]] = []

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        self.memory += [weakref.ref(slot.out) for slot in slots]
        return DecodeReport(errors=[ResourceExhausted("memory ran out", resource="memory") for _ in slots])

    def close(self) -> None:
        pass


def test_an_error_of_a_build_holds_no_pixels(tmp_path: Path) -> None:
    plan, decoder = plan_of(size=(16, 16)), ExhaustedDecoder()
    with (
        FrameCache(tmp_path / "c", codec="raw") as cache,
        pytest.raises(ResourceExhausted) as caught,
    ):
        built(plan, cache, backend=decoder, workers=0)
    assert decoder.memory
    assert [each() for each in decoder.memory] == [None] * len(decoder.memory), "pixels of a failed build are held"
    assert caught.value.resource == "memory"

"""What building a cache is to do, as laws, and the media that they are checked on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed.cache._frame_cache import FrameCache
from framefeed.cache.prefill._build import BuildReport, build, make_decoder
from framefeed.decode import ClipSlot, DecodeCounts, DecodeReport, find_decoder
from framefeed.errors import MediaError
from framefeed.index import FrameIndex, plan_runs
from framefeed.media import MediaSource
from framefeed.plan import EpochPlan

Builder = Callable[..., BuildReport]


class Watched:
    """The usual decoder, with a list of what it was asked for.

    Args:
        before: Called before each source is decoded.
    """

    name = "auto"

    def __init__(self, before: Callable[[], object] = lambda: None) -> None:
        self._inner: Any = find_decoder()
        self._before = before
        self._counting = threading.Lock()
        self.asked: list[tuple[str, int]] = []
        self.counts = DecodeCounts()

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        self._note(source, [ordinal for slot in slots for ordinal in slot.indices.tolist()])
        report = self._inner.decode(source, index, slots)
        with self._counting:
            self.counts += report.counts
        return report

    def iter_native(
        self,
        source: MediaSource,
        index: FrameIndex,
        ordinals: npt.ArrayLike | range,
        counts: DecodeCounts | None = None,
    ) -> Iterator[tuple[int, Any]]:
        self._note(source, np.asarray(ordinals).tolist())
        own = DecodeCounts()
        yield from self._inner.iter_native(source, index, ordinals, own)
        with self._counting:
            self.counts += own

    def can_iter_native(self, index: FrameIndex) -> bool:
        return bool(self._inner.can_iter_native(index))

    def recipe(self, index: FrameIndex) -> str:
        return str(self._inner.recipe(index))

    def close(self) -> None:
        self._inner.close()

    def _note(self, source: MediaSource, ordinals: list[int]) -> None:
        self._before()
        with self._counting:
            self.asked += [(source.name, ordinal) for ordinal in ordinals]


def needed_frames(plan: EpochPlan, epochs: int = 1) -> dict[int, set[int]]:
    """Distinct frames by row; all clips of the plan have one form."""
    frames_by_row: dict[int, set[int]] = {}
    for epoch in range(epochs):
        at = plan.with_epoch(plan.epoch + epoch)
        for position in range(len(at)):
            frames_by_row.setdefault(at[position].row, set()).update(at[position].indices.tolist())
    return frames_by_row


def count_needed(plan: EpochPlan, epochs: int = 1) -> int:
    return sum(map(len, needed_frames(plan, epochs).values()))


def fewest_decoded(plan: EpochPlan, frames_by_row: dict[int, set[int]]) -> int:
    """Pictures that must be decoded if each GOP is decoded once."""
    return sum(
        plan_runs(plan.catalog.frame_index(row), sorted(frames)).num_decoded for row, frames in frames_by_row.items()
    )


def clips_through(plan: EpochPlan, cache: FrameCache | None, backend: Any) -> Iterator[npt.NDArray[np.uint8] | None]:
    """Pixels of every clip, one at a time; None where it fails."""
    decoder = backend if cache is None else make_decoder(plan, cache, backend)
    for position in range(len(plan)):
        request, row = plan[position], plan[position].row
        index = plan.catalog.frame_index(row)
        shape = request.output.shape(*index.stream.displayed)
        slot = ClipSlot(request.indices, request.output, np.empty((len(request), *shape), dtype=np.uint8))
        try:
            decoder.decode(MediaSource.of(plan.catalog.source(row)), index, [slot]).raise_first()
        except MediaError:
            yield None
        else:
            yield slot.out


def assert_served(plan: EpochPlan, cache: FrameCache) -> None:
    """All clips come from the cache, and are what decoding gives."""
    watched = Watched()
    for clip, expected in zip(
        clips_through(plan, cache, watched), clips_through(plan, None, find_decoder()), strict=True
    ):
        assert clip is not None
        np.testing.assert_array_equal(clip, expected)
    assert watched.asked == [], "not in the cache"


def check_build(builder: Builder, plan: EpochPlan, cache: FrameCache, *, epochs: int = 1, workers: int = 2) -> None:
    """The law: each frame is decoded once, stored once, and from then on served; twice is once."""
    watched = Watched()
    report = builder(plan, cache, workers=workers, backend=watched, epochs=epochs, progress=False)
    assert report.clips == len(plan) * epochs
    assert (report.frames_stored, report.frames_present) == (count_needed(plan, epochs), 0)
    assert (report.frames_failed, report.failed, report.stopped_because) == (0, [], None)
    assert report.is_complete
    assert sorted(watched.asked) == sorted(set(watched.asked)), "a frame was asked for twice"
    assert watched.counts.frames_decoded == fewest_decoded(plan, needed_frames(plan, epochs)), "a GOP was decoded twice"
    info = cache.info()
    assert (info.num_frames, info.stored_bytes) == (report.frames_stored, report.bytes_written)
    with FrameCache(cache.path, form=cache.options.form) as other:
        for epoch in range(epochs):
            assert_served(plan.with_epoch(plan.epoch + epoch), other)
    again = Watched()
    report = builder(plan, cache, workers=workers, backend=again, epochs=epochs, progress=False)
    assert (again.asked, report.frames_stored, report.bytes_written) == ([], 0, 0)
    assert report.frames_present == count_needed(plan, epochs)
    assert cache.info().num_frames == info.num_frames


def built(plan: EpochPlan, cache: FrameCache, **options: Any) -> BuildReport:
    """Build without a bar."""
    return build(plan, cache, **{"workers": 2, "progress": False, **options})

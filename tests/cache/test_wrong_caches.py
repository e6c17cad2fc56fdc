"""Caches that are wrong on purpose: the law of caching must find each of them out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

from framefeed.cache._frame_cache import FrameCache
from framefeed.decode import ClipSlot, Decoder, DecodeReport, Pixels, find_decoder
from framefeed.index import FrameIndex
from framefeed.media import MediaSource
from framefeed.request import OutputSpec
from framefeed.testing import ClipSpec, write_clip
from tests.cache.media import Video

CALLS = [
    ([0, 1, 2, 3], OutputSpec(size=(24, 32))),
    ([3, 10, 9, 1], OutputSpec(size=(24, 32))),
    ([2, 3], OutputSpec(size=(24, 32), crop=(0, 0, 48, 64))),
    ([2, 3], OutputSpec(size=(24, 32), dimension_order="NHWC")),
    ([11, 10], OutputSpec(crop=(0, 0, 24, 32))),
]
Wrap = Callable[[Decoder], Decoder]
"""Gives a decoder with a cache, from one without."""


def check_cache(folder: Path, wrap: Wrap) -> None:
    """The law: whatever was asked for before, and whatever became of the files, what comes is what decoding gives."""
    paths = [folder / "a.mp4", folder / "b.mp4"]
    for number, path in enumerate(paths):
        write_clip(path, ClipSpec(num_frames=12, gop=4, b_frames=1, first_stamp=100 * number, seed=number))
    for _ in range(2):
        for video in map(Video.of, paths):
            for call in CALLS:
                clips, report = video.decoded(wrap(find_decoder()), call)
                report.raise_first()
                np.testing.assert_array_equal(clips[0], video.fresh(call)[0])
    first = Video.of(paths[0])
    hurt = paths[0].read_bytes()
    offset = int(first.index.packets.offset[1] + first.index.packets.size[1] - 2)
    times = paths[0].stat()
    paths[0].write_bytes(hurt[:offset] + bytes([hurt[offset] ^ 0x01]) + hurt[offset + 1 :])
    os.utime(paths[0], ns=(times.st_atime_ns, times.st_mtime_ns))
    number = int(first.index.frame_packet.tolist().index(1))
    _, report = first.decoded(wrap(find_decoder()), ([number], OutputSpec(size=(24, 32))))
    assert report.counts.frames_cached == 0, "bytes that the frame depends on have changed"


# --- caches that are wrong in one fact ----------------------------------------------------------------


def hash_file(path: str) -> object:
    return xxhash.xxh3_64_intdigest(Path(path).read_bytes())


def same_pixels(pixels: Pixels) -> Pixels:
    return pixels


@dataclass
class SmallCache:
    """A cache in a dictionary, which is right as it is; other facts make it wrong.

    Attributes:
        identify: The facts of a source by which its frames are known.
        describe: The facts of an output.
        read_facts: The facts of a file as it is now.
        change: What becomes of pixels that are stored.
    """

    identify: Callable[[MediaSource, FrameIndex], object] = lambda source, index: index.identity
    describe: Callable[[OutputSpec], object] = lambda output: output
    read_facts: Callable[[str], object] = hash_file
    change: Callable[[Pixels], Pixels] = same_pixels
    stored: dict[object, Pixels] = field(default_factory=dict)

    def __call__(self, inner: Decoder) -> Decoder:
        return _SmallDecoder(inner, self)


class _SmallDecoder:
    name = "small"

    def __init__(self, inner: Decoder, cache: SmallCache) -> None:
        self._inner = inner
        self._cache = cache

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        cache, report = self._cache, DecodeReport([None] * len(slots))
        for number, slot in enumerate(slots):
            facts = cache.identify(source, index), cache.describe(slot.output), cache.read_facts(source.path)
            for i, ordinal in enumerate(slot.indices.tolist()):
                if (facts, ordinal) in cache.stored:
                    slot.out[i] = cache.stored[facts, ordinal]
                    report.counts.frames_cached += 1
                    continue
                one = replace(slot, indices=slot.indices[i : i + 1], out=slot.out[i : i + 1])
                report.errors[number] = self._inner.decode(source, index, [one]).errors[0] or report.errors[number]
                cache.stored[facts, ordinal] = cache.change(slot.out[i].copy())
        return report

    def close(self) -> None:
        self._inner.close()


def read_head(path: str) -> object:
    return Path(path).read_bytes()[:40]


def read_modification_time(path: str) -> object:
    return os.stat(path).st_mtime_ns


def ignore(*facts: Any) -> object:
    return None


def omit(name: str) -> Callable[[OutputSpec], OutputSpec]:
    return lambda output: replace(output, **{name: getattr(OutputSpec(), name)})


WRONG: dict[str, dict[str, Any]] = {
    "a key without the source, which is trusted": {"identify": ignore, "read_facts": ignore},
    "a key without the crop": {"describe": omit("crop")},
    "no check of the source": {"read_facts": ignore},
    "the time of modification alone": {"read_facts": read_modification_time},
    "the head of the file alone": {"read_facts": read_head},
    "a codec that rounds": {"change": lambda pixels: pixels & 0xFE},
    "channels in another order": {"change": lambda pixels: pixels[::-1]},
}


def test_a_small_cache_keeps_the_law(tmp_path: Path) -> None:
    small = SmallCache()
    check_cache(tmp_path, small)
    assert len(small.stored) > 20


@pytest.mark.parametrize("name", WRONG)
def test_the_law_catches_a_wrong_cache(name: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        check_cache(tmp_path, SmallCache(**WRONG[name]))


# --- our cache ----------------------------------------------------------------------------------------

OPTIONS: list[dict[str, Any]] = [{"form": "output"}, {"form": "planes"}, {"form": "output", "strict": True}]


@pytest.mark.parametrize("options", OPTIONS)
def test_the_cache_keeps_the_law(options: dict[str, Any], tmp_path: Path) -> None:
    with FrameCache(tmp_path / "c", codec="lz4", **options) as cache:
        check_cache(tmp_path, cache.decoder)


class WrongHits:
    """A cache that is right until all frames of a clip are stored."""

    name = "wrong"

    def __init__(self, inner: Decoder) -> None:
        self._inner = inner

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        report = self._inner.decode(source, index, slots)
        if report.counts.frames_cached == sum(len(slot.indices) for slot in slots):
            self._inner.decode(source, index, [self.change(slot) for slot in slots]).raise_first()
        return report

    def change(self, slot: ClipSlot) -> ClipSlot:
        raise NotImplementedError

    def close(self) -> None:
        self._inner.close()


class GivesTheNextFrame(WrongHits):
    def change(self, slot: ClipSlot) -> ClipSlot:
        return replace(slot, indices=np.minimum(slot.indices + 1, 11))


class GivesFramesInAnyOrder(WrongHits):
    def change(self, slot: ClipSlot) -> ClipSlot:
        return replace(slot, indices=slot.indices[::-1].copy())


@pytest.mark.parametrize("wrong", [GivesTheNextFrame, GivesFramesInAnyOrder])
def test_the_law_catches_a_cache_that_is_wrong_where_it_hits(wrong: type[WrongHits], tmp_path: Path) -> None:
    with FrameCache(tmp_path / "c", codec="lz4", form="output") as cache, pytest.raises(AssertionError):
        check_cache(tmp_path, lambda inner: wrong(cache.decoder(inner)))

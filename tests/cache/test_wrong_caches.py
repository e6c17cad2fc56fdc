"""Caches that are wrong on purpose: the law of caching must find each of them out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from framefeed.cache import _caching, _clips, _keys, _stream_frames
from framefeed.cache._frame_cache import FrameCache
from framefeed.cache.codecs._registry import find_codec
from framefeed.decode import ClipSlot, Decoder, DecodeReport, find_decoder, rebuild_picture
from framefeed.index import FrameIndex
from framefeed.media import MediaSource
from framefeed.plan import OutputSpec
from framefeed.testing import ClipSpec, write_clip
from tests.cache.media import Video

Patch = Callable[[pytest.MonkeyPatch], None]
Options = dict[str, Any]
CALLS = [
    ([0, 1, 2, 3], OutputSpec(size=(24, 32))),
    ([3, 10, 9, 1], OutputSpec(size=(24, 32))),
    ([2, 3], OutputSpec(size=(24, 32), crop=(0, 0, 48, 64))),
    ([2, 3], OutputSpec(size=(24, 32), dimension_order="NHWC")),
    ([11, 10], OutputSpec(crop=(0, 0, 24, 32))),
]


def check_cache(folder: Path, wrap: Callable[[Decoder], Decoder] = lambda decoder: decoder, **options: Any) -> None:
    """The law: whatever was asked for before, and whatever became of the files, what comes is what decoding gives.

    Args:
        folder: An empty folder.
        wrap: Gives the decoder to check, from that of the cache.
        options: Of the cache.
    """
    paths = [folder / "a.mp4", folder / "b.mp4"]
    for number, path in enumerate(paths):
        write_clip(path, ClipSpec(num_frames=12, gop=4, b_frames=1, first_stamp=100 * number, seed=number))
    with FrameCache(folder / "c", codec="lz4", **options) as cache:
        for _ in range(2):
            for video in map(Video.of, paths):
                for call in CALLS:
                    clips, report = video.decoded(wrap(cache.decoder(find_decoder())), call)
                    report.raise_first()
                    np.testing.assert_array_equal(clips[0], video.fresh(call)[0])
        first = Video.of(paths[0])
        hurt = paths[0].read_bytes()
        offset = int(first.index.packets.offset[1] + first.index.packets.size[1] - 2)
        times = paths[0].stat()
        paths[0].write_bytes(hurt[:offset] + bytes([hurt[offset] ^ 0x01]) + hurt[offset + 1 :])
        os.utime(paths[0], ns=(times.st_atime_ns, times.st_mtime_ns))
        with cache:
            number = int(first.index.frame_packet.tolist().index(1))
            _, report = first.decoded(cache.decoder(find_decoder()), ([number], OutputSpec(size=(24, 32))))
            assert report.counts.frames_cached == 0, "bytes that the frame depends on have changed"


def key_without(name: str) -> Patch:
    """A key that lacks one fact."""

    def patch(patcher: pytest.MonkeyPatch) -> None:
        def forgetful(identity: Any, stream: Any, recipe: Any) -> Any:
            if name == "fingerprint":
                identity = replace(identity, fingerprint="", bytes=0)
            elif recipe.output is not None:
                recipe = replace(recipe, output=replace(recipe.output, **{name: OutputSpec().__getattribute__(name)}))
            return _keys.make_key(identity, stream, recipe)

        patcher.setattr(_caching, "make_key", forgetful)

    return patch


def trusts_every_source(patcher: pytest.MonkeyPatch) -> None:
    patcher.setattr(
        _stream_frames.StreamFrames,
        "_compare_with_source",
        lambda self, ordinals, stamps, contents: np.ones(len(ordinals), bool),
    )


def compares_times_only(patcher: pytest.MonkeyPatch) -> None:
    patcher.setattr(_keys, "_hash_facts", lambda facts: facts.st_mtime_ns)


def hashes_head_only(patcher: pytest.MonkeyPatch) -> None:
    patcher.setattr(_keys, "_find_spans", lambda index, ordinals, size: [(0, 40)] * len(ordinals))


def accepts_any_fingerprint(patcher: pytest.MonkeyPatch) -> None:
    patcher.setattr(_keys.SourceCheck, "has_fingerprint", lambda self: True)


def rounds_pixels(patcher: pytest.MonkeyPatch) -> None:
    lz4 = type(find_codec("lz4"))
    right = lz4.encode
    patcher.setattr(lz4, "encode", lambda self, layout, pixels: right(self, layout, pixels & 0xFE))


def swaps_planes(patcher: pytest.MonkeyPatch) -> None:
    def wrong(layout: Any, data: Any) -> Any:
        half = layout.width * layout.height
        flat = np.array(data)
        if layout.pixel_format == "yuv420p":
            flat[half : half * 5 // 4], flat[half * 5 // 4 :] = data[half * 5 // 4 :], data[half : half * 5 // 4]
        return rebuild_picture(layout, flat)

    patcher.setattr(_clips, "rebuild_picture", wrong)


def both(first: Patch, second: Patch) -> Patch:
    """Wrong in two ways, either of which the other part of the cache would make up for."""

    def patch(patcher: pytest.MonkeyPatch) -> None:
        first(patcher)
        second(patcher)

    return patch


OUTPUT: Options = {"form": "output"}
PLANES: Options = {"form": "planes"}
STRICT: Options = {"form": "output", "strict": True}
WRONG: dict[str, tuple[Options, Patch]] = {
    "a key without the source, which is trusted": (OUTPUT, both(key_without("fingerprint"), trusts_every_source)),
    "a key without the size of the crop": (OUTPUT, key_without("crop")),
    "no check of the source": (OUTPUT, trusts_every_source),
    "the time of modification alone": (PLANES, compares_times_only),
    "the head of the file alone": (STRICT, hashes_head_only),
    "any fingerprint": (OUTPUT, accepts_any_fingerprint),
    "a codec that rounds": (OUTPUT, rounds_pixels),
    "a codec that rounds planes": (PLANES, rounds_pixels),
    "planes in another order": (PLANES, swaps_planes),
}


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


@contextmanager
def patched(patch: Patch) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patcher:
        patch(patcher)
        yield


@pytest.mark.parametrize("options", [OUTPUT, PLANES, STRICT])
def test_the_cache_keeps_the_law(options: Options, tmp_path: Path) -> None:
    check_cache(tmp_path, **options)


@pytest.mark.parametrize("name", WRONG)
def test_the_law_catches_a_wrong_cache(name: str, tmp_path: Path) -> None:
    options, patch = WRONG[name]
    with patched(patch), pytest.raises(AssertionError):
        check_cache(tmp_path, **options)


@pytest.mark.parametrize("wrong", [GivesTheNextFrame, GivesFramesInAnyOrder])
def test_the_law_catches_a_cache_that_is_wrong_where_it_hits(wrong: type[WrongHits], tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        check_cache(tmp_path, wrong, **OUTPUT)

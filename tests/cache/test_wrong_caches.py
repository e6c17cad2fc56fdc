"""Caches that are wrong on purpose: the law of caching must find each of them out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from framefeed.cache import _caching, _keys, _stream_frames
from framefeed.cache._frame_cache import FrameCache
from framefeed.cache.codecs._registry import codec_named
from framefeed.decode import decoder_named, picture_of
from framefeed.plan import OutputSpec
from framefeed.testing import ClipSpec, write_clip
from tests.cache.media import Video

Patch = Callable[[pytest.MonkeyPatch], None]
CALLS = [
    ([0, 1, 2, 3], OutputSpec(size=(24, 32))),
    ([3, 10, 9, 1], OutputSpec(size=(24, 32))),
    ([2, 3], OutputSpec(size=(24, 32), crop=(0, 0, 48, 64))),
    ([2, 3], OutputSpec(size=(24, 32), dimension_order="NHWC")),
    ([11, 10], OutputSpec(crop=(0, 0, 24, 32))),
]


def check_cache(folder: Path, form: Any) -> None:
    """The law: whatever was asked for before, and whatever became of the files, what comes is what decoding gives."""
    paths = [folder / "a.mp4", folder / "b.mp4"]
    for number, path in enumerate(paths):
        write_clip(path, ClipSpec(num_frames=12, gop=4, b_frames=1, first_stamp=100 * number, seed=number))
    with FrameCache(folder / "c", form=form, codec="lz4") as cache:
        for _ in range(2):
            for of in map(Video.of, paths):
                for call in CALLS:
                    clips, report = of.decoded(cache.decoder(decoder_named()), call)
                    report.raise_first()
                    np.testing.assert_array_equal(clips[0], of.fresh(call)[0])
        first = Video.of(paths[0])
        hurt = paths[0].read_bytes()
        place = int(first.index.packets.offset[1] + first.index.packets.size[1] - 2)
        times = paths[0].stat()
        paths[0].write_bytes(hurt[:place] + bytes([hurt[place] ^ 0x01]) + hurt[place + 1 :])
        os.utime(paths[0], ns=(times.st_atime_ns, times.st_mtime_ns))
        with cache:
            number = int(first.index.frame_packet.tolist().index(1))
            _, report = first.decoded(cache.decoder(decoder_named()), ([number], OutputSpec(size=(24, 32))))
            assert report.counts.frames_cached == 0, "bytes that the frame depends on have changed"


def key_of_nothing(name: str) -> Patch:
    """A key that one fact has no part in."""

    def patch(patcher: pytest.MonkeyPatch) -> None:
        def forgetful(identity: Any, stream: Any, recipe: Any) -> Any:
            if name == "fingerprint":
                identity = replace(identity, fingerprint="", bytes=0)
            elif recipe.output is not None:
                recipe = replace(recipe, output=replace(recipe.output, **{name: OutputSpec().__getattribute__(name)}))
            return _keys.stream_key(identity.bytes, identity.fingerprint, stream, recipe)

        patcher.setattr(_caching, "key_of", forgetful)

    return patch


def believing(patcher: pytest.MonkeyPatch) -> None:
    patcher.setattr(
        _stream_frames.Shelf, "_agrees", lambda self, ordinals, stamps, contents: np.ones(len(ordinals), bool)
    )


def times_alone(patcher: pytest.MonkeyPatch) -> None:
    patcher.setattr(_keys, "_hash_facts", lambda facts: facts.st_mtime_ns)
    patcher.setattr(_stream_frames, "read_straight", lambda *_: np.zeros(0, np.int64))


def head_alone(patcher: pytest.MonkeyPatch) -> None:
    patcher.setattr(_keys, "_spans", lambda index, ordinals, size: [(0, 40)] * len(ordinals))


def ordinals_for_packets(patcher: pytest.MonkeyPatch) -> None:
    def take(self: Any, ordinals: Any, targets: Any = None, layout: Any = None) -> Any:
        return ORIGINAL_TAKE(self, np.minimum(ordinals + 1, 11), targets, layout)

    patcher.setattr(_stream_frames.Shelf, "take", take)


ORIGINAL_TAKE = _stream_frames.Shelf.take


def misplaced(patcher: pytest.MonkeyPatch) -> None:
    def spread(part: Any, whole: Any, missing: Any) -> None:
        if part is not whole:
            places = np.flatnonzero(missing)
            whole.out[places] = np.resize(part.out, (len(places), *part.out.shape[1:]))

    patcher.setattr(_caching, "_spread", spread)


def rounding(patcher: pytest.MonkeyPatch) -> None:
    lz4 = type(codec_named("lz4"))
    right = lz4.encode
    patcher.setattr(lz4, "encode", lambda self, layout, pixels: right(self, layout, pixels & 0xFE))


def swapped_planes(patcher: pytest.MonkeyPatch) -> None:
    def wrong(layout: Any, data: Any) -> Any:
        half = layout.width * layout.height
        flat = np.array(data)
        if layout.pixel_format == "yuv420p":
            flat[half : half * 5 // 4], flat[half * 5 // 4 :] = data[half * 5 // 4 :], data[half : half * 5 // 4]
        return picture_of(layout, flat)

    patcher.setattr(_caching, "picture_of", wrong)


def both(first: Patch, second: Patch) -> Patch:
    """Wrong in two ways, either of which the other part of the cache would make up for."""

    def patch(patcher: pytest.MonkeyPatch) -> None:
        first(patcher)
        second(patcher)

    return patch


WRONG: dict[str, tuple[str, Patch]] = {
    "a key without the source, which is believed": ("output", both(key_of_nothing("fingerprint"), believing)),
    "a key without the size of the crop": ("output", key_of_nothing("crop")),
    "no evidence": ("output", believing),
    "the time of modification alone": ("planes", times_alone),
    "the head of the file alone": ("output", head_alone),
    "another frame's place": ("output", ordinals_for_packets),
    "frames at others' places": ("output", misplaced),
    "a codec that rounds": ("output", rounding),
    "a codec that rounds planes": ("planes", rounding),
    "planes in another order": ("planes", swapped_planes),
}


@contextmanager
def patched(patch: Patch) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patcher:
        patch(patcher)
        yield


@pytest.mark.parametrize("form", ["output", "planes"])
def test_the_cache_keeps_the_law(form: str, tmp_path: Path) -> None:
    check_cache(tmp_path, form)


@pytest.mark.parametrize("name", WRONG)
def test_the_law_catches_a_wrong_cache(name: str, tmp_path: Path) -> None:
    form, patch = WRONG[name]
    with patched(patch), pytest.raises(AssertionError):
        check_cache(tmp_path, form)

"""Pixels of damaged files do not depend on what was decoded before, nor on what else is asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from framefeed.cache import FrameCache
from framefeed.decode._decoder import DecodeCounts
from framefeed.decode.backends._pyav_pools import get_thread_pools
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.index import FrameIndex, build_index
from framefeed.load import ClipLoader
from framefeed.media import MediaSource
from framefeed.plan import plan_requests
from framefeed.request import DecodeRequest
from tests.corpus import corpus_file
from tests.damaged import SPEC, damaged_clip
from tests.decode.chaos import ROOT
from tests.decode.damaged import DAMAGES, damage_head, differences, packet_ranges, seen, seen_alone

VARIANTS = [
    ("base.mp4", "flip_bits", 1),
    ("base.mp4", "garble_packet", 2),
    ("base.mp4", "damage_parameters", 3),
    ("bframes_3.mp4", "flip_bits", 4),
    ("bframes_3.mp4", "zero_range", 5),
    ("open_gop.mp4", "garble_packet", 6),
    ("long_gop.mp4", "flip_bits", 7),
    ("closed_gop.ts", "damage_head", 8),
    ("closed_gop.ts", "flip_bits", 9),
    ("closed_gop_mpeg2.mpg", "flip_bits", 10),
    ("hidden_vp8.webm", "flip_bits", 11),
    ("hidden_vp8.webm", "damage_head", 12),
    ("open_gop_hevc.mkv", "garble_packet", 13),
]


def damaged(folder: Path, name: str, damage: str, seed: int) -> Path:
    """Write a damaged variant of a file of the corpus."""
    path = corpus_file(name)
    data = bytearray(path.read_bytes())
    DAMAGES[damage](data, np.random.default_rng(seed), packet_ranges(build_index(path)))
    out = folder / f"{seed}_{name}"
    out.write_bytes(data)
    return out


@pytest.mark.parametrize(("name", "damage", "seed"), VARIANTS)
def test_D01_pixels_of_damaged_files_depend_on_nothing_else(tmp_path: Path, name: str, damage: str, seed: int) -> None:
    source = MediaSource.of(damaged(tmp_path, name, damage, seed))
    assert differences(source, build_index(source), np.random.default_rng(seed)) == []


@pytest.mark.parametrize("seed", [2, 3])
def test_D02_damage_is_the_same_for_any_number_of_a_decoders_own_threads(tmp_path: Path, seed: int) -> None:
    """A decoder with several threads drops what it decoded beside the damage: those frames are decoded again by one."""
    source = MediaSource.of(damaged(tmp_path, "base.mp4", "garble_packet", seed))
    index = build_index(corpus_file("base.mp4"))
    index = _of_source(index, source)
    expected = seen(source, index, range(len(index)))
    assert 0 < len(expected) < len(index), "some frames are to be damaged, and some not"
    for threads in (1, 2, 4):
        assert seen(source, index, range(len(index)), PyAVDecoder(threads=threads)) == expected


def _of_source(index: FrameIndex, source: MediaSource) -> FrameIndex:
    return replace(index, identity=source.identity())


def test_a_decoder_that_met_damage_is_not_used_again(tmp_path: Path) -> None:
    path = corpus_file("base.mp4")
    sound, broken = MediaSource.of(path), MediaSource.of(damaged(tmp_path, "base.mp4", "garble_packet", 2))
    index = build_index(path)
    get_thread_pools().clear()
    counts = DecodeCounts()
    decoder = PyAVDecoder()
    for _ in range(5):
        list(decoder.iter_native(sound, index, range(len(index)), counts))
    assert counts.contexts_made == 1, "sound runs share one"
    list(decoder.iter_native(broken, _of_source(index, broken), range(len(index)), DecodeCounts()))
    counts = DecodeCounts()
    list(decoder.iter_native(sound, index, range(len(index)), counts))
    assert counts.contexts_made == 1, "what met damage is gone"


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_batches_of_damaged_files_are_the_same_for_any_workers_with_and_without_a_cache(
    tmp_path: Path, workers: int
) -> None:
    rng = np.random.default_rng(0)
    requests = []
    for name, damage, seed in VARIANTS[:4]:
        path = damaged(tmp_path, name, damage, seed)
        count = len(build_index(path))
        requests += [DecodeRequest(source=str(path), indices=rng.integers(0, count, 3).tolist()) for _ in range(4)]
    order = rng.permutation(len(requests)).tolist()
    plan = plan_requests([requests[number] for number in order], size=(32, 48))
    expected = _content(ClipLoader(plan, batch_size=1, workers=0, on_error="skip"))
    cache = FrameCache(tmp_path / "cache")
    with ClipLoader(plan, batch_size=3, workers=workers, on_error="skip") as loader:
        assert _content(loader) == expected
    for _ in range(2):
        with ClipLoader(plan, batch_size=3, workers=workers, on_error="skip", cache=cache) as loader:
            assert _content(loader) == expected


def _content(loader: ClipLoader) -> list[tuple[int, bool, bytes]]:
    return [
        (int(position), bool(ok), np.ascontiguousarray(clip).tobytes())
        for batch in loader
        for position, ok, clip in zip(batch.positions, batch.ok, batch.data, strict=True)
    ]


def _written(path: Path, codec: str, options: dict[str, str]) -> Path:
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        rng = np.random.default_rng(5)
        for number in range(12):
            picture = np.clip(rng.normal(100 + 8 * number, 20, (48, 64, 3)), 0, 255).astype(np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
        container.mux(stream.encode())
    return path


@pytest.mark.skipif(not ROOT.is_dir(), reason="no folder of real media")
def test_a_decoder_that_leaves_memory_as_it_was_without_a_word_always_begins_with_blank_memory(tmp_path: Path) -> None:
    """VP8's does so where a partition ends early."""
    path = ROOT / "vp8-test-vectors" / "vp80-00-comprehensive-003.ivf"
    rng = np.random.default_rng(294)
    rng.integers(18), rng.integers(5)  # this damage was found by a sweep, which drew a file and a kind first
    data = bytearray(path.read_bytes())
    damage_head(data, rng, packet_ranges(build_index(path)))
    (tmp_path / path.name).write_bytes(data)
    source = MediaSource.of(tmp_path / path.name)
    assert differences(source, build_index(source), rng) == []


def _configuration(data: bytes) -> slice:
    start = data.index(b"avcC") - 4
    return slice(start, start + int.from_bytes(data[start : start + 4], "big"))


def test_parameter_sets_of_one_file_do_not_reach_another_file(tmp_path: Path) -> None:
    """Two files of one decoder configuration, one of which changes it among its pictures, in turns."""
    options = "keyint=4:scenecut=0:bframes=0:threads=1"
    plain = _written(tmp_path / "plain.mp4", "libx264", {"x264-params": f"{options}:cabac=1"})
    other = {"x264-params": f"{options}:cabac=0:repeat-headers=1"}
    changing = _written(tmp_path / "changing.mp4", "libx264", other)
    data = bytearray(changing.read_bytes())
    ours, theirs = _configuration(bytes(data)), _configuration(plain.read_bytes())
    assert ours.stop - ours.start == theirs.stop - theirs.start
    data[ours] = plain.read_bytes()[theirs]
    changing.write_bytes(data)
    sources = [MediaSource.of(plain), MediaSource.of(changing)]
    indexes = [build_index(source, verify="none") for source in sources]
    assert indexes[0].stream.extradata == indexes[1].stream.extradata
    assert all(index.stream.contiguous for index in indexes), "both are to be decoded without a container"
    assert [index.stream.inband_parameters for index in indexes] == [False, True]
    numbers = range(len(indexes[0]))
    expected = [seen_alone(*pair, numbers, is_fresh=True) for pair in zip(sources, indexes, strict=True)]
    assert all(len(frames) == len(numbers) for frames in expected)
    get_thread_pools().clear()
    counts = DecodeCounts()
    for number in numbers:
        for source, index, frames in zip(sources, indexes, expected, strict=True):
            list(PyAVDecoder().iter_native(source, index, [number], counts))
            assert seen(source, index, [number]) == {number: frames[number]}
    assert (counts.contexts_made, counts.runs) == (2, 2 * len(numbers)), "none was dropped for an error"


def test_M09_a_packet_that_is_left_out_behind_a_seek_changes_no_number() -> None:
    """Its second half overwritten, packet 12 of this file is followed by packet 20 where it is found by a seek."""
    path = damaged_clip("landing.webm", (12,), replace(SPEC, codec="libsvtav1", b_frames=None))
    source = MediaSource.of(path)
    index = build_index(source, verify="full")
    whole = {
        ordinal: frame.to_ndarray() for ordinal, frame in PyAVDecoder().iter_native(source, index, range(len(index)))
    }
    assert len(whole) > 20
    for ordinal in range(len(index)):
        alone = dict(PyAVDecoder().iter_native(source, index, [ordinal]))
        assert set(alone) == {ordinal} & set(whole)
        assert all(np.array_equal(frame.to_ndarray(), whole[ordinal]) for frame in alone.values())

"""Clips of many sources that a cache reads together are those that decoding gives, or are left to `decode`."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.cache import CachingDecoder, FrameCache, FrameStore, StoreOptions
from framefeed.cache._keys import hash_stamp, read_stamp
from framefeed.cache.store import _files
from framefeed.cache.store._files import find_parts
from framefeed.cache.store._format import MISS
from framefeed.cache.store._streams import Streams, list_frames
from framefeed.decode import ClipSlot, SourceClips, find_decoder
from framefeed.errors import CacheError, StaleSource
from framefeed.media import FileStamp
from framefeed.request import OutputSpec
from tests.cache.media import SMALL, Video, copied
from tests.media.pictures import write_folder

LARGE = OutputSpec(size=(40, 40))
Asked = tuple[Sequence[int], OutputSpec]


def clips_of(video: Video, *asked: Asked) -> SourceClips:
    """Clips with memory that holds 77."""
    slots = []
    for indices, output in asked:
        out = np.full((len(indices), *output.shape(*video.index.stream.displayed)), 77, dtype=np.uint8)
        slots.append(ClipSlot(np.array(indices, dtype=np.int64), output, out))
    return video.source, video.index, slots


def read(decoder: CachingDecoder, clips: Sequence[SourceClips], expected: Sequence[bool]) -> None:
    """Check which sources are read together, and that they have the pixels of decoding."""
    reports = decoder.read_ready(iter(clips))
    assert [report is not None for report in reports] == list(expected)
    for (source, index, slots), report in zip(clips, reports, strict=True):
        if report is None:
            report = decoder.decode(source, index, slots)
        else:
            frames = sum(len(slot.indices) for slot in slots)
            assert (report.counts.frames_cached, report.counts.frames_delivered) == (frames, frames)
        assert report.errors == [None] * len(slots)
        for slot, pixels in zip(slots, Video(source, index).fresh(*asked_of(slots)), strict=True):
            np.testing.assert_array_equal(slot.out, pixels)


def asked_of(slots: Sequence[ClipSlot]) -> list[Asked]:
    return [(slot.indices.tolist(), slot.output) for slot in slots]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "pictures", 8)


@pytest.fixture
def pictures(folder: Path) -> list[Video]:
    return [Video.of(str(folder / f"img{number}.png")) for number in range(8)]


def filled(cache: FrameCache, clips: Sequence[SourceClips]) -> CachingDecoder:
    decoder = cache.decoder(find_decoder())
    for source, index, slots in clips:
        decoder.decode(source, index, slots).raise_first()
    cache.flush()
    return cache.decoder(find_decoder())


@pytest.mark.parametrize("is_flushed", [True, False])
def test_pictures_that_are_stored_are_read_together(pictures: list[Video], tmp_path: Path, is_flushed: bool) -> None:
    with FrameCache(tmp_path / "c") as cache:
        first = cache.decoder(find_decoder())
        for number in (5, 0, 1, 2, 7):
            first.decode(*clips_of(pictures[number], ([0], SMALL)))
            if is_flushed and number % 2:
                cache.flush()  # so that they lie in several segments
        before = cache.stats().frames_hit
        order = [2, 3, 0, 7, 6, 5, 1, 4]
        decoder = cache.decoder(find_decoder())
        read(decoder, [clips_of(pictures[n], ([0], SMALL)) for n in order], [n in (5, 0, 1, 2, 7) for n in order])
        assert cache.stats().frames_hit == before + 5


def test_videos_and_pictures_of_several_sizes_are_read_together(pictures: list[Video], tmp_path: Path) -> None:
    video = Video.of(copied("base.mp4", tmp_path))
    with FrameCache(tmp_path / "c") as cache:
        decoder = filled(
            cache, [clips_of(video, ([0, 1, 2, 3, 7], SMALL)), clips_of(pictures[0], ([0], SMALL), ([0], LARGE))]
        )
        asked = [
            clips_of(video, ([3, 0, 0], SMALL), ([1], SMALL)),
            clips_of(pictures[0], ([0], LARGE)),
            clips_of(video, ([3, 4], SMALL)),  # 4 is not stored
            clips_of(pictures[0], ([0, 0], SMALL)),
            clips_of(pictures[0], ([0], SMALL), ([0], LARGE)),  # of one source, two sizes are left to `decode`
        ]
        read(decoder, asked, [True, True, False, True, False])


def test_other_caches_leave_all_to_decode(pictures: list[Video], tmp_path: Path) -> None:
    for number, options in enumerate([
        {"codec": "lz4"}, {"strict": True}, {"memory_bytes": 10**6}, {"form": "planes"},
    ]):  # fmt: skip
        with FrameCache(tmp_path / f"c{number}", **options) as cache:  # type: ignore[arg-type]
            asked = [clips_of(picture, ([0], SMALL)) for picture in pictures]
            decoder = filled(cache, asked)
            for _ in range(2):
                read(decoder, asked, [False] * len(asked))
            assert cache.state.has_raw == (options != {"codec": "lz4"})


def test_clips_that_decode_refuses_are_left_to_it(pictures: list[Video], tmp_path: Path) -> None:
    with FrameCache(tmp_path / "c") as cache:
        decoder = filled(cache, [clips_of(picture, ([0], SMALL)) for picture in pictures])
        memory = np.zeros((1, 3, 24, 32), dtype=np.uint8)
        source, index = pictures[0].source, pictures[0].index
        zero = np.zeros(1, dtype=np.int64)
        slots = [
            ClipSlot(zero + 1, SMALL, memory),
            ClipSlot(zero - 1, SMALL, memory),
            ClipSlot(zero, SMALL, memory, accepts_damaged=True),
            ClipSlot(zero, SMALL, np.zeros((1, 3, 24, 30), dtype=np.uint8)),
            ClipSlot(zero[:0], SMALL, memory[:0]),
        ]
        assert decoder.read_ready((source, index, [slot]) for slot in slots) == [None] * len(slots)
        assert not memory.any()
        turned = OutputSpec(size=(32, 24))
        both = clips_of(pictures[0], ([0], SMALL), ([0], turned))  # of as many bytes
        assert decoder.read_ready([both]) == [None]
        good = clips_of(pictures[1], ([0], SMALL))
        assert decoder.read_ready([(source, index, slots[:1]), good])[1] is not None


def test_C03_changed_files_are_not_read_together(pictures: list[Video], folder: Path, tmp_path: Path) -> None:
    with FrameCache(tmp_path / "c") as cache:
        clips = [clips_of(picture, ([0], SMALL)) for picture in pictures]
        decoder = filled(cache, clips)
        os.utime(folder / "img0.png", ns=(1, 1))  # the same bytes: accepted by their fingerprint
        shutil.copy(folder / "img2.png", folder / "img1.png.new")
        os.replace(folder / "img1.png.new", folder / "img1.png")
        (folder / "img3.png").unlink()
        reports = decoder.read_ready(clips)
        assert [report is not None for report in reports] == [n not in (0, 1, 3) for n in range(8)]
        assert decoder.decode(*clips[0]).counts.frames_cached == 1
        for number in (1, 3):
            with pytest.raises((StaleSource, OSError) if number == 1 else Exception):
                decoder.decode(*clips[number])


def test_a_copied_video_is_known_by_its_fingerprint(tmp_path: Path) -> None:
    video = Video.of(copied("base.mp4", tmp_path / "a"))
    clips = clips_of(video, ([3, 1], SMALL), ([0], SMALL))
    with FrameCache(tmp_path / "c") as cache:
        decoder = filled(cache, [clips])
        copy = Video.of(copied("base.mp4", tmp_path / "b"))
        other = Video.of(copied("bframes_0.mp4", tmp_path / "b"))
        for _ in range(2):
            asked = [clips_of(other, ([0], SMALL)), clips_of(copy, ([0, 3], SMALL)), clips_of(video, ([1], SMALL))]
            assert [report is not None for report in decoder.read_ready(asked)] == [False, True, True]
            read(decoder, asked[1:], [True, True])
        # The same size and time as before, and other bytes: a fingerprint reads head, middle and tail.
        path = Path(copy.source.path)
        before = path.stat()
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert decoder.read_ready([clips_of(copy, ([0, 3], SMALL))]) == [None]


def test_a_frame_with_a_hash_of_its_bytes_is_not_taken_by_the_fingerprint(tmp_path: Path) -> None:
    video = Video.of(copied("base.mp4", tmp_path / "a"))
    for strict, ordinal in ((True, 0), (False, 3)):
        with FrameCache(tmp_path / "c", strict=strict) as cache:
            filled(cache, [clips_of(video, ([ordinal], SMALL))])
    copy = Video.of(copied("base.mp4", tmp_path / "b"))
    with FrameCache(tmp_path / "c") as cache:
        decoder = cache.decoder(find_decoder())
        asked = [clips_of(each, ([0, 3], SMALL)) for each in (video, copy)]
        assert [report is not None for report in decoder.read_ready(asked)] == [True, False]
        assert decoder.decode(*asked[1]).counts.frames_cached == 2


def test_damaged_frames_are_decoded_again(pictures: list[Video], tmp_path: Path) -> None:
    with FrameCache(tmp_path / "c") as cache:
        clips = [clips_of(picture, ([0], SMALL)) for picture in pictures]
        filled(cache, clips)
    (data,) = (tmp_path / "c").glob("*.data")
    content = bytearray(data.read_bytes())
    content[160 + 3 * 24 * 32 * 2 + 100] ^= 1  # in the third picture
    data.write_bytes(content)
    with FrameCache(tmp_path / "c") as cache:
        decoder = cache.decoder(find_decoder())
        read(decoder, [clips_of(picture, ([0], SMALL)) for picture in pictures], [n != 2 for n in range(8)])
        assert cache.stats().frames_damaged == 1
        assert cache.stats().frames_hit == 7


@pytest.mark.parametrize(
    "error", [OSError(errno.EMFILE, "too many"), MemoryError(), CacheError("gone")], ids=lambda error: repr(error)
)
def test_a_shortage_is_left_to_decode(
    error: Exception, pictures: list[Video], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise error

    with FrameCache(tmp_path / "c") as cache:
        clips = [clips_of(picture, ([0], SMALL)) for picture in pictures[:2]]
        decoder = filled(cache, clips)
        with monkeypatch.context() as patch:
            patch.setattr(FrameStore, "find_each", refuse)
            assert decoder.read_ready(clips) == [None, None]
        read(decoder, clips, [True, True])
        monkeypatch.setattr(FrameStore, "find_each", refuse)
        error = OSError(errno.EBADF, "closed by framefeed")
        with pytest.raises(OSError, match="closed by framefeed"):
            decoder.read_ready(clips)


def test_a_stamp_is_the_same_from_either_side(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    os.utime(path, ns=(5, -(10**15)))
    assert hash_stamp(FileStamp.of(str(path), path.stat())) == read_stamp(str(path))


# --- looking up many streams ------------------------------------------------------------------------

KEYS = [bytes([n]) * 8 + bytes([m]) * 8 for n in range(3) for m in range(3)]


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(-1, 3)), min_size=1, max_size=60),
    st.lists(st.tuples(st.integers(0, 8), st.integers(-1, 4)), max_size=20),
)
def test_one_frame_is_found_as_in_a_list(stored: list[tuple[int, int]], asked: list[tuple[int, int]]) -> None:
    streams = Streams()
    for ref, (stream, number) in enumerate(stored):
        streams.add([list_frames(b"".join(KEYS), np.array([stream]), np.array([number]), np.array([ref]))])
    for stream, number in asked:
        newest = max((ref for ref, each in enumerate(stored) if each == (stream, number)), default=MISS)
        assert streams.find_one(KEYS[stream], number) == newest
        assert streams.find(KEYS[stream], np.array([number])).tolist() == [newest]


def test_frames_of_any_streams_are_found_together(tmp_path: Path) -> None:
    from framefeed.cache import Kind, StoredFrame

    store = FrameStore(str(tmp_path / "s"), StoreOptions())
    kind = Kind("raw", "rgbp 2x2 2 0 p 0")
    for number in range(6):
        data = bytes([number]) * 12
        store.add(KEYS[number % 3], "{}", [StoredFrame(number, kind, data, 12)])
        if number in (1, 3):
            store.flush()
    asked = [(0, 0), (0, 3), (1, 1), (5, 1), (2, 5), (0, 3), (2, 2), (1, 0)]
    locations = store.find_each([KEYS[stream] for stream, _ in asked], np.array([number for _, number in asked]))
    is_there = [stream < 3 and number % 3 == stream for stream, number in asked]
    assert locations.is_there.tolist() == is_there
    indices = np.flatnonzero(locations.is_there).tolist()
    buffers = [memoryview(bytearray(12)) for _ in indices]
    assert store.read(locations, indices, buffers) == [True] * len(indices)
    assert [buffer[0] for buffer in buffers] == [asked[i][1] for i in indices]
    assert store.find_each([], np.empty(0, np.int64)).refs.tolist() == []
    store.close()


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 30))),
    st.integers(1, 100),
    st.integers(1, 8),
)
def test_parts_are_neighbours_in_a_file(frames: list[tuple[int, int, int]], most_bytes: int, most_buffers: int) -> None:
    segments, offsets, sizes = list[int](), list[int](), list[int]()
    for next_segment, gap, size in frames:
        start = offsets[-1] + sizes[-1] if offsets else 7
        segments.append(next_segment // 2 + (segments[-1] if segments else 0))
        offsets.append(start + gap // 2)
        sizes.append(size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_files, "_PART_BYTES", most_bytes)
        patch.setattr(_files, "MAX_BUFFERS", most_buffers)
        parts = list(find_parts(segments, offsets, sizes))
        assert [i for part, _ in parts for i in range(len(sizes))[part]] == list(range(len(sizes)))
        for part, nbytes in parts:
            assert nbytes == sum(sizes[part])
            assert nbytes == offsets[part.stop - 1] + sizes[part.stop - 1] - offsets[part.start]
            assert segments[part.start] == segments[part.stop - 1]
            assert 0 < part.stop - part.start <= most_buffers
            assert nbytes <= most_bytes or part.stop - part.start == 1 or not sizes[part.start]


@given(st.integers(0, 40), st.integers(0, 30), st.integers(1, 100), st.integers(1, 8))
def test_parts_of_equal_frames_are_as_few_as_there_can_be(
    count: int, size: int, most_bytes: int, most_buffers: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_files, "_PART_BYTES", most_bytes)
        patch.setattr(_files, "MAX_BUFFERS", most_buffers)
        parts = list(find_parts([0] * count, [7 + number * size for number in range(count)], [size] * count))
        step = min(most_buffers, max(1, most_bytes // size if size else count))
        assert [range(count)[part] for part, _ in parts] == [
            range(count)[start : start + step] for start in range(0, count, step)
        ]

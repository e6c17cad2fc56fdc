"""CachingDecoder: what comes out is what decoding gives, whatever the cache holds."""

from __future__ import annotations

import os
import shutil
import threading
import warnings
from collections.abc import Sequence
from io import BytesIO
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framefeed.cache import _keys, _stream_frames
from framefeed.cache._frame_cache import FrameCache
from framefeed.cache.codecs._registry import CODECS
from framefeed.cache.store._store import FrameStore
from framefeed.decode import ClipSlot, DecodeReport, VideoDecoder, adapt_decoder, find_decoder
from framefeed.errors import CorruptMedia, FrameNotFound, StaleSource, UsageError
from framefeed.index import FrameIndex
from framefeed.media import ImageSequence, MediaSource
from framefeed.request import OutputSpec
from framefeed.testing import ClipSpec, write_clip
from tests.cache.media import SMALL, Video, copied
from tests.corpus import clip_file, corpus_file
from tests.fakes import FlatDecoder
from tests.judges import assert_same_arrays
from tests.parallel.awaited import AwaitedLock
from tests.patience import PATIENCE_SECONDS

EXACT = [name for name, entry in CODECS.items() if entry.is_exact]
WHOLE = OutputSpec()
OUTPUTS = [
    SMALL,
    WHOLE,
    OutputSpec(dimension_order="NHWC"),
    OutputSpec(size=(20, 30), dimension_order="NHWC"),
    OutputSpec(crop=(2, 4, 20, 24)),
    OutputSpec(size=(16, 16), crop=(1, 3, 21, 25)),
]
CLIP = [3, 4, 5, 9, 9, 1]


def make_video() -> Video:
    return Video.of(clip_file("cached.mp4", ClipSpec(num_frames=40, gop=10, b_frames=2)))


requests = st.lists(
    st.tuples(st.lists(st.integers(0, 39), min_size=1, max_size=6), st.sampled_from(OUTPUTS)), min_size=1, max_size=3
)


@pytest.mark.parametrize("form", ["auto", "output", "planes"])
@settings(max_examples=12, deadline=None)
@given(
    calls=st.lists(requests, min_size=1, max_size=4), codec=st.sampled_from(EXACT), memory=st.sampled_from([0, 60_000])
)
def test_C11_any_calls_give_what_decoding_gives(
    form: Any, calls: list[Any], codec: str, memory: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    video = make_video()
    with FrameCache(folder / "c", codec=codec, form=form, memory_bytes=memory) as cache:
        decoder = cache.decoder(find_decoder())
        for asked in [*calls, *calls]:
            clips, report = video.decoded(decoder, *asked)
            assert report.errors == [None] * len(asked)
            assert report.counts.frames_delivered == sum(len(indices) for indices, _ in asked)
            assert_same_arrays(clips, video.fresh(*asked))
    with FrameCache(folder / "c", codec=codec, form=form) as again:
        for asked in calls:
            clips, report = video.decoded(again.decoder(find_decoder()), *asked)
            assert_same_arrays(clips, video.fresh(*asked))
            assert report.counts.frames_decoded == 0
            assert report.counts.frames_cached == report.counts.frames_delivered
        assert again.stats().hit_rate == 1
    shutil.rmtree(folder)


@pytest.mark.parametrize("form", ["output", "planes"])
def test_a_missing_frame_that_a_clip_repeats_is_delivered_each_time(form: Any, tmp_path: Path) -> None:
    video = make_video()
    with FrameCache(tmp_path / "c", form=form) as cache:
        decoder = cache.decoder(find_decoder())
        video.decoded(decoder, ([1], SMALL))
        clips, report = video.decoded(decoder, ([0, 0, 1], SMALL))
        assert_same_arrays(clips, video.fresh(([0, 0, 1], SMALL)))
        assert (report.counts.frames_delivered, report.counts.frames_cached) == (3, 1)


@pytest.mark.parametrize("form", ["output", "planes"])
def test_only_missing_frames_of_a_clip_are_decoded(form: Any, tmp_path: Path) -> None:
    video = make_video()
    with FrameCache(tmp_path / "c", form=form) as cache:
        decoder = cache.decoder(find_decoder())
        video.decoded(decoder, ([3, 5], SMALL))
        clips, report = video.decoded(decoder, (CLIP, SMALL))
        assert_same_arrays(clips, video.fresh((CLIP, SMALL)))
        assert report.counts.frames_cached == 2
        assert report.counts.frames_stored == 3
        assert cache.stats().frames_hit == 2


def test_planes_serve_any_crop_and_outputs_only_their_own(tmp_path: Path) -> None:
    video = make_video()
    with FrameCache(tmp_path / "c", form="planes") as cache:
        video.decoded(cache.decoder(find_decoder()), (CLIP, SMALL))
        other = OutputSpec(size=(30, 40), crop=(0, 0, 30, 40))
        clips, report = video.decoded(cache.decoder(find_decoder()), (CLIP, other))
        assert report.counts.frames_decoded == 0
        assert_same_arrays(clips, video.fresh((CLIP, other)))
    with FrameCache(tmp_path / "d", form="output") as cache:
        video.decoded(cache.decoder(find_decoder()), (CLIP, SMALL))
        _, report = video.decoded(cache.decoder(find_decoder()), (CLIP, other))
        assert report.counts.frames_cached == 0


def test_automatic_form_keeps_planes_of_whole_pictures(tmp_path: Path) -> None:
    video = make_video()
    with FrameCache(tmp_path / "c") as cache:
        video.decoded(cache.decoder(find_decoder()), ([0, 1], WHOLE))
        video.decoded(cache.decoder(find_decoder()), ([0, 1], SMALL))
        cache.flush()
        layouts = [kind.layout.split()[0] for kind in cache.info().kinds]
    assert sorted(layouts) == ["rgbp", "yuv420p"]


def test_a_video_decoder_reads_through_a_cache(tmp_path: Path) -> None:
    path = clip_file("cached.mp4", ClipSpec(num_frames=40, gop=10, b_frames=2))
    with VideoDecoder(path, size=(24, 32)) as plain:
        expected = plain.get_frames_at(CLIP).data
    with FrameCache(tmp_path / "c") as cache:
        for _ in range(2):
            with VideoDecoder(path, size=(24, 32), backend=cache.decoder(find_decoder())) as decoder:
                np.testing.assert_array_equal(decoder.get_frames_at(CLIP).data, expected)
                np.testing.assert_array_equal(decoder[7], plain_frame(path, 7))
        assert cache.stats().frames_hit == len(CLIP) + 1


def plain_frame(path: Path, number: int) -> np.ndarray:
    with VideoDecoder(path, size=(24, 32)) as plain:
        frame: np.ndarray = plain[number]
        return frame


@pytest.mark.parametrize("form", ["output", "planes"])
def test_rotated_and_mirrored_pictures_are_upright(form: Any, tmp_path: Path) -> None:
    video = Video.of(corpus_file("rotated_90.mp4"))
    height, width = video.index.stream.displayed
    asked = ([0, 2, 1], OutputSpec(size=(height // 2, width // 3), crop=(0, 2, height - 4, width - 2)))
    with FrameCache(tmp_path / "c", form=form) as cache:
        for _ in range(2):
            clips, _ = video.decoded(cache.decoder(find_decoder()), asked)
            assert_same_arrays(clips, video.fresh(asked))
        assert cache.stats().frames_hit == 3


@pytest.mark.parametrize("form", ["output", "planes"])
def test_pictures_and_sequences_are_cached_too(form: Any, tmp_path: Path, rng_pictures: Path) -> None:
    for given_source, asked in (
        (rng_pictures / "img0.png", [0, 0]),
        (ImageSequence(rng_pictures, fps=5), [2, 0, 1]),
    ):
        video = Video.of(given_source)
        with FrameCache(tmp_path / f"c{len(asked)}", form=form) as cache:
            for _ in range(2):
                clips, _ = video.decoded(cache.decoder(find_decoder()), (asked, OutputSpec(size=(10, 12))))
                assert_same_arrays(clips, video.fresh((asked, OutputSpec(size=(10, 12)))))
            assert cache.stats().frames_hit == len(asked)


@pytest.fixture
def rng_pictures(tmp_path: Path) -> Path:
    """Three pictures that differ."""
    from PIL import Image

    folder = tmp_path / "pictures"
    folder.mkdir()
    rng = np.random.default_rng(5)
    for number in range(3):
        Image.fromarray(rng.integers(0, 256, (20, 24, 3), dtype=np.uint8)).save(folder / f"img{number}.png")
    return folder


def test_sources_in_memory_are_identified_by_content(tmp_path: Path) -> None:
    data = corpus_file("bframes_2.mp4").read_bytes()
    video = Video.of(data)
    with FrameCache(tmp_path / "c") as cache:
        video.decoded(cache.decoder(find_decoder()), ([1, 2], SMALL))
        again = Video.of(bytes(bytearray(data)))
        clips, report = again.decoded(cache.decoder(find_decoder()), ([1, 2], SMALL))
        assert report.counts.frames_cached == 2
        assert_same_arrays(clips, video.fresh(([1, 2], SMALL)))


@pytest.mark.parametrize("form", ["output", "planes"])
@pytest.mark.parametrize("room", [None, 4000])
def test_loss_does_not_depend_on_what_the_cache_holds(form: Any, room: int | None, tmp_path: Path) -> None:
    pytest.importorskip("simplejpeg")
    video = make_video()
    calls = [([3, 5], SMALL), (CLIP, SMALL), (CLIP, SMALL), ([5, 4], OutputSpec(size=(20, 30)))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with FrameCache(tmp_path / "c", codec="jpeg:60", form=form, max_bytes=room) as lossy:
            first = [video.decoded(lossy.decoder(find_decoder()), call)[0][0] for call in calls]
            again = [video.decoded(lossy.decoder(find_decoder()), call)[0][0] for call in calls]
        with FrameCache(tmp_path / "d", codec="jpeg:60", form=form) as other:
            turned = [video.decoded(other.decoder(find_decoder()), call)[0][0] for call in calls[::-1]][::-1]
    for clip, second, third, call in zip(first, again, turned, calls, strict=True):
        np.testing.assert_array_equal(clip, second)
        np.testing.assert_array_equal(clip, third)
        assert not np.array_equal(clip, video.fresh(call)[0])


def test_lossy_frames_are_read_only_with_the_same_codec(tmp_path: Path) -> None:
    pytest.importorskip("simplejpeg")
    video = make_video()
    with FrameCache(tmp_path / "c", codec="jpeg:80", form="output") as lossy:
        video.decoded(lossy.decoder(find_decoder()), (CLIP, SMALL))
        _, report = video.decoded(lossy.decoder(find_decoder()), (CLIP, SMALL))
        assert report.counts.frames_cached == len(CLIP)
    for other in ("jpeg:90", "lz4"):
        with FrameCache(tmp_path / "c", codec=other, form="output") as cache:
            _, report = video.decoded(cache.decoder(find_decoder()), (CLIP, SMALL))
            assert report.counts.frames_cached == 0
    with FrameCache(tmp_path / "c", codec="raw", form="output") as cache:
        clips, report = video.decoded(cache.decoder(find_decoder()), (CLIP, SMALL))
        assert report.counts.frames_cached == len(CLIP), "exact is exact, whichever codec stored it"
        assert_same_arrays(clips, video.fresh((CLIP, SMALL)))


# --- errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["output", "planes"])
def test_a_frame_that_fails_is_not_stored_and_its_error_is_the_decoders(form: Any, tmp_path: Path) -> None:
    video = Video.of(corpus_file("truncated.mp4"), verify="none")
    asked = [([number], SMALL) for number in range(len(video.index))]
    _, plain = video.decoded(find_decoder(), *asked)
    assert any(plain.errors)
    assert not all(plain.errors)
    with FrameCache(tmp_path / "c", form=form) as cache:
        for _ in range(2):
            _, report = video.decoded(cache.decoder(find_decoder()), *asked)
            assert [str(error) for error in report.errors] == [str(error) for error in plain.errors]
            assert all(isinstance(error, CorruptMedia) for error in report.errors if error)
        good = sum(error is None for error in plain.errors)
        assert cache.stats().frames_stored == good


def test_the_decoder_reports_ordinals_that_do_not_exist(tmp_path: Path) -> None:
    video = make_video()
    with FrameCache(tmp_path / "c") as cache, pytest.raises(FrameNotFound):
        video.decoded(cache.decoder(find_decoder()), ([0, 40], SMALL))
    with FrameCache(tmp_path / "c") as cache, pytest.raises(FrameNotFound):
        video.decoded(cache.decoder(find_decoder()), ([-1], SMALL))


def test_form_planes_needs_a_decoder_that_gives_planes(tmp_path: Path) -> None:
    video = make_video()
    with FrameCache(tmp_path / "c", form="planes") as cache, pytest.raises(UsageError, match='form="output"'):
        video.decoded(cache.decoder(FlatDecoder()), ([0], SMALL))
    with FrameCache(tmp_path / "c") as cache:
        clips, _ = video.decoded(cache.decoder(FlatDecoder()), ([3], WHOLE))
        assert (clips[0] == 3).all()


def test_a_cached_decoder_has_the_optional_methods_of_any_decoder(tmp_path: Path) -> None:
    video = make_video()
    with FrameCache(tmp_path / "c") as cache:
        for inner in (FlatDecoder(), find_decoder()):
            decoder = cache.decoder(inner)
            assert adapt_decoder(decoder) is decoder
            assert decoder.recipe(video.index) == adapt_decoder(inner).recipe(video.index)
            assert decoder.can_iter_rgb(video.index)
            # A cache is not asked for frames before their conversion.
            assert not decoder.can_iter_native(video.index)
            ordinals = [ordinal for ordinal, _ in decoder.iter_rgb(video.source, video.index, [3, 4, 5], SMALL)]
            assert ordinals == [3, 4, 5]
            assert not list(decoder.iter_rgb(video.source, video.index, [], SMALL))
            assert [ordinal for ordinal, _ in decoder.iter_rgb(video.source, video.index, [2, 5, 6], SMALL)] == [
                2,
                5,
                6,
            ]


def test_decoders_do_not_read_each_others_frames(tmp_path: Path) -> None:
    video = make_video()
    with FrameCache(tmp_path / "c") as cache:
        video.decoded(cache.decoder(FlatDecoder()), ([3], SMALL))
        clips, report = video.decoded(cache.decoder(find_decoder()), ([3], SMALL))
        assert report.counts.frames_cached == 0
        assert_same_arrays(clips, video.fresh(([3], SMALL)))


# --- C03: sources that change -------------------------------------------------------------------------


def patched(path: Path, offset: int) -> None:
    """Change one byte in place."""
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 0x55]))


def filled(cache: FrameCache, video: Video, asked: Sequence[int]) -> None:
    _, report = video.decoded(cache.decoder(find_decoder()), (asked, SMALL))
    report.raise_first()
    assert report.counts.frames_stored == len(asked)


def noise(ordinal: int) -> np.ndarray:
    return np.random.default_rng(ordinal).integers(0, 256, (144, 176, 3), dtype=np.uint8)


def long_clip(folder: Path) -> Path:
    """A clip of more bytes than its fingerprint looks at."""
    spec = ClipSpec(num_frames=36, gop=6, height=144, width=176, codec_options={"crf": "4"}, draw=noise)
    path = Path(shutil.copy(clip_file("long_noise.mp4", spec), folder / "long.mp4"))
    assert path.stat().st_size > 4 * 64 * 1024
    return path


def find_hidden_packet(video: Video, path: Path) -> tuple[int, int]:
    """Choose a byte that the fingerprint does not cover; return (offset, ordinal of its frame)."""
    first = int(video.index.packets.offset[0])
    offset = first + (path.stat().st_size - first) // 4
    packet = int(np.flatnonzero(video.index.packets.offset <= offset).max())
    return offset, int(video.index.frame_packet.tolist().index(packet))


@pytest.mark.parametrize("strict", [False, True])
def test_C03_only_a_strict_cache_sees_a_change_that_keeps_size_and_fingerprint(strict: bool, tmp_path: Path) -> None:
    path = long_clip(tmp_path)
    video = Video.of(path)
    offset, hurt = find_hidden_packet(video, path)
    packet = int(video.index.frame_packet[hurt])
    well = next(i for i in range(len(video.index)) if video.index.frame_start[i] > packet)
    before = path.stat()
    with FrameCache(tmp_path / "c", strict=strict) as cache:
        filled(cache, video, [well, hurt])
        patched(path, offset)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert Video.of(path).index.identity == video.index.identity, "neither size, time nor fingerprint tells"
        _, report = video.decoded(cache.decoder(find_decoder()), ([well], SMALL), ([hurt], SMALL))
        assert report.counts.frames_cached == (1 if strict else 2)
        assert cache.stats().frames_outdated == (1 if strict else 0)
        assert (report.counts.frames_decoded > 0) == strict


@pytest.mark.parametrize("memory", [0, 10**7])
@pytest.mark.parametrize("form", ["output", "planes"])
def test_C03_bytes_of_the_fingerprint_changed_under_the_same_size_and_time(
    form: Any, memory: int, tmp_path: Path
) -> None:
    path = long_clip(tmp_path)
    video = Video.of(path)
    before = path.stat()
    with FrameCache(tmp_path / "c", form=form, memory_bytes=memory) as cache:
        filled(cache, video, [0, 30])
        patched(path, path.stat().st_size - 1)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        _, report = video.decoded(cache.decoder(find_decoder()), ([0, 30], SMALL))
        assert (report.counts.frames_cached, report.counts.frames_stored) == (0, 0)
        assert cache.stats().frames_outdated == 2


def test_C03_frames_of_a_file_edited_after_indexing_are_not_stored_under_its_old_fingerprint(tmp_path: Path) -> None:
    path = long_clip(tmp_path)
    video = Video.of(path)
    right, before = path.read_bytes(), path.stat()
    with FrameCache(tmp_path / "c") as cache:
        patched(path, path.stat().st_size - 1)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        _, report = video.decoded(cache.decoder(find_decoder()), ([0], SMALL))
        assert report.counts.frames_stored == 0
        path.write_bytes(right)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        _, report = video.decoded(cache.decoder(find_decoder()), ([0], SMALL))
        assert report.counts.frames_cached == 0, "frames of the edited file, though this one has the fingerprint"


def test_C03_a_source_is_read_once_to_confirm_its_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = long_clip(tmp_path)
    video = Video.of(path)
    hashed, right = list[str](), MediaSource.fingerprint

    def fingerprint(self: MediaSource) -> str:
        hashed.append(self.path)
        return right(self)

    monkeypatch.setattr(MediaSource, "fingerprint", fingerprint)
    monkeypatch.setattr(_keys, "_hash_spans", None)  # which reads encoded bytes
    with FrameCache(tmp_path / "c") as cache:
        for first in (0, 12, 30):
            filled(cache, video, [first, first + 1])
        assert len(hashed) == 1
        os.utime(path, ns=(1, 1))
        _keys.read_lasting_stamp(str(path))
        for first in (0, 12, 30):
            _, report = video.decoded(cache.decoder(find_decoder()), ([first, first + 1], SMALL))
            assert report.counts.frames_cached == 2
        assert len(hashed) == 3, "once by the source itself, and once by the cache"


def test_C14_a_fingerprint_is_not_remembered_of_a_file_that_may_change_without_a_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = long_clip(tmp_path)
    check = _keys.SourceCheck(MediaSource.of(path), Video.of(path).index)
    monkeypatch.setattr(_keys, "_CONFIRMED", set())
    changed = os.stat(path).st_ctime_ns
    for age, confirmed in ((3_000_000, 0), (10_000_000, 1)):
        monkeypatch.setattr(_keys, "time_ns", lambda age=age: changed + age)
        assert check.has_fingerprint()
        assert len(_keys._CONFIRMED) == confirmed


def test_C03_a_strict_cache_stores_frames_again_that_have_no_hash(tmp_path: Path) -> None:
    path = copied("bframes_2.mp4", tmp_path)
    video = Video.of(path)
    with FrameCache(tmp_path / "c", codec="raw") as cache:
        filled(cache, video, [0, 3])
    for cached in (0, 2):
        with FrameCache(tmp_path / "c", codec="raw", strict=True) as cache:
            clips, report = video.decoded(cache.decoder(find_decoder()), ([0, 3], SMALL))
            assert (report.counts.frames_cached, report.counts.frames_stored) == (cached, 2 - cached)
            assert cache.stats().frames_outdated == 0
            assert_same_arrays(clips, video.fresh(([0, 3], SMALL)))


def test_C03_only_a_strict_cache_sees_a_change_that_leaves_no_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = long_clip(tmp_path)
    video = Video.of(path)
    offset, hurt = find_hidden_packet(video, path)
    before = path.stat()
    monkeypatch.setattr(_keys, "_hash_facts", lambda facts: 7)
    for number, (strict, codec, memory) in enumerate(product((False, True), ("raw", "lz4"), (0, 10**7))):
        with FrameCache(tmp_path / f"c{number}", codec=codec, strict=strict, memory_bytes=memory) as cache:
            filled(cache, video, [hurt])
            patched(path, offset)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
            _, report = video.decoded(cache.decoder(find_decoder()), ([hurt], SMALL))
            assert report.counts.frames_cached == (0 if strict else 1), (strict, codec, memory)
        patched(path, offset)  # as it was


class WholeSeconds:
    """The module ``os`` on a file system that keeps whole seconds."""

    @staticmethod
    def stat(path: str) -> Any:
        facts = os.stat(path)
        times = {name: getattr(facts, name) // 10**9 * 10**9 for name in ("st_mtime_ns", "st_ctime_ns")}
        return SimpleNamespace(st_ino=facts.st_ino, st_size=facts.st_size, **times)


def test_C14_a_file_that_is_written_read_and_written_in_the_same_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_keys, "os", WholeSeconds)
    path = long_clip(tmp_path)
    video = Video.of(path)
    offset, hurt = find_hidden_packet(video, path)
    before = path.stat()
    now = [before.st_ctime_ns // 10**9 * 10**9 + 10**9 - 1]
    monkeypatch.setattr(_keys, "time_ns", lambda: now[0])
    with FrameCache(tmp_path / "c", codec="raw") as cache:
        _, report = video.decoded(cache.decoder(find_decoder()), ([hurt], SMALL))
        assert report.counts.frames_stored == 0, "the file may change without a mark"
        patched(path, offset)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        _, report = video.decoded(cache.decoder(find_decoder()), ([hurt], SMALL))
        assert report.counts.frames_cached == 0
        assert report.counts.frames_decoded > 0
        patched(path, offset)
        now[0] = path.stat().st_ctime_ns + 4 * 10**9
        filled(cache, video, [hurt])
        assert video.decoded(cache.decoder(find_decoder()), ([hurt], SMALL))[1].counts.frames_cached == 1


def test_C14_stamping_waits_for_a_tick_of_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    video = Video.of(write_clip(tmp_path / "v.mp4", ClipSpec(num_frames=4)))
    changed = os.stat(tmp_path / "v.mp4").st_ctime_ns
    now, slept = [changed + 3_000_000], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += round(seconds * 1e9)

    monkeypatch.setattr(_keys, "time_ns", lambda: now[0])
    monkeypatch.setattr(_keys, "sleep", sleep)
    with FrameCache(tmp_path / "c", codec="raw") as cache:
        filled(cache, video, [0, 1])
        assert len(slept) == 1
        assert 0.007 <= slept[0] < 0.008
        now[0] = changed - 10**9  # The clock of the file system is ahead.
        _, report = video.decoded(cache.decoder(find_decoder()), ([2], SMALL))
        assert (report.counts.frames_stored, len(slept)) == (0, 1)


def test_C03_a_file_that_was_only_touched_keeps_its_frames(tmp_path: Path) -> None:
    path = copied("bframes_2.mp4", tmp_path)
    video = Video.of(path)
    with FrameCache(tmp_path / "c") as cache:
        filled(cache, video, [0, 3])
        os.utime(path, ns=(1, 1))
        clips, report = video.decoded(cache.decoder(find_decoder()), ([0, 3], SMALL))
        assert report.counts.frames_cached == 2
        assert_same_arrays(clips, video.fresh(([0, 3], SMALL)))


def test_C03_a_replaced_file_is_stale_and_a_miss_after_indexing(tmp_path: Path) -> None:
    path = copied("bframes_2.mp4", tmp_path)
    video = Video.of(path)
    with FrameCache(tmp_path / "c") as cache:
        filled(cache, video, [0, 3])
        shutil.copy(corpus_file("open_gop.mp4"), path)
        with pytest.raises(StaleSource):
            video.decoded(cache.decoder(find_decoder()), ([0, 3], SMALL))
        now = Video.of(path)
        clips, report = now.decoded(cache.decoder(find_decoder()), ([0, 3], SMALL))
        assert report.counts.frames_cached == 0
        assert_same_arrays(clips, now.fresh(([0, 3], SMALL)))


def test_C03_a_picture_replaced_by_one_with_the_same_head(tmp_path: Path) -> None:
    from PIL import Image

    path = tmp_path / "picture.bmp"
    pixels = np.random.default_rng(3).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    video = Video.of(path)
    with FrameCache(tmp_path / "c") as cache:
        filled(cache, video, [0])
        # BMP begins with the last row: the first is behind what the fingerprint of a still looks at.
        pixels[0] ^= 0xFF
        Image.fromarray(pixels).save(path)
        clips, report = video.decoded(cache.decoder(find_decoder()), ([0], SMALL))
        assert report.counts.frames_cached == 0
        assert_same_arrays(clips, video.fresh(([0], SMALL)))


def test_C03_two_pictures_in_memory_with_the_same_head(tmp_path: Path) -> None:
    from PIL import Image

    pixels = np.random.default_rng(3).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    other = pixels.copy()
    other[0] ^= 0xFF  # as above, behind the head
    videos = []
    for each in (pixels, other):
        Image.fromarray(each).save(encoded := BytesIO(), "BMP")
        videos.append(Video.of(encoded.getvalue()))
    with FrameCache(tmp_path / "c") as cache:
        for _ in range(2):
            for video in videos:
                clips, _ = video.decoded(cache.decoder(find_decoder()), ([0], SMALL))
                assert_same_arrays(clips, video.fresh(([0], SMALL)))


class Meddling:
    """A decoder during whose work somebody replaces the file."""

    name = "meddling"

    def __init__(self, path: Path) -> None:
        self._path = path

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        report = find_decoder().decode(source, index, slots)
        patched(self._path, self._path.stat().st_size - 1)
        return report

    def close(self) -> None:
        pass


def test_C03_a_file_that_changes_during_decoding_is_not_stored(tmp_path: Path) -> None:
    path = copied("bframes_2.mp4", tmp_path)
    video = Video.of(path)
    with FrameCache(tmp_path / "c") as cache:
        _, report = video.decoded(cache.decoder(Meddling(path)), ([0, 3], SMALL))
        assert report.counts.frames_stored == 0


def test_copies_of_cache_and_data_can_be_used(tmp_path: Path) -> None:
    path = copied("bframes_2.mp4", tmp_path / "here")
    with FrameCache(tmp_path / "here" / "c") as cache:
        filled(cache, Video.of(path), [0, 3])
    shutil.copytree(tmp_path / "here", tmp_path / "there", copy_function=shutil.copyfile)
    shutil.rmtree(tmp_path / "here")
    video = Video.of(tmp_path / "there" / "bframes_2.mp4")
    with FrameCache(tmp_path / "there" / "c") as cache:
        clips, report = video.decoded(cache.decoder(find_decoder()), ([0, 3], SMALL))
        assert report.counts.frames_cached == 2
        assert_same_arrays(clips, video.fresh(([0, 3], SMALL)))


@pytest.mark.parametrize("verify", ["none", "full"])
def test_frames_do_not_depend_on_how_the_file_was_indexed(verify: str, tmp_path: Path) -> None:
    path = corpus_file("bframes_2.mp4")
    with FrameCache(tmp_path / "c") as cache:
        filled(cache, Video.of(path), [0, 3])
        video = Video.of(path, verify=verify)
        clips, report = video.decoded(cache.decoder(find_decoder()), ([0, 3], SMALL))
        assert report.counts.frames_cached == 2
        assert_same_arrays(clips, video.fresh(([0, 3], SMALL)))


# --- when nothing more can be stored ------------------------------------------------------------------


def test_C04_a_full_cache_warns_once_and_decoding_continues(tmp_path: Path) -> None:
    video = make_video()
    clips = [[number] for number in range(20)]
    with FrameCache(tmp_path / "c", codec="raw", form="output", max_bytes=30_000) as cache:
        decoder = cache.decoder(find_decoder())
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for clip in [*clips, *clips]:
                (pixels,), _ = video.decoded(decoder, (clip, SMALL))
                np.testing.assert_array_equal(pixels, video.fresh((clip, SMALL))[0])
        assert "stores no more" in str(seen[0].message)
        assert len(seen) == 1
        # At the line that called framefeed, which is of a helper of the tests.
        assert Path(seen[0].filename).is_relative_to(Path(__file__).parent.parent)
        assert cache.stats().is_full
        assert 0 < cache.stats().frames_stored < 20
        cache.flush()
        assert sum(file.stat().st_size for file in (tmp_path / "c").iterdir()) <= 30_000


def test_C17_a_folder_removed_while_running(tmp_path: Path) -> None:
    video = make_video()
    with FrameCache(tmp_path / "c", form="output") as cache:
        decoder = cache.decoder(find_decoder())
        video.decoded(decoder, (CLIP, SMALL))
        cache.flush()
        shutil.rmtree(tmp_path / "c")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for clip in (CLIP, [11, 12], CLIP):
                (pixels,), report = video.decoded(decoder, (clip, SMALL))
                assert report.errors == [None]
                np.testing.assert_array_equal(pixels, video.fresh((clip, SMALL))[0])
            cache.flush()
        assert len(seen) <= 1


def test_C17_a_folder_removed_before_the_first_seal_gives_one_warning(tmp_path: Path) -> None:
    video = make_video()
    with warnings.catch_warnings(record=True) as seen, FrameCache(tmp_path / "c") as cache:
        warnings.simplefilter("always")
        video.decoded(cache.decoder(find_decoder()), (CLIP, SMALL))
        shutil.rmtree(tmp_path / "c")
        cache.flush()
        (pixels,), _ = video.decoded(cache.decoder(find_decoder()), (CLIP, SMALL))
        np.testing.assert_array_equal(pixels, video.fresh((CLIP, SMALL))[0])
        cache.flush()
    assert [str(each.message) for each in seen if str(tmp_path / "c") in str(each.message)] == [cache.stats().trouble]


class Flag:
    """False to the thread that asks first, and to one that asks before that has its answer."""

    def __init__(self) -> None:
        self.is_asked = False
        self.has_other_come = threading.Event()
        """Another thread asks too, or waits for the lock."""

    def __bool__(self) -> bool:
        if self.is_asked:
            self.has_other_come.set()
        self.is_asked = True
        assert self.has_other_come.wait(PATIENCE_SECONDS)
        return False


def test_of_threads_that_see_the_same_trouble_one_warns(tmp_path: Path) -> None:
    with FrameCache(tmp_path / "c") as cache:
        state: Any = cache.state
        state._store, state._has_warned = SimpleNamespace(trouble="the disk is full", is_full=False), Flag()
        state._lock.value = AwaitedLock(state._has_warned.has_other_come.set)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            threads = [threading.Thread(target=state.warn_of_trouble) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE_SECONDS)
        state._store = None
    assert [str(each.message) for each in seen] == ["the disk is full"]


def test_warnings_turned_into_errors_do_not_stop_decoding(tmp_path: Path) -> None:
    video = make_video()
    with FrameCache(tmp_path / "c", codec="raw", form="output", max_bytes=5000) as cache:
        for number in range(8):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                (pixels,), _ = video.decoded(cache.decoder(find_decoder()), ([number], SMALL))
            np.testing.assert_array_equal(pixels, video.fresh(([number], SMALL))[0])
        assert cache.stats().is_full


# --- what reviews found -------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["output", "planes"])
@pytest.mark.parametrize("before", [[], [0, 1, 2, 3], [20, 21, 22], list(range(16, 32))])
def test_reading_in_order_decodes_each_frame_once(form: Any, before: list[int], tmp_path: Path) -> None:
    path = clip_file("cached_in_one_gop.mp4", ClipSpec(num_frames=40, gop=40, b_frames=2))
    with VideoDecoder(path, size=(24, 32)) as plain:
        expected = [frame.copy() for frame in plain]
    with FrameCache(tmp_path / "c", form=form) as cache:
        if before:
            Video.of(path).decoded(cache.decoder(find_decoder()), (before, SMALL))
        for _ in range(2):
            with VideoDecoder(path, size=(24, 32), backend=cache.decoder(find_decoder())) as decoder:
                assert_same_arrays(list(decoder), expected)
        assert cache.stats().frames_missed <= 40 + len(before) + 16
        cache.flush()
        assert cache.info().num_frames <= 40 + 16


def test_the_memory_tier_serves_raw_frames_too(tmp_path: Path) -> None:
    video = make_video()
    with FrameCache(tmp_path / "c", codec="raw", form="output", memory_bytes="1MB") as cache:
        for _ in range(3):
            (clip,), _ = video.decoded(cache.decoder(find_decoder()), (CLIP, SMALL))
            np.testing.assert_array_equal(clip, video.fresh((CLIP, SMALL))[0])
            clip[:] = 77  # The frames in memory are not the caller's.
        assert cache.stats().frames_from_memory == 2 * len(CLIP)
        assert cache.stats().bytes_read == 0


def test_frames_that_are_too_large_are_not_stored(tmp_path: Path) -> None:
    video, wide = make_video(), OutputSpec(size=(17_000, 2))
    with FrameCache(tmp_path / "c", form="output") as cache:
        for _ in range(2):
            clips, report = video.decoded(cache.decoder(find_decoder()), ([1], wide))
            assert_same_arrays(clips, video.fresh(([1], wide)))
            assert report.counts.frames_cached == 0


def test_C09_a_source_that_cannot_be_hashed_is_still_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    video = make_video()

    def failing(self: Any, ordinals: Any) -> Any:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("framefeed.cache._keys.SourceCheck.hash_contents", failing)
    for form in ("output", "planes"):
        with FrameCache(tmp_path / form, form=form, strict=True) as cache:  # type: ignore[arg-type]
            for _ in range(2):
                clips, _ = video.decoded(cache.decoder(find_decoder()), (CLIP, SMALL))
                assert_same_arrays(clips, video.fresh((CLIP, SMALL)))


def test_a_path_with_a_zero_byte_is_no_folder() -> None:
    with pytest.raises(UsageError, match="folder"):
        FrameCache("a\0b")


def test_outdated_frames_are_counted_once(tmp_path: Path) -> None:
    path = copied("bframes_2.mp4", tmp_path)
    video = Video.of(path)
    with FrameCache(tmp_path / "c", memory_bytes="1MB", form="output") as cache:
        filled(cache, video, [0, 3])
        offset = int(video.index.packets.offset[video.index.frame_start[0]])
        times = path.stat()
        patched(path, offset + 40)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        video = Video(video.source, video.index)
        video.decoded(cache.decoder(find_decoder()), ([0, 3], SMALL))
        assert cache.stats().frames_outdated == 2


@pytest.mark.parametrize("form", ["output", "planes"])
def test_frames_are_stored_as_decoded_even_if_the_caller_writes_to_them(form: Any, tmp_path: Path) -> None:
    path = write_clip(tmp_path / "v.mp4", ClipSpec(num_frames=40, gop=8))
    with FrameCache(tmp_path / "c", form=form, codec="raw") as cache:
        with VideoDecoder(path, backend=cache.decoder(find_decoder())) as first:
            for frame in first:
                frame[:] = 77
        assert cache.stats().frames_stored == 40, "the last ones too"
        with VideoDecoder(path, backend=cache.decoder(find_decoder())) as again, VideoDecoder(path) as plain:
            assert_same_arrays(list(again), list(plain))


@pytest.mark.parametrize("codec", ["raw", "lz4"])
@pytest.mark.parametrize("form", ["output", "planes"])
def test_stored_frames_are_decoded_from_little_memory(
    form: Any, codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    video, calls = make_video(), [(CLIP, SMALL), ([20, 21], SMALL)]
    sizes, right = list[int](), _stream_frames._get_scratch

    def get_scratch(nbytes: int) -> memoryview:
        sizes.append(nbytes)
        return right(nbytes)

    monkeypatch.setattr(_stream_frames, "_get_scratch", get_scratch)
    monkeypatch.setattr(_stream_frames, "_SCRATCH_BYTES", 5000)
    with FrameCache(tmp_path / "c", form=form, codec=codec) as cache:
        video.decoded(cache.decoder(find_decoder()), *calls)
        clips, report = video.decoded(cache.decoder(find_decoder()), *calls)
        assert report.counts.frames_cached == 8
        assert_same_arrays(clips, video.fresh(*calls))
    picture = video.index.stream.width * video.index.stream.height * 3 // 2
    most = picture if form == "planes" else 0 if codec == "raw" else 5000
    assert max(sizes) <= most, "one picture, which is larger; or two outputs"


def test_clips_of_one_source_are_looked_up_and_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    video, calls = make_video(), [(CLIP, SMALL), ([20, 21], SMALL), ([21, 30], SMALL)]
    with FrameCache(tmp_path / "c", codec="raw") as cache:
        video.decoded(cache.decoder(find_decoder()), *calls)
        made = list[str]()
        for name in ("find", "read"):
            right = getattr(FrameStore, name)
            monkeypatch.setattr(
                FrameStore, name, lambda *given, right=right, name=name: made.append(name) or right(*given)
            )
        clips, report = video.decoded(cache.decoder(find_decoder()), *calls)
        assert (made, report.counts.frames_cached) == (["find", "read"], 10)
        assert_same_arrays(clips, video.fresh(*calls))

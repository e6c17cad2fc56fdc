"""VideoDecoder: any way of asking for frames, by number and by time."""

from __future__ import annotations

import copy
import gc
import io
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed._values import Limits
from framefeed.decode._frames import Frame, FrameBatch
from framefeed.decode._video_decoder import VideoDecoder
from framefeed.errors import CorruptMedia, FrameNotFound, LimitExceeded, NoVideoStream, TimeUnavailable, UsageError
from framefeed.index import build_index
from framefeed.testing import read_stamp, read_stamps
from tests.corpus import corpus_file
from tests.reference import kept_reference, rgb_digest

N = 100


@pytest.fixture(scope="module")
def decoder() -> VideoDecoder:
    return VideoDecoder(corpus_file("base.mp4"))


@pytest.fixture(scope="module")
def everything(decoder: VideoDecoder) -> np.ndarray:
    return decoder[:]


def stamps(batch: Any) -> list[int]:
    return read_stamps(batch.data if isinstance(batch, FrameBatch) else batch)


# --- by number --------------------------------------------------------------------------------------


def test_all_methods_of_reading_everything_agree(decoder: VideoDecoder, everything: np.ndarray) -> None:
    assert len(decoder) == N
    assert stamps(everything) == list(range(N))
    for other in (np.stack(list(decoder)), decoder.get_all_frames().data, decoder.get_frames_in_range(0, N).data,
                  decoder[::-1][::-1], np.stack([decoder[number] for number in range(N)]),
                  np.stack([decoder.get_frame_at(number - N).data for number in range(N)])):  # fmt: skip
        np.testing.assert_array_equal(other, everything)


@given(st.slices(N))
def test_slices_are_those_of_a_sequence(decoder: VideoDecoder, everything: np.ndarray, key: slice) -> None:
    np.testing.assert_array_equal(decoder[key], everything[key])


@given(st.integers(-150, 150), st.integers(-150, 150), st.integers(-9, 9).filter(bool))
def test_ranges_are_slices(decoder: VideoDecoder, start: int, stop: int, step: int) -> None:
    batch = decoder.get_frames_in_range(start, stop, step)
    assert batch.indices.tolist() == list(range(N))[start:stop:step]


@given(st.lists(st.integers(-N, N - 1), max_size=12))
def test_any_order_and_repeats(decoder: VideoDecoder, numbers: list[int]) -> None:
    batch = decoder.get_frames_at(numbers)
    assert batch.indices.tolist() == [number % N for number in numbers]
    assert stamps(batch) == [number % N for number in numbers]
    np.testing.assert_allclose(batch.pts_seconds, [number % N / 25 for number in numbers])
    np.testing.assert_allclose(batch.duration_seconds, [1 / 25] * len(numbers))


@given(st.lists(st.integers(-N, N - 1), max_size=30))
def test_one_after_the_other_in_any_order(decoder: VideoDecoder, numbers: list[int]) -> None:
    assert [read_stamp(decoder[number]) for number in numbers] == [number % N for number in numbers]


@pytest.mark.parametrize("numbers", [[], (), np.array([], dtype=np.int64), range(0)])
def test_no_numbers_give_no_frames(decoder: VideoDecoder, numbers: Any) -> None:
    batch = decoder.get_frames_at(numbers)
    assert batch.data.shape == (0, 3, 96, 128)
    assert batch.data.dtype == np.uint8
    assert len(batch) == len(batch.pts_seconds) == 0
    assert decoder[5:5].shape == (0, 3, 96, 128)


@pytest.mark.parametrize("kind", [int, np.int64, np.uint8, np.int32, lambda number: np.array(number)])
def test_numbers_of_any_kind(decoder: VideoDecoder, kind: Callable[[int], Any]) -> None:
    assert read_stamp(decoder[kind(7)]) == 7
    assert stamps(decoder.get_frames_at(np.array([3, 1], dtype=np.int32))) == [3, 1]
    assert decoder.get_frame_at(kind(7)).indices == 7


FAR = [N, N + 1, -N - 1, 10**9, -(10**9), 2**62]


@pytest.mark.parametrize("number", FAR)
def test_M01_frames_beyond_the_end_are_not_found_at_once(decoder: VideoDecoder, number: int) -> None:
    for ask in (
        lambda: decoder[number],
        lambda: decoder.get_frame_at(number),
        lambda: decoder.get_frames_at([0, number]),
    ):
        with pytest.raises(FrameNotFound, match="100 frames") as raised:
            ask()
        assert isinstance(raised.value, IndexError)
    assert read_stamp(decoder[N - 1]) == N - 1


@pytest.mark.parametrize("key", ["a", 1.5, None, (1, 2), [1, 2], np.array([1, 2])])
def test_other_keys_are_the_callers_mistake(decoder: VideoDecoder, key: Any) -> None:
    with pytest.raises(UsageError) as raised:
        decoder[key]
    names_the_method = "get_frames_at(indices) takes several" in str(raised.value)
    assert names_the_method == (not isinstance(key, str | float | None))


def test_a_step_of_zero(decoder: VideoDecoder) -> None:
    with pytest.raises(UsageError):
        decoder.get_frames_in_range(0, 5, 0)
    with pytest.raises(UsageError):
        decoder[::0]


# --- by time ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["vfr.mp4", "start_8s.mkv", "closed_gop.ts", "wrap.ts", "ntsc.mp4"])
def test_M02_M05_played_frames(name: str) -> None:
    with VideoDecoder(corpus_file(name)) as decoder:
        index = decoder.frame_index
        times = index.pts_seconds.tolist()
        for number in (0, 1, 50, 99):
            assert decoder.get_frame_played_at(times[number]).indices == number
            np.testing.assert_array_equal(decoder.get_frame_played_at(times[number]).data, decoder[number])
        between = [(one + other) / 2 for one, other in pairwise(times)]
        batch = decoder.get_frames_played_at(between[::-1])
        assert batch.indices.tolist() == list(range(len(times) - 1))[::-1]
        assert decoder.get_frames_played_in_range(times[10], times[20]).indices.tolist() == list(range(10, 20))
        assert decoder.get_frames_played_in_range(between[10], between[20]).indices.tolist() == list(range(10, 21))


def test_played_in_a_range_at_a_rate(decoder: VideoDecoder) -> None:
    batch = decoder.get_frames_played_in_range(1.0, 2.0, fps=10)
    assert batch.indices.tolist() == [int((1 + Fraction(k, 10)) * 25) for k in range(10)]
    np.testing.assert_allclose(batch.pts_seconds, [1 + k / 10 for k in range(10)])
    np.testing.assert_allclose(batch.duration_seconds, [0.1] * 10)
    assert decoder.get_all_frames(fps=50).indices.tolist() == [number for number in range(N) for _ in range(2)]
    assert len(decoder.get_frames_played_in_range(1.0, 1.0)) == 0


@pytest.mark.parametrize("fps", [1, 3, 5, 7])
def test_half_a_frame_at_a_rate_is_one_more(decoder: VideoDecoder, fps: int) -> None:
    count = (fps + 1) // 2
    batch = decoder.get_frames_played_in_range(1.0, 1.5, fps=fps)
    assert batch.indices.tolist() == [int((1 + Fraction(k, fps)) * 25) for k in range(count)]


@pytest.mark.parametrize("seconds", [-0.5, 4.0, 99.0, float("nan"), -1e-3])
def test_times_at_which_nothing_is_played(decoder: VideoDecoder, seconds: float) -> None:
    for ask in (lambda: decoder.get_frame_played_at(seconds), lambda: decoder.get_frames_played_at([seconds])):
        with pytest.raises(FrameNotFound, match=r"base\.mp4") as raised:
            ask()
        assert str(raised.value.source).endswith("base.mp4")


@pytest.mark.parametrize("name", ["sparse_pts.mpg", "raw.h264", "two_resets.ts", "telecine.mpg"])
def test_M07_M23_without_usable_times_only_numbers_address_frames(name: str) -> None:
    with VideoDecoder(corpus_file(name)) as decoder:
        for ask in (
            lambda: decoder.get_frame_played_at(0.5),
            lambda: decoder.get_frames_played_at([0.5]),
            lambda: decoder.get_frames_played_in_range(0, 1),
            lambda: decoder.get_all_frames(fps=5),
        ):
            with pytest.raises(TimeUnavailable, match=name) as raised:
                ask()
            assert str(raised.value.source).endswith(name)
        assert decoder.metadata.duration_seconds is None
        assert decoder.metadata.average_fps is None
        assert len(decoder.get_all_frames()) == len(decoder)


def test_M07_missing_times_are_nan() -> None:
    batch = VideoDecoder(corpus_file("sparse_pts.mpg")).get_frames_at([0, 1, 2, 99])
    assert np.isnan(batch.pts_seconds).tolist() == [False, True, True, True]


def test_M16_one_frame() -> None:
    for name in ("one_frame.mp4", "one_frame.mkv", "one_frame.ts"):
        with VideoDecoder(corpus_file(name)) as decoder:
            assert len(decoder) == 1
            assert read_stamp(decoder[0]) == read_stamp(decoder[-1]) == 0
            assert decoder.metadata.average_fps is None
            assert decoder.get_frame_played_at(decoder.frame_index.pts_seconds[0]).indices == 0


# --- streams, facts ---------------------------------------------------------------------------------


def test_M18_streams_by_index() -> None:
    path = corpus_file("two_videos.mp4")
    assert read_stamp(VideoDecoder(path)[3]) == 1003
    assert read_stamp(VideoDecoder(path, stream_index=0)[3]) == 1003
    large = VideoDecoder(path, stream_index=1)
    assert read_stamp(large[3]) == 3
    assert (large.stream_index, large.metadata.stream_index, large.metadata.width) == (1, 1, 128)
    with pytest.raises(NoVideoStream, match="video at 0, 1;") as raised:
        VideoDecoder(path, stream_index=2)
    assert isinstance(raised.value, ValueError)
    with pytest.raises(UsageError, match="stream_index"):
        VideoDecoder(path, stream_index=0, frame_index=large.frame_index)


@pytest.mark.parametrize("send", [pickle.dumps, copy.deepcopy])
def test_pickling_a_decoder_names_what_to_send_instead(decoder: VideoDecoder, send: Callable[[Any], Any]) -> None:
    with pytest.raises(UsageError, match="send the path"):
        send(decoder)


@pytest.mark.parametrize("stream_index", [0, 1])
def test_M18_metadata_is_of_the_stream_in_use(stream_index: int) -> None:
    path = corpus_file("two_videos.mp4")
    with av.open(path) as container:
        stream = container.streams[stream_index]
        claims = (stream.frames, float(stream.duration * stream.time_base), float(stream.average_rate), stream.width)
    for options in ({"stream_index": stream_index}, {"frame_index": build_index(path, stream_index=stream_index)}):
        facts = VideoDecoder(path, **options).metadata
        actual = (facts.num_frames_from_header, facts.duration_seconds_from_header, facts.average_fps_from_header)
        assert claims == (*actual, facts.width)
        assert (facts.num_frames, facts.stream_index) == (claims[0], stream_index)


def test_limits_bound_what_is_opened() -> None:
    with pytest.raises(LimitExceeded, match="128x96"):
        VideoDecoder(corpus_file("base.mp4"), limits=Limits(max_side=100))


class _LeastFile:
    """No more than TorchCodec asks of a file object: both arguments of ``seek`` are needed."""

    def __init__(self, path: Path) -> None:
        self._data = io.BytesIO(path.read_bytes())

    def read(self, size: int) -> bytes:
        return self._data.read(size)

    def seek(self, offset: int, whence: int) -> int:
        return self._data.seek(offset, whence)


def test_a_file_object_needs_read_and_seek_only(everything: np.ndarray) -> None:
    with VideoDecoder(_LeastFile(corpus_file("base.mp4"))) as decoder:
        np.testing.assert_array_equal(decoder[90:], everything[90:])


def test_a_ready_index_is_used_as_it_is(decoder: VideoDecoder) -> None:
    again = VideoDecoder(corpus_file("base.mp4"), frame_index=decoder.frame_index)
    assert again.frame_index is decoder.frame_index
    assert again.metadata == decoder.metadata


def test_metadata_of_a_plain_clip(decoder: VideoDecoder) -> None:
    facts = decoder.metadata
    assert (facts.num_frames, facts.width, facts.height, facts.codec) == (100, 128, 96, "h264")
    assert facts.duration_seconds == pytest.approx(4.0)
    assert (facts.begin_stream_seconds, facts.end_stream_seconds) == (0.0, pytest.approx(4.0))
    assert facts.average_fps == pytest.approx(25.0)
    assert (facts.built_from, facts.num_key_frames, facts.is_variable_frame_rate) == ("packets+proof", 4, False)
    assert facts.num_frames_from_header == facts.num_frames_from_content == 100


def test_P08_sample_aspect_ratio_is_reported_and_not_applied() -> None:
    with VideoDecoder(corpus_file("wide_samples.mp4")) as decoder:
        assert decoder.metadata.pixel_aspect_ratio == Fraction(4, 3)
        assert decoder[0].shape[1:] == (decoder.metadata.height, decoder.metadata.width) == (96, 128)


# --- values -----------------------------------------------------------------------------------------


def test_frames_and_batches_unpack(decoder: VideoDecoder) -> None:
    frame = decoder.get_frame_at(30)
    data, pts_seconds, duration_seconds = frame
    assert (read_stamp(data), pts_seconds, duration_seconds) == (30, pytest.approx(1.2), pytest.approx(0.04))
    assert isinstance(frame, Frame)
    batch = decoder.get_frames_at([4, 8, 15])
    data, pts_seconds, duration_seconds = batch
    assert data.shape == (3, 3, 96, 128)
    assert pts_seconds.shape == duration_seconds.shape == (3,)
    assert [stamps(part[None]) for part in data] == [[4], [8], [15]]
    assert stamps(batch[1:]) == [8, 15]
    assert [part.indices.item() for part in batch] == [4, 8, 15]
    assert "FrameBatch((3, 3, 96, 128) uint8)" in repr(batch)
    assert "index=30" in repr(frame)


def test_P14_frames_stay_as_they_are_while_decoding_goes_on() -> None:
    kept: list[tuple[int, np.ndarray, bytes]] = []
    with VideoDecoder(corpus_file("base.mp4")) as decoder:
        for number, picture in enumerate(decoder):
            kept.append((number, picture, picture.tobytes()))
        for number in (70, 3, 71, 72, 4):
            picture = decoder[number]
            kept.append((number, picture, picture.tobytes()))
        batch = decoder.get_frames_at([5, 50, 6])
        before = batch.data.tobytes()
        decoder[:]
    del decoder
    gc.collect()
    VideoDecoder(corpus_file("open_gop.mp4"))[:]
    assert all(picture.tobytes() == then for _, picture, then in kept)
    assert [read_stamp(picture) for _, picture, _ in kept] == [number for number, _, _ in kept]
    assert batch.data.tobytes() == before


def test_P14_the_callers_writing_changes_no_other_frame() -> None:
    with VideoDecoder(corpus_file("base.mp4")) as decoder:
        for number in range(12):
            decoder[number][:] = 0
        batch = decoder.get_frames_at([3, 3, 4])
        batch.data[0] = 0
        assert stamps(batch[1:]) == [3, 4]
        assert read_stamp(decoder[12]) == 12


def test_P14_M01_one_decoder_for_many_threads() -> None:
    with VideoDecoder(corpus_file("open_gop.mp4")) as decoder, ThreadPoolExecutor(4) as pool:
        numbers = [(number * 37) % N for number in range(60)]
        pictures = list(pool.map(decoder.__getitem__, numbers))
        batches = list(pool.map(decoder.get_frames_at, [numbers[at : at + 5] for at in range(0, 60, 5)]))
        wholes = list(pool.map(lambda _: [read_stamp(picture) for picture in decoder], range(2)))
    assert [read_stamp(picture) for picture in pictures] == numbers
    assert [number for batch in batches for number in stamps(batch)] == numbers
    assert wholes == [list(range(N))] * 2


def test_two_iterations_at_once(decoder: VideoDecoder) -> None:
    pairs = list(zip(decoder, decoder, strict=True))
    assert [(read_stamp(one), read_stamp(other)) for one, other in pairs] == [(number, number) for number in range(N)]


def test_closing() -> None:
    with VideoDecoder(corpus_file("base.mp4")) as decoder:
        frames = iter(decoder)
        next(frames)
        decoder.close()
        decoder.close()
        for ask in (lambda: decoder[0], lambda: next(frames), lambda: decoder.get_frames_at([1]), lambda: decoder[:]):
            with pytest.raises(UsageError, match="closed"):
                ask()
        assert len(decoder) == N


def test_D01_a_damaged_clip_gives_what_is_whole_and_names_what_is_not() -> None:
    path = corpus_file("flipped_bytes.mp4")
    reference = kept_reference(path)
    good = [number for number, frame in enumerate(reference.frames) if not frame.is_suspect]
    bad = [number for number, frame in enumerate(reference.frames) if frame.is_suspect]
    assert good
    assert bad
    with VideoDecoder(path, dimension_order="NHWC") as decoder:
        whole = decoder.get_frames_at(good)
        assert [rgb_digest(picture) for picture in whole.data] == [reference.frames[number].rgb for number in good]
        refused = [number for number in bad if _corrupt_frames(decoder, number) == (number,)]
        assert refused, "damage is told"
        with pytest.raises(CorruptMedia) as raised:
            decoder.get_frames_at([good[0], *refused[:3]])
        assert raised.value.frames == tuple(sorted(refused[:3]))
        np.testing.assert_array_equal(decoder[good[0]], whole.data[0])


def _corrupt_frames(decoder: VideoDecoder, number: int) -> tuple[int, ...]:
    try:
        decoder[number]
    except CorruptMedia as error:
        return error.frames
    return ()


@pytest.mark.parametrize("size", [None, 48])
def test_D09_a_file_overwritten_during_one_call_is_stale(size: int | None, tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(corpus_file("base.mp4").read_bytes())
    index = build_index(path)
    with VideoDecoder(path, frame_index=index, size=size) as decoder:
        frames = iter(decoder)
        next(frames)
        path.write_bytes(corpus_file("open_gop.mp4").read_bytes())
        with pytest.raises(Exception, match="has changed since it was indexed"):
            list(frames)

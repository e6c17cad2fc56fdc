"""The PyAV backend: what decoding costs, what becomes of each slot, what is kept between calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from av.video.frame import VideoFrame

from framefeed.decode._decoder import ClipSlot, DecodeCounts, Decoder, DecodeReport
from framefeed.decode._forward import ForwardReader
from framefeed.decode._registry import find_decoder, list_decoders
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import CorruptMedia, FrameNotFound, StaleSource, UsageError
from framefeed.index import FrameIndex, build_index
from framefeed.media import MediaSource
from framefeed.request import OutputSpec
from framefeed.testing import ClipSpec, read_stamp, read_stamps, write_clip
from tests.corpus import corpus_file
from tests.makers import open_corpus, slot_of


def decode(
    name: str, clips: Sequence[Sequence[int]], decoder: PyAVDecoder | None = None
) -> tuple[list[ClipSlot], DecodeReport]:
    source, index = open_corpus(name)
    slots = [slot_of(index, clip) for clip in clips]
    return slots, (decoder or PyAVDecoder()).decode(source, index, slots)


@pytest.fixture(autouse=True)
def fresh_pools() -> Iterator[None]:
    """Counts of opened files are counted from nothing."""
    PyAVDecoder().close()
    yield
    PyAVDecoder().close()


def test_it_is_a_decoder_and_the_default_one() -> None:
    assert isinstance(PyAVDecoder(), Decoder)
    assert find_decoder() is find_decoder("auto")
    assert find_decoder("pyav") is find_decoder("pyav")
    assert {"pyav", "still"} <= set(list_decoders())
    with pytest.raises(UsageError, match="pyav"):
        find_decoder("nobody")


@pytest.mark.parametrize("start_code", [b"\0\0\1", b"\0\0\0\1"], ids=["FFmpeg 8", "FFmpeg 9"])
def test_an_index_of_another_ffmpeg_gives_the_same_frames(start_code: bytes) -> None:
    """Versions 8 and 9 begin the units of an Annex B configuration with start codes of three and four bytes."""
    path = corpus_file("closed_gop.ts")
    index = build_index(path)
    assert index.stream.extradata is not None
    units = index.stream.extradata.split(b"\0\0\1")[1:]
    assert len(units) >= 2
    extradata = b"".join(start_code + unit.rstrip(b"\0") for unit in units)
    other = replace(index, stream=replace(index.stream, extradata=extradata))
    slots = [slot_of(each, range(len(index))) for each in (index, other)]
    for each, slot in zip((index, other), slots, strict=True):
        PyAVDecoder().decode(MediaSource.of(path), each, [slot]).raise_first()
    assert np.array_equal(slots[0].out, slots[1].out)


# --- costs ------------------------------------------------------------------------------------------


def test_M15_a_very_long_group_is_decoded_once_whatever_the_order() -> None:
    slots, report = decode("long_gop.mp4", [[499, 0, 250]], PyAVDecoder(skip=False))
    assert read_stamps(slots[0].out) == [499, 0, 250]
    assert report.counts.frames_decoded <= 500
    assert (report.counts.runs, report.counts.opens) == (1, 1)
    _, skipping = decode("long_gop.mp4", [[499, 0, 250]])
    assert skipping.counts.frames_decoded < 0.7 * report.counts.frames_decoded


def test_M15_a_sorted_batch_costs_no_more_than_its_last_frame() -> None:
    for direct in (True, False):
        _, report = decode("long_gop.mp4", [range(0, 500, 25)], PyAVDecoder(skip=False, direct=direct))
        assert report.counts.frames_decoded <= 500
        assert report.counts.packets_sent <= 500


def test_M15_clips_of_one_video_share_its_groups() -> None:
    clips = [range(start, start + 10) for start in (0, 5, 10, 15)]
    slots, together = decode("base.mp4", clips)
    alone = DecodeCounts()
    for clip in clips:
        alone += decode("base.mp4", [clip])[1].counts
    assert [read_stamps(slot.out) for slot in slots] == [list(clip) for clip in clips]
    assert together.counts.frames_decoded <= 25
    assert together.counts.frames_decoded < alone.frames_decoded
    assert together.counts.frames_delivered == alone.frames_delivered == 40
    assert together.counts.frames_converted == 25 < alone.frames_converted


def test_only_the_gops_of_requested_frames_are_decoded() -> None:
    for direct in (True, False):
        slots, report = decode("base.mp4", [[80, 1]], PyAVDecoder(direct=direct))
        assert read_stamps(slots[0].out) == [80, 1]
        assert report.counts.frames_decoded <= 12
        assert report.counts.runs == 2
        assert 0 < report.counts.bytes_read < corpus_file("base.mp4").stat().st_size


def test_a_second_call_opens_nothing() -> None:
    source, index = open_corpus("base.mp4")
    for decoder in (PyAVDecoder(), PyAVDecoder(direct=False)):
        first, second = (decoder.decode(source, index, [slot_of(index, [number])]).counts for number in (3, 60))
        assert (first.opens, first.contexts_made) == (1, 1)
        assert (second.opens, second.contexts_made) == (0, 0)


def test_no_frames_cost_nothing() -> None:
    for clips in ([], [[]], [[], []]):
        slots, report = decode("base.mp4", clips)
        assert report.errors == [None] * len(slots)
        assert report.counts == DecodeCounts()


def test_counts_add_up() -> None:
    counts = DecodeCounts(packets_sent=2, runs=1)
    counts += DecodeCounts(packets_sent=3, opens=4)
    assert counts == DecodeCounts(packets_sent=5, runs=1, opens=4)


# --- slots ------------------------------------------------------------------------------------------


def test_a_frame_for_several_forms_and_slots_is_decoded_once() -> None:
    source, index = open_corpus("base.mp4")
    small, packed = OutputSpec(size=(48, 64)), OutputSpec(dimension_order="NHWC")
    slots = [slot_of(index, [7, 7, 7]), *(slot_of(index, [7], output) for output in (small, small, packed))]
    report = PyAVDecoder().decode(source, index, slots)
    assert [read_stamps(slot.out) for slot in slots] == [[7, 7, 7], [7], [7], [7]]
    np.testing.assert_array_equal(slots[1].out, slots[2].out)
    np.testing.assert_array_equal(slots[3].out[0].transpose(2, 0, 1), slots[0].out[2])
    assert (report.counts.frames_converted, report.counts.frames_delivered) == (3, 6)


def test_D02_a_missing_frame_spoils_only_the_clips_that_want_it() -> None:
    path = corpus_file("truncated.mp4")
    index = build_index(path, "none")
    clips = [[0, 1], [48, 49], [30], [49, 49, 3], []]
    slots = [slot_of(index, clip) for clip in clips]
    report = PyAVDecoder().decode(MediaSource.of(path), index, slots)
    assert [error is None for error in report.errors] == [True, False, True, False, True]
    for error in (report.errors[1], report.errors[3]):
        assert isinstance(error, CorruptMedia)
        assert error.frames == (49,)
        assert error.source == str(path)
        assert "49" in str(error)
    assert read_stamps(slots[0].out) == [0, 1]
    assert read_stamps(slots[2].out) == [30]
    with pytest.raises(CorruptMedia):
        report.raise_first()


def test_one_error_does_not_become_that_of_a_twin() -> None:
    """Two clips of one form: the first cannot hold the crop, the second has none."""
    source, index = open_corpus("size_change.ts")
    slots = [slot_of(index, [30]), slot_of(index, [30], OutputSpec(size=(48, 64))), slot_of(index, [3])]
    report = PyAVDecoder().decode(source, index, slots)
    assert [type(error).__name__ for error in report.errors] == ["FormatChanged", "NoneType", "NoneType"]
    assert read_stamps(slots[1].out) == [30]
    assert read_stamps(slots[2].out) == [3]


def test_M01_ordinals_that_are_not_there_are_refused_before_anything_is_decoded() -> None:
    with pytest.raises(FrameNotFound):
        decode("base.mp4", [[0, 100]])


def test_a_slot_may_lie_anywhere_in_larger_memory() -> None:
    source, index = open_corpus("base.mp4")
    batch = np.full((4, 2, 3, 96, 128), 77, dtype=np.uint8)
    slots = [ClipSlot(np.array([number, number + 1]), OutputSpec(), batch[number]) for number in (0, 2)]
    PyAVDecoder().decode(source, index, slots).raise_first()
    assert [read_stamps(clip) for clip in batch[::2]] == [[0, 1], [2, 3]]
    assert np.all(batch[1::2] == 77), "no other memory is touched"


# --- what is kept -----------------------------------------------------------------------------------


@pytest.mark.parametrize("direct", [True, False])
def test_pooled_decoders_do_not_carry_one_file_into_the_next(direct: bool, tmp_path: Path) -> None:
    """Files of equal codec configuration share a decoder; their pictures must not."""
    decoder, files = PyAVDecoder(direct=direct), []
    for number in range(12):
        path = write_clip(tmp_path / f"{number}.mp4", ClipSpec(num_frames=30, gop=10, first_stamp=1000 * number))
        files.append((MediaSource.of(path), build_index(path)))
    made = 0
    for turn in range(3):
        for number, (source, index) in enumerate(files):
            slot = slot_of(index, [(7 * turn + number) % 30, 29])
            report = decoder.decode(source, index, [slot])
            report.raise_first()
            made += report.counts.contexts_made
            assert read_stamps(slot.out) == [1000 * number + (7 * turn + number) % 30, 1000 * number + 29]
    if direct:
        assert made == 1


@pytest.mark.parametrize("direct", [True, False])
def test_an_abandoned_stream_harms_no_later_read(direct: bool) -> None:
    (source, index), decoder = open_corpus("base.mp4"), PyAVDecoder(direct=direct)
    for stop in (1, 5, 30):
        frames = decoder.iter_native(source, index, range(100))
        for _ in range(stop):
            next(frames)
        frames.close()
        slot = slot_of(index, [99, 26, 0])
        decoder.decode(source, index, [slot]).raise_first()
        assert read_stamps(slot.out) == [99, 26, 0]


def test_two_readings_of_one_file_at_once_in_one_thread() -> None:
    (source, index), decoder = open_corpus("closed_gop.ts"), PyAVDecoder()
    one = decoder.iter_native(source, index, range(0, 100, 2))
    other = decoder.iter_native(source, index, range(99, 0, -3))
    first, second = dict[int, str](), dict[int, str]()
    for pair in zip(one, other, strict=False):
        for actual, (ordinal, frame) in zip((first, second), pair, strict=True):
            actual[ordinal] = str(read_stamp(frame.to_ndarray(format="rgb24")))
    assert all(stamp == str(ordinal) for actual in (first, second) for ordinal, stamp in actual.items())
    assert len(second) == 33


def test_what_one_thread_keeps_another_does_not_use() -> None:
    (source, index), decoder = open_corpus("base.mp4"), PyAVDecoder()
    decoder.decode(source, index, [slot_of(index, [1])])
    with ThreadPoolExecutor(1) as pool:
        elsewhere = pool.submit(lambda: decoder.decode(source, index, [slot_of(index, [1])])).result()
    assert elsewhere.counts.opens == 1


def test_closing_lets_go_and_the_decoder_still_works() -> None:
    (source, index), decoder = open_corpus("base.mp4"), PyAVDecoder()
    for _ in range(2):
        slot = slot_of(index, [50])
        assert decoder.decode(source, index, [slot]).counts.opens == 1
        assert read_stamp(slot.out[0]) == 50
        decoder.close()


def test_D09_a_file_that_changes_during_a_call_gives_no_frames(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(corpus_file("base.mp4").read_bytes())
    index = build_index(path)
    frames = PyAVDecoder().iter_native(MediaSource.of(path), index, [1, 2])
    next(frames)
    path.write_bytes(corpus_file("open_gop.mp4").read_bytes())
    with pytest.raises(StaleSource):
        list(frames)


# --- reading forward --------------------------------------------------------------------------------


class Counting(PyAVDecoder):
    """Adds up what all its calls cost."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = DecodeCounts()

    def iter_native(
        self,
        source: MediaSource,
        index: FrameIndex,
        ordinals: npt.ArrayLike | range,
        counts: DecodeCounts | None = None,
    ) -> Iterator[tuple[int, VideoFrame]]:
        return super().iter_native(source, index, ordinals, self.counts)


def reader_of(name: str) -> tuple[Counting, ForwardReader, int]:
    (source, index), decoder = open_corpus(name), Counting()
    return decoder, ForwardReader(decoder, source, index, OutputSpec()), len(index)


@pytest.mark.parametrize(
    "name", ["base.mp4", "long_gop.mp4", "closed_gop.ts", "no_pts.avi", "open_gop_hevc.mkv", "hidden_vp8.webm"]
)
def test_M15_reading_forward_decodes_each_frame_once(name: str) -> None:
    decoder, reader, count = reader_of(name)
    assert [read_stamp(reader.read(number)) for number in range(count)] == list(range(count))
    assert decoder.counts.frames_decoded <= count + 8
    assert decoder.counts.runs <= 2


def test_reading_forward_from_the_middle_and_with_gaps() -> None:
    decoder, reader, _ = reader_of("long_gop.mp4")
    numbers = [200, *range(201, 230), 232, 235, 240, 241]
    assert [read_stamp(reader.read(number)) for number in numbers] == numbers
    # Once up to frame 200, once more when the second shows that reading goes on from there.
    assert decoder.counts.frames_decoded <= 200 + 241 + 16


def test_reading_that_is_known_to_go_on_decodes_the_frames_before_it_once() -> None:
    decoder, reader, _ = reader_of("long_gop.mp4")
    numbers = [*range(200, 216), 20, 21, 22, 240, 100]
    decoded = []
    for number in numbers:
        assert read_stamp(reader.read(number, goes_on=True)) == number
        decoded.append(decoder.counts.frames_decoded)
    assert decoded[0] <= 200 + 16
    assert decoded[15] <= 216 + 16
    assert decoded[-1] <= 216 + 23 + 241 + 101 + 4 * 16


def test_going_back_ends_reading_forward() -> None:
    decoder, reader, _ = reader_of("base.mp4")
    numbers = [0, 1, 2, 1, 2, 3, 50, 51, 0, 1]
    assert [read_stamp(reader.read(number)) for number in numbers] == numbers
    assert decoder.counts.frames_decoded < 100


def test_the_same_frame_again_and_again() -> None:
    _, reader, _ = reader_of("base.mp4")
    assert [read_stamp(reader.read(60)) for _ in range(3)] == [60, 60, 60]


def test_D01_reading_forward_names_damage_and_goes_on() -> None:
    path = corpus_file("truncated.mp4")
    index = build_index(path, "none")
    reader = ForwardReader(PyAVDecoder(), MediaSource.of(path), index, OutputSpec())
    for number in range(49):
        assert read_stamp(reader.read(number)) == number
    with pytest.raises(CorruptMedia) as raised:
        reader.read(49)
    assert raised.value.frames == (49,)
    assert read_stamp(reader.read(48)) == 48

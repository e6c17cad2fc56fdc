"""Frames of an index of tables: each is that of the fully verified file, or CorruptMedia; none is another picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from av.error import FFmpegError

import framefeed as ff
from framefeed._values import KEY
from framefeed.decode._decoder import ClipSlot, Decoder, DecodeReport
from framefeed.decode.backends._pyav_starts import move_false_starts
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import CorruptMedia
from framefeed.media import MediaSource
from framefeed.testing import clip_bytes, put_packets, take_packets, write_clip
from tests.bitstreams import vpx_mutants as vpx
from tests.bitstreams.vpx_cases import MUTANTS as PACKET_MUTANTS
from tests.codec_clips import CODECS
from tests.corpus import corpus_file
from tests.lengths import either
from tests.media import nal_mutants as mutants
from tests.media.nal_mutants import Stream, edit, h264, hevc, join
from tests.remote import stored

Picture = Any
SAME, CORRUPT, WRONG, EXTRA = "same", "corrupt", "wrong", "extra"


@contextmanager
def indexed(path: Path) -> Iterator[tuple[str, ff.FrameIndex]]:
    """Store a file and index it from its tables."""
    with stored(a=path.read_bytes()) as (url,):
        index = ff.build_index(url)
        assert index.built_from == "packets"
        yield url, index


class BelievesTables:
    """A decoder that takes the key frames of tables for proved ones."""

    name = "believes-tables"

    def __init__(self) -> None:
        self._real = PyAVDecoder()

    def decode(self, source: MediaSource, index: ff.FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        return self._real.decode(source, replace(index, built_from="packets+ends"), slots)

    def close(self) -> None:
        self._real.close()


def outcomes(path: Path, numbers: range | None = None, backend: str | Decoder = "auto") -> list[str]:
    """Read frames by URL in an order of chance, each alone, and compare with full verification by packets' times."""
    full = ff.build_index(path, "full")
    ordinal = {int(pts): number for number, pts in enumerate(full.packets.pts[full.frame_packet])}
    actual: dict[int, str] = {}
    with indexed(path) as (url, index), ff.VideoDecoder(path, frame_index=full) as near:
        for number in Random(1).sample(range(len(index)), len(index)):
            if numbers is None or number in numbers:
                with ff.VideoDecoder(url, frame_index=index, backend=backend) as far:
                    actual[number] = outcome(far, number, near, ordinal.get(int(index.pts[number])))
    return [actual[number] for number in sorted(actual)]


def outcome(far: ff.VideoDecoder, number: int, near: ff.VideoDecoder, ordinal: int | None) -> str:
    try:
        picture = far[number]
    except CorruptMedia as error:
        return CORRUPT if list(error.frames) == [number] else WRONG
    if ordinal is None:
        return EXTRA
    return SAME if np.array_equal(picture, near[ordinal]) else WRONG


def with_key_flags(folder: Path, codec: str, is_key: Callable[[int], bool]) -> Path:
    """Write a clip of a codec into MP4, whose tables call other packets key frames."""
    clip = folder / f"clip{CODECS[codec].suffix}"
    write_clip(clip, CODECS[codec].spec)
    packets, time_base = take_packets(clip.read_bytes())
    changed = [replace(packet, is_key=is_key(number)) for number, packet in enumerate(packets)]
    put_packets(folder / "flags.mp4", clip.read_bytes(), changed, time_base)
    return folder / "flags.mp4"


FLAGS: dict[str, Callable[[int], bool]] = {
    "all": lambda _: True,
    "some": lambda number: number % 5 == 3 or number in (0, 12),
    "third": lambda number: number % 3 == 0,
}
CODEC_NAMES = ["h264", "hevc", "av1", "vp9", "mpeg4", "mjpeg"]


@pytest.mark.parametrize("flags", either(short=["all", "some"], long=list(FLAGS)))
@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_M14_key_frames_that_are_none_are_not_decoded_from(codec: str, flags: str, tmp_path: Path) -> None:
    assert set(outcomes(with_key_flags(tmp_path, codec, FLAGS[flags]))) == {SAME}


@pytest.mark.parametrize("codec", ["h264", "mpeg4"])
def test_a_decoder_that_believes_tables_is_caught(codec: str, tmp_path: Path) -> None:
    """Decoders give pictures that were decoded from what is no key frame, and say nothing."""
    path = with_key_flags(tmp_path, codec, FLAGS["all"])
    assert WRONG in outcomes(path, backend=BelievesTables())


def test_a_decoder_that_believes_tables_is_right_where_they_are() -> None:
    assert set(outcomes(corpus_file("base.mp4"), range(20, 32), BelievesTables())) == {SAME}


def _last_ends() -> Stream:
    return mutants.with_last(hevc(), join([mutants.end_of_sequence("hevc")]))


def _without_first_slice() -> Stream:
    return edit(h264("slices=4"), [_B_PICTURE], lambda units: units[1:])


_B_PICTURE = 12


def _cra() -> int:
    return mutants.find_kind(hevc("open-gop=1:bframes=3:b-adapt=0"), 21)[0]


def _ended() -> Stream:
    end = mutants.end_of_sequence("hevc")
    return edit(hevc("open-gop=1:bframes=3:b-adapt=0"), [_cra() - 1], lambda units: [*units, end])


def _two_in_one() -> Stream:
    packets = list(h264().packets)
    packets[10:12] = [replace(packets[10], data=packets[10].data + packets[11].data)]
    return h264().with_packets(packets)


MUTANTS: dict[str, Callable[[], Stream]] = {
    "a packet without a picture": lambda: edit(h264(), [12], lambda _: [b"\x06\x05\x01\x00\x80"]),
    "a last packet without one": _last_ends,
    "a picture without its first slice": _without_first_slice,
    "an end of the sequence": _ended,
    "a broken link": lambda: mutants.retyped(hevc("open-gop=1:bframes=3:b-adapt=0"), [_cra()], 21, 16),
    "an open GOP first": lambda: mutants.cut_at(hevc("open-gop=1:bframes=3:b-adapt=0"), _cra()),
    "two pictures in a packet": _two_in_one,
    "orders that begin anew": lambda: mutants.with_reset(
        h264("bframes=2:b-adapt=0:cabac=0:ref=1:weightp=0:b-pyramid=none:weightb=0"), 34
    ),
    "two encodes": lambda: mutants.joined(h264(), h264("bframes=0:cabac=0:weightp=0")),
}


@pytest.mark.parametrize("make", MUTANTS.values(), ids=MUTANTS.keys())
def test_no_mutant_gives_another_picture(make: Callable[[], Stream], tmp_path: Path) -> None:
    actual = outcomes(make().write(tmp_path / "mutant.mp4"), either(short=range(4, 40, 2), long=range(200)))
    assert WRONG not in actual


def test_ordinals_stay_where_a_packet_holds_no_picture(tmp_path: Path) -> None:
    path = _last_ends().write(tmp_path / "ended.mp4")
    with indexed(path) as (url, index), ff.VideoDecoder(url) as far, ff.VideoDecoder(path) as near:
        assert len(index) == len(near) + 1
        np.testing.assert_array_equal(far[95], near[95])
        with pytest.raises(CorruptMedia) as caught:
            far[96]
        assert list(caught.value.frames) == [96]


def test_damage_to_a_picture_to_which_no_other_refers_costs_that_one_alone(tmp_path: Path) -> None:
    path = _without_first_slice().write(tmp_path / "slice.mp4")
    full = ff.build_index(path, "full")
    damaged = int(np.flatnonzero(full.frame_packet == _B_PICTURE)[0])
    assert _index(path).packets.flags[_B_PICTURE] == 0
    assert outcomes(path, range(30)) == [CORRUPT if number == damaged else SAME for number in range(30)]


def _coded(codec: str) -> Stream:
    data = clip_bytes(
        replace(CODECS[codec].spec, codec_options={"lag-in-frames": "0"} if codec == "vp9" else {}), "mp4"
    )
    packets, time_base = take_packets(data)
    return Stream(data, packets, time_base)


def _with_two_frames(codec: str) -> Stream:
    """Code a clip of which one packet shows two frames."""
    stream = _coded(codec)
    packets = list(stream.packets)
    one, other = packets[_TWICE].data, packets[_TWICE + 1].data
    if codec == "vp9":
        sizes = b"".join(len(frame).to_bytes(2, "little") for frame in (one, other))
        both = one + other + b"\xc9" + sizes + b"\xc9"  # a superframe of two, whose sizes take two bytes each
    else:
        both = one + other
    packets[_TWICE : _TWICE + 2] = [replace(packets[_TWICE], data=both)]
    return stream.with_packets(packets)


_TWICE = 15


@pytest.mark.parametrize("codec", ["av1", "vp9"])
def test_M11_a_packet_of_two_frames_gives_none(codec: str, tmp_path: Path) -> None:
    """By the rules of MP4 a packet shows one frame: which of two is the table's cannot be known."""
    path = _with_two_frames(codec).write(tmp_path / "two.mp4")
    with indexed(path) as (url, index), ff.VideoDecoder(url) as far, ff.VideoDecoder(path) as near:
        assert (len(index), len(near)) == (23, 24)
        for number in range(23):
            if number == _TWICE:
                with pytest.raises(CorruptMedia) as caught:
                    far[number]
                assert list(caught.value.frames) == [number]
            else:
                np.testing.assert_array_equal(far[number], near[number + (number > _TWICE)])


def test_M11_a_packet_without_a_frame_gives_none(tmp_path: Path) -> None:
    stream = _coded("av1")
    metadata = b"\x2a\x02\x06\x80"
    packets = [replace(each, data=metadata) if number == 15 else each for number, each in enumerate(stream.packets)]
    actual = outcomes(stream.with_packets(packets).write(tmp_path / "none.mp4"))
    assert actual == [CORRUPT if number == 15 else SAME for number in range(24)]


def test_M14_key_frames_of_av1_without_a_sequence_are_not_decoded_from(tmp_path: Path) -> None:
    """Their headers say less than others, and the decoder takes no sequence from the container."""
    stream = _coded("av1")
    packets = [replace(each, data=_without_sequence(each.data) if number else each.data)
               for number, each in enumerate(stream.packets)]  # fmt: skip
    assert packets[12].data != stream.packets[12].data
    path = stream.with_packets(packets).write(tmp_path / "header.mp4")
    near = ff.build_index(path)
    near = replace(near, frame_start=np.zeros_like(near.frame_start))
    with indexed(path) as (url, _), ff.VideoDecoder(url) as far, ff.VideoDecoder(path, frame_index=near) as whole:
        for number in (18, 13, 3):
            np.testing.assert_array_equal(far[number], whole[number])


def _without_sequence(data: bytes) -> bytes:
    return data[2 + data[1] :] if data[0] == 0x0A else data


EDITED = sorted(name for name in PACKET_MUTANTS if not name.startswith("VP8") and not name.endswith(("size", "large")))


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.* are read to index it:UserWarning")
@pytest.mark.parametrize("name", either(short=EDITED[::6], long=EDITED))
def test_M11_no_edited_packet_of_av1_or_vp9_gives_another_picture(name: str, tmp_path: Path) -> None:
    data, path = PACKET_MUTANTS[name].make(), tmp_path / "edited.mp4"
    packets, time_base = take_packets(data)
    try:
        put_packets(path, data, packets, time_base)
        full, proved = ff.build_index(path, "full"), ff.build_index(path)
    except (FFmpegError, ff.MediaError) as error:
        pytest.skip(f"not in MP4, or without a frame: {error}")
    assert np.array_equal(proved.frame_packet, full.frame_packet)
    assert np.array_equal(proved.key_frame_indices, full.key_frame_indices)
    with stored(a=path.read_bytes()) as (url,):
        is_by_tables = ff.build_index(url).built_from == "packets"
    if is_by_tables:
        assert WRONG not in outcomes(path, either(short=range(9, 13), long=range(100)))


def test_D01_tables_with_two_damaged_frames_in_one_packet_of_vp9_give_no_shortage(tmp_path: Path) -> None:
    stream, path = vpx.packets("vp9"), tmp_path / "edited.mp4"
    damaged = vpx.superframe(vpx.intra_only(stream[0]), bytes(40))
    data = vpx.ivf("vp9", vpx.edit(stream, 3, damaged))
    put_packets(path, data, *take_packets(data))
    with indexed(path) as (url, index), ff.VideoDecoder(url, frame_index=index) as decoder:
        failed = set[int]()
        for ordinal in range(len(index)):
            try:
                assert len(decoder[ordinal])
            except CorruptMedia:
                failed.add(ordinal)
    assert failed == set(range(3, vpx.GOP))


@pytest.mark.parametrize("codec", ["av1", "vp9"])
def test_direct_frames_are_those_of_the_container(codec: str, tmp_path: Path) -> None:
    path = _coded(codec).write(tmp_path / "clip.mp4")
    index = ff.build_index(path)
    assert index.stream.contiguous
    through = replace(index, stream=replace(index.stream, contiguous=False))
    numbers = Random(1).sample(range(24), 24)
    with ff.VideoDecoder(path) as direct, ff.VideoDecoder(path, frame_index=through) as demuxed:
        for number in numbers:
            np.testing.assert_array_equal(direct[number], demuxed[number])


PATHOLOGIES = [
    "all_key_flags.mp4", "open_gop.mp4", "open_gop_hevc.mp4", "intra_refresh.mp4", "flipped_bit.mp4",
    "silent_pyramid.mp4", "fragmented.mp4", "edit_list.mp4", "temporal_units_av1.mp4",
]  # fmt: skip


@pytest.mark.parametrize("name", PATHOLOGIES)
def test_pathologies_give_no_other_picture(name: str) -> None:
    assert WRONG not in outcomes(corpus_file(name), either(short=range(20, 50), long=range(1000)))


# --- which starts are asked for: pure ---------------------------------------------------------------


def _index(path: Path) -> ff.FrameIndex:
    with indexed(path) as (_, index):
        return index


def test_starts_move_back_to_what_is_one(tmp_path: Path) -> None:
    index = _index(with_key_flags(tmp_path, "mpeg4", FLAGS["all"]))
    asked: list[int] = []

    def ask(packets: Any) -> dict[int, bool]:
        asked.extend(packets)
        return {number: number == 12 for number in packets}

    known: dict[int, bool] = {}
    proved = move_false_starts(index, np.array([20]), known, ask)
    assert proved.frame_start[20] == 12
    assert len(asked) == len(set(asked))
    again = move_false_starts(index, np.array([20]), known, ask)
    assert again.frame_start[20] == 12
    assert len(asked) == len(known)
    np.testing.assert_array_equal(proved.packets.flags, index.packets.flags)
    np.testing.assert_array_equal(proved.pts, index.pts)


def test_true_starts_are_checked_once_and_stay(tmp_path: Path) -> None:
    index = _index(with_key_flags(tmp_path, "mpeg4", lambda number: number % 12 == 0))
    asked: list[int] = []

    def ask(packets: Any) -> dict[int, bool]:
        asked.extend(packets)
        return dict.fromkeys(packets, True)

    assert move_false_starts(index, np.arange(24), {}, ask) is index
    assert asked == [int(number) for number in np.flatnonzero(index.packets.flags & KEY) if number]


def test_where_nothing_is_a_start_decoding_begins_with_the_first_packet(tmp_path: Path) -> None:
    index = _index(with_key_flags(tmp_path, "mpeg4", FLAGS["all"]))
    proved = move_false_starts(index, np.array([23]), {}, lambda packets: dict.fromkeys(packets, False))
    assert proved.frame_start[23] == 0

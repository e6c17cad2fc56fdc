"""Frames that packets promise and the decoder does not give: they keep their numbers in every verification."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from framefeed import CorruptMedia, FrameIndex, VideoDecoder, build_index
from framefeed.index import Verify
from framefeed.index._damage import keep_promised_frames
from framefeed.testing import ClipSpec, clip_bytes, take_packets
from tests.lengths import IS_ALL
from tests.media.counts import read_in_sequence, sweep
from tests.media.nal_mutants import (
    Stream,
    Units,
    bits_of,
    edit,
    h264,
    kind_of,
    later,
    place_of_marks,
    span_of,
    syntax_of,
    with_bits,
)
from tests.reference import read_reference

LOST = 40
PLAIN = "bframes=2:b-adapt=0:cabac=0:ref=1:weightp=0:b-pyramid=none:weightb=0"
BEYOND = f"{0:010b}{1200:011b}"
"""A number that no quantizer has, behind the part of a slice header that proofs read."""


def _unreadable(stream: Stream, number: int) -> Stream:
    def change(units: Units) -> Units:
        return [
            with_bits(unit, place_of_marks(unit, *syntax_of(stream)) + 1, 0, BEYOND) if kind_of(unit) == 1 else unit
            for unit in units
        ]

    return edit(stream, [number], change)


@pytest.fixture
def lost(tmp_path: Path) -> Path:
    """A stream with a slice header that no decoder accepts, in a P picture in its middle."""
    return _unreadable(h264(PLAIN), LOST).write(tmp_path / "clip.mp4")


@pytest.mark.parametrize("verify", ["proof", "ends", "full"])
def test_D01_a_frame_that_does_not_come_keeps_its_number_in_every_verification(lost: Path, verify: Verify) -> None:
    whole, index = build_index(h264(PLAIN).write(lost.with_name("whole.mp4"))), build_index(lost, verify)
    assert len(read_in_sequence(lost)) == len(whole) - 1
    assert index.frame_packet.tolist() == whole.frame_packet.tolist()
    assert index.pts.tolist() == whole.pts.tolist()


def test_D01_full_verification_knows_that_it_does_not_come(lost: Path) -> None:
    index = build_index(lost, "full")
    ordinal = int(np.flatnonzero(index.frame_packet == LOST)[0])
    assert index.built_from == "packets+proof"
    assert ordinal in index.damaged_frame_indices
    assert index.num_damaged_frames == len(index.damaged_frame_indices)
    reference = read_reference(lost)
    assert len(reference) == len(index) - 1
    given = np.delete(np.arange(len(index)), ordinal)
    with VideoDecoder(lost, frame_index=index) as decoder:
        for number in given.tolist():
            if index.is_damaged(np.array([number])).any():
                with pytest.raises(CorruptMedia) as caught:
                    decoder[number]
                assert tuple(caught.value.frames) == (number,)
            else:
                assert decoder.get_frame_at(number).pts_seconds == index.pts_seconds[number]


def test_a_key_frame_that_does_not_come_is_no_start(tmp_path: Path) -> None:
    stream, key = h264(PLAIN), 30
    number_bits, order_bits = syntax_of(stream)

    def change(unit: bytes) -> bytes:
        bits = bits_of(unit)
        for _ in range(3):
            bits.golomb()
        bits.fixed(number_bits)
        bits.golomb()
        return with_bits(unit, bits.num_read + order_bits + 2, 0, BEYOND)

    clip = edit(stream, [key], lambda units: [change(unit) if kind_of(unit) == 5 else unit for unit in units])
    path = clip.write(tmp_path / "clip.mkv")
    proved, full = build_index(path), build_index(path, "full")
    assert proved.built_from == full.built_from == "packets+proof"
    assert proved.frame_packet.tolist() == full.frame_packet.tolist()
    assert key in full.frame_packet[full.damaged_frame_indices]
    assert key in proved.frame_start
    assert key not in full.frame_start
    assert not full.packets.is_key[key]


def test_a_promise_of_other_frames_than_came_is_not_kept(lost: Path) -> None:
    decoded = replace(build_index(lost, "full"), built_from="decode")
    for order in (decoded.frame_packet[::-1], decoded.frame_packet[:-1]):
        promised = _take(decoded, order.copy())
        assert keep_promised_frames(decoded, promised) is decoded


def _take(index: FrameIndex, order: np.ndarray) -> FrameIndex:
    count = len(order)
    columns = {name: getattr(index, name)[:count] for name in ("pts", "duration", "frame_start")}
    nothing = np.empty(0, dtype=np.int64)
    return replace(index, frame_packet=order, damaged_frame_indices=nothing, key_frame_indices=nothing, **columns)


@pytest.mark.parametrize("verify", ["proof", "ends", "full"])
def test_a_packet_of_no_picture_in_the_middle_is_no_frame(tmp_path: Path, verify: Verify) -> None:
    stream = edit(h264(num_frames=150), [70], lambda _: [b"\x06\x05\x01\x00\x80"])
    assert 70 not in build_index(stream.write(tmp_path / "clip.mkv"), verify).frame_packet


@pytest.mark.parametrize("num_frames", [47, 48, 49])
def test_D01_a_last_frame_that_does_not_come_is_known_by_the_ends(num_frames: int, tmp_path: Path) -> None:
    stream = _unreadable(h264("bframes=0:ref=1:weightp=0:cabac=0", num_frames), num_frames - 1)
    index = build_index(stream.write(tmp_path / "clip.mp4"), "ends")
    assert len(index) == num_frames
    assert index.damaged_frame_indices.tolist() == [num_frames - 1]


def _begin_in_open_gops(*lost: int) -> Stream:
    """Join a stream without its first GOP, whose later ones are open, with a whole one, whose IDR is packet 122."""
    first, second = (h264("open-gop=1:bframes=2:b-adapt=0:ref=3", count) for count in (150, 180))
    second_key = np.flatnonzero([packet.is_key for packet in first.packets])[1]
    packets = [*first.packets[second_key:], *later(second.packets, span_of(first))]
    return first.with_packets(packet for number, packet in enumerate(packets) if number not in lost)


@pytest.mark.parametrize("verify", ["proof", "ends", "full"])
def test_a_packet_of_no_picture_before_the_first_idr_is_no_frame(tmp_path: Path, verify: Verify) -> None:
    stream = edit(_begin_in_open_gops(), [80], lambda _: [b"\x06\x05\x01\x00\x80"])
    assert 80 not in build_index(stream.write(tmp_path / "clip.mp4"), verify).frame_packet


@pytest.mark.parametrize("verify", ["proof", "ends", "full"])
def test_D01_references_lost_before_the_first_idr_are_found(tmp_path: Path, verify: Verify) -> None:
    index = build_index(_begin_in_open_gops(63, 66, 83).write(tmp_path / "clip.mp4"), verify)
    assert index.built_from == "decode"
    assert index.num_damaged_frames


def test_what_the_prover_of_a_codec_in_packet_order_refuses_is_decoded_whole() -> None:
    clip = clip_bytes(ClipSpec(150, 64, 96, codec="libsvtav1", gop=30, b_frames=None), "matroska")
    packets, _ = take_packets(clip)
    data = next(packet.data for packet in packets[65:] if 131 <= len(packet.data) < 2**14)
    # A unit of metadata in its place: no frame, where decoding the ends does not show it.
    rest = len(data) - 3
    metadata = bytes([5 << 3 | 2, rest & 0x7F | 0x80, rest >> 7]) + bytes(rest)
    changed = clip.replace(data, metadata)
    assert build_index(clip).built_from == "packets+proof"
    assert build_index(changed).built_from == "decode"


@pytest.mark.slow
def test_D01_damaged_streams_have_the_same_frames_in_every_verification() -> None:
    lines, wrong = sweep(70 if IS_ALL else 30, 0)
    assert not wrong, lines

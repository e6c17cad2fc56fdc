"""Reference pictures of H.264 that were lost, by the numbers of the pictures that are there; options of decoders."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from framefeed._values import StreamColors
from framefeed.bitstreams import H264Sequence, read_configuration
from framefeed.index.proofs._h264 import count_missing, count_missing_before
from framefeed.index.proofs._nal import count_missing_pictures
from framefeed.media import MediaSource, VideoContainer, decode_packet, walk_packets
from tests.corpus import corpus_file
from tests.media.nal_mutants import Stream, Units, bits_of, edit, h264, syntax_of, with_bits, with_reset


@pytest.mark.parametrize(
    ("pictures", "missing"),
    [
        ("i0 p1 p2 i0 p1", [0, 0, 0, 0, 0]),
        ("i0 p1 b2 b2 p2 p3", [0, 0, 0, 0, 0, 0]),
        ("i0 p1 p3 p4", [0, 0, 1, 0]),
        ("i0 p1 b3 b3 p3", [0, 0, 1, 1, 1]),
        ("i0 p15 p0 p1", [0, 14, 0, 0]),
        ("i0 p1 p1 p2", [0, 0, -1, 0]),
        ("i0 p2 p1", [0, 1, 14]),
        ("p7 p8 p10", [0, 0, 1]),
        ("i0 b0 p1", [0, -1, 0]),
        ("b4 b4 p4 b5 p6", [0, 0, 0, 0, 1]),
    ],
)
def test_D01_lost_references_are_counted_by_the_numbers_behind_them(pictures: str, missing: list[int]) -> None:
    kinds, numbers = zip(*((one[0], int(one[1:])) for one in pictures.split()), strict=True)
    is_idr, is_reference = np.array(kinds) == "i", np.array(kinds) != "b"
    assert count_missing(np.array(numbers), is_idr, is_reference, None, 4).tolist() == missing


def test_the_second_field_of_a_frame_has_the_number_of_the_first() -> None:
    fields = np.ones(4, bool)
    counted = count_missing(np.array([0, 0, 1, 1]), np.array([True, False, False, False]), fields, fields, 4)
    assert counted.tolist() == [0, 0, 0, 0]


def _without(stream: Stream, *numbers: int) -> Stream:
    return stream.with_packets(packet for number, packet in enumerate(stream.packets) if number not in numbers)


def _count(path: Path) -> list[int]:
    with VideoContainer(MediaSource.of(path)) as container:
        counted = count_missing_pictures(container, walk_packets(container))
    assert counted is not None
    return np.flatnonzero(counted).tolist()


def test_D01_gaps_that_the_stream_allows_are_no_losses(tmp_path: Path) -> None:
    path = _without(h264("bframes=0"), 7).write(tmp_path / "gap.mp4")
    assert _count(path) == [7]
    with VideoContainer(MediaSource.of(path)) as container:
        units = walk_packets(container).units
        configuration = read_configuration("h264", container.decoder().extradata or b"", StreamColors())
    assert units is not None
    assert isinstance(configuration.sequence, H264Sequence)
    assert not configuration.sequence.allows_gaps
    allowed = configuration._replace(sequence=configuration.sequence._replace(allows_gaps=True))
    packets = units.has_slice.nonzero()[0]
    assert count_missing_before(configuration, units, packets).any()
    assert not count_missing_before(allowed, units, packets).any()


def test_numbers_begin_again_behind_a_picture_that_takes_all_references_back(tmp_path: Path) -> None:
    stream, reset = h264("bframes=0:ref=1:weightp=0"), 6

    def renumber(units: Units, number: int) -> Units:
        bits = bits_of(units[-1])
        for _ in range(3):
            bits.golomb()
        size, _ = syntax_of(stream)
        return [*units[:-1], with_bits(units[-1], bits.num_read, size, f"{(number - reset) % 2**size:0{size}b}")]

    changed = with_reset(stream, reset)
    for number in range(reset + 1, 30):
        changed = edit(changed, [number], partial(renumber, number=number))
    assert _count(changed.write(tmp_path / "reset.mp4")) == []


def test_a_decoder_keeps_its_options_when_its_container_is_opened_again() -> None:
    with VideoContainer(MediaSource.of(corpus_file("open_gop.mp4"))) as container:
        container.set_decoder_options(skip_loop_filter="all")
        expected = dict(container.decoder().options)
        assert {"max_pixels", "skip_loop_filter"} <= expected.keys()
        for packet in container.packets():
            decode_packet(container, packet)
            break
        container.reopen()
        assert dict(container.decoder().options) == expected

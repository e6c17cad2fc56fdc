"""Where a seek landed: whatever a container does, packets bear the numbers that they have from its beginning (M09)."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from framefeed._values import DEFAULT_LIMITS, PacketTable
from framefeed.media._container import VideoContainer
from framefeed.media._packets import MisplacedPacket, demux_from, number_after_seek, walk_packets
from framefeed.media._source import MediaSource
from tests.corpus import corpus_file


class Landing:
    """A container of made-up packets, whose seeks land at one packet wherever they are sent.

    Args:
        packets: Of the stream.
        landed: Number of the packet behind every seek; None cannot seek.
    """

    def __init__(self, packets: list[Any], landed: int | None) -> None:
        self._packets = packets
        self._landed = landed
        self._next = 0

    def try_seek(self, pts: int) -> bool:
        self._next = self._landed or 0
        return self._landed is not None

    def reopen(self) -> None:
        self._next = 0

    def packets(self) -> Iterator[Any]:
        return iter(self._packets[self._next :])


# (position, size): packets of one size, of one position (several in a block), and some that repeat each other.
STREAMS = {
    "all differ": [(10 * number, 5 + number) for number in range(8)],
    "one size": [(10 * number, 5) for number in range(8)],
    "one position": [(40, 5 + number) for number in range(8)],
    "repeats": [(0, 5), (0, 5), (0, 5), (9, 4), (0, 5), (0, 5), (12, 5), (13, 6)],
    "no positions": [(None, 5 + number) for number in range(8)],
}


def made(places: list[tuple[int | None, int]]) -> tuple[list[Any], Any]:
    packets = [SimpleNamespace(pos=pos, size=size, name=number) for number, (pos, size) in enumerate(places)]
    offset = np.array([-1 if pos is None else pos for pos, _ in places], dtype=np.int64)
    size = np.array([size for _, size in places], dtype=np.int64)
    return packets, SimpleNamespace(offset=offset, size=size, pts=np.arange(len(places), dtype=np.int64))


@pytest.mark.parametrize("places", STREAMS.values(), ids=STREAMS)
def test_M09_packets_keep_their_numbers_wherever_a_seek_lands(places: list[tuple[int | None, int]]) -> None:
    packets, walk = made(places)
    count = len(packets)
    for landed in (None, *range(count)):
        for start in range(count):
            container: Any = Landing(packets, landed)
            came = [(number, packet.name) for number, packet in demux_from(container, walk, start)]
            assert came == [(number, number) for number in range(start, count)], (landed, start)


def test_M09_an_ambiguous_packet_behind_a_seek_has_no_number() -> None:
    packets, walk = made(STREAMS["repeats"])
    tell = number_after_seek
    assert tell(iter(packets[4:6]), walk.offset, walk.size) is None, "0, 1 or 4"
    assert tell(iter([SimpleNamespace(pos=7, size=7)]), walk.offset, walk.size) is None, "in no place of the table"
    for place in [(7, 4), (9, 7)]:
        other = SimpleNamespace(pos=place[0], size=place[1])
        assert tell(iter([other]), walk.offset, walk.size) is None, "a size or a position of the table, not both"
    assert tell(iter([]), walk.offset, walk.size) is None
    nameless, positionless = made(STREAMS["no positions"])
    assert tell(iter(nameless[2:]), positionless.offset, positionless.size) is None, "sizes alone prove nothing"
    found = tell(iter(packets[2:]), walk.offset, walk.size)
    assert found is not None
    assert (found[0], [packet.name for packet in found[1]]) == (2, [2, 3, 4, 5, 6, 7])


@pytest.mark.parametrize(
    "name", ["open_gop.mkv", "open_gop.mp4", "open_gop.ts", "open_gop_mpeg2.mpg", "fields.mp4", "superframes_vp9.webm"]
)
def test_M09_the_packets_of_real_containers_keep_their_numbers(name: str) -> None:
    with VideoContainer(MediaSource.of(corpus_file(name)), None, DEFAULT_LIMITS) as container:
        walk = walk_packets(container).packets
        for start in range(0, len(walk), 7):
            came = list(demux_from(container, walk, start))
            assert [number for number, _ in came] == list(range(start, len(walk)))
            assert_same(walk, came)


def assert_same(walk: PacketTable, came: list[tuple[int, Any]]) -> None:
    for number, packet in came:
        position = -1 if packet.pos is None else packet.pos
        assert (position, packet.size) == (walk.offset[number], walk.size[number])


def test_M09_a_packet_that_is_left_out_behind_a_seek_is_noticed() -> None:
    """A damaged Matroska file may give packet 12 behind a seek, and then packet 20."""
    packets, table = made(STREAMS["all differ"])
    landed = number_after_seek(iter([packets[2], packets[6], packets[7]]), table.offset, table.size)
    assert landed is not None
    assert landed[0] == 2
    with pytest.raises(MisplacedPacket):
        list(landed[1])

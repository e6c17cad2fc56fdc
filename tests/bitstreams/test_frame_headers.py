"""What readers of AV1 and VP9 keep of the frames before: the slots of references, and their sizes."""

from __future__ import annotations

import pytest

from framefeed._values import DEFAULT_LIMITS
from framefeed.bitstreams import OddUnits
from framefeed.bitstreams._av1 import Av1Reader, read_sequence
from framefeed.bitstreams._vpx import Vp9Reader
from tests.bitstreams import vpx_mutants as made
from tests.bitstreams.vpx_mutants import packets


def _read_av1(*later: bytes) -> None:
    """Read a key frame, and packets behind it."""
    reader = Av1Reader()
    for packet in (packets("av1")[0], *later):
        reader.read(memoryview(packet))


@pytest.mark.parametrize(("kind", "is_resilient"), [(made.INTRA_ONLY, False), (made.INTER, False), (made.INTER, True)])
@pytest.mark.parametrize("slot", range(8))
def test_a_slot_that_another_picture_took_is_that_of_a_key_frame_no_more(
    kind: int, is_resilient: bool, slot: int
) -> None:
    sequence = read_sequence(memoryview(made.units(packets("av1")[0])[1][2]))
    other = (slot + 3) % 8
    slots = 1 << slot | 1 << other
    hidden = made.header_av1(sequence, kind, 2, slots, is_shown=False, is_resilient=is_resilient)
    shown = made.header_av1(sequence, made.INTER, 1, 0, is_shown=True)
    packet = made.join([(made.DELIMITER, b"", b""), (made.FRAME, b"", hidden), (made.FRAME, b"", shown)])
    _read_av1(packet, made.show_av1(slot))
    _read_av1(packet, made.show_av1(other))
    with pytest.raises(OddUnits, match="a key frame is shown again"):
        _read_av1(packet, made.show_av1((slot + 1) % 8))


@pytest.mark.parametrize("slot", range(8))
def test_sizes_of_references_are_those_of_the_slots_that_keep_them(slot: int) -> None:
    stream, other = packets("vp9"), (slot + 1) % 8

    def read(referred: int) -> None:
        reader = Vp9Reader(DEFAULT_LIMITS)
        reader.read(memoryview(stream[0]))
        wide = made.sized_inter_vp9(made.referring_vp9(stream[1], 1 << slot, [other] * 3), 250, 96)
        reader.read(memoryview(wide))
        reader.read(memoryview(made.sized_inter_vp9(made.referring_vp9(stream[2], 0, [referred] * 3), 100, 96)))

    read(other)
    with pytest.raises(OddUnits, match="much larger or smaller"):
        read(slot)


@pytest.mark.parametrize("slot", range(8))
def test_a_picture_of_its_references_size_keeps_that_size(slot: int) -> None:
    stream, other, third = packets("vp9"), (slot + 1) % 8, (slot + 3) % 8

    def read(referred: int) -> None:
        reader = Vp9Reader(DEFAULT_LIMITS)
        reader.read(memoryview(stream[0]))
        wide = made.sized_inter_vp9(made.referring_vp9(stream[1], 1 << slot, [other] * 3), 250, 96)
        reader.read(memoryview(wide))
        reader.read(memoryview(made.referring_vp9(stream[2], 1 << third, [referred] * 3)))
        reader.read(memoryview(made.sized_inter_vp9(made.referring_vp9(stream[3], 0, [third] * 3), 100, 96)))

    read(other)
    with pytest.raises(OddUnits, match="much larger or smaller"):
        read(slot)

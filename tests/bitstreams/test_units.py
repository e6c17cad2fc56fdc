"""NAL units of many packets at once, beside what is read of one packet after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed._values import UnitFacts
from framefeed.bitstreams import _units
from framefeed.bitstreams._nal import (
    MAX_PARAMETER_SETS,
    cut_first_slice,
    read_h264_facts,
    read_hevc_facts,
    split_nal_units,
)
from framefeed.bitstreams._units import BLOCK_PADDING, HEAD_BYTES, UnitWalk

RECOVERY, RECOVERY_LATER, OTHER = b"\x06\x06\x01\xc4\x80", b"\x06\x06\x01\x44\x80", b"\x06\x05\x02\x01\x02\x80"
TWO_MESSAGES = b"\x06\x05\x01\x01\x06\x01\xc4\x80"


def _walk(packets: list[bytes], codec: str, length_size: int, block: int) -> UnitFacts:
    """Look at packets, some at a time."""
    walk = UnitWalk(codec, length_size)
    for first in range(0, len(packets), block):
        data, extents = bytearray(), []
        for packet in packets[first : first + block]:
            extents.append((len(data), len(data) + len(packet)))
            data += packet + b"\xff"
        data += bytes(BLOCK_PADDING)
        begin, end = np.array(extents, dtype=np.int64).T
        walk.block(np.frombuffer(data, np.uint8), np.ascontiguousarray(begin), np.ascontiguousarray(end))
    return walk.facts()


def _stored(unit: bytes, length_size: int) -> bytes:
    return (len(unit).to_bytes(length_size, "big") if length_size else b"\0\0\1") + unit


some_bytes = st.binary(min_size=0, max_size=12)
h264_units = st.builds(
    lambda header, rest: bytes([header]) + rest,
    st.sampled_from([0x01, 0x21, 0x41, 0x61, 0x65, 0x06, 0x67, 0x68, 0x09, 0x0A, 0x0C, 0x0D, 0x18]),
    some_bytes,
) | st.sampled_from([RECOVERY, RECOVERY_LATER, OTHER, TWO_MESSAGES])
hevc_units = st.builds(
    lambda kind, layer, rest: bytes([kind << 1, layer + 1]) + rest,
    st.sampled_from([0, 1, 8, 9, 16, 19, 20, 21, 32, 33, 34, 35, 36, 39, 62]),
    st.integers(0, 2),
    some_bytes,
)


@st.composite
def packets_of(draw: st.DrawFn, codec: str) -> tuple[list[bytes], int]:
    size = draw(st.sampled_from([0, 1, 2, 4]))
    units = st.lists(h264_units if codec == "h264" else hevc_units, min_size=0, max_size=5)
    packets = []
    for some in draw(st.lists(units, min_size=1, max_size=6)):
        data = b"".join(_stored(unit, size) for unit in some)
        packets.append(data + draw(st.sampled_from([b"", b"", b"\0", b"\x05\x41"])) or b"\x09")
    return packets, size


def _expected_sets(packets: list[bytes], codec: str, size: int) -> tuple[bytes, ...]:
    sets: dict[bytes, None] = {}
    for packet in packets:
        for unit in split_nal_units(packet, size):
            is_set = unit[0] & 31 in (7, 8, 13, 15) if codec == "h264" else unit[0] >> 1 & 63 in (32, 33, 34)
            if is_set and len(sets) < MAX_PARAMETER_SETS:
                sets[bytes(unit)] = None
    return tuple(sets)


@given(packets_of("h264"), st.sampled_from([1, 3, 10]))
def test_h264_packets_are_described_alike(some: tuple[list[bytes], int], block: int) -> None:
    packets, size = some
    result = _walk(packets, "h264", size, block)
    for number, packet in enumerate(packets):
        facts = read_h264_facts(packet, size)
        if facts is None:
            assert result.is_reference[number]
            continue
        assert result.is_start[number] == facts.is_random_access
        assert result.is_reference[number] == (facts.is_reference or not facts.is_droppable)
        slices = [bytes(unit) for unit in split_nal_units(packet, size) if unit[0] & 31 in (1, 2, 5)]
        assert result.slice_kind[number] == slices[0][0] & 31
        assert result.layer[number] == slices[0][0] >> 5 & 3
        kept = int(result.head_bytes[number])
        assert result.head[number, :kept].tobytes() == slices[0][1 : 1 + HEAD_BYTES]
    assert result.parameter_sets == _expected_sets(packets, "h264", size)


@given(packets_of("hevc"), st.sampled_from([1, 3, 10]))
def test_hevc_packets_are_described_alike(some: tuple[list[bytes], int], block: int) -> None:
    packets, size = some
    result = _walk(packets, "hevc", size, block)
    for number, packet in enumerate(packets):
        facts = read_hevc_facts(packet, size)
        if facts is None:
            assert result.is_reference[number]
            continue
        assert result.is_start[number] == facts.is_random_access
        assert result.is_reference[number] == (facts.is_reference or not facts.is_droppable)
        assert result.layer[number] == facts.temporal_id
    assert result.parameter_sets == _expected_sets(packets, "hevc", size)


def test_packets_of_very_many_units_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    packets = [_stored(b"\x09", 4) * 20 + _stored(b"\x65\x88\x11", 4), _stored(b"\x41\x9a\x22", 4)]
    expected = _walk(packets, "h264", 4, 2)
    monkeypatch.setattr(_units, "_MAX_STEPS", 5)
    result = _walk(packets, "h264", 4, 2)
    assert result.is_start.tolist() == expected.is_start.tolist() == [True, False]
    assert result.slice_kind.tolist() == expected.slice_kind.tolist() == [5, 1]
    assert expected.is_plain
    assert not result.is_plain


@pytest.mark.parametrize(("first", "second"), [(RECOVERY, RECOVERY_LATER), (RECOVERY_LATER, RECOVERY)])
def test_M14_the_first_of_several_recovery_points_counts(first: bytes, second: bytes) -> None:
    packet = b"".join(_stored(unit, 4) for unit in (first, second, b"\x41\x9a\x22"))
    is_start = first == RECOVERY
    assert _walk([packet], "h264", 4, 1).is_start.tolist() == [is_start]
    assert read_h264_facts(packet, 4).is_random_access == is_start


@pytest.mark.parametrize("size", [0, 1, 2, 4])
@pytest.mark.parametrize(("codec", "header"), [("h264", b"\x65"), ("hevc", b"\x26\x01")])
def test_a_packet_is_cut_behind_the_beginning_of_its_first_slice(codec: str, header: bytes, size: int) -> None:
    unit = header + b"\x88" * 200
    other = b"\x67\x64\x11" if codec == "h264" else b"\x42\x01\x11"
    packet = b"".join(_stored(one, size) for one in (other, unit, unit))
    cut = cut_first_slice(packet, codec, size, 100)
    assert [bytes(one) for one in split_nal_units(cut, size)] == [other, unit[:100]]


def test_more_sets_than_a_stream_needs_are_not_kept() -> None:
    kinds = (1, 32, 33, 34, 39)
    packets = [
        b"".join(_stored(bytes([kind << 1, 1, *number.to_bytes(2, "big")]), 4) for kind in kinds)
        for number in range(2 * MAX_PARAMETER_SETS)
    ]
    sets = _walk(packets, "hevc", 4, 10).parameter_sets
    assert len(sets) == MAX_PARAMETER_SETS
    assert {unit[0] >> 1 for unit in sets} == {32, 33, 34}

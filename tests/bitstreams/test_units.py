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
    find_recovery_frames,
    split_nal_units,
)
from framefeed.bitstreams._units import BLOCK_PADDING, HEAD_BYTES, UnitWalk

RECOVERY, RECOVERY_LATER, OTHER = b"\x06\x06\x01\xc4\x80", b"\x06\x06\x01\x44\x80", b"\x06\x05\x02\x01\x02\x80"
TWO_MESSAGES = b"\x06\x05\x01\x01\x06\x01\xc4\x80"


def walk(packets: list[bytes], codec: str, length_size: int, block: int) -> UnitFacts:
    """Read packets, some at a time."""
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


@given(
    st.sampled_from(["h264", "hevc"]).flatmap(lambda codec: st.tuples(st.just(codec), packets_of(codec))),
    st.sampled_from([1, 3, 10]),
)
def test_packets_are_described_as_their_units_are_one_by_one(
    codec_and_packets: tuple[str, tuple[list[bytes], int]], block: int
) -> None:
    codec, (packets, size) = codec_and_packets
    result, is_h264 = walk(packets, codec, size, block), codec == "h264"
    for number, packet in enumerate(packets):
        units = [bytes(unit) for unit in split_nal_units(packet, size)]
        kinds = [unit[0] & 31 if is_h264 else unit[0] >> 1 & 63 for unit in units]
        slices = [
            unit for unit, kind in zip(units, kinds, strict=True) if (kind in (1, 2, 5) if is_h264 else kind < 32)
        ]
        assert result.has_slice[number] == bool(slices)
        if not slices:
            assert result.is_reference[number]
            continue
        if is_h264:
            messages = [
                frames for unit in units if unit[0] & 31 == 6 if (frames := find_recovery_frames(unit[1:])) is not None
            ]
            is_start = 5 in kinds or messages[:1] == [0]
            is_reference = 5 in kinds or any(unit[0] & 0x60 for unit in slices)
            harmless, layer = {1, 5, 6, 9, 12}, slices[0][0] >> 5 & 3
            assert result.slice_kind[number] == slices[0][0] & 31
            kept = int(result.head_bytes[number])
            assert result.head[number, :kept].tobytes() == slices[0][1 : 1 + HEAD_BYTES]
        else:
            own = [kind for kind in kinds if kind < 32]
            is_start = any(16 <= kind <= 23 for kind in own)
            is_reference = any(kind >= 16 or kind % 2 for kind in own)
            harmless, layer = {*range(32), 35, 38, 39, 40}, (slices[-1][1] & 7) - 1
        assert result.is_start[number] == is_start
        assert result.is_reference[number] == (is_reference or not harmless.issuperset(kinds))
        assert result.layer[number] == layer
    assert result.parameter_sets == _expected_sets(packets, codec, size)


def test_packets_of_very_many_units_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    packets = [_stored(b"\x09", 4) * 20 + _stored(b"\x65\x88\x11", 4), _stored(b"\x41\x9a\x22", 4)]
    expected = walk(packets, "h264", 4, 2)
    monkeypatch.setattr(_units, "_MAX_STEPS", 5)
    result = walk(packets, "h264", 4, 2)
    assert result.is_start.tolist() == expected.is_start.tolist() == [True, False]
    assert result.slice_kind.tolist() == expected.slice_kind.tolist() == [5, 1]
    assert expected.is_plain
    assert not result.is_plain


@pytest.mark.parametrize(("first", "second"), [(RECOVERY, RECOVERY_LATER), (RECOVERY_LATER, RECOVERY)])
def test_M14_the_first_of_several_recovery_points_counts(first: bytes, second: bytes) -> None:
    packet = b"".join(_stored(unit, 4) for unit in (first, second, b"\x41\x9a\x22"))
    is_start = first == RECOVERY
    assert walk([packet], "h264", 4, 1).is_start.tolist() == [is_start]


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
    sets = walk(packets, "hevc", 4, 10).parameter_sets
    assert len(sets) == MAX_PARAMETER_SETS
    assert {unit[0] >> 1 for unit in sets} == {32, 33, 34}

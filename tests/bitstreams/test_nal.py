"""What NAL unit headers say, on units made by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.bitstreams._nal import (
    find_recovery_frames,
    read_nal_length_size,
    split_nal_units,
)
from tests.bitstreams.test_units import walk

# H.264 NAL unit headers: nal_ref_idc << 5 | nal_unit_type (ITU-T H.264 7.3.1).
NON_REFERENCE, REFERENCE, IDR = b"\x01\x9a", b"\x61\x9a", b"\x65\x88"
SEI, SPS, PPS, DELIMITER, FILLER, END = b"\x06", b"\x67\x64", b"\x68\xee", b"\x09\xf0", b"\x0c\xff", b"\x0a"


def sized(*units: bytes, size: int = 4) -> bytes:
    return b"".join(len(unit).to_bytes(size, "big") + unit for unit in units)


def started(*units: bytes, code: bytes = b"\0\0\0\1") -> bytes:
    return b"".join(code + unit for unit in units)


def hevc(kind: int, temporal_id: int = 0, payload: bytes = b"\xaa") -> bytes:
    """A HEVC unit: two bytes of header (ITU-T H.265 7.3.1.2)."""
    return bytes([kind << 1, temporal_id + 1]) + payload


def recovery_point(frames: int, before: bytes = b"") -> bytes:
    """A unit of SEI messages whose last is a recovery point (ITU-T H.264 D.1.8)."""
    code = frames + 1
    bits = "0" * (code.bit_length() - 1) + f"{code:b}" + "100" + "1"
    payload = int(bits.ljust(-(-len(bits) // 8) * 8, "0"), 2).to_bytes(-(-len(bits) // 8), "big")
    return SEI + before + bytes([6, len(payload)]) + payload + b"\x80"


@given(st.lists(st.binary(min_size=1, max_size=300)), st.sampled_from([1, 2, 4]))
def test_units_by_length_come_back(units: list[bytes], size: int) -> None:
    units = [unit for unit in units if len(unit) < 256**size]
    assert [bytes(unit) for unit in split_nal_units(sized(*units, size=size), size)] == units


@given(st.lists(st.binary(min_size=1, max_size=40).filter(lambda unit: b"\0" not in unit)))
def test_units_by_start_code_come_back(units: list[bytes]) -> None:
    assert [bytes(unit).rstrip(b"\0") for unit in split_nal_units(started(*units), 0)] == units
    assert [bytes(unit) for unit in split_nal_units(started(*units, code=b"\0\0\1"), 0)] == units


@given(st.binary(max_size=200), st.integers(0, 4))
def test_D01_garbage_is_read_without_an_error(data: bytes, size: int) -> None:
    for unit in split_nal_units(data, size):
        assert len(unit) > 0
    for codec in ("h264", "hevc"):
        assert len(walk([data or b"\0"], codec, size, 1).is_start) == 1


def test_a_length_beyond_the_packet_ends_it() -> None:
    assert [bytes(unit) for unit in split_nal_units(sized(b"ab") + b"\0\0\0\x63c", 4)] == [b"ab"]


@pytest.mark.parametrize(
    ("codec", "extradata", "size"),
    [
        ("h264", b"\x01\x64\x00\x1f\xff\xe1", 4),
        ("h264", b"\x01\x64\x00\x1f\xfd", 2),
        ("h264", b"\0\0\0\1\x67", 0),  # Annex B
        ("h264", None, 0),
        ("h264", b"", 0),
        ("h264", b"\x01\x64", 0),  # cut short
        ("hevc", b"\x01" + bytes(20) + b"\xfc", 1),
        ("hevc", b"\x01" + bytes(20) + b"\xff", 4),
    ],
)
def test_length_size_from_the_configuration(codec: str, extradata: bytes | None, size: int) -> None:
    assert read_nal_length_size(codec, extradata) == size


def facts_of(packet: bytes, codec: str = "h264", size: int = 4) -> tuple[bool, bool, int]:
    """Whether other pictures refer to a packet's, or it has more; whether decoding can start there; and its layer."""
    facts = walk([packet], codec, size, 1)
    return bool(facts.is_reference[0]), bool(facts.is_start[0]), int(facts.layer[0])


@pytest.mark.parametrize(
    ("units", "facts"),
    [
        ((IDR,), (True, True, 3)),
        ((SPS, PPS, IDR), (True, True, 3)),
        ((REFERENCE,), (True, False, 3)),
        ((NON_REFERENCE,), (False, False, 0)),
        ((DELIMITER, SEI + b"\x01\x01\xff\x80", NON_REFERENCE, FILLER), (False, False, 0)),
        # A picture of several slices is needed if one of them is.
        ((NON_REFERENCE, REFERENCE), (True, False, 0)),
        # Leaving it out would lose a parameter set, or the end of a sequence.
        ((PPS, NON_REFERENCE), (True, False, 0)),
        ((NON_REFERENCE, END), (True, False, 0)),
    ],
)
def test_h264_pictures(units: tuple[bytes, ...], facts: tuple[bool, bool, int]) -> None:
    assert facts_of(sized(*units)) == facts
    assert facts_of(started(*units), size=0) == facts


def test_packets_without_a_slice_are_no_start() -> None:
    for packet, codec in ((sized(SPS, PPS), "h264"), (sized(hevc(32), hevc(33)), "hevc"), (b"\0", "h264")):
        facts = walk([packet], codec, 4, 1)
        assert (facts.is_start.tolist(), facts.is_reference.tolist(), facts.has_slice.tolist()) == (
            [False], [True], [False],
        )  # fmt: skip


@pytest.mark.parametrize("frames", [0, 1, 7, 40, 300])
@pytest.mark.parametrize(
    "before",
    [
        b"",
        b"\x05\x10" + bytes(range(1, 17)),
        b"\xff\x05\x03abc",  # a type above 255
        b"\x04\xff\x2d" + b"c" * 300,  # captions, longer than 255 bytes
        b"\x05\x05\1\0\0\3\3\3",  # with an emulation prevention byte: five bytes of payload in six
    ],
)
def test_M14_recovery_points(frames: int, before: bytes) -> None:
    unit = recovery_point(frames, before)
    assert find_recovery_frames(unit[1:]) == frames
    assert facts_of(sized(unit, REFERENCE))[1] == (frames == 0)


def test_M14_without_a_recovery_point_only_an_idr_is_a_start() -> None:
    unit = SEI + b"\x05\x04abcd\x80"
    assert find_recovery_frames(unit[1:]) is None
    assert not facts_of(sized(unit, REFERENCE))[1]


@pytest.mark.parametrize(
    ("kind", "is_reference", "is_start"),
    [
        (0, False, False),  # TRAIL_N
        (1, True, False),  # TRAIL_R
        (6, False, False),  # RADL_N
        (8, False, False),  # RASL_N
        (9, True, False),  # RASL_R
        (16, True, True),  # BLA_W_LP
        (19, True, True),  # IDR_W_RADL
        (20, True, True),  # IDR_N_LP
        (21, True, True),  # CRA
    ],
)
def test_M04_hevc_pictures(kind: int, is_reference: bool, is_start: bool) -> None:
    assert facts_of(sized(hevc(kind)), "hevc") == (is_reference, is_start, 0)


@pytest.mark.parametrize(("other", "droppable"), [(39, True), (40, True), (35, True), (34, False), (36, False)])
def test_hevc_pictures_beside_other_units(other: int, droppable: bool) -> None:
    assert facts_of(sized(hevc(other), hevc(0)), "hevc")[0] == (not droppable)


def test_hevc_temporal_layers() -> None:
    assert facts_of(sized(hevc(0, temporal_id=2)), "hevc")[2] == 2

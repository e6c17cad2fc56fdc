"""Boxes and bits are found where the standards put them."""

from __future__ import annotations

import pytest

from framefeed.testing import ClipSpec, clip_bytes
from tests.pathologies.bitstreams.bits import BitReader, BitWriter, escape, unescape
from tests.pathologies.bitstreams.boxes import STBL, find_box, make_box, make_table, read_payload, replace_box


def test_replacing_a_box_resizes_those_around_it() -> None:
    data = clip_bytes(ClipSpec(num_frames=3), "mp4")
    larger = replace_box(data, f"{STBL}.stss", make_table("stss", (1,), (2,), (3,)))
    assert len(larger) == len(data) + 8
    assert read_payload(larger, f"{STBL}.stss")[4:8] == (3).to_bytes(4)
    assert find_box(larger, "moov")[1] == len(larger)
    assert read_payload(larger, f"{STBL}.stsz") == read_payload(data, f"{STBL}.stsz")


def test_missing_box_is_named() -> None:
    with pytest.raises(KeyError, match="stbl"):
        find_box(make_box("moov", make_box("trak", b"")), f"{STBL}.stsz")


@pytest.mark.parametrize("value", [0, 1, 2, 7, 8, 255, 1000])
def test_exp_golomb_codes_read_back(value: int) -> None:
    data = BitWriter().fixed(5, 3).golomb(value).payload()
    reader = BitReader(data)
    assert (reader.fixed(3), reader.golomb()) == (5, value)


def test_escaped_payloads_hold_no_start_code() -> None:
    for payload in (bytes(9), b"\x00\x00\x01\x00\x00\x02", b"\x00\x00\x03\x00\x00\x00"):
        assert b"\x00\x00\x00" not in escape(payload)
        assert b"\x00\x00\x01" not in escape(payload)
        assert unescape(escape(payload)) == payload

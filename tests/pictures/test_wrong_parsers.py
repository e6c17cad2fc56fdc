"""Parsers that are wrong in a likely way do not pass the comparison with Pillow."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from framefeed.pictures._reads import OddHeader, StillHeader
from tests.pictures.made import made
from tests.pictures.reading import Reads, facts_of, pillow_facts

Wrong = Callable[[bytes, StillHeader], StillHeader]


def _of_thumbnail(data: bytes, right: StillHeader) -> StillHeader:
    """Takes the first frame header that it meets, also inside of EXIF."""
    at = data.find(b"\xff\xc0")
    if right.container != "jpeg" or at < 0:
        return right
    height, width = struct.unpack_from(">HH", data, at + 5)
    return right._replace(width=width, height=height)


def _in_other_order(data: bytes, right: StillHeader) -> StillHeader:
    """Reads numbers of big-endian EXIF and TIFF as little-endian ones."""
    is_big = b"MM\0*" in data[:60]
    return right._replace(orientation=1) if is_big else right


def _turned(data: bytes, right: StillHeader) -> StillHeader:
    return right._replace(width=right.height, height=right.width)


def _by_control(data: bytes, right: StillHeader) -> StillHeader:
    """Forgets the default picture of an animated PNG."""
    at = data.find(b"acTL")
    frames = struct.unpack_from(">I", data, at + 4)[0] if right.container == "png" and at > 0 else 0
    return right._replace(num_frames=frames or right.num_frames)


def _without_data(data: bytes, right: StillHeader) -> StillHeader:
    """Looks for EXIF before the pixels only."""
    return right._replace(orientation=1) if data.find(b"eXIf") > data.find(b"IDAT") > 0 else right


def _by_commas(data: bytes, right: StillHeader) -> StillHeader:
    """Counts separators without walking the blocks."""
    return right._replace(num_frames=data.count(b",")) if right.container == "gif" else right


WRONG = [_of_thumbnail, _in_other_order, _turned, _by_control, _without_data, _by_commas]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
def test_a_wrong_parser_is_caught(wrong: Wrong) -> None:
    caught = []
    for name, data in made().items():
        try:
            right = Reads(data).header()
        except OddHeader:
            continue
        if facts_of(wrong(data, right)) != pillow_facts(data):
            caught.append(name)
    assert caught

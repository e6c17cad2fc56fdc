"""Rows of frame tables: every index comes back exactly, those of real clips in few bytes."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed._values import MISSING_PTS, PacketTable
from framefeed.catalog._frame_rows import HeaderClaims, pack_row, read_claims, read_index
from framefeed.errors import FramefeedError
from framefeed.index import BuiltFrom, FrameIndex, StreamFacts, TimesFrom, build_index
from framefeed.media import SourceIdentity
from tests.catalog.synthetic import same
from tests.corpus import corpus_file

WORDS = st.integers(-(2**63), 2**63 - 1)
SMALL = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(max_size=20)
EXTREMES = np.array([MISSING_PTS, 2**63 - 1, 0, -1, 1, -(2**62)])


class Columns:
    """Draws columns of numbers: Hypothesis would take seconds to draw one by one."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.random = np.random.default_rng(draw(st.integers(0, 2**32)))

    def within(self, low: int, high: int, length: int) -> np.ndarray:
        if high < low:
            return np.full(length, low, np.int64)
        return self.random.integers(low, high, length, dtype=np.int64, endpoint=True)

    def times(self, length: int) -> np.ndarray:
        kind = self.draw(st.sampled_from(["any", "extreme", "even", "rounded", "holes"]))
        if kind == "any":
            return self.within(-(2**63), 2**63 - 1, length)
        if kind == "extreme":
            return self.random.choice(EXTREMES, length)
        first, step = self.draw(st.integers(-(10**12), 10**12)), self.draw(st.integers(0, 5000))
        even = first + step * np.arange(length, dtype=np.int64)
        if kind == "holes":
            return np.where(self.random.random(length) < 0.2, MISSING_PTS, even)
        return even + self.within(0, 1, length) if kind == "rounded" else even

    def packets(self, length: int) -> PacketTable:
        size = self.within(0, self.draw(st.sampled_from([0, 200, 70_000, 2**40])), length)
        offset = self.within(-1, 2**61, length)
        if self.draw(st.booleans()):
            offset = 48 + np.cumsum(size) - size + np.cumsum(99 * (self.random.random(length) < 0.1))
        flags = self.within(0, self.draw(st.sampled_from([1, 7, 255])), length).astype(np.uint8)
        return PacketTable(offset, size, self.times(length), flags)


@st.composite
def streams(draw: st.DrawFn) -> StreamFacts:
    return StreamFacts(
        stream_index=draw(SMALL), container=draw(TEXT), codec=draw(TEXT),
        extradata=draw(st.none() | st.binary(max_size=40)), width=draw(SMALL), height=draw(SMALL),
        pixel_format=draw(TEXT), rotation=draw(st.sampled_from([0, 90, 180, 270])), mirrored=draw(st.booleans()),
        contiguous=draw(st.booleans()), skips_exactly=draw(st.booleans()), inband_parameters=draw(st.booleans()),
        color_primaries=draw(SMALL), color_transfer=draw(SMALL), color_space=draw(SMALL), color_range=draw(SMALL),
    )  # fmt: skip


@st.composite
def indexes(draw: st.DrawFn) -> FrameIndex:
    columns = Columns(draw)
    num_frames = draw(st.integers(0, 60))
    num_packets = draw(st.sampled_from([0, num_frames, num_frames + 2, num_frames // 2]))
    packets, pts = columns.packets(num_packets), columns.times(num_frames)
    frame_packet = columns.within(-1, num_packets - 1, num_frames)
    if num_packets == num_frames and draw(st.booleans()):
        frame_packet = columns.random.permutation(num_frames).astype(np.int64)
        packets.pts[frame_packet] = pts
    steps = np.diff(pts, append=pts[-1:])
    return FrameIndex(
        pts=pts,
        duration=steps if draw(st.booleans()) else columns.times(num_frames),
        time_base=Fraction(draw(st.integers(1, 10**9)), draw(st.integers(1, 10**9))),
        key_frame_indices=columns.within(0, num_frames - 1, draw(st.integers(0, num_frames))),
        built_from=draw(st.sampled_from(get_args(BuiltFrom))),
        frame_packet=frame_packet,
        frame_start=columns.within(0, max(0, num_packets - 1), num_frames),
        packets=packets,
        stream=draw(streams()),
        identity=draw(st.none() | st.builds(SourceIdentity, WORDS, st.none() | WORDS, TEXT)),
        damaged_frame_indices=np.flatnonzero(columns.random.random(num_frames) < draw(st.sampled_from([0, 0.2, 1]))),
        times_from=draw(st.sampled_from(get_args(TimesFrom))),
        time_shift=draw(st.integers(-(2**63), 2**63 - 1)),
        changes_size=draw(st.booleans()),
    )


CLAIMS = st.builds(
    HeaderClaims,
    st.none() | st.integers(0, 2**62),
    st.none() | st.floats(allow_nan=False),
    st.none() | st.floats(allow_nan=False),
)


def there_and_back(index: FrameIndex, claims: HeaderClaims | None = None) -> tuple[bytes, FrameIndex]:
    numbers, row = pack_row(index, claims or HeaderClaims())
    assert read_claims(numbers, memoryview(row)) == (claims or HeaderClaims())
    return row, read_index(numbers, memoryview(row))


@given(indexes(), CLAIMS)
def test_every_index_comes_back(index: FrameIndex, claims: HeaderClaims) -> None:
    assert same(there_and_back(index, claims)[1], index)


@pytest.mark.parametrize(
    ("name", "bytes_a_frame"),
    [
        ("open_gop.mp4", 8),
        ("vfr.mkv", 10),
        ("bframes_4.mp4", 8),
        ("raw.h264", 8),
        ("edit_list.mp4", 10),
        ("fields.ts", 12),
    ],
)
def test_indexes_of_clips_are_small(name: str, bytes_a_frame: float) -> None:
    index = build_index(corpus_file(name), "none")
    row, read = there_and_back(index)
    assert same(read, index)
    assert len(row) < 300 + bytes_a_frame * len(index)


def real_videos(media_root: Path) -> list[Path]:
    small = (path for path in (media_root / "video").rglob("*") if path.is_file() and path.stat().st_size < 2**18)
    return sorted(small)[::2]


@pytest.mark.slow
def test_indexes_of_real_videos_come_back(media_root: Path) -> None:
    seen = 0
    for path in real_videos(media_root):
        try:
            index = build_index(path, "none")
        except FramefeedError:
            continue
        row, read = there_and_back(index)
        assert same(read, index), path.name
        extradata = len(index.stream.extradata or b"")
        assert len(row) < 300 + extradata + 16 * max(len(index), len(index.packets)), path.name
        seen += 1
    assert seen > 30

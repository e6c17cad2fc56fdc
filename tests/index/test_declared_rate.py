"""Rates that containers and bitstreams declare, and what only looks like one."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.bitstreams import OddUnits, read_hevc_sequence
from framefeed.index._declared_rate import find_declared_rate, has_clock, read_avi_rate, read_mpeg_rates
from framefeed.media import MediaSource, VideoContainer, walk_packets
from framefeed.testing import AudioSpec, ClipSpec, clip_bytes
from tests.corpus import clip_file
from tests.index.rated import with_avi_rate

NTSC = Fraction(30_000, 1001)
H264 = ClipSpec(num_frames=12, fps=NTSC, codec_options={"x264-params": "force-cfr=1"})
HEVC = ClipSpec(
    num_frames=12,
    fps=NTSC,
    codec="libx265",
    codec_options={"x265-params": "hrd=1:vbv-maxrate=500:vbv-bufsize=500:bitrate=500"},
)


def rate_of(media: bytes) -> Fraction | None:
    with VideoContainer(MediaSource.of(media)) as container:
        return find_declared_rate(container, walk_packets(container))


def avi_rate_of(avi: bytes, stream_index: int = 0) -> Fraction | None:
    with MediaSource.of(avi).opened() as reader:
        return read_avi_rate(reader, stream_index)


@pytest.mark.parametrize("spec", [H264, HEVC])
@pytest.mark.parametrize("form", ["mp4", "matroska", "mpegts"])
def test_the_configuration_of_a_codec_declares_a_rate(spec: ClipSpec, form: str) -> None:
    assert rate_of(clip_bytes(spec, form)) == NTSC


@pytest.mark.parametrize("codec", ["libx264", "libx265", "mpeg4", "libvpx"])
def test_a_rate_that_only_the_container_averages_is_not_declared(codec: str) -> None:
    assert rate_of(clip_bytes(ClipSpec(num_frames=5, codec=codec, b_frames=0), "matroska")) is None


# --- AVI ----------------------------------------------------------------------------------------------


@lru_cache
def an_avi() -> bytes:
    return clip_bytes(ClipSpec(num_frames=5, codec="mpeg4", b_frames=0, fps=NTSC), "avi")


def test_the_header_of_an_avi_stream() -> None:
    avi = an_avi()
    assert avi_rate_of(avi) == rate_of(avi) == NTSC
    assert avi_rate_of(avi, 1) is None
    assert avi_rate_of(with_avi_rate(avi, 7, 2)) == Fraction(7, 2)
    assert avi_rate_of(with_avi_rate(avi, 0, 0, period=40_000)) == 25
    for rate, scale in ((0, 0), (1, 0), (0, 1)):
        odd = with_avi_rate(avi, rate, scale, period=0)
        assert avi_rate_of(odd) is None
        with VideoContainer(MediaSource.of(odd)) as container:
            assert not has_clock(container)
    with VideoContainer(MediaSource.of(avi)) as container:
        assert has_clock(container)


def test_the_second_stream_of_an_avi() -> None:
    path = clip_file("sound_first.avi", AudioSpec(codec="pcm_s16le"), ClipSpec(num_frames=5, codec="mpeg4", fps=12))
    data = path.read_bytes()
    assert avi_rate_of(data, 1) == 12
    assert avi_rate_of(data, 0) not in (12, None), "the rate of samples"


@given(st.integers(1, 2000), st.binary(max_size=40), st.integers(0, 400))
def test_an_avi_header_that_is_damaged_never_ends_in_an_error(length: int, odd: bytes, at: int) -> None:
    damaged = bytearray(an_avi()[:length])
    damaged[at : at + len(odd)] = odd
    rate = avi_rate_of(bytes(damaged))
    assert rate is None or rate > 0


def test_an_avi_header_without_end_is_read_to_a_bound() -> None:
    endless = an_avi()[:12] + b"JUNK\0\0\0\0" * 100_000
    reads = 0

    class Counting:
        def read_into(self, buffer: memoryview, offset: int) -> int:
            nonlocal reads
            reads += 1
            part = endless[offset : offset + len(buffer)]
            buffer[: len(part)] = part
            return len(part)

    reader: Any = Counting()
    assert read_avi_rate(reader, 0) is None
    assert reads < 5000


# --- MPEG-1 and MPEG-2 --------------------------------------------------------------------------------


def sequence(code: int) -> bytes:
    return b"\0\0\1\xb3" + bytes([0x08, 0x00, 0x60, 0x10 | code, 0, 0, 0, 0])


def extended(above: int, below: int) -> bytes:
    return b"\0\0\1\xb5" + bytes([0x14, 0x8A, 0, 1, 0, (above - 1) << 5 | (below - 1)])


def picture(*, repeats: bool) -> bytes:
    return b"\0\0\1\0\0\0\0\0" + b"\0\0\1\xb5" + bytes([0x8F, 0xFF, 0xF3, 0x82 if repeats else 0x80, 0x80])


@pytest.mark.parametrize(
    ("packets", "rates"),
    [
        ([sequence(3), picture(repeats=False)], {Fraction(25)}),
        ([sequence(4)], {NTSC}),
        ([sequence(1), sequence(7)], {Fraction(24_000, 1001), Fraction(60_000, 1001)}),
        ([sequence(3) + extended(1, 1) + picture(repeats=False)], {Fraction(25)}),
        ([sequence(3) + extended(4, 1)], {Fraction(100)}),
        ([sequence(3) + extended(1, 5)], {Fraction(5)}),
        ([sequence(0)], {None}),
        ([sequence(9)], {None}),
        ([sequence(4) + extended(1, 1) + picture(repeats=True)], {NTSC, None}),
        ([picture(repeats=False)], set()),
        ([b"\0\0\1", b"\0\0\1\xb3", b"\0\0\1\xb3\0\0", b"\0\0\1\xb5", b""], set()),
    ],
)
def test_sequence_headers(packets: Iterable[bytes], rates: set[Fraction | None]) -> None:
    assert read_mpeg_rates(packets) == rates


@pytest.mark.parametrize("codec", ["mpeg1video", "mpeg2video"])
@pytest.mark.parametrize("fps", [24, 25, NTSC, 60])
def test_an_encoders_sequence_headers(codec: str, fps: Fraction | int) -> None:
    assert rate_of(clip_bytes(ClipSpec(num_frames=8, codec=codec, fps=fps), "mpegts")) == fps


# --- damage -------------------------------------------------------------------------------------------


@given(st.data())
def test_parameter_sets_that_are_damaged_are_odd_and_no_error(data: st.DataObject) -> None:
    unit = bytearray(_sequence_parameters())
    for _ in range(data.draw(st.integers(1, 4))):
        unit[data.draw(st.integers(2, len(unit) - 1))] = data.draw(st.integers(0, 255))
    try:
        rate = read_hevc_sequence(bytes(unit[: data.draw(st.integers(2, len(unit)))])).frame_rate
    except OddUnits:
        return
    assert rate is None or rate > 0


@lru_cache
def _sequence_parameters() -> bytes:
    with VideoContainer(MediaSource.of(clip_bytes(HEVC, "hevc"))) as container:
        sets = walk_packets(container).parameter_sets
    [sequence_unit] = [unit for unit in sets if unit[0] >> 1 == 33]
    return sequence_unit

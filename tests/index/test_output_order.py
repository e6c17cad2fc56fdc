"""Times that go backwards only in the middle: verification of the ends gives the same index as full verification."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from framefeed import FrameIndex, build_index
from framefeed.index import Verify
from framefeed.testing import ClipSpec, Coded, clip_bytes, take_packets
from tests.catalog.synthetic import same
from tests.media.nal_mutants import Stream, cut_at, edit, h264, hevc, joined, late_b, with_depth, with_sets
from tests.pathologies import bitstreams

FRAMES, MIDDLE = 150, 74
"""More than 48 packets lie before, and behind, what is edited."""
DELAY = 10
"""Frames from decoding to presentation, so that no edited time comes before its decoding time."""
MP4, MOV, MKV = ".mp4", ".mov", ".mkv"


@dataclass(frozen=True)
class Clip:
    """A codec, and in what it is put."""

    codec: str
    ending: str
    b_frames: int | None = 0
    pixel_format: str = "yuv420p"


@lru_cache
def encode(clip: Clip) -> Stream:
    """Encode a clip."""
    spec = ClipSpec(FRAMES, 96, 128, codec=clip.codec, b_frames=clip.b_frames, gop=25, pixel_format=clip.pixel_format)
    data = clip_bytes(spec, "matroska" if clip.codec == "ffv1" else "mov")
    return Stream(data, *take_packets(data))


def delayed(stream: Stream) -> list[Coded]:
    """Give the packets times that are later by as much as `DELAY`."""
    times = sorted(packet.pts or 0 for packet in stream.packets)
    return [replace(packet, pts=(packet.pts or 0) + DELAY * (times[1] - times[0])) for packet in stream.packets]


def swapped(stream: Stream) -> Stream:
    """Swap the times of two packets in the middle."""
    packets = delayed(stream)
    one, other = packets[MIDDLE], packets[MIDDLE + 1]
    packets[MIDDLE : MIDDLE + 2] = [replace(one, pts=other.pts), replace(other, pts=one.pts)]
    return stream.with_packets(packets)


def check(path: Path, *verify: Verify) -> list[FrameIndex]:
    """Index a file in several ways; but for ``built_from`` each must be as full verification finds it."""
    full = build_index(path, "full")
    indexes = [build_index(path, each) for each in verify]
    assert all(same(replace(index, built_from="decode"), full) for index in indexes)
    return indexes


BACKWARD = [
    *(Clip("mpeg4", ending, b_frames) for ending in (MP4, MOV, MKV) for b_frames in (0, 2)),
    *(Clip("mjpeg", ending, pixel_format="yuvj420p") for ending in (MP4, MKV)),
    Clip("ffv1", MKV),
    Clip("prores_ks", MOV, pixel_format="yuv422p10le"),
    *(Clip(codec, ending, 2) for codec in ("libx264", "libx265") for ending in (MP4, MKV)),
]


@pytest.mark.parametrize("clip", BACKWARD, ids=str)
def test_M22_times_that_go_backwards_in_the_middle(clip: Clip, tmp_path: Path) -> None:
    for index in check(swapped(encode(clip)).write(tmp_path / f"clip{clip.ending}"), "proof", "ends"):
        assert index.built_from == "decode"
        assert index.times_from in ("dts", "none")
        own = index.packets.pts[index.frame_packet]
        assert np.flatnonzero(np.diff(own) < 0).size > 0, "frames in the order in which they come"


def test_M22_a_ctts_table_that_goes_backwards_in_the_middle(tmp_path: Path) -> None:
    spec = ClipSpec(FRAMES, codec="mpeg4", b_frames=2, gop=25)
    clip = clip_bytes(spec, "mp4")
    clip = bitstreams.replace_box(clip, "moov.trak.edts", bitstreams.make_box("free", b""))
    packets, _ = take_packets(clip)
    offsets = [(packet.pts or 0) - (packet.dts or 0) for packet in packets]
    step = (packets[1].dts or 0) - (packets[0].dts or 0)
    right = [offset + DELAY * step for offset in offsets]
    wrong = list(right)
    wrong[MIDDLE], wrong[MIDDLE + 1] = right[MIDDLE + 1] + step, right[MIDDLE] - step
    for rows, built_from, times_from in ((right, "packets+ends", "pts"), (wrong, "decode", "dts")):
        path = tmp_path / "edited.mp4"
        path.write_bytes(
            bitstreams.replace_box(
                clip, f"{bitstreams.STBL}.ctts", bitstreams.make_table("ctts", *((1, row) for row in rows))
            )
        )
        for index in check(path, "proof", "ends"):
            assert (index.built_from, index.times_from) == (built_from, times_from)


def _unknown_units(stream: Stream) -> Stream:
    """Put units of scalable coding into a packet, so that H.264 is not proved."""
    return edit(stream, [12], lambda units: [b"\x6e\x88\x11\x22", *units])


def _deep_late() -> Stream:
    """Pictures are reordered from the middle on, which the configuration denies."""
    stream = with_sets(late_b(), with_depth(0))
    packets = list(stream.packets)
    packets[12] = replace(packets[12], data=b"\0\0\0\1\x6e\x88\x11\x22" + packets[12].data)
    return stream.with_packets(packets)


def _late_b() -> Stream:
    """B-VOPs begin in the middle, under a configuration that denies them."""
    first, second = (encode(Clip("mpeg4", MKV, b_frames)) for b_frames in (0, 2))
    packets = [*delayed(joined(first, second))]
    return first.with_packets(packets)


def _decoding_times() -> Stream:
    """Packets of MPEG-4 with B-VOPs whose times are those of decoding, as of AVI files."""
    stream = encode(Clip("mpeg4", MKV, 2))
    return stream.with_packets(replace(packet, pts=packet.dts) for packet in stream.packets)


def _packed() -> Stream:
    """Two VOPs in one packet in the middle."""
    stream = encode(Clip("mpeg4", MKV, 2))
    packets = delayed(stream)
    packets[MIDDLE : MIDDLE + 2] = [replace(packets[MIDDLE], data=packets[MIDDLE].data + packets[MIDDLE + 1].data)]
    return stream.with_packets(packets)


def _layered() -> Stream:
    """In the middle another configuration comes in a packet."""
    first, second = (encode(Clip("mpeg4", MKV, b_frames)) for b_frames in (2, 0))
    both = joined(first, second)
    sets = second.template
    at = sets.index(b"\0\0\1\x20")
    packets = delayed(both)
    packets[FRAMES] = replace(packets[FRAMES], data=sets[at : at + 18] + packets[FRAMES].data)
    return first.with_packets(packets)


ODD: dict[str, Callable[[], Stream]] = {
    "H.264 of unknown units": lambda: swapped(_unknown_units(h264(num_frames=FRAMES))),
    "H.264 of unknown units, late depth": lambda: _deep_late(),
    "HEVC of unknown units": lambda: swapped(
        edit(hevc(num_frames=FRAMES), [12], lambda units: [b"\x60\x01\x00", *units])
    ),
    "H.264 without an IDR picture": lambda: swapped(cut_at(h264("open-gop=1:bframes=3:b-adapt=0", 200), 31)),
    "MPEG-4, B-VOPs late": _late_b,
    "MPEG-4, times of decoding": _decoding_times,
    "MPEG-4, two in a packet": _packed,
    "MPEG-4, another configuration": _layered,
}


@pytest.mark.parametrize("name", ODD)
def test_what_does_not_say_its_order_is_decoded(name: str, tmp_path: Path) -> None:
    for index in check(ODD[name]().write(tmp_path / "odd.mkv"), "proof", "ends"):
        assert index.built_from == "decode"


HONEST = [
    *(Clip("mpeg4", ending, b_frames) for ending in (MP4, MKV) for b_frames in (0, 2)),
    Clip("mjpeg", MKV, pixel_format="yuvj420p"),
    Clip("libx264", MP4, 2),
    Clip("libx265", MKV, 2),
]


@pytest.mark.parametrize("clip", HONEST, ids=str)
def test_honest_times_need_no_full_decoding(clip: Clip, tmp_path: Path) -> None:
    path = encode(clip).write(tmp_path / f"clip{clip.ending}")
    assert check(path, "ends")[0].built_from == "packets+ends"
    assert build_index(path).built_from != "decode"


def test_unknown_units_alone_need_no_full_decoding(tmp_path: Path) -> None:
    path = _unknown_units(h264(num_frames=FRAMES)).write(tmp_path / "prefixed.mkv")
    assert [index.built_from for index in check(path, "proof", "ends")] == ["packets+ends"] * 2


@pytest.mark.parametrize(
    "make",
    [lambda: swapped(encode(Clip("mpeg4", MKV))), lambda: swapped(h264(num_frames=FRAMES))],
    ids=["MPEG-4", "H.264"],
)
def test_an_index_that_believes_the_times_in_the_middle_is_caught(make: Callable[[], Stream], tmp_path: Path) -> None:
    path = make().write(tmp_path / "wrong.mkv")
    misled, full = build_index(path, "none"), build_index(path, "full")
    assert misled.times_from == "pts"
    assert not same(replace(misled, built_from="decode"), full)

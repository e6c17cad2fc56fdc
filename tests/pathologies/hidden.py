"""Streams whose packets and frames are not one to one: hidden and repeated pictures, and fields."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt

from framefeed.testing import ClipSpec, Coded, draw_stamp, put_packets, take_packets
from tests.pathologies.bitstreams.h264 import code_fields
from tests.pathologies.build import make_from_spec, write_packets_of
from tests.pathologies.facts import MediaFacts, Pathology

_SHOWN = 100
_NEVER_SHOWN = 60000
_FIELD_CLIP = ClipSpec(num_frames=31)
_FILM = ClipSpec(codec="mpeg2video", b_frames=2)
_INTERLACED = {"flags": "+ilme+ildct"}


def _is_hidden(ordinal: int) -> bool:
    """Every 17th frame, as far apart as an encoder's alternate references."""
    return ordinal % 17 == 9


def _hide(packets: list[Coded]) -> Iterator[Coded]:
    """Hide pictures of VP8 (RFC 6386, 9.1: show_frame), and close the gaps in time."""
    shown = 0
    for ordinal, packet in enumerate(packets):
        pts = shown * 40
        if _is_hidden(ordinal):
            hidden = bytes([packet.data[0] & ~0x10]) + packet.data[1:]
            yield replace(packet, data=hidden, pts=pts, dts=pts, is_key=False)
        else:
            yield replace(packet, pts=pts, dts=pts)
            shown += 1


def _draw_alternating(ordinal: int) -> npt.NDArray[np.uint8]:
    number = _NEVER_SHOWN if _is_hidden(ordinal) else ordinal - sum(map(_is_hidden, range(ordinal)))
    return draw_stamp(number, 96, 128)


_ALTERNATING = ClipSpec(num_frames=106, codec="libvpx", gop=60, b_frames=None, draw=_draw_alternating)


def _bundle(packets: list[Coded]) -> Iterator[Coded]:
    """Split each key frame of VP9 into one that is not shown and one byte that shows it, in one superframe."""
    for packet in packets:
        if not packet.is_key:
            yield packet
            continue
        # show_frame is bit 1 of the first byte; 0x88 is a frame header of nothing but "show slot 0".
        frames = [bytes([packet.data[0] & ~0x02]) + packet.data[1:], b"\x88"]
        marker = bytes([0b110_01_000 | len(frames) - 1])
        index = b"".join(len(frame).to_bytes(2, "little") for frame in frames)
        yield replace(packet, data=b"".join(frames) + marker + index + marker)


def _count_superframes(facts: MediaFacts) -> int:
    packets, _ = take_packets(facts.path.read_bytes())
    return sum(packet.data[-1] >> 5 == 0b110 for packet in packets)


def _draw_planes(number: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Draw the fields of a picture: Y [64, 64], U and V [32, 32]."""
    picture = av.VideoFrame.from_ndarray(draw_stamp(number, 64, 64), "rgb24").reformat(format="yuv420p", threads=1)
    stacked = picture.to_ndarray()
    luma, chroma = stacked[:64], stacked[64:].reshape(2, 32, 32)
    return luma, chroma[0], chroma[1]


def _write_fields(path: Path) -> None:
    fields = code_fields([_draw_planes(ordinal) for ordinal in range(_FIELD_CLIP.num_frames)], gop=10)
    packets = [Coded(field, number, number, number % 20 == 0, 1) for number, field in enumerate(fields)]
    put_packets(path, b"".join(fields), packets, 1 / (2 * Fraction(_FIELD_CLIP.fps)))


def _pull_down(packets: list[Coded]) -> Iterator[Coded]:
    """Ask for a third field of every other picture, as film at 24 frames a second does on NTSC.

    ISO 13818-2: 6.2.2.3 progressive_sequence, 6.2.3.1 top_field_first and repeat_first_field.
    """
    order = sorted(packet.pts or 0 for packet in packets)
    for packet in packets:
        data = bytearray(packet.data)
        sequence = data.find(b"\x00\x00\x01\xb5\x14")
        if sequence >= 0:
            data[sequence + 5] &= ~0x08
        turn = order.index(packet.pts or 0) % 4
        data[_find_coding_extension(data) + 3] |= (0x82, 0x00, 0x02, 0x80)[turn]
        yield replace(packet, data=bytes(data))


def _find_coding_extension(data: bytes | bytearray) -> int:
    """Find the offset of the fields of the picture coding extension, after the picture header."""
    return data.index(b"\x00\x00\x01\xb5", data.index(b"\x00\x00\x01\x00")) + 4


def _draw_woven(ordinal: int) -> npt.NDArray[np.uint8]:
    """Draw two frame numbers in one picture, one in each field, as an interlaced camera does."""
    picture, later = draw_stamp(2 * ordinal, 96, 128), draw_stamp(2 * ordinal + 1, 96, 128)
    picture[49::2] = later[49::2]
    picture[:48] = draw_stamp(ordinal, 96, 128)[:48]
    return picture


def _count_repeated(facts: MediaFacts) -> int:
    packets, _ = take_packets(facts.path.read_bytes())
    pictures = [packet.data for packet in packets if b"\x00\x00\x01\xb5" in packet.data]  # of MPEG-2
    return sum(data[_find_coding_extension(data) + 3] >> 1 & 1 for data in pictures)


HIDDEN = (
    Pathology(
        "hidden_vp8.webm",
        "M11",
        "106 packets, 100 frames: six pictures are only there to lean on",
        write_packets_of(_ALTERNATING, _hide, via="webm"),
        lambda facts: (len(facts.packets), len(facts.frames)) == (106, _SHOWN),
        tuple(range(_SHOWN)),
    ),
    Pathology(
        "superframes_vp9.webm",
        "M11",
        "packets that hold a picture never shown and a header that shows it",
        write_packets_of(ClipSpec(codec="libvpx-vp9", b_frames=None), _bundle, via="webm"),
        lambda facts: _count_superframes(facts) == 4,
        tuple(range(100)),
    ),
    make_from_spec(
        "temporal_units_av1.mp4",
        "M11",
        ClipSpec(num_frames=50, codec="libsvtav1", b_frames=None),
        "packets of one byte of picture: they show one that came earlier",
        lambda facts: sum(packet.size <= 5 for packet in facts.packets) > 10,
    ),
    *(
        Pathology(
            name,
            "M12",
            "62 packets, 31 frames: each packet is one field",
            _write_fields,
            lambda facts: (len(facts.packets), len(facts.frames)) == (62, 31),
            _FIELD_CLIP.stamps,
        )
        for name in ("fields.mkv", "fields.mp4", "fields.ts")
    ),
    Pathology(
        "telecine.mpg",
        "M12",
        "every other frame asks to be shown for three fields",
        write_packets_of(_FILM, _pull_down, via="mpegts"),
        lambda facts: _count_repeated(facts) == 50,
        _FILM.stamps,
    ),
    make_from_spec(
        "interlaced.mp4",
        "P05",
        ClipSpec(draw=_draw_woven, codec_options=_INTERLACED),
        "two moments in every frame",
        lambda facts: all(frame.is_interlaced for frame in facts.frames),
    ),
    make_from_spec(
        "interlaced_mpeg2.mpg",
        "P05",
        replace(_FILM, draw=_draw_woven, codec_options=_INTERLACED),
        "two moments in every frame",
        lambda facts: all(frame.is_interlaced for frame in facts.frames),
    ),
)

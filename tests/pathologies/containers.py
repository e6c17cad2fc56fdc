"""Containers with edit lists, without an index, or with changes in the middle."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from framefeed.testing import ClipSpec, Coded, clip_bytes, put_packets, take_packets
from tests.pathologies import bitstreams
from tests.pathologies.bitstreams.mpeg4 import pack_b_frames
from tests.pathologies.build import make_from_spec, write_bytes_of, write_packets_of
from tests.pathologies.facts import MediaFacts, Pathology, find_missed_by_seeking

_MPEG4_ONE_B = ClipSpec(
    num_frames=50, codec="mpeg4", b_frames=1, codec_options={"b_strategy": "0", "sc_threshold": "1000000000"}
)
# FFmpeg's encoder closes GOPs only where it need not look for scene changes.
_CLOSED_MPEG2 = ClipSpec(codec="mpeg2video", b_frames=2, codec_options={"flags": "+cgop", "sc_threshold": "1000000000"})
_HALF = ClipSpec(num_frames=25)
_SECOND_HALF = replace(_HALF, first_stamp=25)
_SMALL_HALF = replace(_HALF, height=48, width=64)
_WIDE_CHROMA = replace(_HALF, codec="mjpeg", pixel_format="yuvj422p", gop=None, b_frames=None)
_NARROW_CHROMA = replace(_WIDE_CHROMA, pixel_format="yuvj420p", first_stamp=25)
_FRAGMENTS = {"movflags": "frag_keyframe+empty_moov+default_base_moof"}
# Without entropy coding by CABAC: its key frames cannot be read with the other half's parameter sets.
_OTHER_CODING = replace(_SECOND_HALF, b_frames=0, codec_options={"x264-params": "cabac=0:8x8dct=0"})
# Units a second that the MP4 muxer chooses for 25 frames a second.
_MP4_TICKS = 12800


def _cut_at(ticks: int, packets: list[Coded]) -> list[Coded]:
    """Cut without decoding: from the key frame before, so that times up to the cut are negative."""
    keys = [number for number, packet in enumerate(packets) if packet.is_key and _require_time(packet.pts) <= ticks]
    return [
        replace(packet, pts=_require_time(packet.pts) - ticks, dts=_require_time(packet.dts) - ticks)
        for packet in packets[keys[-1] :]
    ]


def _require_time(time: int | None) -> int:
    assert time is not None
    return time


def _make_two_edits() -> bytes:
    """Show the first and the third second of four."""
    data = clip_bytes(replace(ClipSpec(), b_frames=0), "mp4")
    # Segment duration in the movie's milliseconds, media time in the track's ticks, rate 1.
    rows = [(1000, 0, 1 << 16), (1000, 2 * _MP4_TICKS, 1 << 16)]
    return bitstreams.replace_box(data, "moov.trak.edts.elst", bitstreams.make_table("elst", *rows))


def _write_two_descriptions(path: Path) -> None:
    """Join two encodings of equal size in one track: each half has its own entry in the sample description table."""
    first, second = clip_bytes(replace(_HALF, b_frames=0), "mp4"), clip_bytes(_OTHER_CODING, "mp4")
    packets, time_base = take_packets(first)
    packets += _delay(take_packets(second)[0], by=_MP4_TICKS)
    put_packets(path, first, packets, time_base)
    data = path.read_bytes()
    entries = [bitstreams.read_payload(media, f"{bitstreams.STBL}.stsd")[8:] for media in (data, second)]
    data = bitstreams.replace_box(
        data, f"{bitstreams.STBL}.stsd", bitstreams.make_box("stsd", struct.pack(">II", 0, 2) + b"".join(entries))
    )
    start = bitstreams.find_box(data, "mdat")[0] + 8
    # One sample a chunk, so that the border between the halves is a border of chunks.
    sizes = [len(packet.data) for packet in packets]
    offsets = [(start + sum(sizes[:number]),) for number in range(len(sizes))]
    data = bitstreams.replace_box(data, f"{bitstreams.STBL}.stco", bitstreams.make_table("stco", *offsets))
    chunks = bitstreams.make_table("stsc", (1, 1, 1), (len(sizes) // 2 + 1, 1, 2))
    path.write_bytes(bitstreams.replace_box(data, f"{bitstreams.STBL}.stsc", chunks))


def _delay(packets: list[Coded], by: int) -> list[Coded]:
    return [
        replace(packet, pts=_require_time(packet.pts) + by, dts=_require_time(packet.dts) + by) for packet in packets
    ]


def _count_descriptions(facts: MediaFacts) -> int:
    return int.from_bytes(bitstreams.read_payload(facts.path.read_bytes(), f"{bitstreams.STBL}.stsd")[4:8])


def _pack(packets: list[Coded]) -> Iterator[Coded]:
    for number, packet in enumerate(pack_b_frames(packets, ticks_per_second=25)):
        yield replace(packet, pts=number, dts=number)


def _join(first: ClipSpec, second: ClipSpec, container_format: str) -> bytes:
    return clip_bytes(first, container_format) + clip_bytes(second, container_format)


def _write_chroma_change(path: Path) -> None:
    clip = clip_bytes(_WIDE_CHROMA, "matroska")
    packets, time_base = take_packets(clip)
    packets += _delay(take_packets(clip_bytes(_NARROW_CHROMA, "matroska"))[0], by=1000)
    put_packets(path, clip, packets, time_base)


def _list_sizes(facts: MediaFacts) -> set[tuple[int, int]]:
    return {(frame.height, frame.width) for frame in facts.frames}


def _is_missed_by_seeking(facts: MediaFacts) -> bool:
    return len(find_missed_by_seeking(facts, step=5)) > 5


def _has_box(facts: MediaFacts, kind: bytes) -> bool:
    return kind in facts.path.read_bytes()


EDIT_LISTS = (
    Pathology(
        "edit_list.mp4",
        "M06",
        "75 packets, 62 frames: the first 13 are cut away by the edit list",
        write_packets_of(ClipSpec(), lambda packets: _cut_at(_MP4_TICKS * 3 // 2, packets), via="mp4"),
        lambda facts: (len(facts.packets), len(facts.frames)) == (75, 62),
        tuple(range(38, 100)),
    ),
    Pathology(
        "edit_list_twice.mp4",
        "M06",
        "the edit list cuts the middle out",
        write_bytes_of(_make_two_edits),
        lambda facts: facts.num_frames_from_header == 100 and len(facts.frames) == 50,
        (*range(25), *range(50, 75)),
    ),
    Pathology(
        "edit_list_all.mp4",
        "M16",
        "the edit list cuts every frame away",
        write_packets_of(ClipSpec(), lambda packets: _cut_at(_MP4_TICKS * 8, packets), via="mp4"),
        lambda facts: facts.num_frames_from_header > 0 == len(facts.frames),
        (),
    ),
)

STREAMED = (
    *(
        make_from_spec(name, "M09", spec, "no index: plain seeks land behind the frame", _is_missed_by_seeking)
        for name, spec in (
            ("closed_gop.ts", ClipSpec()),
            ("closed_gop.m2ts", ClipSpec()),
            ("closed_gop_mpeg2.ts", _CLOSED_MPEG2),
            ("closed_gop_mpeg2.mpg", _CLOSED_MPEG2),
            ("closed_gop_mpeg1.mpg", replace(_CLOSED_MPEG2, codec="mpeg1video")),
        )
    ),
    make_from_spec(
        "sparse_pts.mpg",
        "M07",
        ClipSpec(),
        "only the first frame of a pack has a time",
        lambda facts: facts.frame_pts.count(None) > 50,
    ),
    make_from_spec(
        "fragmented.mp4",
        "M21",
        replace(ClipSpec(), container_options=_FRAGMENTS),
        "the movie box lists no sample",
        lambda facts: _has_box(facts, b"moof") and facts.num_frames_from_header == 0,
    ),
    make_from_spec(
        "faststart.mp4",
        "M21",
        replace(ClipSpec(), container_options={"movflags": "+faststart"}),
        "the movie box comes first",
        lambda facts: facts.path.read_bytes().index(b"moov") < facts.path.read_bytes().index(b"mdat"),
    ),
    make_from_spec(
        "no_cues.mkv",
        "M21",
        replace(ClipSpec(), container_options={"live": "1"}),
        "no cues, no duration",
        # Identifier of the Cues element.
        lambda facts: not _has_box(facts, b"\x1c\x53\xbb\x6b"),
    ),
)

CHANGING = (
    Pathology(
        "packed_b_frames.avi",
        "M07",
        "B-frames ride in the packet of another frame",
        write_packets_of(_MPEG4_ONE_B, _pack, via="avi"),
        lambda facts: sum(packet.size < 10 for packet in facts.packets) > 15,
        _MPEG4_ONE_B.stamps,
    ),
    Pathology(
        "two_resets.ts",
        "M23",
        "time starts anew in the middle",
        write_bytes_of(lambda: _join(_HALF, _SECOND_HALF, "mpegts")),
        lambda facts: facts.num_backward == 1,
        tuple(range(50)),
    ),
    *(
        Pathology(
            name,
            "P04",
            "the picture size changes in the middle",
            write_bytes_of(lambda kind=kind: _join(_SMALL_HALF, _SECOND_HALF, kind)),  # type: ignore[misc]
            lambda facts: _list_sizes(facts) == {(48, 64), (96, 128)},
            tuple(range(50)),
        )
        for name, kind in (("size_change.ts", "mpegts"), ("size_change.h264", "h264"))
    ),
    Pathology(
        "chroma_change.mkv",
        "P04",
        "the pixel format changes in the middle, the size does not",
        _write_chroma_change,
        lambda facts: {frame.pixel_format for frame in facts.frames} == {"yuvj422p", "yuvj420p"},
        tuple(range(50)),
    ),
    Pathology(
        "two_descriptions.mp4",
        "P04",
        "the second half has its own parameter sets in a second sample description",
        _write_two_descriptions,
        lambda facts: _count_descriptions(facts) == 2,
        tuple(range(50)),
    ),
)
CONTAINERS = (*EDIT_LISTS, *STREAMED, *CHANGING)

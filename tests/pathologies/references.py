"""Frames with unusual references, and false or missing key frames."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from framefeed.testing import ClipSpec, Coded, clip_bytes, put_packets, take_packets
from tests.pathologies import bitstreams
from tests.pathologies.bitstreams.h264 import has_usability_information, remove_usability_information
from tests.pathologies.build import make_from_spec, write_bytes_of, write_packets_of
from tests.pathologies.facts import MediaFacts, Pathology

# Key interval 28, not 25: then the last mini-GOP before a key frame is full, and its B-frames refer to the key frame.
_OPEN_H264 = ClipSpec(
    gop=None,
    b_frames=None,
    codec_options={"x264-params": "open-gop=1:keyint=28:min-keyint=28:scenecut=0:bframes=3:b-adapt=0"},
)
_OPEN_HEVC = replace(
    _OPEN_H264,
    codec="libx265",
    codec_options={"x265-params": "open-gop=1:keyint=28:min-keyint=28:scenecut=0:bframes=3:b-adapt=0"},
)
# FFmpeg's MPEG-2 encoder leaves GOPs open unless told otherwise.
_OPEN_MPEG2 = ClipSpec(codec="mpeg2video", gop=12, b_frames=2)
_PYRAMID = ClipSpec(
    gop=50, b_frames=None, codec_options={"x264-params": "bframes=7:b-adapt=0:b-pyramid=normal:ref=4:scenecut=0"}
)
_LONG = ClipSpec(num_frames=500, height=48, width=64, gop=9999, codec_options={"sc_threshold": "0"})
# Every 30 frames x264 starts another sweep of intra columns, and flags that frame as a key frame.
_REFRESHED = ClipSpec(gop=None, b_frames=None, codec_options={"x264-params": "intra-refresh=1:keyint=30:bframes=0"})

_LEADING = "pictures that follow a key frame in the file and are shown before it"


def _make_b_frames(count: int) -> Pathology:
    params = f"bframes={count}:b-adapt=0:scenecut=0:keyint=250"
    spec = ClipSpec(num_frames=40, gop=None, b_frames=None, codec_options={"x264-params": params})
    trait = f"up to {count} B-frames in a row"
    return make_from_spec(f"bframes_{count}.mp4", "M03", spec, trait, lambda facts: facts.longest_b_run == count)


def _write_without_reorder_depth(path: Path) -> None:
    """Write a pyramid of B-frames whose parameter sets do not say how deep it reorders."""
    timed, time_base = take_packets(clip_bytes(_PYRAMID, "mp4"))
    stream = remove_usability_information(clip_bytes(_PYRAMID, "h264"))
    coded, _ = take_packets(stream)
    packets = [replace(when, data=what.data) for when, what in zip(timed, coded, strict=True)]
    put_packets(path, stream, packets, time_base)


def _is_without_reorder_depth(facts: MediaFacts) -> bool:
    record = bitstreams.read_payload(facts.path.read_bytes(), bitstreams.AVCC)
    # ISO 14496-15: five bytes, the number of sequence parameter sets, the size of the first.
    sps = record[8 : 8 + int.from_bytes(record[6:8])]
    return not has_usability_information(sps) and facts.longest_b_run == 7


def _remove_key_flags(packets: list[Coded]) -> Iterator[Coded]:
    return (replace(packet, is_key=False) for packet in packets)


def _start_at_second_key(packets: list[Coded]) -> list[Coded]:
    """Start at the second key frame, whose leading pictures then refer to missing frames."""
    keys = [number for number, packet in enumerate(packets) if packet.is_key]
    return packets[keys[1] :]


def _drop_first_packets(packets: list[Coded]) -> list[Coded]:
    return packets[10:]


def _shift_keys() -> bytes:
    """Let the sync sample table name the third sample after each key frame instead."""
    data = clip_bytes(ClipSpec(b_frames=0), "mp4")
    rows = [(sample + 3,) for sample in (1, 26, 51, 76)]
    return bitstreams.replace_box(data, f"{bitstreams.STBL}.stss", bitstreams.make_table("stss", *rows))


def _cut_stream() -> bytes:
    """Keep the tables at the start of a transport stream, and go on in the middle of a GOP."""
    data = clip_bytes(ClipSpec(), "mpegts")
    third = len(data) // 188 // 3 * 188
    return data[: 3 * 188] + data[third:]


REFERENCES = (
    *(
        make_from_spec(
            name,
            "M03",
            ClipSpec(),
            "B-frames in closed GOPs",
            lambda facts: facts.longest_b_run > 0 == facts.num_leading,
        )
        for name in ("base.mp4", "base.mkv")
    ),
    *(_make_b_frames(count) for count in range(9)),
    Pathology(
        "silent_pyramid.mp4",
        "M03",
        "seven B-frames in a row, in a pyramid, and a stream that does not say how deep it reorders",
        _write_without_reorder_depth,
        _is_without_reorder_depth,
        _PYRAMID.stamps,
    ),
    make_from_spec(
        "mpeg4_bframes.mp4",
        "M03",
        ClipSpec(codec="mpeg4", b_frames=2),
        "MPEG-4 part 2 with B-frames",
        lambda facts: facts.longest_b_run == 2,
    ),
    *(
        make_from_spec(f"open_gop{suffix}", "M04", spec, _LEADING, lambda facts: facts.num_leading > 0)
        for suffix, spec in (
            (".mp4", _OPEN_H264),
            (".mkv", _OPEN_H264),
            (".ts", _OPEN_H264),
            ("_hevc.mp4", _OPEN_HEVC),
            ("_hevc.mkv", _OPEN_HEVC),
            ("_hevc.ts", _OPEN_HEVC),
            ("_mpeg2.ts", _OPEN_MPEG2),
            ("_mpeg2.mpg", _OPEN_MPEG2),
        )
    ),
    Pathology(
        "mid_gop.ts",
        "M13",
        "the first packets lead to no frame: their key frame is gone",
        write_bytes_of(_cut_stream),
        lambda facts: not facts.packets[0].is_key and len(facts.packets) > len(facts.frames),
        tuple(range(50, 100)),
    ),
    Pathology(
        "late_key.mp4",
        "M13",
        "the first sync sample is not the first sample",
        write_packets_of(ClipSpec(b_frames=0), _drop_first_packets, via="mp4"),
        lambda facts: not facts.packets[0].is_key,
        tuple(range(25, 100)),
    ),
    *(
        Pathology(
            f"open_start{suffix}",
            "M13",
            "the first key frame's leading pictures cannot be decoded",
            write_packets_of(spec, _start_at_second_key, via="mp4"),
            lambda facts: facts.packets[0].is_key and facts.num_leading > 0 < len(facts.packets) - len(facts.frames),
            tuple(range(first, 100)),
        )
        for suffix, spec, first in (
            (".mp4", _OPEN_H264, 28),
            ("_hevc.mp4", _OPEN_HEVC, 28),
            ("_hevc.mkv", _OPEN_HEVC, 28),
        )
    ),
    Pathology(
        "no_key_flags.mkv",
        "M14",
        "the container knows of no key frame, the decoder of four",
        write_packets_of(ClipSpec(), _remove_key_flags),
        lambda facts: not facts.container_keys and len(facts.true_keys) == 4,
        tuple(range(100)),
    ),
    Pathology(
        "all_key_flags.mp4",
        "M14",
        "the container calls every frame a key frame, the decoder four",
        write_packets_of(ClipSpec(), _remove_key_flags, via="mp4"),
        lambda facts: len(facts.container_keys) == 100 and len(facts.true_keys) == 4,
        tuple(range(100)),
    ),
    Pathology(
        "shifted_key_flags.mp4",
        "M14",
        "the container's key frames are three frames late",
        write_bytes_of(_shift_keys),
        lambda facts: facts.container_keys == tuple(key + 3 for key in facts.true_keys),
        tuple(range(100)),
    ),
    *(
        make_from_spec(
            name,
            "M14",
            _REFRESHED,
            "four packets are flagged as key frames, one is",
            lambda facts: sum(packet.is_key for packet in facts.packets) == 4 > len(facts.true_keys) == 1,
        )
        for name in ("intra_refresh.mp4", "intra_refresh.ts")
    ),
    make_from_spec(
        "long_gop.mp4", "M15", _LONG, "500 frames behind one key frame", lambda facts: len(facts.true_keys) == 1
    ),
)

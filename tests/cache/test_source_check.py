"""SourceCheck: the bytes that a frame depends on, all of them, and not those behind it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from framefeed.cache._keys import NO_STAMP, SourceCheck, read_stamp
from framefeed.decode import decoder_named
from framefeed.errors import FramefeedError
from framefeed.media import MediaSource
from framefeed.plan import OutputSpec
from tests.cache.media import Video
from tests.corpus import corpus_file

FILES = ["bframes_3.mp4", "base.mkv", "closed_gop.ts", "open_gop.mp4", "open_gop_hevc.mkv", "long_gop.mp4",
         "packed_b_frames.avi", "raw.h264", "sound_first.mp4", "fields.mp4", "fields.ts", "fields.mkv",
         "interlaced_mpeg2.mpg", "hidden_vp8.webm", "closed_gop_mpeg1.mpg", "full_range.avi"]  # fmt: skip


def contents_of(data: bytes, of: Video) -> np.ndarray:
    """What the frames of an index depend on in other bytes of the same size."""
    everything = np.arange(len(of.index), dtype=np.int64)
    return SourceCheck(MediaSource.of(data), of.index).hash_contents(everything)


@pytest.mark.parametrize("name", FILES)
def test_C03_every_packet_that_a_frame_needs_is_in_its_hash(name: str) -> None:
    data = corpus_file(name).read_bytes()
    of = Video.of(data)
    before = contents_of(data, of)
    table, index = of.index.packets, of.index
    for packet in range(0, len(table), max(1, len(table) // 12)):
        if table.offset[packet] < 0:
            continue
        place = int(table.offset[packet] + table.size[packet] // 2)
        changed = data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]
        differs = contents_of(changed, of) != before
        needs = (index.frame_start <= packet) & (packet <= index.frame_packet)
        assert differs[needs].all(), f"packet {packet}"


@pytest.mark.parametrize("name", ["fields.mp4", "fields.mkv", "fields.ts", "interlaced_mpeg2.mpg", "full_range.avi",
                                  "gray.mkv", "alpha.mkv", "vfr.mkv", "superframes_vp9.webm"])  # fmt: skip
def test_C03_whatever_byte_changes_a_frame_changes_its_hash(name: str) -> None:
    """The oracle is the decoder: no byte is flipped that it notices and the hash does not."""
    data = bytearray(corpus_file(name).read_bytes())
    of, output = Video.of(bytes(data)), OutputSpec()
    rng = np.random.default_rng(len(data))
    numbers = sorted(rng.integers(0, len(of.index), 3).tolist())
    before = [of.decoded(decoder_named(), ([number], output))[0][0] for number in numbers]
    hashes = contents_of(bytes(data), of)[numbers]
    around = of.index.packets.offset[of.index.frame_packet[numbers]]
    places = [int(place) + shift for place in around for shift in range(-40, 400, 11)]
    noticed = 0
    for place in [*places, *range(0, 700, 13)]:
        if not 0 <= place < len(data):
            continue
        data[place] ^= 0x15
        changed = Video(MediaSource.of(bytes(data)), of.index)
        now = contents_of(bytes(data), of)[numbers]
        for number, old, frame, new in zip(numbers, hashes, before, now, strict=True):
            if old != new:
                continue
            try:
                clips, report = changed.decoded(decoder_named(), ([number], output))
            except FramefeedError:
                continue
            noticed += report.errors == [None]
            assert report.errors != [None] or np.array_equal(clips[0], frame), f"byte {place}, frame {number}"
        data[place] ^= 0x15
    assert noticed or not of.index.stream.contiguous, "some flips are of other frames"


def test_a_change_behind_a_frame_does_not_touch_it() -> None:
    data = corpus_file("bframes_3.mp4").read_bytes()
    of = Video.of(data)
    last = int(of.index.packets.offset.argmax())
    place = int(of.index.packets.offset[last]) + 3
    changed = data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]
    same = contents_of(changed, of) == contents_of(data, of)
    assert same.sum() > len(of.index) // 2


def test_hashes_do_not_depend_on_what_else_is_asked_for() -> None:
    of = Video.of(corpus_file("bframes_3.mp4"))
    check = SourceCheck(of.source, of.index)
    all_of_them = check.hash_contents(np.arange(len(of.index)))
    for ordinals in ([7], [30, 2, 2, 31], list(range(len(of.index)))[::-3]):
        np.testing.assert_array_equal(check.hash_contents(np.array(ordinals)), all_of_them[ordinals])


def test_a_stamp_changes_with_the_file_and_not_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    first = read_stamp(str(path))
    assert read_stamp(str(path)) == first != NO_STAMP
    facts = path.stat()
    path.write_bytes(b"abd")
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert read_stamp(str(path)) != first, "the time of change tells, which nobody can set"
    assert read_stamp(str(tmp_path / "none")) == NO_STAMP


def test_bytes_have_no_stamp() -> None:
    of = Video.of(corpus_file("base.mp4").read_bytes())
    assert SourceCheck(of.source, of.index).read_stamps(np.array([0, 1])).tolist() == [NO_STAMP, NO_STAMP]

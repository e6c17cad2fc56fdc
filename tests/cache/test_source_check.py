"""SourceCheck: the bytes that a frame depends on, all of them, and not those behind it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from framefeed.cache._keys import NO_STAMP, SourceCheck, read_lasting_stamp, read_stamp
from framefeed.decode import find_decoder
from framefeed.errors import FramefeedError
from framefeed.media import MediaSource
from framefeed.request import OutputSpec
from tests.cache.media import Video
from tests.corpus import corpus_file
from tests.lengths import IS_ALL

FILES = ["bframes_3.mp4", "base.mkv", "closed_gop.ts", "open_gop.mp4", "open_gop_hevc.mkv", "long_gop.mp4",
         "packed_b_frames.avi", "raw.h264", "sound_first.mp4", "fields.mp4", "fields.ts", "fields.mkv",
         "interlaced_mpeg2.mpg", "hidden_vp8.webm", "closed_gop_mpeg1.mpg", "full_range.avi"]  # fmt: skip


def contents_of(data: bytes, video: Video) -> np.ndarray:
    """What the frames of an index depend on in other bytes of the same size."""
    everything = np.arange(len(video.index), dtype=np.int64)
    return SourceCheck(MediaSource.of(data), video.index).hash_contents(everything)


@pytest.mark.parametrize("name", FILES)
def test_C03_every_packet_that_a_frame_needs_is_in_its_hash(name: str) -> None:
    data = corpus_file(name).read_bytes()
    video = Video.of(data)
    before = contents_of(data, video)
    table, index = video.index.packets, video.index
    for packet in range(0, len(table), max(1, len(table) // (12 if IS_ALL else 6))):
        if table.offset[packet] < 0:
            continue
        offset = int(table.offset[packet] + table.size[packet] // 2)
        changed = data[:offset] + bytes([data[offset] ^ 0xFF]) + data[offset + 1 :]
        differs = contents_of(changed, video) != before
        needs = (index.frame_start <= packet) & (packet <= index.frame_packet)
        assert differs[needs].all(), f"packet {packet}"


@pytest.mark.parametrize("name", ["fields.mp4", "fields.mkv", "fields.ts", "interlaced_mpeg2.mpg", "full_range.avi",
                                  "gray.mkv", "alpha.mkv", "vfr.mkv", "superframes_vp9.webm"])  # fmt: skip
def test_C03_whatever_byte_changes_a_frame_changes_its_hash(name: str) -> None:
    """The oracle is the decoder: no byte is flipped that it notices and the hash does not."""
    data = bytearray(corpus_file(name).read_bytes())
    video, output = Video.of(bytes(data)), OutputSpec()
    rng = np.random.default_rng(len(data))
    numbers = sorted(rng.integers(0, len(video.index), 3).tolist())
    before = [video.decoded(find_decoder(), ([number], output))[0][0] for number in numbers]
    hashes = contents_of(bytes(data), video)[numbers]
    around = video.index.packets.offset[video.index.frame_packet[numbers]]
    offsets = [int(offset) + shift for offset in around for shift in range(-40, 400, 11 if IS_ALL else 23)]
    noticed = 0
    for offset in [*offsets, *range(0, 700, 13 if IS_ALL else 29)]:
        if not 0 <= offset < len(data):
            continue
        data[offset] ^= 0x15
        changed = Video(MediaSource.of(bytes(data)), video.index)
        now = contents_of(bytes(data), video)[numbers]
        for number, old, frame, new in zip(numbers, hashes, before, now, strict=True):
            if old != new:
                continue
            try:
                clips, report = changed.decoded(find_decoder(), ([number], output))
            except FramefeedError:
                continue
            noticed += report.errors == [None]
            assert report.errors != [None] or np.array_equal(clips[0], frame), f"byte {offset}, frame {number}"
        data[offset] ^= 0x15
    assert noticed or not video.index.stream.contiguous, "some flips are of other frames"


def test_a_change_behind_a_frame_does_not_touch_it() -> None:
    data = corpus_file("bframes_3.mp4").read_bytes()
    video = Video.of(data)
    last = int(video.index.packets.offset.argmax())
    offset = int(video.index.packets.offset[last]) + 3
    changed = data[:offset] + bytes([data[offset] ^ 0xFF]) + data[offset + 1 :]
    same = contents_of(changed, video) == contents_of(data, video)
    assert same.sum() > len(video.index) // 2


def test_hashes_do_not_depend_on_other_requested_frames() -> None:
    video = Video.of(corpus_file("bframes_3.mp4"))
    check = SourceCheck(video.source, video.index)
    all_of_them = check.hash_contents(np.arange(len(video.index)))
    for ordinals in ([7], [30, 2, 2, 31], list(range(len(video.index)))[::-3]):
        np.testing.assert_array_equal(check.hash_contents(np.array(ordinals)), all_of_them[ordinals])


def test_a_stamp_changes_with_the_file_and_not_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    first = read_lasting_stamp(str(path))
    assert read_stamp(str(path)) == first != NO_STAMP
    facts = path.stat()
    path.write_bytes(b"abd")
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert read_stamp(str(path)) != first, "the time of change tells, which nobody can set"
    assert read_stamp(str(tmp_path / "none")) == NO_STAMP


def test_bytes_have_no_stamp() -> None:
    video = Video.of(corpus_file("base.mp4").read_bytes())
    assert SourceCheck(video.source, video.index).read_stamps(np.array([0, 1])).tolist() == [NO_STAMP, NO_STAMP]

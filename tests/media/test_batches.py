"""Containers read quickly: packets some at a time, formats by their first bytes, streams without decoding."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from framefeed._values import Limits
from framefeed.errors import LimitExceeded, MediaError, UnreadableMedia
from framefeed.index import build_index, is_upright
from framefeed.media._container import Packet, VideoContainer
from framefeed.media._libav_input import name_known_format
from framefeed.media._packets import walk_packets
from framefeed.media._source import MediaSource
from framefeed.parallel import Cancelled, cancelled_by
from framefeed.testing import ClipSpec, clip_bytes
from tests.bitstreams.vpx_mutants import ivf, packets
from tests.corpus import corpus_file

FILES = ("base.mp4", "base.mkv", "closed_gop.ts", "no_pts.avi", "hidden_vp8.webm", "superframes_vp9.webm")


def _facts(packet: Packet) -> tuple[object, ...]:
    return packet.pts, packet.dts, packet.pos, packet.duration, packet.is_keyframe, bytes(packet)


@pytest.mark.parametrize("name", FILES)
def test_batches_hold_the_packets_that_come_one_by_one(name: str) -> None:
    with VideoContainer(MediaSource.of(corpus_file(name)), headers_only=True) as container:
        one_by_one = [_facts(packet) for packet in container.packets()]
    with VideoContainer(MediaSource.of(corpus_file(name)), headers_only=True) as container:
        at_once = [[_facts(packet) for packet in batch] for batch in container.batches()]
    assert [facts for batch in at_once for facts in batch] == one_by_one
    assert max(map(len, at_once)) == 64


def test_a_batch_is_bounded() -> None:
    clip = clip_bytes(ClipSpec(16, 720, 1280, codec="rawvideo", b_frames=None, gop=None), "avi")
    with VideoContainer(MediaSource.of(clip)) as container:
        assert [len(batch) for batch in container.batches()] == [1] * 16


@pytest.mark.parametrize("number", [0, 1, 15, 29])
def test_a_packet_of_too_many_bytes_is_refused_wherever_it_is(number: int) -> None:
    stream = packets("vp8")
    stream[number] += bytes(5000)
    limits = Limits(max_packet_bytes=4096)
    source = MediaSource.of(ivf("vp8", stream))
    with (
        VideoContainer(source, limits=limits) as container,
        pytest.raises(LimitExceeded, match="more than max_packet_bytes=4096 allows"),
    ):
        walk_packets(container)


def test_more_packets_than_allowed_are_refused() -> None:
    data = ivf("vp8", packets("vp8") * 5)
    with pytest.raises(LimitExceeded, match="more than max_packets=149 allows"):
        build_index(data, limits=Limits(max_packets=149))
    assert len(build_index(data, limits=Limits(max_packets=150))) == 150


class _Failing:
    """A file object that can be read for a while."""

    def __init__(self, data: bytes, readable: int, error: Exception) -> None:
        self.data, self.at, self.readable, self.error = data, 0, readable, error

    def seek(self, offset: int, whence: int = 0) -> int:
        self.at = offset + (0, self.at, len(self.data))[whence]
        return self.at

    def tell(self) -> int:
        return self.at

    def read(self, count: int = -1) -> bytes:
        end = len(self.data) if count < 0 else min(self.at + count, len(self.data))
        if end > self.readable:
            raise self.error
        found, self.at = self.data[self.at : end], end
        return found


@pytest.mark.parametrize("readable", [33_000, 70_000, 200_000])
def test_an_exception_of_a_read_ends_the_walk(readable: int) -> None:
    data = ivf("vp8", packets("vp8") * 40)
    assert len(data) > 200_000 + 2**15
    with pytest.raises(ZeroDivisionError):
        build_index(_Failing(data, readable, ZeroDivisionError()))


def test_a_cancelled_walk_ends() -> None:
    asked = iter([False] * 40)
    data = ivf("vp8", packets("vp8") * 200)
    with cancelled_by(lambda: next(asked, True)), pytest.raises(Cancelled):
        build_index(data)


# --- opening ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("container", "known"), [("ivf", "ivf"), ("webm", "matroska"), ("matroska", "matroska"), ("avi", None)]
)
def test_formats_are_known_by_their_first_bytes(container: str, known: str | None) -> None:
    clip = clip_bytes(ClipSpec(3, codec="libvpx", b_frames=None), container)
    assert name_known_format(clip[:64]) == known
    with VideoContainer(MediaSource.of(clip)) as opened:
        assert opened.format_name.split(",")[0] == (known or container)


@pytest.mark.parametrize(
    "head", [b"DKIF\0\0\x20\0", clip_bytes(ClipSpec(3, codec="libvpx", b_frames=None), "webm")[:64]]
)
def test_near_matches_of_a_format_are_left_to_libav(head: bytes) -> None:
    with pytest.raises(UnreadableMedia):
        VideoContainer(MediaSource.of(head + bytes(100)))


@pytest.mark.parametrize("codec", ["libvpx", "libvpx-vp9", "libsvtav1", "libx264"])
@pytest.mark.parametrize("container", ["webm", "matroska", "mp4", "avi"])
def test_streams_opened_without_decoders_are_the_same(codec: str, container: str) -> None:
    if (codec, container) in [("libx264", "webm"), ("libvpx", "mp4"), ("libsvtav1", "avi")]:
        pytest.skip("no such track")
    if (codec, container) == ("libx264", "matroska"):
        pytest.skip("libav fills in durations and the start by decoding; what is indexed is compared in test_proof_nal")
    clip = clip_bytes(ClipSpec(30, codec=codec, b_frames=None, gop=10), container)
    found = []
    for headers_only in (False, True):
        with VideoContainer(MediaSource.of(clip), headers_only=headers_only) as opened:
            stream, context = opened.stream, opened.decoder()
            assert opened.log == []
            facts = [stream.time_base, stream.average_rate, stream.duration, stream.frames, stream.start_time]
            facts += [context.width, context.height, context.extradata]
            walk = walk_packets(opened)
            found.append((facts, walk.packets.pts.tolist(), walk.duration.tolist(), walk.packets.flags.tolist()))
            is_withheld = opened.is_withheld
            assert (opened.decoder().pix_fmt is None) == is_withheld
            assert opened.open_whole() == is_withheld
            assert opened.decoder().pix_fmt == "yuv420p"
    assert found[0] == found[1]


def test_errors_do_not_mention_withheld_decoders() -> None:
    clip = clip_bytes(ClipSpec(12, codec="libvpx-vp9", b_frames=None), "webm")
    for data in (clip[:200], ivf("vp9", [bytes(100)] * 12)):
        with pytest.raises(MediaError) as caught:
            build_index(data)
        assert "whitelist" not in str(caught.value)


# --- turned pictures --------------------------------------------------------------------------------


def _is_upright(source: Path | bytes) -> bool:
    with VideoContainer(MediaSource.of(source)) as container:
        return is_upright(container)


@pytest.mark.parametrize(("container", "known"), [("webm", True), ("ivf", True), ("mp4", True), ("avi", False)])
def test_pictures_without_rotation_are_upright(container: str, known: bool) -> None:
    assert _is_upright(clip_bytes(ClipSpec(3, codec="libvpx-vp9", b_frames=None), container)) == known


@pytest.mark.parametrize("container", ["webm", "matroska", "mp4"])
@pytest.mark.parametrize(("rotation", "mirrored"), [(90, False), (270, False), (180, True), (0, True)])
def test_pictures_rotated_by_a_container_are_not_upright(container: str, rotation: int, mirrored: bool) -> None:
    clip = clip_bytes(ClipSpec(3, codec="libvpx-vp9", b_frames=None, rotation=rotation, mirrored=mirrored), container)
    assert not _is_upright(clip)


def _void(size: int) -> bytes:
    """An element of Matroska that holds nothing (RFC 9559 5.1.8)."""
    return b"\xec" + struct.pack(">Q", size | 1 << 56) + bytes(size)


@pytest.mark.parametrize(("size", "known"), [(100, True), (20_000, True), (70_000, False)])
def test_tracks_are_found_among_the_first_bytes_only(size: int, known: bool) -> None:
    clip = clip_bytes(ClipSpec(3, codec="libvpx-vp9", b_frames=None), "webm")
    at = clip.rindex(b"\x16\x54\xae\x6b")  # Tracks, behind the list of elements
    assert _is_upright(clip[:at] + _void(size) + clip[at:]) == known

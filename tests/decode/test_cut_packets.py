"""A last packet that is cut within its slice: its headers prove the frame, and decoding says that it does not come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from framefeed.decode._video_decoder import VideoDecoder
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import CorruptMedia
from framefeed.index import FrameIndex, build_index
from framefeed.media import MediaSource
from framefeed.request import OutputSpec
from framefeed.testing import ClipSpec, clip_bytes, take_packets
from tests.bitstreams import vpx_mutants as vpx
from tests.makers import slot_of
from tests.media.nal_mutants import Stream, h264, hevc, join, split

FRAMES = 30
OUTPUT = OutputSpec(None, None, "NCHW")


def without_end(packet: bytes) -> bytes:
    """Cut a packet in its middle."""
    return packet[: len(packet) // 2]


def without_end_of_slice(packet: bytes) -> bytes:
    """Cut the last NAL unit, whose length is told."""
    *units, last = split(packet)
    return join([*units, without_end(last)])


def without_end_of_tiles(packet: bytes) -> bytes:
    """Cut the last unit of AV1, whose size is told."""
    *units, (kind, extension, payload) = vpx.units(packet)
    return vpx.join([*units, (kind, extension, without_end(payload))])


@lru_cache
def coded(codec: str, pixel_format: str = "yuv420p") -> Stream:
    """Code a clip."""
    spec = ClipSpec(FRAMES, 96, 128, codec=codec, b_frames=None, gop=20, pixel_format=pixel_format)
    clip = clip_bytes(spec, "matroska")
    return Stream(clip, *take_packets(clip))


Files = tuple[Path, Path]
"""A whole file, and one whose last packet is cut."""


def stream_files(make: Callable[[], Stream], cut: Callable[[bytes], bytes], ending: str, folder: Path) -> Files:
    """Write a stream as it is, and with its last packet cut."""
    stream = make()
    *packets, last = stream.packets
    changed = stream.with_packets([*packets, replace(last, data=cut(last.data))])
    return stream.write(folder / f"whole{ending}"), changed.write(folder / f"cut{ending}")


def ivf_files(codec: str, cut: Callable[[bytes], bytes], folder: Path) -> Files:
    """Write a stream of VP8, VP9 or AV1 as it is, and with its last packet cut."""
    *packets, last = vpx.packets(codec)
    whole, changed = folder / "whole.ivf", folder / "cut.ivf"
    whole.write_bytes(vpx.ivf(codec, [*packets, last]))
    changed.write_bytes(vpx.ivf(codec, [*packets, cut(last)]))
    return whole, changed


CUT: dict[str, tuple[Callable[[Path], Files], bool]] = {
    "H.264 in MP4": (lambda folder: stream_files(h264, without_end_of_slice, ".mp4", folder), True),
    "H.264 in Matroska": (lambda folder: stream_files(h264, without_end_of_slice, ".mkv", folder), True),
    "H.264 without B": (
        lambda folder: stream_files(lambda: h264("bframes=0:cabac=0"), without_end_of_slice, ".mp4", folder),
        True,
    ),
    "MJPEG": (lambda folder: stream_files(lambda: coded("mjpeg", "yuvj420p"), without_end, ".mkv", folder), True),
    "AV1": (lambda folder: ivf_files("av1", without_end_of_tiles, folder), True),
    "HEVC": (lambda folder: stream_files(hevc, without_end_of_slice, ".mp4", folder), False),
    "VP8": (lambda folder: ivf_files("vp8", without_end, folder), False),
    "VP9": (
        lambda folder: stream_files(lambda: coded("libvpx-vp9"), lambda packet: packet[:-16], ".webm", folder),
        False,
    ),
}
"""Files, and whether libav says that the picture is damaged: of the others it gives one as if nothing were missing."""
BACKENDS: dict[str, Callable[[], PyAVDecoder]] = {
    "one thread": PyAVDecoder,
    "threads": lambda: PyAVDecoder(threads=4),
    "through the container": lambda: PyAVDecoder(direct=False),
}


def read(path: Path, index: FrameIndex, backend: PyAVDecoder, order: Sequence[int]) -> dict[int, np.ndarray | None]:
    """Read frames one by one; None for those that do not come undamaged."""
    actual: dict[int, np.ndarray | None] = {}
    with VideoDecoder(path, frame_index=index, backend=backend) as decoder:
        for number in order:
            try:
                actual[number] = decoder.get_frame_at(number).data
            except CorruptMedia as error:
                actual |= dict.fromkeys(error.frames)
    return actual


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CUT)
def test_D02_a_last_packet_that_is_cut_in_its_slice(name: str, backend: str, tmp_path: Path) -> None:
    make, is_said = CUT[name]
    whole, cut = make(tmp_path)
    index = build_index(cut)
    assert index.built_from == "packets+proof"
    last = int(np.flatnonzero(index.frame_packet == len(index.packets) - 1)[0])
    reference = VideoDecoder(whole)
    assert len(index) == len(reference)
    in_order = range(len(index))
    for order in (in_order, [*np.random.default_rng(0).permutation(len(index)).tolist()[:9], last]):
        actual = read(cut, index, BACKENDS[backend](), order)
        for number in order:
            if number != last:
                np.testing.assert_array_equal(actual[number], reference[number])
        assert (actual[last] is None) == is_said
        assert not np.array_equal(actual[last], reference[last]), "what is cut is needed"
    with VideoDecoder(cut, frame_index=index, backend=BACKENDS[backend]()) as decoder:
        others = [number for number in in_order if number != last]
        np.testing.assert_array_equal(decoder.get_frames_at(others).data, reference.get_frames_at(others).data)
        if is_said:
            with pytest.raises(CorruptMedia) as raised:
                decoder.get_all_frames()
            assert raised.value.frames == (last,)


@pytest.mark.parametrize("name", ["H.264 in MP4", "MJPEG"])
def test_D02_a_packet_that_is_cut_in_its_slice_is_marked_by_full_verification(name: str, tmp_path: Path) -> None:
    whole, cut = CUT[name][0](tmp_path)
    index = build_index(cut, "full")
    assert len(index) == len(build_index(whole))
    assert index.frame_packet[index.damaged_frame_indices].tolist() == [len(index.packets) - 1]
    assert build_index(whole, "full").num_damaged_frames == 0


def test_D01_a_jpeg_that_ends_too_early_is_delivered_where_damage_is_accepted(tmp_path: Path) -> None:
    _, cut = CUT["MJPEG"][0](tmp_path)
    index = build_index(cut)
    slot = slot_of(index, [FRAMES - 1], OUTPUT, accepts_damaged=True)
    report = PyAVDecoder().decode(MediaSource.of(cut), index, [slot])
    assert report.errors == [None]
    assert len(np.unique(slot.out)) > 2

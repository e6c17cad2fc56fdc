"""Frames that never come undamaged: an index made by a full decode lists exactly those that decoding refuses (D01)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from framefeed._values import DISPOSABLE, KEY
from framefeed.decode._decoder import ClipSlot
from framefeed.decode._video_decoder import VideoDecoder
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import CorruptMedia
from framefeed.index import FrameIndex, Verify, build_index, find_damaged_frames, find_packet_start
from framefeed.media import MediaSource, VideoContainer, decode_facts
from framefeed.request import OutputSpec
from framefeed.testing import put_packets, take_packets
from tests.bitstreams.vpx_mutants import GOP, Packets, edit, intra_only, ivf, packets, superframe
from tests.catalog.synthetic import frame_index
from tests.corpus import clip_file, corpus_file
from tests.damaged import SPEC, damaged_clip
from tests.reference import kept_reference, read_reference, rgb_digest

OTHER = replace(SPEC, b_frames=None)
DAMAGED = {
    "B-frames": lambda: damaged_clip("damage.mp4", (12, 13, 14, 15, 16, 30)),
    "through a container": lambda: damaged_clip("damage.mkv", (12, 14)),
    "the first packet": lambda: damaged_clip("damage_first.mp4", (0,)),
    "two GOPs": lambda: damaged_clip("damage_mpeg4.mp4", (13, 25), replace(SPEC, codec="mpeg4")),
    "AVI": lambda: damaged_clip("damage_mpeg4.avi", (13,), replace(SPEC, codec="mpeg4")),
    "intra only": lambda: damaged_clip("damage.avi", (5,), replace(OTHER, codec="mjpeg", pixel_format="yuvj420p")),
    "VP9": lambda: damaged_clip("damage.webm", (12,), replace(OTHER, codec="libvpx-vp9")),
    "flipped bytes": lambda: corpus_file("flipped_bytes.mp4"),
    "cut off": lambda: corpus_file("truncated.avi"),
}


def refused(path: Path, index: FrameIndex, every: int = 1) -> tuple[set[int], set[int]]:
    """Ordinals for which VideoDecoder raises CorruptMedia: asked for one by one, and all at once.

    One by one only each ``every``-th is asked for.
    """
    alone: list[int] = []
    with VideoDecoder(path, frame_index=index) as decoder:
        for ordinal in range(0, len(index), every):
            try:
                decoder.get_frame_at(ordinal)
            except CorruptMedia as error:
                alone += error.frames
        try:
            decoder.get_frames_at(range(len(index)))
        except CorruptMedia as error:
            return set(alone), set(error.frames)
    return set(alone), set()


@pytest.mark.parametrize("name", DAMAGED)
def test_D01_the_frames_that_are_marked_are_those_that_are_refused(name: str) -> None:
    path = DAMAGED[name]()
    index = build_index(path, "full")
    marked = set(index.damaged_frame_indices.tolist())
    assert refused(path, index) == (marked, marked)
    assert index.num_damaged_frames == len(marked)
    # The decoder finds them itself where an index does not know of them.
    assert refused(path, replace(index, damaged_frame_indices=np.empty(0, np.int64))) == (marked, marked)


def test_D01_damage_is_marked_in_most_of_them() -> None:
    counts = {name: build_index(make(), "full").num_damaged_frames for name, make in DAMAGED.items()}
    assert counts["B-frames"] == 3
    assert sum(bool(count) for count in counts.values()) >= 5, counts


@pytest.mark.slow
def test_D01_the_same_of_a_real_damaged_video(media_root: Path) -> None:
    path = media_root / "video" / "decord" / "corrupted.mp4"
    index = build_index(path, "full")
    marked = set(index.damaged_frame_indices.tolist())
    assert len(marked) == 20
    index = replace(index, damaged_frame_indices=np.empty(0, np.int64))
    assert refused(path, index, every=8) == ({number for number in marked if number % 8 == 0}, marked)


@pytest.mark.parametrize(
    ("name", "offset", "size"),
    [
        ("world.mp4", 22793, 300),  # a picture that is flagged as it comes out, after those that refer to it
        ("playable_but_bad_container.mp4", 23686, 300),  # a packet that gives no frame
    ],
)
def test_D01_no_frame_of_a_damaged_real_video_is_delivered_wrong(
    media_root: Path, tmp_path: Path, name: str, offset: int, size: int
) -> None:
    (sound,) = (media_root / "video").rglob(name)
    data = bytearray(sound.read_bytes())
    data[offset : offset + size] = np.random.default_rng(0).integers(0, 256, size, dtype=np.uint8).tobytes()
    (tmp_path / name).write_bytes(data)
    index, original = build_index(tmp_path / name, "full"), build_index(sound, "full")
    assert index.num_damaged_frames
    marked = set(index.damaged_frame_indices.tolist())
    ordinal_of = {packet: ordinal for ordinal, packet in enumerate(original.frame_packet.tolist())}
    if (index.frame_packet >= 0).sum() == len(original):
        # Where the damaged picture comes, the decoder finds the damage itself.
        index = replace(index, damaged_frame_indices=np.empty(0, np.int64))
    with VideoDecoder(tmp_path / name, frame_index=index) as decoder, VideoDecoder(sound) as reference:
        for ordinal in range(0, len(index), 3):
            try:
                picture = decoder[ordinal]
            except CorruptMedia:
                assert ordinal in marked
            else:
                np.testing.assert_array_equal(picture, reference[ordinal_of[int(index.frame_packet[ordinal])]])


@pytest.mark.parametrize("name", ["open_gop.mp4", "closed_gop.ts", "vfr.mkv", "bframes_4.mp4", "mpeg4_bframes.avi"])
def test_an_undamaged_video_has_no_marks(name: str) -> None:
    index = build_index(corpus_file(name), "full")
    assert (index.num_damaged_frames, index.damaged_frame_indices.tolist()) == (0, [])
    assert index.damaged_frame_indices.dtype == np.int64


def test_what_was_not_decoded_in_full_is_not_known() -> None:
    assert build_index(corpus_file("bframes_4.mp4")).num_damaged_frames is None
    assert build_index(corpus_file("bframes_4.mp4"), "none").num_damaged_frames is None


def test_packets_that_the_decoder_refuses_are_named() -> None:
    refused: list[int] = []
    with VideoContainer(MediaSource.of(DAMAGED["the first packet"]())) as container:
        came = [fact.packet for fact in decode_facts(container, enumerate(container.packets()), refused=refused)]
    assert refused == [0]
    assert 0 not in came


# --- the rule ---------------------------------------------------------------------------------------


def one_gop(**changes: object) -> FrameIndex:
    """Six frames, a packet each, in order, that all start at packet 0."""
    index = frame_index(6, 0)
    numbers = np.arange(6, dtype=np.int64)
    packets = replace(index.packets, flags=np.zeros(len(index.packets), np.uint8))
    given: dict[str, object] = {"frame_packet": numbers, "frame_start": np.zeros(6, np.int64), "packets": packets}
    return replace(index, **given | changes)  # type: ignore[arg-type]


def test_damage_reaches_what_follows_it_up_to_the_next_start() -> None:
    index = one_gop(frame_start=np.array([0, 0, 0, 3, 3, 3]))
    assert find_damaged_frames(index, np.array([1]), np.empty(0, np.int64)).tolist() == [1, 2]
    assert find_damaged_frames(index, np.empty(0, np.int64), np.array([4])).tolist() == [4, 5]


def test_damage_of_a_disposable_picture_is_its_own() -> None:
    index = one_gop()
    index.packets.flags[2] = DISPOSABLE
    proven = replace(index, stream=replace(index.stream, skips_exactly=True))
    unproven = replace(index, stream=replace(index.stream, skips_exactly=False))
    for known, reached in ((proven, [2]), (unproven, [2, 3, 4, 5])):
        assert find_damaged_frames(known, np.array([2]), np.empty(0, np.int64)).tolist() == reached


def test_damage_of_a_leading_picture_does_not_reach_what_follows_its_key_frame() -> None:
    # Packet 2 is the key frame; the picture of packet 3 is shown before it, and is decoded from packet 0.
    index = one_gop(frame_packet=np.array([0, 1, 3, 2, 4, 5]), frame_start=np.array([0, 0, 0, 2, 2, 2]))
    assert find_damaged_frames(index, np.array([2]), np.empty(0, np.int64)).tolist() == [2]


def test_damage_of_a_packet_that_gives_no_frame_reaches_what_follows_it_from_its_start() -> None:
    # Packets 1 and 4 give no frame; packet 3 is the second start.
    index = one_gop(frame_packet=np.array([0, 2, 3, 5, 6, 7]), frame_start=np.array([0, 0, 3, 3, 3, 3]))
    index.packets.pts[:] = np.arange(len(index.packets))
    nothing = np.empty(0, np.int64)
    assert find_damaged_frames(index, nothing, np.array([1])).tolist() == [1]
    assert find_damaged_frames(index, nothing, np.array([4])).tolist() == [3, 4, 5]
    # By its time it is shown before the picture of packet 3: a leading picture, which is decoded from packet 0.
    index.packets.pts[4] = index.packets.pts[3] - 1
    assert find_packet_start(index, 4) == 0
    assert find_damaged_frames(index, nothing, np.array([4])).tolist() == []
    # A leading picture of the first start.
    index.packets.pts[1] = index.packets.pts[0] - 1
    assert find_packet_start(index, 1) == -1
    assert find_damaged_frames(index, nothing, np.array([1])).tolist() == []


def garbled_after_encoding(path: Path, numbers: Sequence[int]) -> Path:
    """Overwrite whole packets, so that not even the headers of their NAL units can be read."""
    table, data = build_index(path, verify="none").packets, bytearray(path.read_bytes())
    for number in numbers:
        start, size = int(table.offset[number]), int(table.size[number])
        data[start : start + size] = b"\xff" * size
    target = path.with_name(f"unreadable_{'_'.join(map(str, numbers))}_{path.name}")
    target.write_bytes(data)
    return target


@pytest.mark.parametrize("verify", ["ends", "full"])
@pytest.mark.parametrize("b_frames", [0, 3])
def test_D01_a_packet_that_cannot_be_read_at_all_damages_what_follows_it(verify: Verify, b_frames: int) -> None:
    spec = replace(SPEC, num_frames=160, gop=40, b_frames=b_frames)
    sound = clip_file(f"readable_{b_frames}.mp4", spec)
    reference = {int(p): i for i, p in enumerate(build_index(sound).frame_packet)}
    flags = build_index(sound).packets.flags
    # Between a key frame and another picture that may refer to it, where neither end of the file is looked at.
    victim = next(n for n in range(55, 80) if flags[n - 1] & KEY and not flags[n : n + 2].any())
    damaged = garbled_after_encoding(sound, [victim])
    index, original = build_index(damaged, verify), VideoDecoder(sound)
    behind = np.flatnonzero((index.frame_start <= victim) & (index.frame_packet >= victim)).tolist()
    assert len(behind) > 1
    with VideoDecoder(damaged, frame_index=index) as decoder:
        for ordinal in range(len(index)):
            try:
                picture = decoder[ordinal]
            except CorruptMedia:
                assert ordinal in behind
            else:
                # Damage is never delivered as if it were the frame.
                assert ordinal not in behind
                np.testing.assert_array_equal(picture, original[reference[int(index.frame_packet[ordinal])]])
    if verify == "full":
        assert index.damaged_frame_indices.tolist() == behind


# --- slots that accept damage -----------------------------------------------------------------------


def test_a_slot_that_accepts_damage_has_all_pictures_and_one_beside_it_has_not() -> None:
    # The damage follows the first start, from which the reference decodes in order too.
    path = damaged_clip("damage_early.avi", (3,), replace(SPEC, codec="mpeg4"))
    index, source = build_index(path, "full"), MediaSource.of(path)
    assert index.num_damaged_frames
    every = np.arange(len(index), dtype=np.int64)
    memory = np.zeros((3, len(index), 48, 64, 3), np.uint8)
    sound = every[~index.is_damaged(every)]
    slots = [
        ClipSlot(every, OutputSpec(dimension_order="NHWC"), memory[0], accepts_damaged=True),
        ClipSlot(every, OutputSpec(dimension_order="NHWC"), memory[1]),
        ClipSlot(sound, OutputSpec(dimension_order="NHWC"), memory[2][: len(sound)]),
    ]
    report = PyAVDecoder().decode(source, index, slots)
    assert report.errors[0] is None
    assert report.errors[2] is None
    strict = report.errors[1]
    assert isinstance(strict, CorruptMedia)
    assert list(strict.frames) == index.damaged_frame_indices.tolist()
    assert [rgb_digest(picture) for picture in memory[0]] == [frame.rgb for frame in kept_reference(path).frames]
    np.testing.assert_array_equal(memory[2][: len(sound)], memory[0][sound])


def delivered(path: Path, ordinals: np.ndarray, decoder: PyAVDecoder | None = None) -> np.ndarray:
    """Decode frames, damaged or not; zeros for one that the decoder never gives."""
    index = build_index(path, "full")
    out = np.zeros((len(ordinals), 3, *index.stream.displayed), np.uint8)
    slots = [
        ClipSlot(ordinals[number : number + 1], OutputSpec(), out[number : number + 1], accepts_damaged=True)
        for number in range(len(ordinals))
    ]
    report = (decoder or PyAVDecoder()).decode(MediaSource.of(path), index, slots)
    failed = [error for error in report.errors if error is not None]
    if len(ordinals) == len(index):
        assert len(failed) == len(index) - len(read_reference(path))
    for error in failed:
        assert isinstance(error, CorruptMedia)
        assert index.is_damaged(np.array(error.frames)).all()
    return out


@pytest.mark.parametrize("name", ["B-frames", "two GOPs", "through a container"])
def test_a_damaged_picture_does_not_depend_on_the_other_frames_of_a_call(name: str) -> None:
    path = DAMAGED[name]()
    index = build_index(path, "full")
    damaged, every = index.damaged_frame_indices, delivered(path, np.arange(len(index)))
    for decoder in (PyAVDecoder(), PyAVDecoder(direct=False), PyAVDecoder(threads=3)):
        np.testing.assert_array_equal(delivered(path, damaged, decoder), every[damaged])
        for ordinal in damaged.tolist():
            np.testing.assert_array_equal(delivered(path, np.array([ordinal]), decoder)[0], every[ordinal])


@pytest.mark.test_all
@pytest.mark.slow
def test_nor_does_one_of_a_real_video_that_is_held_back_by_the_decoder(media_root: Path, tmp_path: Path) -> None:
    name = "RATRACE_wave_f_nm_np1_fr_goo_37.avi"
    whole = np.frombuffer((media_root / "video" / "pytorch-vision" / name).read_bytes(), np.uint8)
    for seed in (0, 3):
        chance, data = np.random.default_rng(seed), whole.copy()
        data[chance.integers(len(data) // 4, len(data), 20)] ^= 1
        path = tmp_path / f"{seed}.avi"
        path.write_bytes(data)
        damaged = build_index(path, "full").damaged_frame_indices[:6]
        for ordinal, together in zip(damaged.tolist(), delivered(path, damaged), strict=True):
            np.testing.assert_array_equal(delivered(path, np.array([ordinal]))[0], together)


def _put_vp9(path: Path, stream: Packets) -> Path:
    data = ivf("vp9", stream)
    put_packets(path, data, *take_packets(data))
    return path


@pytest.mark.parametrize("number", [0, 3, GOP, GOP + 3, 2 * GOP + 1])
@pytest.mark.parametrize("verify", ["proof", "full"])
def test_D01_two_damaged_frames_in_one_packet_are_damage_up_to_the_next_key_frame_and_no_shortage(
    number: int, verify: Verify, tmp_path: Path
) -> None:
    """libavcodec then takes no other packet, which has the number of a shortage of threads."""
    stream = packets("vp9")
    damaged = superframe(intra_only(stream[0]), bytes(40))
    path = _put_vp9(tmp_path / "damaged.mp4", edit(stream, number, damaged))
    index = build_index(path, verify)
    lost = range(number, (number // GOP + 1) * GOP)
    assert index.frame_packet.tolist() == [each for each in range(len(stream)) if each not in lost]
    with (
        VideoDecoder(_put_vp9(tmp_path / "intact.mp4", stream)) as intact,
        VideoDecoder(path, frame_index=index) as decoder,
    ):
        for ordinal, packet in reversed(list(enumerate(index.frame_packet.tolist()))):
            assert np.array_equal(decoder[ordinal], intact[packet])

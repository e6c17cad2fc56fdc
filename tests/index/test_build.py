"""build_index: the number of frames, their times and packets, and ``built_from``."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from framefeed._values import DISCARD, KEY, MISSING_PTS, PacketTable
from framefeed.errors import EmptyVideo, MediaError, NoVideoStream, UnreadableMedia, UnsupportedCodec, UsageError
from framefeed.index import Verify
from framefeed.index._build import build_index, index_media
from framefeed.index._frame_index import FrameIndex
from framefeed.index._joining import find_frame_starts
from framefeed.testing import ClipSpec, clip_bytes
from tests.corpus import corpus_file, expected_stamps
from tests.media.encrypted import encrypted_clip
from tests.media.files import HARD_FILES, READABLE, readable_path
from tests.reference import kept_reference

COLUMNS = ("pts", "duration", "key_frame_indices", "frame_packet", "frame_start")


@lru_cache(maxsize=1024)  # three for each of the files, or all are made again for the next test
def _index(path: Path, verify: Verify) -> FrameIndex:
    return build_index(path, verify)


def _known(index: FrameIndex) -> list[int | None]:
    """What packets say of their frames, whatever the times come from."""
    own = np.where(index.frame_packet < 0, MISSING_PTS, index.packets.pts[index.frame_packet])
    if index.times_from == "pts":
        assert np.array_equal(own, index.pts)
    return [None if pts == MISSING_PTS else pts for pts in own.tolist()]


def _differences(one: FrameIndex, other: FrameIndex) -> list[str]:
    return [name for name in COLUMNS if not np.array_equal(getattr(one, name), getattr(other, name))]


@pytest.mark.parametrize("name", READABLE)
def test_M01_the_index_holds_the_frames_that_come(name: str) -> None:
    path = readable_path(name)
    reference = kept_reference(path)
    full, ends = _index(path, "full"), _index(path, "ends")
    assert full.built_from == "decode"
    assert full.num_damaged_frames == 0 or name in HARD_FILES
    assert _known(full) == reference.pts
    assert ends.built_from in ("packets+ends", "decode")
    assert _differences(ends, full) == [], "what the packets say is not what comes"
    if ends.built_from == "packets+ends":
        assert np.all(np.diff(ends.pts) > 0), "rank by pts"


@pytest.mark.parametrize("name", READABLE)
def test_M01_packets_alone_are_believed_only_where_they_can_be(name: str) -> None:
    path = readable_path(name)
    believed = _index(path, "none")
    assert believed.built_from in ("packets", "decode")
    if believed.built_from == "packets":
        assert np.all(np.diff(believed.pts) > 0), "rank by pts"
        assert set(kept_reference(path).pts) <= set(_known(believed))
    if name != "truncated.mp4":
        assert _differences(believed, _index(path, "full")) == []


def test_D02_packets_alone_promise_a_frame_that_is_cut_off() -> None:
    path = corpus_file("truncated.mp4")
    assert len(_index(path, "none")) == len(_index(path, "full")) + 1
    assert _index(path, "ends").built_from == "decode"


@pytest.mark.parametrize(
    ("name", "built_from"),
    [
        ("base.mp4", "packets+ends"),
        ("base.mkv", "packets+ends"),
        ("vfr.mp4", "packets+ends"),
        ("open_gop_hevc.mp4", "packets+ends"),
        ("edit_list.mp4", "packets+ends"),
        ("fragmented.mp4", "packets+ends"),
        ("long_gop.mp4", "packets+ends"),
        ("mpeg4_bframes.mp4", "packets+ends"),
        ("temporal_units_av1.mp4", "packets+ends"),
        ("edit_list_twice.mp4", "decode"),  # times of its packets collide with those of the cut
        ("hidden_vp8.webm", "decode"),
        ("superframes_vp9.webm", "decode"),
        ("fields.mp4", "decode"),
        ("closed_gop.ts", "decode"),
        ("mid_gop.ts", "decode"),
        ("late_key.mp4", "decode"),
        ("no_pts.avi", "decode"),
        ("raw.h264", "decode"),
        ("duplicate_pts.mkv", "decode"),
        ("negative_pts.mkv", "decode"),
        ("shuffled_pts.mkv", "decode"),
        ("truncated.mp4", "decode"),
    ],
)
def test_how_the_frames_were_found(name: str, built_from: str) -> None:
    assert _index(corpus_file(name), "ends").built_from == built_from


def test_M06_discarded_packets_are_kept_for_decoding_and_are_no_frames() -> None:
    index = _index(corpus_file("edit_list.mp4"), "ends")
    assert len(index.packets) == 75
    assert len(index) == 62 == len(expected_stamps("edit_list.mp4"))
    discarded = np.flatnonzero(index.packets.flags & DISCARD)
    assert len(discarded) == 13
    assert not set(discarded) & set(index.frame_packet.tolist())
    assert index.frame_start.min() == 0, "frame 0 is decoded from a packet that is not shown"


def test_M11_hidden_frames_are_packets_and_no_frames() -> None:
    index = _index(corpus_file("hidden_vp8.webm"), "ends")
    assert (len(index.packets), len(index)) == (106, 100)


def test_M12_two_packets_of_a_frame() -> None:
    index = _index(corpus_file("fields.mp4"), "ends")
    assert (len(index.packets), len(index)) == (62, 31)
    stop = index.frame_stop
    assert stop is not None
    assert np.all(stop - index.frame_packet == 2), "both fields must be sent"


def test_M13_nothing_before_the_first_frame_is_promised() -> None:
    index = _index(corpus_file("mid_gop.ts"), "ends")
    assert len(index) == 50 < len(index.packets)


@pytest.mark.parametrize("name", ["all_key_flags.mp4", "no_key_flags.mkv", "shifted_key_flags.mp4"])
def test_M14_wrong_flags_of_the_container_are_not_believed(name: str) -> None:
    index = _index(corpus_file(name), "ends")
    assert set(index.key_frame_indices.tolist()) <= {0, 25, 50, 75}, "the encoder made these four"


@pytest.mark.parametrize("name", ["intra_refresh.mp4", "intra_refresh.ts"])
def test_M14_recovery_points_that_need_more_frames_are_no_start(name: str) -> None:
    index = _index(corpus_file(name), "ends")
    assert index.key_frame_indices.tolist() == [0]
    assert not index.frame_start.any()


@pytest.mark.parametrize("codec", ["mpeg4", "libx265"])
def test_M14_a_muxer_that_flags_every_packet(codec: str, tmp_path: Path) -> None:
    path = tmp_path / "flags.mp4"
    clip = clip_bytes(ClipSpec(num_frames=30, gop=10, b_frames=0, codec=codec), "mp4")
    path.write_bytes(_without_sync_table(clip))
    index = build_index(path)
    assert index.key_frame_indices.tolist() == [0, 10, 20]
    assert index.frame_start.tolist() == [start for start in (0, 10, 20) for _ in range(10)]


def _without_sync_table(clip: bytes) -> bytes:
    """An MP4 without a table of key frames says that all are (ISO/IEC 14496-12 8.6.2.1)."""
    assert clip.count(b"stss") == 1
    return clip.replace(b"stss", b"free")


def test_M15_one_start_for_five_hundred_frames() -> None:
    index = _index(corpus_file("long_gop.mp4"), "ends")
    assert index.key_frame_indices.tolist() == [0]
    assert not index.frame_start.any()


def test_M18_the_stream_is_chosen_and_can_be_named() -> None:
    path = corpus_file("two_videos.mp4")
    assert build_index(path).stream.width == 64, "the default stream counts before the larger one"
    assert index_media(path, stream_index=1)[1].stream.width == 128
    assert build_index(corpus_file("cover_first.mp4")).stream.stream_index == 1, "a cover is no video"
    with pytest.raises(NoVideoStream, match="at index 7"):
        index_media(path, stream_index=7)


@pytest.mark.parametrize("name", ["base.mp4", "closed_gop.ts", "no_pts.avi", "hidden_vp8.webm", "open_gop_hevc.mkv"])
@pytest.mark.parametrize("verify", ["ends", "none", "full"])
def test_the_same_index_from_a_path_bytes_and_a_file_object(name: str, verify: Verify) -> None:
    path = corpus_file(name)
    from_path = _index(path, verify)
    from_bytes = build_index(path.read_bytes(), verify)
    with path.open("rb") as file:
        file.seek(100)  # wherever it stands
        from_file = build_index(file, verify)
    for other in (from_bytes, from_file):
        assert _differences(other, from_path) == []
        assert other.built_from == from_path.built_from
        assert other.stream == from_path.stream
        for column in ("offset", "size", "pts", "flags"):
            np.testing.assert_array_equal(getattr(other.packets, column), getattr(from_path.packets, column))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("zero_frames.mp4", EmptyVideo),
        ("zero_frames.avi", EmptyVideo),
        ("edit_list_all.mp4", EmptyVideo),
        ("sound_only.m4a", NoVideoStream),
        ("sound_and_cover.m4a", NoVideoStream),
        ("no_moov.mp4", UnreadableMedia),
        ("billion_samples.mp4", EmptyVideo),
    ],
)
@pytest.mark.parametrize("verify", ["ends", "none", "full"])
def test_M16_M19_no_frames_is_an_error_when_indexing(name: str, kind: type[MediaError], verify: Verify) -> None:
    path = corpus_file(name)
    with pytest.raises(MediaError) as raised:
        build_index(path, verify)
    assert type(raised.value) is kind
    assert raised.value.source == str(path)
    assert str(path) in str(raised.value)


def test_D12_an_encrypted_track_is_not_guessed_at() -> None:
    with pytest.raises(UnsupportedCodec, match="encrypted"):
        build_index(encrypted_clip())


def test_an_unknown_verify_is_the_callers_mistake() -> None:
    with pytest.raises(UsageError, match="'ends', 'none' or 'full'"):
        build_index(corpus_file("base.mp4"), "all")  # type: ignore[arg-type]


# --- head and tail ----------------------------------------------------------------------------------

_LONG_OPEN_GOP = ClipSpec(
    height=32,
    width=48,
    gop=None,
    b_frames=None,
    codec_options={"x264-params": "open-gop=1:keyint=12:min-keyint=12:scenecut=0:bframes=3:b-adapt=0"},
)


def _spoiled(data: bytes, packet: int) -> bytes:
    """Invert some bytes in the middle of a packet."""
    packets = build_index(data, "none").packets
    at = int(packets.offset[packet] + packets.size[packet] // 2)
    return data[:at] + bytes(byte ^ 255 for byte in data[at : at + 8]) + data[at + 8 :]


def test_M04_the_tail_is_believed_wherever_in_an_open_gop_it_begins() -> None:
    for num_frames in range(110, 110 + 12):
        data = clip_bytes(replace(_LONG_OPEN_GOP, num_frames=num_frames), "matroska")
        ends = build_index(data, "ends")
        assert (ends.built_from, len(ends)) == ("packets+ends", num_frames)
        assert _differences(ends, build_index(data, "full")) == []


@pytest.mark.parametrize("codec", ["libx264", "mpeg4"])
@pytest.mark.parametrize("packet", [2, 20, 30, 115])
def test_D01_frames_that_the_decoder_flags_at_either_end_are_decoded_to_facts(codec: str, packet: int) -> None:
    data = clip_bytes(ClipSpec(num_frames=120, codec=codec, b_frames=0), "mp4")
    assert build_index(data, "ends").built_from == "packets+ends"
    spoiled = _spoiled(data, packet)
    index = build_index(spoiled, "ends")
    assert (index.built_from, len(index)) == ("decode", 120), "as many frames as packets, and one is damaged"
    assert _differences(index, build_index(spoiled, "full")) == []


# --- where decoding must start: pure ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "order", "starts"),
    [
        ("KPPKPP", [0, 1, 2, 3, 4, 5], [0, 0, 0, 3, 3, 3]),
        ("KPBKPB", [0, 2, 1, 3, 5, 4], [0, 0, 0, 3, 3, 3]),
        # M04: packets 4 and 5 follow the key frame 3 and are shown before it: they need the key frame before.
        ("KPPKBBP", [0, 1, 2, 4, 5, 3, 6], [0, 0, 0, 0, 0, 3, 3]),
        # M13: frames before the first key frame start at the first packet.
        ("PPKP", [0, 1, 2, 3], [0, 0, 2, 2]),
        # M14: no key frame at all.
        ("PPP", [0, 1, 2], [0, 0, 0]),
        # M06: the key packet is not shown, so nothing tells where its picture lies.
        ("KPPKP", [1, 2, 3, 4], [0, 0, 3, 3]),
        # A key frame that is shown before an earlier one is no start.
        ("KKKP", [0, 2, 1, 3], [0, 0, 1, 1]),
        # A frame whose packet is not known.
        ("KPKP", [0, 1, -1, 3], [0, 0, 0, 0]),
    ],
)
def test_M04_frames_start_at_a_key_frame_before_them_in_both_orders(
    keys: str, order: list[int], starts: list[int]
) -> None:
    assert _starts_of(keys, order, list(range(len(keys)))) == starts


@pytest.mark.parametrize(
    ("keys", "order", "pts", "starts"),
    [
        # An edit begins behind its key frame 3.
        ("KPPHdP", [0, 1, 2, 5], [0, 1, 2, 2, 3, 4], [0, 0, 0, 3]),
        # A frame of its time does not lead it.
        ("KPHP", [0, 1, 3], [0, 1, 2, 2], [0, 0, 2]),
        # The key frame behind an edit's end is no start of the pictures before it, which follow it in the file.
        ("KPHBB", [0, 1, 3, 4], [0, 1, 5, 2, 3], [0, 0, 0, 0]),
        # Nor of the next edit, which begins earlier; that one's own key frame is.
        ("KPHHdPP", [0, 1, 5, 6], [0, 1, 5, 1, 1, 2, 3], [0, 0, 3, 3]),
        # Behind the hidden key frame is another one.
        ("KPHdKP", [0, 1, 4, 5], [0, 1, 1, 1, 2, 3], [0, 0, 4, 4]),
        # The file begins with it.
        ("HdPKP", [2, 3, 4], [-2, -1, 0, 1, 2], [0, 3, 3]),
        # No time tells.
        ("KPHP", [0, 1, 3], [0, 1, MISSING_PTS, 2], [0, 0, 0]),
        ("KPHP", [0, 1, 3], [0, 1, 1, MISSING_PTS], [0, 0, 0]),
        # No frame behind it.
        ("KPPH", [0, 1, 2], [0, 1, 2, 3], [0, 0, 0]),
    ],
)
def test_M06_frames_of_an_edit_start_at_its_hidden_key_frame(
    keys: str, order: list[int], pts: list[int], starts: list[int]
) -> None:
    assert _starts_of(keys, order, pts) == starts


def _starts_of(keys: str, order: list[int], pts: list[int]) -> list[int]:
    """Where frames start; K: a key frame, H: one that is hidden, d: another picture that is hidden."""
    letters, count = np.array(list(keys)), len(keys)
    is_key = np.isin(letters, ["K", "H"])
    flags = (is_key * KEY | np.isin(letters, ["H", "d"]) * DISCARD).astype(np.uint8)
    sizes = np.ones(count, dtype=np.int64)
    packets = PacketTable(np.arange(count, dtype=np.int64), sizes, np.array(pts, dtype=np.int64), flags)
    return find_frame_starts(np.array(order, dtype=np.int64), is_key, packets).tolist()

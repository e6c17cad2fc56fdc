"""Differences from TorchCodec: each row of the tables in docs/torchcodec.md, with both decoders if both are installed.

Ours is tested everywhere, TorchCodec 0.13's own answer where it is installed: a row that has become wrong shows.
"""

from __future__ import annotations

import io
import re
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from framefeed.adapters.torch._video_decoder import VideoDecoder
from framefeed.errors import (
    CorruptMedia,
    EmptyVideo,
    FormatChanged,
    LimitExceeded,
    MediaError,
    NoVideoStream,
    UnreadableMedia,
    UsageError,
)
from framefeed.testing import read_stamp, read_stamps
from tests.adapters.torchcodec_calls import CenterCrop, Resize, frames
from tests.corpus import corpus_file
from tests.differences import Differences
from tests.remote import stored

PAGE = Path(__file__).resolve().parents[2] / "docs" / "torchcodec.md"
difference = Differences()


@pytest.fixture(scope="module")
def theirs() -> Any:
    """TorchCodec's class, or None where it is not installed."""
    try:
        from torchcodec import decoders
    except ImportError:
        return None
    return decoders.VideoDecoder


def base() -> str:
    return str(corpus_file("base.mp4"))


def stamps(pictures: torch.Tensor) -> list[int]:
    return read_stamps(pictures.numpy())


# --- frames -----------------------------------------------------------------------------------------


@difference("Packets that give no frame")
@pytest.mark.parametrize(
    ("name", "ours", "other"),
    [
        ("hidden_vp8.webm", 100, 106),
        ("fields.mkv", 31, 62),
        ("fields.ts", 31, 62),
        ("late_key.mp4", 75, 90),
        ("open_start_hevc.mkv", 72, 75),
        ("truncated.mp4", 49, 50),
    ],
)
def test_frames_that_no_decoder_gives(name: str, ours: int, other: int, theirs: Any) -> None:
    path = str(corpus_file(name))
    with VideoDecoder(path) as decoder:
        assert len(decoder) == decoder.metadata.num_frames == ours
        assert sum(1 for _ in decoder) == ours
    if theirs is not None:
        assert len(theirs(path)) == other


@pytest.mark.parametrize(
    ("name", "ours", "other"),
    [
        ("RATRACE_wave_f_nm_np1_fr_goo_37.avi", 72, 73),
        ("hmdb51_Turnk_r_Pippi_Michel_cartwheel_f_cm_np2_le_med_6.avi", 83, 84),
    ],
)
def test_frames_that_no_decoder_gives_of_hmdb51(
    name: str, ours: int, other: int, media_root: Path, theirs: Any
) -> None:
    path = str(media_root / "video" / "pytorch-vision" / name)
    with VideoDecoder(path) as decoder:
        assert len(decoder) == ours
        assert sum(1 for _ in decoder) == ours
    if theirs is not None:
        assert len(theirs(path)) == other


@difference("Frame i")
@pytest.mark.parametrize(
    ("name", "number", "other"),
    [("no_pts.avi", 33, 31), ("closed_gop.ts", 0, 25), ("intra_refresh.mp4", 33, 36), ("open_gop_mpeg2.mpg", 33, 32)],
)
def test_frame_i(name: str, number: int, other: int, theirs: Any) -> None:
    path = str(corpus_file(name))
    assert stamps(VideoDecoder(path).get_frames_at([number]).data) == [number]
    if theirs is not None:
        assert stamps(theirs(path).get_frames_at([number]).data) == [other]


@difference('`seek_mode="approximate"`')
def test_approximate(theirs: Any) -> None:
    path, numbers = str(corpus_file("vfr.mp4")), list(range(0, 100, 9))
    assert stamps(VideoDecoder(path, seek_mode="approximate").get_frames_at(numbers).data) == numbers
    if theirs is not None:
        assert stamps(theirs(path, seek_mode="approximate").get_frames_at(numbers).data) != numbers


@difference("Damaged frames")
def test_damaged_frames(theirs: Any) -> None:
    path = str(corpus_file("flipped_bytes.mp4"))
    with VideoDecoder(path) as decoder, pytest.raises(CorruptMedia) as raised:
        decoder[:]
    assert raised.value.frames
    assert isinstance(raised.value, RuntimeError)
    if theirs is not None:
        assert any(_is_delivered(theirs(path), number) for number in raised.value.frames), "without a word"


def _is_delivered(decoder: Any, number: int) -> bool:
    try:
        return bool(decoder[number].shape == (3, 96, 128))
    except RuntimeError:
        return False


@difference("A size that changes within the stream")
def test_a_size_that_changes(theirs: Any) -> None:
    path = str(corpus_file("size_change.ts"))
    with VideoDecoder(path) as decoder, pytest.raises(FormatChanged):
        decoder[40]
    assert VideoDecoder(path, transforms=[Resize((48, 64))])[40].shape == (3, 48, 64)
    if theirs is not None:
        with pytest.raises(RuntimeError, match="shape"):
            theirs(path)[:]


@difference("Files that are not video")
def test_what_is_no_video(theirs: Any) -> None:
    for name, kind in (
        ("sound_and_cover.m4a", NoVideoStream),
        ("playlist.m3u8", UnreadableMedia),
        ("edit_list_all.mp4", EmptyVideo),
        ("huge_frame.avi", LimitExceeded),
    ):
        path = str(corpus_file(name))
        with pytest.raises(kind) as raised:
            VideoDecoder(path)
        assert isinstance(raised.value, MediaError)
        if theirs is not None:
            assert len(theirs(path)) >= 0, "opened"


@difference("Sources")
def test_what_can_be_opened(theirs: Any) -> None:
    for name in ("raw.h264", "no_key_flags.mkv", "shifted_key_flags.mp4", "cover_first.mp4"):
        path = str(corpus_file(name))
        assert len(VideoDecoder(path)) == 100
        if theirs is not None:
            with pytest.raises(RuntimeError):
                theirs(path)
    data = Path(base()).read_bytes()
    for source in (bytearray(data), memoryview(data)):
        assert len(VideoDecoder(source)) == 100
        if theirs is not None:
            with pytest.raises(TypeError):
                theirs(source)
    with stored(clip=data) as urls:
        assert len(VideoDecoder(urls[0])) == 100


# --- asking -----------------------------------------------------------------------------------------


@difference("Slices and empty lists")
def test_slices_and_empty_lists(theirs: Any) -> None:
    with VideoDecoder(base()) as decoder:
        assert stamps(decoder[4:0:-2]) == [4, 2]
        assert decoder[5:2].shape == decoder.get_frames_at([]).data.shape == (0, 3, 96, 128)
    if theirs is not None:
        other = theirs(base())
        for ask in (lambda: other[4:0:-2], lambda: other[5:2], lambda: other.get_frames_at([])):
            with pytest.raises(RuntimeError):
                ask()


@difference("Numbers that are not frame numbers")
def test_numbers_that_are_no_frame_numbers(theirs: Any) -> None:
    for numbers in (
        torch.tensor([0.5, 3.0]),
        torch.tensor([True, False]),
        torch.tensor([1 + 0j]),
        torch.tensor([[1], [2]]),
    ):
        with VideoDecoder(base()) as decoder, pytest.raises(UsageError):
            decoder.get_frames_at(numbers)
    if theirs is not None:
        other = theirs(base())
        assert stamps(other.get_frames_at(torch.tensor([0.5, 3.0])).data) == [0, 3]
        assert stamps(other.get_frames_at(torch.tensor([True, False])).data) == [1, 0]


@difference("Two-dimensional times")
def test_two_dimensional_times(theirs: Any) -> None:
    with VideoDecoder(base()) as decoder, pytest.raises(UsageError):
        decoder.get_frames_played_at([[1.0], [2.0]])
    if theirs is not None:
        assert stamps(theirs(base()).get_frames_played_at([[1.0], [2.0]]).data) == [25, 50]


@difference("A time within 1 ns of a frame's time")
def test_a_time_close_to_a_frames(theirs: Any) -> None:
    with VideoDecoder(base()) as decoder:
        assert stamps(decoder.get_frames_played_at([0.0, 3 / 25 - 1e-12]).data) == [0, 3]
        assert read_stamp(decoder.get_frame_played_at(-1e-12).data.numpy()) == 0
    if theirs is not None:
        other = theirs(base())
        assert stamps(other.get_frames_played_at([3 / 25 - 1e-12]).data) == [2]
        with pytest.raises(IndexError):
            other.get_frame_played_at(-1e-12)


@difference("Times at a rate")
def test_times_at_a_rate(theirs: Any) -> None:
    path = str(corpus_file("ntsc.mp4"))
    with VideoDecoder(path) as decoder:
        rate = decoder.metadata.average_fps
        assert rate is not None
        assert stamps(decoder.get_all_frames(fps=rate).data) == list(range(100)), "each frame once"
    if theirs is not None:
        other = stamps(theirs(path).get_all_frames(fps=rate).data)
        assert len(other) == 100
        assert len(set(other)) < 100, "some twice, and as many not at all"


@difference("More than a million frames, numbers from 2^63")
def test_more_than_fits(theirs: Any) -> None:
    with VideoDecoder(base()) as decoder:
        with pytest.raises(UsageError, match="use a lower fps"):
            decoder.get_all_frames(fps=1e6)
        with pytest.raises(IndexError):
            decoder.get_frames_at([2**63])
        assert stamps(decoder.get_frames_in_range(0, 5, 2**70).data) == [0]
    if theirs is not None:
        with pytest.raises(ValueError, match="Overflow"):
            theirs(base()).get_frames_at([2**63])


# --- facts ------------------------------------------------------------------------------------------


@difference("`rotation`")
@pytest.mark.parametrize(
    ("name", "ours", "mirrored", "other"),
    [
        ("base.mp4", 0, False, None),
        ("rotated_90.mp4", 90, False, 90),
        ("rotated_180.mp4", 180, False, -180),
        ("rotated_270.mp4", 270, False, -90),
        ("mirrored.mp4", 0, True, -180),
    ],
)
def test_rotation(name: str, ours: int, mirrored: bool, other: float | None, theirs: Any) -> None:
    path = str(corpus_file(name))
    with VideoDecoder(path) as decoder:
        assert (decoder.metadata.rotation, decoder.metadata.mirrored) == (ours, mirrored)
        assert read_stamp(decoder[3].numpy()) == 3, "upright, and not mirrored"
    if theirs is not None:
        assert theirs(path).metadata.rotation == other
        if mirrored:
            with pytest.raises(ValueError, match="stamp"):
                read_stamp(theirs(path)[3].numpy())


@difference("Values that the header does not have")
def test_what_the_header_does_not_say(theirs: Any) -> None:
    facts = VideoDecoder(str(corpus_file("base.mkv"))).metadata
    assert (facts.bit_rate, facts.pixel_aspect_ratio) == (None, None)
    if theirs is not None:
        other = theirs(str(corpus_file("base.mkv"))).metadata
        assert (other.bit_rate, other.pixel_aspect_ratio) == (0, 0)


@difference("`average_fps_from_header`")
def test_average_fps_from_header(theirs: Any) -> None:
    path = str(corpus_file("vfr.mp4"))
    assert VideoDecoder(path).metadata.average_fps_from_header == pytest.approx(100 / 4.36)
    if theirs is not None:
        assert theirs(path).metadata.average_fps_from_header == 25


@difference("End of the stream")
def test_the_end_of_the_stream(theirs: Any) -> None:
    path = str(corpus_file("ticks_90k.mp4"))
    with VideoDecoder(path) as decoder:
        assert decoder.metadata.end_stream_seconds == pytest.approx(4.0)
        assert decoder.get_frame_at(99).duration_seconds == pytest.approx(0.04)
        assert read_stamp(decoder.get_frame_played_at(3.98).data.numpy()) == 99
    if theirs is not None:
        other = theirs(path)
        assert other.metadata.end_stream_seconds == pytest.approx(3.96)
        assert other.get_frame_at(99).duration_seconds == 0
        with pytest.raises(IndexError):
            other.get_frame_played_at(3.98)


@difference("Duration of a frame")
def test_how_long_a_frame_is_shown(theirs: Any) -> None:
    path = str(corpus_file("vfr.mp4"))
    ours = VideoDecoder(path).get_frames_at([5, 6]).duration_seconds.tolist()
    assert ours == pytest.approx([0.04, 0.08]), "FFmpeg 8's decoder; shown for 0.08 and 0.04 s"
    if theirs is not None:
        assert theirs(path).get_frames_at([5, 6]).duration_seconds.tolist() == pytest.approx([0.04, 0.04])


# --- arguments and values ---------------------------------------------------------------------------


@difference("Resized pictures")
def test_pictures_that_are_resized(theirs: Any) -> None:
    ours = VideoDecoder(base(), transforms=[Resize((48, 64))])[:2]
    assert ours.is_contiguous(), "planes, not [N, H, W, C] in other words"
    if theirs is not None:
        from torchcodec.transforms import Resize as TheirResize

        other = theirs(base(), transforms=[TheirResize((48, 64))])[:2]
        assert other.is_contiguous(memory_format=torch.channels_last)
        assert other.shape == ours.shape
        assert not torch.equal(other, ours)


@difference("Sizes of transforms")
def test_sizes_of_transforms(theirs: Any) -> None:
    for transform in (Resize((10.5, 10)), CenterCrop((10.5, 10)), Resize((10, 10, 10))):
        with pytest.raises(UsageError):
            VideoDecoder(base(), transforms=[transform])
    if theirs is not None:
        from torchcodec.transforms import Resize as TheirResize

        assert theirs(base(), transforms=[TheirResize((10.5, 10))])[0].shape == (3, 10, 10)


@difference("`custom_frame_mappings`")
def test_mappings_of_other_frames(theirs: Any) -> None:
    one = frames({"pts": 0, "duration": 512, "key_frame": 1})
    with pytest.raises(UsageError, match="1 frames, the stream has 100"):
        VideoDecoder(base(), custom_frame_mappings=one)
    if theirs is not None:
        # No frame is asked for: those that the mapping does not list are read from beyond its end.
        assert len(theirs(base(), custom_frame_mappings=one)) == 100


@difference("`stream_index` below 0")
def test_streams_below_0(theirs: Any) -> None:
    with pytest.raises(NoVideoStream):
        VideoDecoder(base(), stream_index=-1)
    if theirs is not None:
        assert theirs(base(), stream_index=-1)[0].shape == (3, 96, 128)


@difference("`num_ffmpeg_threads` above 1024")
def test_many_threads(theirs: Any) -> None:
    with pytest.raises(UsageError, match="at most 1024"):
        VideoDecoder(base(), num_ffmpeg_threads=2**40)
    if theirs is not None:
        assert theirs(base(), num_ffmpeg_threads=2**40)[0].shape == (3, 96, 128)


@difference("Empty bytes")
def test_no_bytes(theirs: Any) -> None:
    for source in (b"", io.BytesIO(b"")):
        with pytest.raises(UnreadableMedia):
            VideoDecoder(source)
    if theirs is not None:
        with pytest.raises(ValueError, match="length"):
            theirs(b"")


@difference("`Frame` and `FrameBatch`")
def test_frames_and_batches(theirs: Any) -> None:
    with VideoDecoder(base()) as decoder:
        frame, batch = decoder.get_frame_at(3), decoder.get_frames_at([1, 2, 3])
    with pytest.raises(AttributeError):
        frame.pts_seconds = 5.0  # type: ignore[misc]
    data, times, _ = batch
    assert (data.shape, times.tolist()) == ((3, 3, 96, 128), pytest.approx([0.04, 0.08, 0.12]))
    assert torch.as_tensor(batch.indices).tolist() == [1, 2, 3]
    if theirs is not None:
        first, _, _ = theirs(base()).get_frames_at([1, 2, 3])
        assert first.data.shape == (3, 96, 128), "three batches of one frame each"


@difference("`output_dtype`")
def test_output_dtype(theirs: Any) -> None:
    whole = VideoDecoder(base(), output_dtype=torch.float32)[0]
    assert (whole.dtype, bool(whole.max() <= 1)) == (torch.float32, True)
    with pytest.raises(UsageError, match="not in this version"):
        VideoDecoder(base(), output_dtype="auto")
    deep = VideoDecoder(str(corpus_file("ten_bit.mp4")), output_dtype=torch.float32)[0]
    assert len(np.unique((deep * 255).round())) == len(torch.unique(deep)), "8 bits, as everywhere here"
    if theirs is not None and "output_dtype" not in signature(theirs).parameters:
        with pytest.raises(TypeError):
            theirs(base(), output_dtype=torch.float32)
    elif theirs is not None:
        path = str(corpus_file("ten_bit.mp4"))
        assert theirs(path)[0].dtype == torch.uint8
        kept = theirs(path, output_dtype="auto")[0]
        assert len(torch.unique(kept)) > 256
        assert torch.equal(kept, theirs(path, output_dtype=torch.float32)[0])


@difference("`device`")
def test_device(theirs: Any) -> None:
    with pytest.raises(UsageError, match="not in this version"):
        VideoDecoder(base(), device="cuda")


# --- the page ---------------------------------------------------------------------------------------


def test_the_page_lists_these() -> None:
    assert sorted(re.findall(r"^\| ([^|]+) \|", PAGE.read_text(encoding="utf-8"), re.M)) == sorted(difference.names)


def test_a_crop_before_the_size_warns_where_it_is_enlarged() -> None:
    with pytest.warns(UserWarning, match="crop comes before size") as shown:
        VideoDecoder(corpus_file("base.mp4"), crop=(0, 0, 12, 16), size=(24, 32))
    assert [each.filename for each in shown] == [__file__]
    VideoDecoder(corpus_file("base.mp4"), transforms=[CenterCrop((12, 16)), Resize((24, 32))])  # As it is written.

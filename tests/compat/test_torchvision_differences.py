"""Differences from torchvision: each row of the tables in docs/torchvision.md.

torchvision reads videos with PyAV, which is here; what it does with PyAV's answers is written down as it documents it.
"""

from __future__ import annotations

import json
import math
import os
import re
import warnings
from pathlib import Path

import av
import pytest
import torch

from framefeed.compat.torchvision import (
    UCF101,
    Kinetics,
    UniformClipSampler,
    VideoClips,
    read_video,
    read_video_timestamps,
)
from framefeed.errors import (
    CorruptMedia,
    FormatChanged,
    MediaError,
    MissingMedia,
    StaleSource,
    TimeUnavailable,
    UsageError,
)
from framefeed.testing import AudioSpec, ClipSpec, read_stamps, write_clip
from tests.corpus import clip_file, corpus_file, expected_stamps
from tests.differences import Differences
from tests.reference import open_media

PAGE = Path(__file__).resolve().parents[2] / "docs" / "torchvision.md"
RESULTS = PAGE.parents[1] / "benchmarks" / "results" / "torchvision-2026-11-28.json"
difference = Differences()


def times_of_theirs(path: str) -> list[int]:
    """Times of all frames of the first video stream; none after an error."""
    with open_media(path) as container:
        extradata = container.streams[0].codec_context.extradata
        is_own = extradata is not None and b"Lavc" in extradata  # then of packets, without decoding
        try:
            read = container.demux(video=0) if is_own else container.decode(video=0)
            return sorted(each.pts for each in read if each.pts is not None)
        except av.FFmpegError:
            return []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for kind in ("a", "b"):
        (tmp_path / "train" / kind).mkdir(parents=True)
        os.link(clip_file("tvdiff.avi", ClipSpec(num_frames=8)), tmp_path / "train" / kind / f"{kind}.avi")
    return tmp_path


# --- make data sets ---------------------------------------------------------------------------------


@difference("`download=True`")
def test_download(folder: Path) -> None:
    with pytest.raises(UsageError, match="cvdfoundation/kinetics-dataset"):
        Kinetics(folder, 4, download=True)


@difference("`_audio_samples`")
def test_audio_samples(folder: Path) -> None:
    with pytest.raises(UsageError, match="_audio_samples"):
        Kinetics(folder, 4, _audio_samples=100)


@difference("Sizes: `_video_width`, `_video_height`, `_video_min_dimension`, `_video_max_dimension`")
def test_sizes(folder: Path) -> None:
    for name in ("_video_width", "_video_height", "_video_min_dimension"):
        with pytest.raises(UsageError, match=f"{name}: .*transform"):
            Kinetics(folder, 4, **{name: 112})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="_video_max_dimension: expected 0"):
        VideoClips([], _video_max_dimension=112)


@difference("Metadata of other videos")
def test_metadata_of_other_videos(folder: Path) -> None:
    other = Kinetics(folder, 4).metadata
    other["video_paths"] = other["video_paths"][::-1]
    with pytest.raises(UsageError, match=r"the first difference is .*b\.avi and .*a\.avi"):
        Kinetics(folder, 4, _precomputed_metadata=other)


@difference("A fold without videos")
def test_a_fold_without_videos(folder: Path) -> None:
    lists = folder / "lists"
    lists.mkdir()
    with pytest.raises(MissingMedia, match=r"trainlist01\.txt: no such file"):
        UCF101(folder / "train", lists, 4)
    (lists / "trainlist01.txt").write_text("c/c.avi 1\n")
    with pytest.raises(UsageError, match="name none of the 2 videos"):
        UCF101(folder / "train", lists, 4)


@difference("Files that cannot be read")
def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.mp4" for number in range(5)]
    for path in paths:
        path.write_text("no video")
    with pytest.warns(RuntimeWarning, match=r"5 of 5 videos cannot be read.*0\.mp4") as shown:
        assert len(VideoClips(paths, 4)) == 0
    assert len(shown) == 1
    for call in (read_video, read_video_timestamps):
        with pytest.raises(MediaError, match=r"0\.mp4"):
            call(paths[0])


@difference("`video_pts`, `clips`")
def test_lists_are_computed(folder: Path) -> None:
    clips = Kinetics(folder, 4).video_clips
    assert clips.video_pts is not clips.video_pts
    assert [each.tolist() for each in clips.clips] == [each.tolist() for each in clips.clips]
    assert not hasattr(clips, "resampling_idxs")
    assert not hasattr(clips, "compute_clips_for_video")


# --- take clips -------------------------------------------------------------------------------------


@difference("Files without times")
@pytest.mark.parametrize(("name", "other"), [("raw.h264", 0), ("negative_pts.mkv", 90)])
def test_files_without_times(name: str, other: int) -> None:
    path = str(corpus_file(name))
    clips = VideoClips([path], 1)
    stamps = [read_stamps(clips.get_clip(idx)[0].numpy())[0] for idx in range(len(clips))]
    assert stamps == expected_stamps(name)
    assert len(stamps) == 100
    assert len(times_of_theirs(path)) == other


def order_of_theirs(path: str) -> list[int]:
    """Numbers of decoded frames in the order in which a clip has them: sorted by their times."""
    with open_media(path) as container:
        times = [frame.pts for frame in container.decode(video=0)]
    return sorted(range(len(times)), key=times.__getitem__)


@difference("AVI files with reordered frames, such as XviD's in HMDB51")
@pytest.mark.parametrize("name", ["no_pts.avi", "packed_b_frames.avi"])
def test_avi_files_with_reordered_frames(name: str) -> None:
    path, stamps = str(corpus_file(name)), expected_stamps(name)
    assert read_video_timestamps(path)[0] == list(range(len(stamps)))
    assert read_stamps(VideoClips([path], len(stamps)).get_clip(0)[0].numpy()) == stamps
    assert times_of_theirs(path)[0] == 1
    assert order_of_theirs(path)[:3] == [0, 2, 1]


@pytest.mark.parametrize(
    ("name", "count", "order"),
    [
        ("RATRACE_wave_f_nm_np1_fr_goo_37.avi", 72, [0, 2, 1, 3, 5, 4]),
        ("hmdb51_Turnk_r_Pippi_Michel_cartwheel_f_cm_np2_le_med_6.avi", 83, [0, 2, 1, 4, 3, 6]),
    ],
)
def test_files_of_hmdb51(name: str, count: int, order: list[int], media_root: Path) -> None:
    path = str(media_root / "video" / "pytorch-vision" / name)
    clips = VideoClips([path], 8, 8)
    assert clips.video_pts[0].tolist() == list(range(count))
    theirs = times_of_theirs(path)
    assert theirs == [1, *range(3, count + 2)]
    assert order_of_theirs(path)[:6] == order
    with open_media(path) as container:
        decoded = [frame.to_rgb().to_ndarray() for frame in container.decode(video=0)]
    # Their metadata mean our frames nevertheless.
    other = VideoClips([], 8, 8, _precomputed_metadata=clips.metadata | {"video_pts": [torch.tensor(theirs)]})
    for idx in range(len(clips)):
        frames = clips.get_clip(idx)[0]
        assert torch.equal(other.get_clip(idx)[0], frames)
        assert (frames.numpy() == decoded[8 * idx : 8 * idx + 8]).all()


@difference("Several video streams")
def test_several_video_streams() -> None:
    small = ClipSpec(num_frames=6, height=48, width=64, disposition="original")
    path = str(clip_file("tvtwo.mkv", small, ClipSpec(num_frames=8, disposition="default")))
    assert VideoClips([path], 8).get_clip(0)[0].shape == (8, 96, 128, 3)
    assert len(times_of_theirs(path)) == 6


@difference("A size that changes within the stream")
def test_a_size_that_changes() -> None:
    clips = VideoClips([str(corpus_file("size_change.ts"))], 4)
    sizes = {clips.get_clip(idx)[0].shape for idx in (0, 1)}
    assert len(sizes) == 1
    with pytest.raises(FormatChanged, match=r"size_change\.ts"):
        clips.get_clips(range(len(clips)))


@difference("Damaged frames")
def test_damaged_frames() -> None:
    path = str(corpus_file("flipped_bytes.mp4"))
    clips = VideoClips([path], 1)
    good, bad = 0, 0
    for idx in range(len(clips)):
        try:
            good += len(clips.get_clip(idx)[0])
        except CorruptMedia:
            bad += 1
    assert good
    assert bad
    with pytest.raises(CorruptMedia, match=r"flipped_bytes\.mp4"):
        clips.get_clips(range(len(clips)))
    assert times_of_theirs(path) == []


@difference("A cover picture before the video")
def test_a_cover_picture() -> None:
    path = str(corpus_file("cover_first.mp4"))
    assert len(VideoClips([path], 1)) == 100
    assert len(times_of_theirs(path)) < 100


@difference("A rotation in the header")
def test_rotation() -> None:
    path = str(corpus_file("rotated_90.mp4"))
    assert VideoClips([path], 1).get_clip(0)[0].shape == (1, 128, 96, 3)
    with av.open(path) as container:
        assert next(container.decode(video=0)).to_rgb().to_ndarray().shape == (96, 128, 3)


@difference("Sound")
def test_sound() -> None:
    path = str(clip_file("tvsound.mp4", ClipSpec(num_frames=25, first_stamp=300), AudioSpec()))
    for _, audio, info in (read_video(path), VideoClips([path], 4).get_clip(0)[:3]):
        assert (audio.shape, audio.dtype, info) == ((1, 0), torch.float32, {"video_fps": 25.0})
    with av.open(path) as container:
        assert container.streams.audio


@difference("`get_clip(-1)`")
def test_the_last_clip() -> None:
    paths = [str(clip_file(f"tvlast{first}.mp4", ClipSpec(num_frames=6, first_stamp=first))) for first in (0, 50)]
    clips = VideoClips(paths, 4)
    frames, _, _, video = clips.get_clip(-1)
    assert (read_stamps(frames.numpy()), video) == ([52, 53, 54, 55], 1)


@difference("A file that has changed since it was indexed")
def test_a_changed_file(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "a.mp4", ClipSpec(num_frames=20))
    clips = VideoClips([path], 4)
    write_clip(path, ClipSpec(num_frames=10, seed=2))
    with pytest.raises(StaleSource):
        clips.get_clip(0)


@difference("More than 16,777,216 clips")
def test_very_many_clips() -> None:
    metadata = {"video_paths": ["a"], "video_pts": [torch.arange(1)], "video_fps": [1.0]}
    clips = VideoClips([], 1, _precomputed_metadata=metadata)
    clips._num_clips = [2**24 + 1, 1]
    assert list(UniformClipSampler(clips, 1)) == [0, 2**24 + 1]
    assert torch.linspace(2**24 + 1, 2**24 + 1, 1).to(torch.int64).tolist() == [2**24], "a clip of the first video"


# --- read videos ------------------------------------------------------------------------------------


@difference('`pts_unit="pts"`')
def test_pts_are_exact() -> None:
    path = str(corpus_file("vfr.mp4"))
    pts, _ = read_video_timestamps(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_stamps(read_video(path, pts[40], pts[43])[0].numpy()) == expected_stamps("vfr.mp4")[40:44]


@difference("Seconds as floats")
def test_seconds() -> None:
    path = str(clip_file("tvcentis.mkv", ClipSpec(num_frames=40, fps=100)))
    assert read_stamps(read_video(path, 0.29, 0.3, "sec")[0].numpy()) == [29, 30]
    assert math.floor(0.29 * 100) == 28


@difference("Files that have no times")
def test_files_that_have_no_times() -> None:
    path = str(corpus_file("raw.h264"))
    assert len(read_video(path)[0]) == 100
    with pytest.raises(TimeUnavailable):
        read_video(path, 0.5, 1.0, "sec")
    with pytest.raises(TimeUnavailable):
        read_video_timestamps(path)
    assert times_of_theirs(path) == []


# --- the page ---------------------------------------------------------------------------------------


def test_the_page_lists_these() -> None:
    text = PAGE.read_text(encoding="utf-8")
    tables = text[text.index("## Make data sets") :]
    assert sorted(re.findall(r"^\| ([^|]+) \|", tables, re.M)) == sorted(difference.names)


def test_the_figures_of_the_page_are_those_of_the_results() -> None:
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]
    lines = [
        f"| {title} | "
        + " | ".join(f"{row[unit]['ratio']:.2f} ({row[unit]['from']:.2f}-{row[unit]['to']:.2f})" for unit in row)
        + " |"
        for title, row in rows.items()
    ]
    assert "\n".join(lines) in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["base.mp4", "full_range.avi", "ten_bit.mp4"])
def test_pixels_are_the_same(name: str) -> None:
    with av.open(str(corpus_file(name))) as container:
        theirs = [frame.to_rgb().to_ndarray() for frame in container.decode(video=0)]
    ours = read_video(str(corpus_file(name)))[0].numpy()
    assert all((one == other).all() for one, other in zip(ours, theirs, strict=True))

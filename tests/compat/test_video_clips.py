"""VideoClips gives the frames that their numbers promise, of any file, in any process, by any metadata."""

from __future__ import annotations

import copy
import os
import pickle
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest
import torch

from framefeed.catalog import Catalog
from framefeed.compat.torchvision import VideoClips, _videos, read_video, read_video_timestamps
from framefeed.errors import FramefeedError, StaleSource, UsageError
from framefeed.index import build_index
from framefeed.testing import AudioSpec, ClipSpec, read_stamps
from tests.compat.torchvision_oracles import list_windows
from tests.corpus import clip_file, corpus_file, expected_stamps
from tests.remote import stored

NAMES = (
    "base.mp4", "vfr.mp4", "no_pts.avi", "closed_gop.ts", "open_gop_mpeg2.mpg", "fields.mkv", "hidden_vp8.webm",
    "late_key.mp4",
)  # fmt: skip


@pytest.fixture(scope="module")
def paths() -> list[str]:
    """A video at 25 frames a second, a short one, one at 30 and one with sound."""
    specs = {
        "tv25.mp4": (ClipSpec(num_frames=40),),
        "tv5.mkv": (ClipSpec(num_frames=5, first_stamp=100),),
        "tv30.avi": (ClipSpec(num_frames=33, fps=30, first_stamp=200, codec="mpeg4", b_frames=0),),
        "tvsound.mp4": (ClipSpec(num_frames=25, first_stamp=300), AudioSpec()),
    }
    return [str(clip_file(name, *streams)) for name, streams in specs.items()]


FACTS = [(40, 25.0, 0), (5, 25.0, 100), (33, 30.0, 200), (25, 25.0, 300)]
"""Frames, rate and first stamp of each."""


def expect(size: int, step: int, rate: float | None) -> list[tuple[int, list[int]]]:
    """(video, stamps) of all clips."""
    return [
        (video, [first + number for number in window])
        for video, (frames, fps, first) in enumerate(FACTS)
        for window in list_windows(frames, fps, size, step, rate)
    ]


def make(paths: list[str], *arguments: Any, **options: Any) -> VideoClips:
    with pytest.warns(UserWarning, match="1 of 4 videos have fewer frames than a clip of"):
        return VideoClips(paths, *arguments, **options)


@pytest.mark.parametrize(("size", "step", "rate"), [(16, 1, None), (8, 5, None), (6, 2, 12), (8, 3, 50), (7, 7, 15)])
def test_clips_have_the_frames_of_the_rule(paths: list[str], size: int, step: int, rate: float | None) -> None:
    clips = make(paths, size, step, rate) if rate != 50 else VideoClips(paths, size, step, rate)
    expected = expect(size, step, rate)
    assert (len(clips), clips.num_clips(), clips.num_videos()) == (len(expected), len(expected), 4)
    for idx, (video, stamps) in enumerate(expected):
        frames, audio, info, number = clips.get_clip(idx)
        assert (frames.dtype, frames.shape, number) == (torch.uint8, (size, 96, 128, 3), video)
        assert read_stamps(frames.numpy()) == stamps
        assert (audio.shape, audio.dtype) == ((1, 0), torch.float32)
        assert info == {"video_fps": FACTS[video][1] if rate is None else rate}


def test_clips_and_locations_are_those_of_the_numbers(paths: list[str]) -> None:
    clips = make(paths, 6, 2, 12)
    locations = [clips.get_clip_location(idx) for idx in range(len(clips))]
    counts = [len(each) for each in clips.clips]
    assert locations == [(video, clip) for video, count in enumerate(counts) for clip in range(count)]
    assert counts == clips.clips_per_video
    assert clips.cumulative_sizes == np.cumsum(counts).tolist()
    for (frames, fps, _), pts, of_video in zip(FACTS, clips.video_pts, clips.clips, strict=True):
        expected = [[int(pts[number]) for number in window] for window in list_windows(frames, fps, 6, 2, 12)]
        assert of_video.tolist() == expected
        assert of_video.shape[1:] == (6,)


def test_tchw_is_the_same_memory_in_another_order(paths: list[str]) -> None:
    first, second = make(paths, 6, 2), make(paths, 6, 2, output_format="tchw")
    frames, turned = first.get_clip(3)[0], second.get_clip(3)[0]
    assert turned.shape == (6, 3, 96, 128)
    assert torch.equal(frames.permute(0, 3, 1, 2), turned)
    assert turned.permute(0, 2, 3, 1).is_contiguous()


@pytest.mark.parametrize("name", NAMES)
def test_frames_are_exact_in_files_that_mislead_others(name: str) -> None:
    stamps = expected_stamps(name)
    clips = VideoClips([str(corpus_file(name))], 5, 7)
    assert len(clips) == len(list_windows(len(stamps), None, 5, 7, None))
    assert [read_stamps(clips.get_clip(idx)[0].numpy()) for idx in range(len(clips))] == [
        stamps[first : first + 5] for first in range(0, len(stamps) - 4, 7)
    ]


def test_several_clips_at_once_are_the_same_clips(paths: list[str]) -> None:
    clips = make(paths, 6, 2, 12)
    order = [7, 0, len(clips) - 1, 0, 3, -1]
    for idx, (frames, _, info, video) in zip(order, clips.get_clips(order), strict=True):
        alone = clips.get_clip(idx)
        assert torch.equal(frames, alone[0])
        assert (info, video) == alone[2:]
    assert clips.get_clips([]) == []


def test_memory_of_a_clip_is_its_own_while_any_view_of_it_lives(paths: list[str]) -> None:
    clips = make(paths, 6, 2, 12, output_format="TCHW")
    kept = []
    for _ in range(3):
        for idx in range(len(clips)):
            frames = clips.get_clip(idx)[0]
            if idx % 3 == 0:
                kept.append((idx, frames[1:3]))
    expected = expect(6, 2, 12)
    for idx, frames in kept:
        assert read_stamps(frames.permute(0, 2, 3, 1).numpy()) == expected[idx][1][1:3]


def test_memory_that_is_lent_twice_would_be_noticed(paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    memory = np.zeros((6, 96, 128, 3), np.uint8)
    monkeypatch.setattr(_videos._buffers.value, "scratch", SimpleNamespace(lease=lambda shape: memory.reshape(shape)))
    with pytest.raises(AssertionError):
        test_memory_of_a_clip_is_its_own_while_any_view_of_it_lives(paths)


def test_other_clips_of_the_same_videos_read_no_file(paths: list[str], tmp_path: Path) -> None:
    copies = [shutil.copy(path, tmp_path) for path in paths]
    clips = make(copies, 6, 2)
    for path in copies:
        os.unlink(path)
    with pytest.warns(UserWarning, match="fewer frames than a clip of 4"):
        clips.compute_clips(4, 9, 12)
    expected = expect(4, 9, 12)
    assert (len(clips), clips.num_frames, clips.step, clips.frame_rate) == (len(expected), 4, 9, 12)
    with pytest.warns(UserWarning, match="fewer frames than a clip of 16"):
        clips.compute_clips(16, 1)
    assert (clips.frame_rate, len(clips)) == (None, len(expect(16, 1, None))), "the earlier rate is gone"


@pytest.mark.parametrize("chosen", [[2, 0], [3], [1], [], [0, 0]])
def test_a_subset_has_the_clips_of_its_videos(paths: list[str], chosen: list[int]) -> None:
    whole = make(paths, 6, 2, 12)
    for clips in (whole, make([], 6, _precomputed_metadata=whole.metadata)):
        with pytest.warns(UserWarning, match="fewer frames than a clip of 4"):
            clips.compute_clips(4, 2, 12)
        part = clips.subset(chosen)
        assert part.video_paths == [paths[video] for video in chosen]
        wanted = [read for video in chosen for read in expect(4, 2, 12) if read[0] == video]
        assert len(part) == len(wanted)
        for idx, (video, stamps) in enumerate(wanted):
            frames, _, _, number = part.get_clip(idx)
            assert (read_stamps(frames.numpy()), chosen[number]) == (stamps, video)
    assert len(whole.subset([0])) < len(whole), "the whole stays as it is"


def _without_catalog(clips: VideoClips, monkeypatch: pytest.MonkeyPatch) -> VideoClips:
    """As a catalog of more than 64 MB is pickled."""

    def refuse(catalog: Catalog) -> Any:
        raise UsageError("too large")

    with monkeypatch.context() as patch:
        patch.setattr(Catalog, "__reduce__", refuse)
        return pickle.loads(pickle.dumps(clips))  # type: ignore[no-any-return]


def test_copies_give_the_same_clips(paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clips = make(paths, 6, 2, 12, output_format="TCHW")
    by_metadata = make([], 6, 2, 12, _precomputed_metadata=clips.metadata, output_format="TCHW")
    copies = {
        "pickled": pickle.loads(pickle.dumps(clips)),
        "pickled twice": pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(clips)))),
        "copied": copy.deepcopy(clips),
        "by metadata": by_metadata,
        "by metadata, pickled": pickle.loads(pickle.dumps(by_metadata)),
        "too large": _without_catalog(clips, monkeypatch),
    }
    for name, other in copies.items():
        assert (other.video_paths, other.video_fps, len(other)) == (clips.video_paths, clips.video_fps, len(clips)), (
            name
        )
        for one, two in zip(other.video_pts, clips.video_pts, strict=True):
            assert torch.equal(one, two), name
        for idx in (0, 5, len(clips) - 1):
            assert torch.equal(other.get_clip(idx)[0], clips.get_clip(idx)[0]), name
            assert other.get_clip(idx)[2:] == clips.get_clip(idx)[2:], name


def test_times_are_given_in_memory_of_their_own(paths: list[str]) -> None:
    own = make(paths, 6, 2)
    for clips in (own, make([], 6, 2, _precomputed_metadata=own.metadata)):
        times, frames = clips.video_pts[0].tolist(), clips.get_clip(0)[0]
        clips.video_pts[0].add_(7)
        clips.metadata["video_pts"][0].zero_()
        clips.clips[0].zero_()
        assert clips.video_pts[0].tolist() == times
        assert torch.equal(clips.get_clip(0)[0], frames)


def test_pickled_clips_are_read_without_indexing_again(paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clips = make(paths, 6, 2)
    copies = pickle.loads(pickle.dumps(clips)), pickle.loads(pickle.dumps(clips.subset([3, 0])))
    indexed = list[str]()
    monkeypatch.setattr(_videos, "build_index", lambda path: [indexed.append(path), build_index(path)][1])
    for other in copies:
        other.get_clip(0)
    assert indexed == []
    make([], 6, 2, _precomputed_metadata=clips.metadata).get_clip(0)
    assert indexed == paths[:1], "which metadata need"


@pytest.mark.parametrize("name", NAMES)
def test_the_rate_is_that_of_the_header(name: str) -> None:
    path = str(corpus_file(name))
    with av.open(path) as container:
        rate = container.streams.video[0].average_rate
    assert rate is not None
    assert VideoClips([path], 1).video_fps == [read_video_timestamps(path)[1]] == [float(rate)]


def test_metadata_survive_torch_save_without_code(paths: list[str], tmp_path: Path) -> None:
    clips = make(paths, 6)
    torch.save(clips.metadata, tmp_path / "metadata.pt")
    loaded = torch.load(tmp_path / "metadata.pt", weights_only=True)
    assert sorted(loaded) == ["video_fps", "video_paths", "video_pts"]
    assert torch.equal(make([], 6, _precomputed_metadata=loaded).get_clip(-1)[0], clips.get_clip(-1)[0])


def test_metadata_that_count_other_frames_find_frames_by_their_times() -> None:
    path = str(corpus_file("late_key.mp4"))
    own = VideoClips([path], 4).metadata
    pts = own["video_pts"][0]
    step = int(pts[1] - pts[0])
    # torchvision lists all packets, also those before the first key frame.
    listed = torch.cat([torch.arange(15) * step + int(pts[0]) - 15 * step, pts])
    clips = VideoClips([], 4, _precomputed_metadata=own | {"video_pts": [listed]})
    assert read_stamps(clips.get_clip(17)[0].numpy()) == expected_stamps("late_key.mp4")[2:6]
    with pytest.raises(
        StaleSource, match=r"late_key.mp4: has no frame at pts -?\d+, .*_precomputed_metadata"
    ) as raised:
        clips.get_clip(13)
    assert str(raised.value.source).endswith("late_key.mp4")
    assert isinstance(pickle.loads(pickle.dumps(raised.value)), StaleSource)


def test_frames_by_the_numbers_of_other_metadata_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_videos.VideoTable, "_find_numbers", lambda table, video, numbers, index: numbers)
    with pytest.raises(AssertionError):
        test_metadata_that_count_other_frames_find_frames_by_their_times()


def test_metadata_with_other_times_are_of_another_file() -> None:
    own = VideoClips([str(corpus_file("base.mp4"))], 4).metadata
    clips = VideoClips([], 4, _precomputed_metadata=own | {"video_pts": [own["video_pts"][0] + 1]})
    with pytest.raises(StaleSource, match=r"base\.mp4: has no frame at pts 1,"):
        clips.get_clip(0)


def test_metadata_of_files_without_times_find_frames_by_their_numbers() -> None:
    path = str(corpus_file("no_pts.avi"))
    own = VideoClips([path], 4)
    # torchvision has the times of decoded frames, which begin at 1 here.
    metadata = own.metadata | {"video_pts": [own.video_pts[0] + 1]}
    clips = VideoClips([], 4, _precomputed_metadata=metadata)
    assert torch.equal(clips.get_clip(7)[0], own.get_clip(7)[0])
    fewer = VideoClips([], 4, _precomputed_metadata=metadata | {"video_pts": [own.video_pts[0][1:]]})
    with pytest.raises(StaleSource, match="has 100 frames without times, but the metadata list 99 frames"):
        fewer.get_clip(0)


def test_videos_that_cannot_be_read_have_no_clips(paths: list[str], tmp_path: Path) -> None:
    (tmp_path / "text.mp4").write_text("no video")
    given = [str(tmp_path / "text.mp4"), paths[0], str(tmp_path / "missing.mp4")]
    with pytest.warns(RuntimeWarning, match=r"2 of 3 videos cannot be read.*text.mp4.*missing.mp4") as shown:
        clips = VideoClips(given, 8)
    assert [each.filename for each in shown] == [__file__]
    assert (clips.clips_per_video, clips.video_fps) == ([0, 33, 0], [None, 25.0, None])
    assert [len(pts) for pts in clips.video_pts] == [0, 40, 0]
    assert clips.get_clip(0)[3] == 1
    assert len(VideoClips([], 8, _precomputed_metadata=clips.metadata)) == len(clips)


def test_the_same_video_twice_is_two_videos(paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(paths[0]).parent)
    relative = [Path(Path(paths[0]).name), f"./{Path(paths[0]).name}"]
    clips = VideoClips(relative, 40)
    assert clips.video_paths == [str(relative[0]), relative[1]]
    assert [clips.get_clip(idx)[3] for idx in range(2)] == [0, 1]


def test_no_videos_are_no_clips() -> None:
    clips = VideoClips([])
    assert (len(clips), clips.clips, clips.metadata["video_paths"]) == (0, [], [])
    with pytest.raises(IndexError):
        clips.get_clip(0)


def test_threads_find_the_same(paths: list[str]) -> None:
    one, two = make(paths, 6, num_workers=0), make(paths, 6, num_workers=2)
    assert all(map(torch.equal, one.video_pts, two.video_pts))
    assert one.video_fps == two.video_fps


@pytest.mark.parametrize("idx", [10_000, -10_000])
def test_a_clip_that_does_not_exist(paths: list[str], idx: int) -> None:
    clips = make(paths, 6)
    for call in (clips.get_clip, clips.get_clip_location):
        with pytest.raises(IndexError, match="there is no idx") as raised:
            call(idx)
        assert isinstance(raised.value, UsageError)


WRONG = {
    "_audio_samples": (1, "sound"),
    "_video_width": (64, "transform"),
    "_video_height": (64, "transform"),
    "_video_min_dimension": (64, "transform"),
    "_video_max_dimension": (64, "transform"),
    "output_format": ("CTHW", "'THWC' or 'TCHW'"),
    "clip_length_in_frames": (0, "at least 1"),
    "frames_between_clips": (0, "at least 1"),
    "frame_rate": (0, "above 0"),
    "num_workers": (-1, "at least 0"),
    "video_paths": ("a.mp4", "a list of paths"),
    "_precomputed_metadata": ({"video_paths": ["a"], "video_pts": [], "video_fps": [1.0]}, "lists of one length"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_named(name: str) -> None:
    value, advice = WRONG[name]
    with pytest.raises(UsageError, match=f"{name}: .*{advice}") as raised:
        VideoClips(**({"video_paths": []} | {name: value}))  # type: ignore[arg-type]
    assert isinstance(raised.value, ValueError)
    assert isinstance(pickle.loads(pickle.dumps(raised.value)), FramefeedError)


def test_videos_by_url(paths: list[str]) -> None:
    data = Path(paths[0]).read_bytes()
    with stored(clip=data) as urls:
        clips = VideoClips(urls, 8, 8)
        by_metadata = VideoClips([], 8, 8, _precomputed_metadata=clips.metadata)
        for idx in range(len(clips)):
            frames = clips.get_clip(idx)[0]
            assert read_stamps(frames.numpy()) == list(range(8 * idx, 8 * idx + 8))
            assert torch.equal(by_metadata.get_clip(idx)[0], frames)
        assert read_stamps(read_video(urls[0])[0].numpy()) == list(range(40))


def test_archives_are_no_videos(tmp_path: Path) -> None:
    import tarfile

    clip = clip_file("tv25.mp4", ClipSpec(num_frames=40))
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(clip, "1.mp4")
        archive.add(clip, "2.mp4")
    with pytest.raises(UsageError, match="video_paths: expected videos"):
        VideoClips([str(tmp_path / "a.tar")])

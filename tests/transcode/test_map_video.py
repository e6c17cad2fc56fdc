"""Videos and images written by map_video: the same bytes for any workers, every frame once, in order, with its time."""

from __future__ import annotations

import io
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

import framefeed as ff
from framefeed.encode import VideoOptions, VideoTags, VideoWriter
from framefeed.media import MediaSource
from framefeed.testing import AudioSpec, ClipSpec, read_stamp, write_clip
from framefeed.transcode._reading import DECODER, OUTPUT
from tests.transcode import functions

COUNT = 110


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(tmp_path_factory.mktemp("map") / "clip.mp4", ClipSpec(num_frames=COUNT))


def read_all(path: str | Path) -> tuple[Any, list[float]]:
    with ff.VideoDecoder(path, dimension_order="NHWC") as decoder:
        frames = decoder.get_all_frames()
    return frames.data, frames.pts_seconds.tolist()


def read_accurately(source: str | Path) -> list[Any]:
    """Frames as `map_video` gives them to the function."""
    media, index = MediaSource.of(source), ff.build_index(source)
    return [pixels for _, pixels in DECODER.iter_rgb(media, index, range(len(index)), OUTPUT)]


def stamps_of(path: str | Path) -> list[int | None]:
    """Numbers that the frames show."""
    return [read_stamp(frame) for frame in read_all(path)[0]]


@pytest.fixture(scope="module")
def expected_bytes(clip: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    out = tmp_path_factory.mktemp("one") / "out.mp4"
    result = ff.map_video(clip, functions.keep, out, workers=0)
    assert (result.num_frames, result.num_pictures, result.num_resumed_frames) == (COUNT, COUNT, 0)
    assert result.outputs == (str(out),)
    assert result.ledger == ()
    assert sorted(path.name for path in out.parent.iterdir()) == ["out.mp4"]
    return out.read_bytes()


@pytest.mark.parametrize("batch_size", [1, 2])
@pytest.mark.parametrize("workers", [2, 3, 4])
def test_order_is_that_of_the_video(
    clip: Path, tmp_path: Path, workers: int, batch_size: int, expected_bytes: bytes
) -> None:
    """The experiment of the write-up: batch 1 and 2, workers 2, 3, 4."""
    seen: list[tuple[int, float]] = []

    def function(frames: Any, *, index: Any, pts_seconds: Any) -> Any:
        assert len(frames) == len(index)
        seen.extend(zip(index.tolist(), pts_seconds.tolist(), strict=True))
        return frames

    expected = list(enumerate(read_all(clip)[1]))
    with ff.map_video(clip, function, workers=workers, batch_size=batch_size) as mapped:
        frames = list(mapped)
    assert [(frame.index, frame.pts_seconds) for frame in frames] == expected
    assert sorted(seen) == expected
    seen.clear()
    out = tmp_path / "out.mp4"
    ff.map_video(clip, function, out, workers=workers, batch_size=batch_size)
    assert sorted(seen) == expected
    assert out.read_bytes() == expected_bytes
    assert stamps_of(out) == list(range(COUNT))


@pytest.mark.slow
def test_processes_write_the_same_bytes(clip: Path, tmp_path: Path, expected_bytes: bytes) -> None:
    out = tmp_path / "out.mp4"
    ff.map_video(clip, functions.keep, out, workers=2, kind="processes")
    assert out.read_bytes() == expected_bytes
    assert [path.name for path in tmp_path.iterdir()] == ["out.mp4"]


def test_the_function_gets_what_the_decoder_gives(clip: Path) -> None:
    got: dict[int, Any] = {}

    def function(frame: Any, *, index: int, pts_seconds: float) -> None:
        assert frame.flags.c_contiguous
        assert frame.flags.writeable
        got[index] = frame.copy(), pts_seconds
        frame[:] = 0

    with ff.map_video(clip, function, workers=2) as mapped:
        assert [frame.result for frame in mapped] == [None] * COUNT
    data, times = read_accurately(clip), read_all(clip)[1]
    assert all((got[index][0] == data[index]).all() for index in range(COUNT))
    assert [got[index][1] for index in range(COUNT)] == times


@pytest.mark.parametrize("range_", ["tv", "pc"])
def test_P02_an_unchanged_video_keeps_its_brightness(tmp_path: Path, range_: str) -> None:
    """Without accurate rounding, luma would be 0.5 too dark on average."""
    spec = ClipSpec(num_frames=4, codec_options={"color_range": range_, "crf": "10"})
    clip = write_clip(tmp_path / "clip.mp4", spec)
    ff.map_video(clip, functions.keep, tmp_path / "out.mkv", codec="ffv1", pixel_format="yuv420p", workers=0)
    before, after = read_luma(clip), read_luma(tmp_path / "out.mkv")
    assert abs((after - before).mean()) < 0.1
    assert (after - before).std() < 0.6


def read_luma(path: Path) -> Any:
    with av.open(str(path)) as container:
        frames = [frame.to_ndarray()[: frame.height] for frame in container.decode(video=0)]
    return np.stack(frames).astype(int)


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_unequal_times_are_kept(tmp_path: Path, suffix: str) -> None:
    pts = tuple(np.cumsum([40, 7, 33, 120, 41] * 16).tolist())
    spec = ClipSpec(num_frames=80, pts=pts, time_base=Fraction(1, 1000), gop=9)
    clip = write_clip(tmp_path / "clip.mkv", spec)
    out = tmp_path / f"out.{suffix}"
    ff.map_video(clip, functions.keep, out, workers=2)
    assert read_all(out)[1] == read_all(clip)[1]
    assert stamps_of(out) == list(range(80))


def test_the_last_frame_is_shown_as_long_as_before(tmp_path: Path) -> None:
    clip = tmp_path / "clip.mp4"
    with VideoWriter(clip, VideoOptions(), VideoTags(), Fraction(1, 100)) as writer:
        for number in range(6):
            writer.write(np.full((32, 32, 3), 40 * number, np.uint8), 4 * number, 30)
    ff.map_video(clip, functions.keep, tmp_path / "out.mp4", workers=0)
    for path in (clip, tmp_path / "out.mp4"):
        index = ff.build_index(path)
        assert index.end_pts * index.time_base == Fraction(50, 100)


def test_unequal_times_into_avi_are_refused(tmp_path: Path) -> None:
    spec = ClipSpec(num_frames=6, pts=(0, 10, 40, 50, 90, 130), time_base=Fraction(1, 1000))
    clip = write_clip(tmp_path / "clip.mkv", spec)
    calls = Recorder()
    with pytest.raises(ff.UsageError, match=r"\.mp4.*fps="):
        ff.map_video(clip, calls, tmp_path / "out.avi", workers=0)
    assert calls.frames == [], "refused before anything is mapped"
    assert ff.map_video(clip, functions.keep, tmp_path / "out.avi", workers=0, fps=25).num_pictures == 4


@pytest.mark.parametrize("fps", [10, 40, Fraction(24000, 1001)])
def test_fps_gives_the_frames_played_then(clip: Path, tmp_path: Path, fps: Fraction) -> None:
    with ff.VideoDecoder(clip) as decoder:
        expected = decoder.get_all_frames(fps=fps)
    calls = Recorder()
    out = tmp_path / "out.mp4"
    result = ff.map_video(clip, calls, out, workers=2, fps=fps)
    assert stamps_of(out) == expected.indices.tolist()
    np.testing.assert_allclose(read_all(out)[1], expected.pts_seconds, atol=1e-5)
    assert sorted(calls.frames) == sorted(set(expected.indices.tolist()))
    assert (result.num_frames, result.num_pictures) == (len(calls.frames), len(expected))
    with ff.map_video(clip, functions.number, workers=2, fps=fps) as mapped:
        frames = list(mapped)
    assert [frame.index for frame in frames] == expected.indices.tolist()
    assert [frame.pts_seconds for frame in frames] == expected.pts_seconds.tolist()


class Recorder:
    """Keeps the numbers of the frames of all calls."""

    def __init__(self) -> None:
        self.frames: list[int] = []

    def __call__(self, frame: Any, *, index: int, pts_seconds: float) -> Any:
        self.frames.append(index)
        return frame


def test_rotation_is_applied_and_tags_are_kept(tmp_path: Path) -> None:
    spec = ClipSpec(num_frames=8, rotation=90, codec_options={"colorprim": "bt709", "aspect": "4:3"})
    clip = write_clip(tmp_path / "clip.mp4", spec)
    ff.map_video(clip, functions.keep, tmp_path / "out.mp4", workers=0)
    assert stamps_of(tmp_path / "out.mp4") == list(range(8))
    before, after = ff.build_index(clip).stream, ff.build_index(tmp_path / "out.mp4").stream
    assert (after.rotation, after.displayed) == (0, before.displayed)
    names = ("color_primaries", "color_transfer", "color_space")
    assert [getattr(after, name) for name in names] == [getattr(before, name) for name in names]


def test_pictures_of_another_size_lose_the_aspect_of_samples(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4", ClipSpec(num_frames=4, codec_options={"x264-params": "sar=4/3"}))
    for name, function in (("same", functions.keep), ("half", lambda frame, **_: frame[::2, ::2])):
        ff.map_video(clip, function, tmp_path / f"{name}.mp4", workers=0)
    with ff.VideoDecoder(tmp_path / "same.mp4") as same, ff.VideoDecoder(tmp_path / "half.mp4") as half:
        assert same.metadata.pixel_aspect_ratio == Fraction(4, 3)
        assert half.metadata.pixel_aspect_ratio in (None, 1)
        assert (half.metadata.height, half.metadata.width) == (48, 64)


def test_audio_is_copied(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4", ClipSpec(num_frames=40), AudioSpec(seconds=1.6))
    for has_audio in (True, False):
        out = tmp_path / f"out{has_audio}.mp4"
        ff.map_video(clip, functions.keep, out, workers=0, audio=has_audio)
        packets = {path: audio_packets(path) for path in (clip, out)}
        assert packets[out] == (packets[clip] if has_audio else [])
    with pytest.raises(ff.UsageError, match=r"audio.*\.mkv"):
        ff.map_video(clip, functions.keep, tmp_path / "out.webm", workers=0, audio=True)
    silent = write_clip(tmp_path / "silent.mp4", ClipSpec(num_frames=4))
    ff.map_video(silent, functions.keep, tmp_path / "still.mp4", workers=0, audio=True)


def audio_packets(path: Path) -> list[bytes]:
    with av.open(str(path)) as container:
        streams = container.streams.audio
        return [bytes(packet) for packet in container.demux(streams[0]) if packet.size] if streams else []


def test_four_tiles_are_one_mosaic_or_four_videos_or_lists(clip: Path, tmp_path: Path) -> None:
    ff.map_video(clip, functions.tiles, tmp_path / "mosaic.mp4", workers=2, quality=1)
    ff.map_video(clip, functions.keep, tmp_path / "whole.mp4", workers=2, quality=1)
    assert (tmp_path / "mosaic.mp4").read_bytes() == (tmp_path / "whole.mp4").read_bytes()
    result = ff.map_video(clip, functions.tiles, tmp_path / "tile{picture}.mp4", workers=2)
    assert result.outputs == tuple(str(tmp_path / f"tile{number}.mp4") for number in range(4))
    assert result.num_pictures == COUNT
    whole = read_all(clip)[0]
    for number, (top, left) in enumerate([(0, 0), (0, 64), (48, 0), (48, 64)]):
        tile = read_all(result.outputs[number])[0]
        assert tile.shape == (COUNT, 48, 64, 3)
        assert np.abs(tile.astype(int) - whole[:, top : top + 48, left : left + 64]).mean() < 6
    with ff.map_video(clip, functions.tiles, workers=2) as mapped:
        assert [len(frame.result) for frame in mapped] == [4] * COUNT


def test_none_leaves_the_frame_out(clip: Path, tmp_path: Path) -> None:
    def drop(frame: Any, *, index: int, pts_seconds: float) -> Any:
        return None if 20 <= index < 75 or index % 3 else frame

    kept = [index for index in range(COUNT) if drop(0, index=index, pts_seconds=0.0) is not None]
    result = ff.map_video(clip, drop, tmp_path / "out.mp4", workers=2)
    assert result.num_pictures == len(kept)
    assert result.num_frames == COUNT
    data, times = read_all(tmp_path / "out.mp4")
    assert [read_stamp(frame) for frame in data] == kept
    assert times == pytest.approx([index / 25 for index in kept])


def test_without_any_picture_there_is_no_video(clip: Path, tmp_path: Path) -> None:
    with pytest.raises(ff.UsageError, match="no frame has a picture"):
        ff.map_video(clip, lambda frame, **_: None, tmp_path / "out.mp4", workers=0)
    assert not (tmp_path / "out.mp4").exists()


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp"])
def test_images(tmp_path: Path, suffix: str) -> None:
    clip = write_clip(tmp_path / "clip.mp4", ClipSpec(num_frames=14))
    out = tmp_path / "frames"
    result = ff.map_video(clip, functions.keep, f"{out}/", workers=2, codec=suffix)
    assert result.outputs == (f"{out}/",)
    assert result.num_pictures == 14
    names = sorted(path.name for path in out.iterdir())
    assert names == [f"frame_{index:06d}_{index / 25:.9f}s.{suffix}" for index in range(14)]
    sequence = ff.ImageSequence(str(out), fps=25)
    assert stamps_of(sequence) == list(range(14))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clip.mp4", "frames"]


@pytest.mark.parametrize("out", ["frames", "frames/", "out.mp4", "sub/tile{picture}.mp4"])
def test_paths_of_outputs_are_relative_if_the_given_one_is(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_clip(tmp_path / "clip.mp4", ClipSpec(num_frames=2))
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    result = ff.map_video("clip.mp4", functions.keep, out, workers=0)
    assert result.outputs == (out.replace("{picture}", "0"),)
    assert Path(result.outputs[0]).exists()


def test_several_images_of_a_frame_are_numbered(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4", ClipSpec(num_frames=2))
    (tmp_path / "out").mkdir()
    ff.map_video(clip, functions.tiles, tmp_path / "out", workers=0)
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [f"frame_{frame:06d}_{frame / 25:.9f}s_{k}.png" for frame in range(2) for k in range(4)]


def test_images_with_fps_are_numbered_by_picture(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4", ClipSpec(num_frames=3))
    ff.map_video(clip, functions.keep, tmp_path / "out", workers=0, fps=50)
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [f"frame_{number:06d}_{number / 50:.9f}s.png" for number in range(6)]


def test_setup_runs_once_in_each_worker(clip: Path, tmp_path: Path) -> None:
    made: list[int] = []

    def set_up() -> int:
        made.append(1)
        return 40

    ff.map_video(clip, functions.add_state, tmp_path / "out.mp4", workers=2, setup=set_up)
    assert 1 <= len(made) <= 2
    with ff.map_video(clip, functions.add_state, workers=2, setup=set_up) as mapped:
        first = next(mapped).result
    assert (first == read_accurately(clip)[0] // 2 + 40).all()
    assert len(made) <= 4


@pytest.mark.slow
def test_setup_runs_in_processes(clip: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"workers": 1, "setup": functions.load_offset}
    for kind in ("threads", "processes"):
        ff.map_video(clip, functions.add_state, tmp_path / f"{kind}.mp4", kind=kind, **options)
    assert (tmp_path / "threads.mp4").read_bytes() == (tmp_path / "processes.mp4").read_bytes()


@pytest.mark.slow
def test_processes_iterate_as_threads_do(clip: Path) -> None:
    with ff.map_video(clip, functions.invert, workers=2, kind="processes") as mapped:
        count = 0
        for frame, pixels in zip(mapped, read_accurately(clip), strict=True):
            assert (frame.result == 255 - pixels).all()
            count += 1
    assert count == COUNT


def make_picture(path: Path) -> Path:
    ff.map_video(write_clip(path / "one.mp4", ClipSpec(num_frames=1)), functions.keep, path / "one", workers=0)
    return next((path / "one").iterdir())


SOURCES: dict[str, Callable[[Path, Path], Any]] = {
    "bytes": lambda clip, folder: clip.read_bytes(),
    "text": lambda clip, folder: str(clip),
    "entry": lambda clip, folder: ff.scan(clip, progress=False)[0],
    "still": lambda clip, folder: make_picture(folder),
    "sequence": lambda clip, folder: ff.ImageSequence([str(make_picture(folder))] * 3, fps=5),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_any_source_but_a_file_object(clip: Path, tmp_path: Path, kind: str) -> None:
    source = SOURCES[kind](clip, tmp_path)
    count = len(ff.VideoDecoder(source))
    assert ff.map_video(source, functions.keep, tmp_path / "out.mp4", workers=1).num_pictures == count
    assert len(ff.VideoDecoder(tmp_path / "out.mp4")) == count
    with pytest.raises(ff.UsageError, match="file object"):
        ff.map_video(io.BytesIO(clip.read_bytes()), functions.keep)


def test_progress_is_told(clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told: list[tuple[int, int]] = []
    ff.map_video(clip, functions.keep, tmp_path / "out.mp4", workers=1, progress=lambda *each: told.append(each))
    assert told[-1] == (COUNT, COUNT)
    assert all(0 <= done <= COUNT for done, _ in told)
    assert sorted(told) == told
    assert capsys.readouterr().err == ""
    ff.map_video(clip, functions.keep, tmp_path / "other.mp4", workers=1, progress=True)
    assert "frame" in capsys.readouterr().err

"""The media of this project's own rows: a natural trailer and what is made from it, numbered videos, a scene."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.scene import Scene
from framefeed.bench import BenchVideo, MediaStore, Rounds, write_clip_in_time
from framefeed.decode import Pixels
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import MissingMedia
from framefeed.request import OutputSpec
from framefeed.testing import ClipSpec, Coded, put_packets, take_packets

# Rows of 5 cells, the leftmost the highest bit: the usual 5x7 figures.
_FIGURES = (
    (14, 17, 19, 21, 25, 17, 14),
    (4, 12, 4, 4, 4, 4, 14),
    (14, 17, 1, 2, 4, 8, 31),
    (31, 2, 4, 2, 1, 17, 14),
    (2, 6, 10, 18, 31, 2, 2),
    (31, 16, 30, 1, 1, 17, 14),
    (6, 8, 16, 30, 17, 17, 14),
    (31, 1, 2, 4, 8, 8, 8),
    (14, 17, 17, 14, 17, 17, 14),
    (14, 17, 17, 15, 1, 2, 12),
)
_BLUE = (0, 0, 255)
_COLUMNS = 6


def numbered_picture(number: int, height: int, width: int) -> Pixels:
    """Draw a number in white on flat blue, uint8 RGB [height, width, 3]."""
    picture = np.empty((height, width, 3), dtype=np.uint8)
    picture[:] = _BLUE
    rows = [np.array(_FIGURES[int(figure)])[:, None] for figure in f"{number:05}"]
    # The bits of a row, and a column between two figures.
    figures = [(each >> np.arange(_COLUMNS - 2, -1, -1) & 1).astype(bool) for each in rows]
    cells = np.concatenate([np.pad(each, ((0, 0), (0, 1))) for each in figures], axis=1)
    scale = min(height // 2 // cells.shape[0], width // cells.shape[1])
    drawn = cells.repeat(scale, axis=0).repeat(scale, axis=1)
    top, left = (height - drawn.shape[0]) // 2, (width - drawn.shape[1]) // 2
    picture[top : top + drawn.shape[0], left : left + drawn.shape[1]][drawn] = 255
    return picture


TRAILER = "video/libopenshot/sintel_trailer-720p.mp4"
LARGE_FIRST = 300
TEST_FPS = 60
_X264_DEFAULTS = {"preset": "medium"}


class OwnStore(MediaStore):
    """Media by name, made at the first use; one of the user's folders may hold the trailer."""

    def __init__(
        self, media: Sequence[Path], work: Path, rounds: Rounds, *, test_frames: int = 3600, repeats: int = 50
    ) -> None:
        super().__init__(media, work, rounds)
        self._test_frames = test_frames
        self._repeats = repeats

    @property
    def trailer(self) -> BenchVideo:
        """The natural 720p trailer itself."""
        for folder in filter(_has_trailer, self.media):
            return self.find(folder / TRAILER)
        raise MissingMedia(f"it needs a folder that contains {TRAILER}: name it as MEDIA, or in FRAMEFEED_MEDIA")

    @property
    def small_trailer(self) -> BenchVideo:
        """The trailer at 456x256, x264 defaults."""
        return self.make("trailer_456x256.mp4", lambda path: self._write_resized(path, (256, 456), None, None))

    @property
    def short_gop_trailer(self) -> BenchVideo:
        """The trailer at 456x256, a key frame every 12 frames, no B-frames."""
        return self.make("trailer_456x256_g12.mp4", lambda path: self._write_resized(path, (256, 456), 12, 0))

    def large_trailer(self, num_frames: int) -> BenchVideo:
        """Frames of the trailer enlarged to 1920x1080, x264 defaults; not its first ones, which are titles on black."""
        first = min(LARGE_FIRST, len(self.trailer) - num_frames)

        def write(path: Path) -> None:
            self._write_resized(path, (1080, 1920), None, None, range(first, first + num_frames))

        return self.make(f"trailer_1080p_{num_frames}.mp4", write)

    @property
    def test_video(self) -> BenchVideo:
        """720p60, flat blue, the frame's number in white, x264 defaults."""
        spec = ClipSpec(
            num_frames=self._test_frames, height=720, width=1280, fps=TEST_FPS, gop=None, b_frames=None,
            codec_options=_X264_DEFAULTS, draw=lambda ordinal: numbered_picture(ordinal, 720, 1280),
        )  # fmt: skip
        return self.make(
            f"test_720p60_{self._test_frames}.mp4", lambda path: write_clip_in_time(path, spec, self.rounds)
        )

    @property
    def long_test_video(self) -> BenchVideo:
        """The same, stream-copied one after the other."""
        return self.repeat(self.test_video, self._repeats)

    @property
    def vp9_test_video(self) -> BenchVideo:
        """The pictures of the test video as VP9, key frames as far apart as x264 has them."""
        spec = ClipSpec(
            num_frames=self._test_frames, height=720, width=1280, fps=TEST_FPS, codec="libvpx-vp9", gop=250,
            b_frames=None, draw=lambda ordinal: numbered_picture(ordinal, 720, 1280),
        )  # fmt: skip
        return self.make(
            f"test_720p60_{self._test_frames}_vp9.webm", lambda path: write_clip_in_time(path, spec, self.rounds)
        )

    def repeat(self, video: BenchVideo, times: int) -> BenchVideo:
        """A video, stream-copied so many times one after the other."""
        if times == 1:
            return video
        return self.make(
            f"{video.path.stem}_x{times}.mp4", lambda path: write_repeated(path, video, times, self.rounds)
        )

    def scene(self, height: int, width: int, num_frames: int, fps: int) -> BenchVideo:
        """A generated scene, x264 veryfast."""

        def write(path: Path) -> None:
            scene = Scene(height, width)
            spec = ClipSpec(num_frames, height, width, fps, gop=None, b_frames=None, draw=scene.draw)
            write_clip_in_time(path, spec, self.rounds)

        return self.make(f"scene_{height}p_{num_frames}.mp4", write)

    def _write_resized(
        self, path: Path, size: tuple[int, int], gop: int | None, b_frames: int | None, ordinals: range | None = None
    ) -> None:
        trailer, (height, width) = self.trailer, size
        chosen = range(len(trailer)) if ordinals is None else ordinals
        output = OutputSpec(size=size, dimension_order="NHWC")
        pictures = PyAVDecoder().iter_rgb(trailer.source, trailer.index, chosen, output)
        spec = ClipSpec(
            num_frames=len(chosen), height=height, width=width, fps=24, gop=gop, b_frames=b_frames,
            codec_options=_X264_DEFAULTS, draw=lambda ordinal: next(pictures)[1],
        )  # fmt: skip
        write_clip_in_time(path, spec, self.rounds)


def write_repeated(
    path: Path, video: BenchVideo, times: int, rounds: Rounds, options: Mapping[str, str] | None = None
) -> None:
    """Write a video, stream-copied so many times one after the other, with options of the muxer."""
    template = video.path.read_bytes()
    packets, time_base = take_packets(template)
    span = int(video.index.pts[-1] + video.index.duration[-1] - video.index.pts[0])

    def repeat() -> Iterator[Coded]:
        for ticks in (span * number for number in range(times)):
            rounds.check_time_to_make(path.name.removeprefix("part_"))
            for packet in packets:
                pts, dts = (packet.pts or 0) + ticks, (packet.dts or 0) + ticks
                yield Coded(packet.data, pts, dts, packet.is_key, packet.duration)

    put_packets(path, template, repeat(), time_base, options)


def _has_trailer(folder: Path) -> bool:
    return (folder / TRAILER).is_file()

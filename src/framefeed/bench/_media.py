"""The media that the workloads run on: a natural trailer, what is made from it, and numbered test videos.

Everything is made by PyAV's encoders, from files that are named on the command line, once into a folder.

Pictures that show their number, drawn without a font library.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from framefeed._cached import cached_property
from framefeed.decode import Pixels
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import MissingMedia
from framefeed.index import FrameIndex, build_index
from framefeed.media import MediaSource
from framefeed.plan import OutputSpec
from framefeed.testing import ClipSpec, Coded, put_packets, take_packets, write_clip

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
TEST_FRAMES = 3600
TEST_FPS = 60
REPEATS = 50
MAX_COPIED = 64 * 2**20
"""Bytes; of larger files copies are links, which contenders still have to open one by one."""
_X264_DEFAULTS = {"preset": "medium"}


@dataclass(frozen=True, eq=False)
class BenchVideo:
    """One video, and what every contender may know of it beforehand.

    Attributes:
        path: Where it is.
    """

    path: Path

    @cached_property
    def index(self) -> FrameIndex:
        """Its frames, built once and outside of what is timed: a catalog has them."""
        return build_index(self.path)

    @cached_property
    def source(self) -> MediaSource:
        """It, as the library takes it."""
        return MediaSource.of(self.path)

    def __len__(self) -> int:
        return len(self.index)


class MediaStore:
    """Media by name, made at the first use.

    Args:
        media: Folder that holds the trailer.
        work: Folder for what is made; what is there already is used again.
        test_frames: Frames of the numbered test video.
        repeats: How often the long one repeats it.
    """

    def __init__(
        self, media: Path | None, work: Path, *, test_frames: int = TEST_FRAMES, repeats: int = REPEATS
    ) -> None:
        self._media = media
        self.work = work
        self._test_frames = test_frames
        self._repeats = repeats
        self._videos: dict[Path, BenchVideo] = {}
        work.mkdir(parents=True, exist_ok=True)

    @staticmethod
    def has_trailer(folder: Path) -> bool:
        """Whether a folder is one of media with the trailer."""
        return (folder / TRAILER).is_file()

    @property
    def trailer(self) -> BenchVideo:
        """The natural 720p trailer itself.

        Raises:
            MissingMedia: The folder of media has none.
        """
        if self._media is None or not self.has_trailer(self._media):
            raise MissingMedia(f"it needs a folder that contains {TRAILER}: name it as MEDIA, or in FRAMEFEED_MEDIA")
        return self._video(self._media / TRAILER)

    @property
    def small_trailer(self) -> BenchVideo:
        """The trailer at 456x256, x264 defaults."""
        return self._made("trailer_456x256.mp4", lambda path: self._write_small(path, None, None))

    @property
    def short_gop_trailer(self) -> BenchVideo:
        """The trailer at 456x256, a key frame every 12 frames, no B-frames."""
        return self._made("trailer_456x256_g12.mp4", lambda path: self._write_small(path, 12, 0))

    @property
    def test_video(self) -> BenchVideo:
        """720p60, flat blue, the frame's number in white, x264 defaults."""
        spec = ClipSpec(
            num_frames=self._test_frames, height=720, width=1280, fps=TEST_FPS, gop=None, b_frames=None,
            codec_options=_X264_DEFAULTS, draw=lambda ordinal: numbered_picture(ordinal, 720, 1280),
        )  # fmt: skip
        return self._made(f"test_720p60_{self._test_frames}.mp4", lambda path: write_clip(path, spec))

    @property
    def long_test_video(self) -> BenchVideo:
        """The same, stream-copied one after the other."""
        return self._made(f"test_720p60_{self._test_frames}_x{self._repeats}.mp4", self._write_repeated)

    def copies(self, video: BenchVideo, count: int) -> list[BenchVideo]:
        """Other files with the same bytes, so that nothing can be kept open from one clip to the next."""
        return [
            self._made(f"copies/{video.path.stem}_{number:03}.mp4", lambda path: _copy(video.path, path))
            for number in range(count)
        ]

    def _video(self, path: Path) -> BenchVideo:
        return self._videos.setdefault(path, BenchVideo(path))

    def _made(self, name: str, write: Callable[[Path], object]) -> BenchVideo:
        path = self.work / name
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f"part_{path.name}")
            write(part)
            os.replace(part, path)
        return self._video(path)

    def _write_small(self, path: Path, gop: int | None, b_frames: int | None) -> None:
        trailer = self.trailer
        output = OutputSpec(size=(256, 456), dimension_order="NHWC")
        pictures = PyAVDecoder().iter_rgb(trailer.source, trailer.index, range(len(trailer)), output)
        spec = ClipSpec(
            num_frames=len(trailer), height=256, width=456, fps=24, gop=gop, b_frames=b_frames,
            codec_options=_X264_DEFAULTS, draw=lambda ordinal: next(islice(pictures, 1))[1],
        )  # fmt: skip
        write_clip(path, spec)

    def _write_repeated(self, path: Path) -> None:
        template = self.test_video.path.read_bytes()
        packets, time_base = take_packets(template)
        span = round(self._test_frames / TEST_FPS / time_base)
        later = (
            Coded(packet.data, (packet.pts or 0) + ticks, (packet.dts or 0) + ticks, packet.is_key, packet.duration)
            for ticks in (span * number for number in range(self._repeats))
            for packet in packets
        )
        put_packets(path, template, later, time_base)


def _copy(source: Path, target: Path) -> None:
    if source.stat().st_size <= MAX_COPIED:
        shutil.copyfile(source, target)
    else:
        target.symlink_to(source.resolve())

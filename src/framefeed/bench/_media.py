"""The videos that the suites run on: the user's, or one that is made while time is left."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from framefeed._cached import cached_property
from framefeed.bench._runner import Rounds
from framefeed.decode import Pixels
from framefeed.errors import FramefeedError
from framefeed.index import FrameIndex, build_index
from framefeed.media import MediaSource
from framefeed.scanning import VIDEO_SUFFIXES, list_roots
from framefeed.testing import AudioSpec, ClipSpec, draw_stamp, write_clip

MAX_COPIED = 64 * 2**20
"""Bytes; of larger files copies are links, which contenders still have to open one by one."""
PART = "part_"


@dataclass(frozen=True, eq=False)
class BenchVideo:
    """One video, and what every contender may know of it beforehand."""

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
    """Videos by name: the user's, or made at the first use, in a folder that is used again, while there is time."""

    def __init__(self, media: Sequence[Path], work: Path, rounds: Rounds) -> None:
        self.media = media
        self.rounds = rounds
        self._work = work
        self._videos: dict[Path, BenchVideo] = {}

    def iter_own(self) -> Iterator[BenchVideo]:
        """The user's videos that can be read, or a made one where no media are named.

        Scan says of the others why; a benchmark only leaves them out.
        """
        if not self.media:
            yield self.plain_video
            return
        for path in list_roots(self.media, suffixes=VIDEO_SUFFIXES).paths:
            video = self.find(Path(path))
            try:
                if len(video):
                    yield video
            except FramefeedError:
                continue

    @property
    def plain_video(self) -> BenchVideo:
        """250 frames of 720p that show their numbers."""
        spec = ClipSpec(250, height=720, width=1280, gop=250, b_frames=2)
        return self.make("made_720p.mp4", lambda path: write_clip_in_time(path, spec, self.rounds))

    def copies(self, video: BenchVideo, count: int) -> list[BenchVideo]:
        """Other files with the same bytes, so that nothing can be kept open from one clip to the next."""

        def copy(path: Path) -> None:
            if video.path.stat().st_size <= MAX_COPIED:
                shutil.copyfile(video.path, path)
            else:
                path.symlink_to(video.path.resolve())

        return [self.make(f"copies/{video.path.stem}_{number:03}.mp4", copy) for number in range(count)]

    def find(self, path: Path) -> BenchVideo:
        """The video of a path, always the same object."""
        return self._videos.setdefault(path, BenchVideo(path))

    def make(self, name: str, write: Callable[[Path], object]) -> BenchVideo:
        """Write a video, unless the folder has it already."""
        path = self._work / name
        if not path.is_file():
            self.rounds.check_time_to_make(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f"{PART}{path.name}")
            try:
                write(part)
                os.replace(part, path)
            finally:
                part.unlink(missing_ok=True)
        return self.find(path)


def write_clip_in_time(path: Path, spec: ClipSpec, rounds: Rounds, *others: AudioSpec) -> Path:
    """Write a video as ``write_clip`` does; raise MissingMedia where no time is left."""

    def draw(ordinal: int) -> Pixels:
        rounds.check_time_to_make(path.name.removeprefix(PART))
        return draw_stamp(ordinal, *spec.displayed_size) if spec.draw is None else spec.draw(ordinal)

    return write_clip(path, replace(spec, draw=draw), *others)

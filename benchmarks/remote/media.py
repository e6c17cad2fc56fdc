"""What is served: videos that repeat a short one, and very many objects that are links to a few."""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.media import write_repeated
from benchmarks.scene import Scene
from framefeed._cached import cached_property
from framefeed.bench import BenchVideo, Rounds, write_clip_in_time
from framefeed.testing import ClipSpec

FPS = 30
ORIGINALS = 3
"""Encodes that the videos repeat."""
PICTURES, SMALL_VIDEOS = 64, 4
"""Objects of each kind that the others are links to."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is served.

    Attributes:
        object_bytes: Of the one large video.
        files: Videos of which each gives a clip.
        file_bytes: Of one of them.
        pictures: Objects that are scanned.
        pictures_in_turn: The same, one after the other.
        small_videos: The same of short videos.
        small_videos_in_turn: The same, one after the other.
        height: Of the videos.
        frames: Of an encode.
    """

    object_bytes: int = 10**9
    files: int = 60
    file_bytes: int = 10**8
    pictures: int = 10_000
    pictures_in_turn: int = 300
    small_videos: int = 1_000
    small_videos_in_turn: int = 60
    height: int = 720
    frames: int = 600

    @classmethod
    def scaled(cls, scale: float) -> Sizes:
        """The same for smaller files and fewer objects; below a tenth, smaller pictures too."""
        whole = cls()
        small = scale < 0.1
        return cls(
            int(scale * whole.object_bytes),
            max(4, int(scale * whole.files)) if small else whole.files,
            int(scale * whole.file_bytes),
            max(64, int(scale * whole.pictures)),
            max(16, int(scale * whole.pictures_in_turn)) if small else whole.pictures_in_turn,
            max(16, int(scale * whole.small_videos)),
            max(8, int(scale * whole.small_videos_in_turn)) if small else whole.small_videos_in_turn,
            144 if small else whole.height,
            150 if small else whole.frames,
        )


class ServedMedia:
    """Files below the root of the server, each made at its first use."""

    def __init__(self, folder: Path, sizes: Sizes, rounds: Rounds) -> None:
        self.folder = folder
        self.sizes = sizes
        self._rounds = rounds

    def encode(self, number: int) -> BenchVideo:
        """A short video: x264 veryfast, its default distance of key frames."""
        height, frames = self.sizes.height, self.sizes.frames
        return self._encode(f"encode_{number}.mp4", height, frames, None if height >= 720 else 25, number)

    def _encode(self, name: str, height: int, frames: int, gop: int | None, seed: int) -> BenchVideo:
        path = self.folder / name
        if not path.exists():
            width = height * 16 // 9
            scene = Scene(height, width, seed + 1)
            spec = ClipSpec(frames, height, width, FPS, gop=gop, b_frames=None, draw=scene.draw)
            write_clip_in_time(path, spec, self._rounds)
        return BenchVideo(path)

    def large_video(self, *, moov_in_front: bool) -> BenchVideo:
        """The large object."""
        path = self.folder / f"large_{'front' if moov_in_front else 'behind'}.mp4"
        if not path.exists():
            options = {"movflags": "faststart"} if moov_in_front else {}
            self._repeat(path, self.encode(0), self.sizes.object_bytes, options)
        return BenchVideo(path)

    @cached_property
    def videos(self) -> list[BenchVideo]:
        """The videos of an epoch."""
        links = [self.folder / "videos" / f"{number:03}.mp4" for number in range(self.sizes.files)]
        links[0].parent.mkdir()
        for number, link in enumerate(links):
            if number < ORIGINALS:
                self._repeat(link, self.encode(number), self.sizes.file_bytes, {})
            else:
                os.link(links[number % ORIGINALS], link)
        return [BenchVideo(path) for path in links]

    @cached_property
    def pictures(self) -> list[str]:
        """Names below the folder of JPEG files of 30 kB."""
        scene = Scene(270, 360)
        originals = [self.folder / f"picture_{number}.jpg" for number in range(PICTURES)]
        for number, path in enumerate(originals):
            Image.fromarray(np.asarray(scene.draw(number))).save(path, quality=66)  # 30 kB
        return self._link("pictures", originals, self.sizes.pictures)

    @cached_property
    def small_videos(self) -> list[str]:
        """Names below the folder of MP4 files of 200 kB."""
        originals = [self._encode(f"small_{number}.mp4", 144, 150, 25, number).path for number in range(SMALL_VIDEOS)]
        return self._link("small", originals, self.sizes.small_videos)

    def _link(self, folder: str, originals: Sequence[Path], count: int) -> list[str]:
        (self.folder / folder).mkdir()
        names = [f"{folder}/{number:06}{originals[0].suffix}" for number in range(count)]
        for name, original in zip(names, itertools.cycle(originals), strict=False):
            os.link(original, self.folder / name)
        return names

    def _repeat(self, path: Path, video: BenchVideo, nbytes: int, options: Mapping[str, str]) -> None:
        times = max(2, round(nbytes / video.path.stat().st_size))
        write_repeated(path, video, times, self._rounds, options)


def measure_box(path: Path, kind: bytes) -> int:
    """Bytes of a box at the top of an MP4 file, with its header."""
    with path.open("rb") as file:
        while head := file.read(8):
            size, name = struct.unpack(">I4s", head)
            header = 8
            if size == 1:
                size, header = struct.unpack(">Q", file.read(8))[0], 16
            if name == kind:
                return int(size)
            file.seek(size - header, os.SEEK_CUR)
    raise ValueError(f"{path} has no box {kind!r}")

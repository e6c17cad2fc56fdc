"""What is packed: short and long videos, small pictures, and archives of very many members."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.media import write_repeated
from benchmarks.scene import Scene
from framefeed.bench import BenchVideo, Rounds, write_clip_in_time
from framefeed.testing import ClipSpec

FPS = 30
ORIGINALS = 3
"""Encodes that the videos are copies of."""
PICTURES = 64
"""Pictures that all others are copies of."""
SMALL_BYTES = (300, 1000)
PICTURE_BYTES = 30_000
CLIP_BYTES = 2_000_000
LABEL_BYTES = 100


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is packed.

    Attributes:
        members: Of an archive that is walked.
        pictures: JPEGs that are scanned.
        short: Videos of 10 seconds.
        short_height: Of their pictures.
        long: Videos of ``long_bytes``.
        long_bytes: Of one of them.
        long_height: Of their pictures.
        shards: Archives of each kind.
        frames: Of a short video; the long ones repeat one.
    """

    members: int = 100_000
    pictures: int = 20_000
    short: int = 48
    short_height: int = 360
    long: int = 8
    long_bytes: int = 10**8
    long_height: int = 720
    shards: int = 4
    frames: int = 300

    @classmethod
    def scaled(cls, scale: float) -> Sizes:
        """The same of fewer and smaller files; below a tenth, smaller pictures too."""
        whole = cls()
        low = 144 if scale < 0.1 else 1080
        return cls(
            members=max(64, int(scale * whole.members)),
            pictures=max(64, int(scale * whole.pictures)),
            short=max(8, int(scale * whole.short)),
            short_height=min(low, whole.short_height),
            long=max(4, int(scale * whole.long)),
            long_bytes=int(scale * whole.long_bytes),
            long_height=min(low, whole.long_height),
        )


@dataclass(frozen=True, slots=True)
class Packed:
    """The same files twice.

    Attributes:
        files: A file of each member, in order, which has the same bytes; some may be one file.
        shards: Archives of them. A member is named by its number.
    """

    files: list[Path]
    shards: list[Path]


class PackedMedia:
    """Files and archives below one folder, made while there is time."""

    def __init__(self, folder: Path, sizes: Sizes, rounds: Rounds) -> None:
        self.folder = folder
        self.sizes = sizes
        self._rounds = rounds

    def make_short(self) -> Packed:
        """Videos of 10 seconds: x264 veryfast, its default distance of key frames."""
        height = self.sizes.short_height
        originals = [self._encode(number, height).path.read_bytes() for number in range(ORIGINALS)]
        return self._pack_copies([originals[number % ORIGINALS] for number in range(self.sizes.short)], ".mp4")

    def make_long(self) -> Packed:
        """Large videos, of which archives alone have copies."""
        originals = []
        for number in range(ORIGINALS):
            short, path = self._encode(number, self.sizes.long_height), self.folder / f"long_{number}.mp4"
            times = max(2, round(self.sizes.long_bytes / short.path.stat().st_size))
            write_repeated(path, short, times, self._rounds)
            originals.append(path)
        return self._pack([originals[number % ORIGINALS] for number in range(self.sizes.long)])

    def make_pictures(self) -> Packed:
        """JPEG files of 8 kB."""
        scene, data = Scene(135, 180), []
        for number in range(PICTURES):
            file = io.BytesIO()
            Image.fromarray(np.asarray(scene.draw(number))).save(file, "JPEG", quality=66)
            data.append(file.getvalue())
        return self._pack_copies([data[number % PICTURES] for number in range(self.sizes.pictures)], ".jpg")

    def _encode(self, number: int, height: int) -> BenchVideo:
        path, width = self.folder / f"encode_{number}.mp4", height * 16 // 9
        scene = Scene(height, width, number + 1)
        spec = ClipSpec(self.sizes.frames, height, width, FPS, gop=None, b_frames=None, draw=scene.draw)
        write_clip_in_time(path, spec, self._rounds)
        return BenchVideo(path)

    def _pack_copies(self, data: list[bytes], ending: str) -> Packed:
        """Write files of their own, so that both ways read as many bytes, and archives of them."""
        folder, files = self.folder / "files", list[Path]()
        folder.mkdir()
        for number, each in enumerate(data):
            files.append(folder / f"{number:06}{ending}")
            files[-1].write_bytes(each)
        return self._pack(files)

    def _pack(self, files: list[Path]) -> Packed:
        shards, count = [self.folder / f"{number:03}.tar" for number in range(self.sizes.shards)], len(files)
        for number, shard in enumerate(shards):
            with tarfile.open(shard, "w") as tar:
                for member in range(number * count // len(shards), (number + 1) * count // len(shards)):
                    self._rounds.check_time_to_make(shard.name)
                    tar.add(files[member], f"{member:06}{files[member].suffix}")
        return Packed(files, shards)


def write_small(path: Path, count: int, form: int, mtime: float) -> None:
    """Write an archive of members of some hundred bytes, with the names of ImageNet."""
    low, high = SMALL_BYTES
    with tarfile.open(path, "w", format=form) as tar:
        for number in range(count):
            info = tarfile.TarInfo(f"train/n{number % 1000:08}/n{number % 1000:08}_{number}.jpg")
            info.size, info.mtime = low + number * 7 % (high - low), mtime
            tar.addfile(info, io.BytesIO(bytes(info.size)))


def write_large(path: Path, count: int, size: int) -> None:
    """Write an archive of pairs of a medium, whose bytes are a hole, and a label."""
    with path.open("wb") as file:
        for number in range(count // 2):
            for suffix, length in (("mp4", size), ("cls", LABEL_BYTES)):
                info = tarfile.TarInfo(f"{number:08}.{suffix}")
                info.size = length
                file.write(info.tobuf(tarfile.GNU_FORMAT))
                file.seek((length + 511) // 512 * 512, os.SEEK_CUR)
        file.write(bytes(1024))


def read_all(paths: Iterable[Path]) -> None:
    """Read files once, so that the system has them in memory."""
    for path in paths:
        with path.open("rb") as file:
            while file.read(2**24):
                pass

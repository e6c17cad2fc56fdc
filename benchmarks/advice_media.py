"""Folders of `benchmarks.advice`: small files, but many, so that no file stays open from one clip of it to the next."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.proxies_media import ProxyMedia, run_ffmpeg

_X264 = ("-c:v", "libx264", "-preset", "medium", "-crf", "23")
_FILM_SECONDS = 51.0
"""Of the trailer."""
_PHONES, _SMALLS, _MIXED = 30, 60, 12
_PHONE_GOP_SECONDS, _PHONE_FIRSTS = 1.25, 8
_SMALL_PHOTOS = 200


@dataclass(frozen=True)
class AdviceMedia:
    """Folders by name, made in ``work`` at the first use."""

    media: Path
    work: Path

    @property
    def films(self) -> ProxyMedia:
        """The films that the files are cut from."""
        return ProxyMedia(self.media, self.work / "films")

    def make_phone(self) -> Path:
        """1080p HEVC of 3 to 6 s, cut at key frames without coding it again."""
        film = self.films.film("phone")

        def write(folder: Path) -> None:
            for number in range(_PHONES):
                first = _PHONE_GOP_SECONDS * (number % _PHONE_FIRSTS)
                seconds = 3 + number // _PHONE_FIRSTS + 0.1 * (number % 3)
                # Half a frame later, so that the rounding of a time does not choose the key frame before.
                cut = ("-ss", f"{first + 0.02:.2f}", "-i", str(film), "-t", f"{seconds:.1f}")
                run_ffmpeg(*cut, "-map", "0:v:0", "-c", "copy", "-tag:v", "hvc1", str(folder / f"{number:02}.mp4"))

        return self._make("phone", write)

    def make_240p(self) -> Path:
        """240p H.264 of 3 to 6 s."""
        return self._make("240p", lambda folder: self._encode_parts(folder, "240p", _SMALLS, 240))

    def make_photos(self) -> Path:
        """Photos of half a megapixel and of twelve."""

        def write(folder: Path) -> None:
            paths = [*self.films.photos("500")[:_SMALL_PHOTOS], *self.films.photos("12mp")]
            for number, path in enumerate(paths):
                shutil.copyfile(path, folder / f"{number:03}.jpg")

        return self._make("photos", write)

    def make_mixed(self) -> Path:
        """720p, 360p and 240p H.264 of 3 to 6 s, whose first key frame is their only one but for cuts of the film."""

        def write(folder: Path) -> None:
            for seed, height in enumerate((720, 360, 240)):
                self._encode_parts(folder, f"{height}p", _MIXED, height, seed + 1)

        return self._make("mixed", write)

    def _encode_parts(self, folder: Path, name: str, count: int, height: int, seed: int = 0) -> None:
        generator = np.random.default_rng(seed)
        for number in range(count):
            seconds = generator.uniform(3, 6)
            # At even distances over the film, whose scenes differ in what they cost.
            first = (number + generator.random()) / count * (_FILM_SECONDS - seconds)
            part = ("-ss", f"{first:.2f}", "-i", str(self.films.trailer), "-t", f"{seconds:.2f}")
            scale = () if height == 720 else ("-vf", f"scale=-2:{height}:flags=lanczos")
            run_ffmpeg(*part, *scale, *_X264, "-an", str(folder / f"{name}-{number:02}.mp4"))

    def _make(self, name: str, write: Callable[[Path], object]) -> Path:
        folder = self.work / name
        if not folder.exists():
            part = folder.with_name(f"part-{name}")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            write(part)
            os.replace(part, folder)
        return folder


@dataclass(frozen=True)
class Folder:
    """Files, and what the command is asked about them."""

    what: str
    make: Callable[[AdviceMedia], Path]
    questions: Mapping[str, Sequence[str]]  # name -> options of the command


FOLDERS: Mapping[str, Folder] = {
    "phone": Folder(
        "30 films of 3-6 s, 1080p HEVC as phones write it",
        AdviceMedia.make_phone,
        {"phone, no room for frames": ("--space", "100MB")},
    ),
    "240p": Folder(
        "60 films of 3-6 s, 240p H.264",
        AdviceMedia.make_240p,
        {"240p, no room": ("--space", "20MB"), "240p, room": ()},
    ),
    "photos": Folder(
        "200 photos of 500x375, 40 of 12 megapixels",
        AdviceMedia.make_photos,
        {"photos": (), "photos, step of 1 s": ("--step-ms", "1000")},
    ),
    "mixed": Folder(
        "12 films of 720p, 12 of 360p, 12 of 240p, 3-6 s, H.264",
        AdviceMedia.make_mixed,
        {"mixed, room": (), "mixed, no room for frames": ("--space", "50MB")},
    ),
}

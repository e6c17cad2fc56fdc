"""Media of `benchmarks.proxies`: real ones, and what the ffmpeg program and Pillow make of them, once a folder."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

import framefeed as ff
from benchmarks.media import TRAILER
from benchmarks.peers import ffmpeg
from benchmarks.pictures.photos import find_photos, make_photos

_QUALITY = 98
_X264 = ("-c:v", "libx264", "-preset", "medium", "-crf", "23")
FILMS = {
    "1080p": "a 720p trailer of 52 s enlarged to 1920x1080 (lanczos), x264 medium crf 23: GOP 250, 3 B-frames",
    "720p": "the trailer as it came: 1280x720, H.264, GOP of 139 on average, B-frames",
    "360p": "the trailer made smaller to 640x360 (lanczos), x264 medium crf 23: GOP 250, 3 B-frames",
    "240p": "the trailer made smaller to 426x240 (lanczos), x264 medium crf 23: GOP 250, 3 B-frames",
    "phone": "16 s of the trailer enlarged to 1920x1080, as phones write HEVC: 14 Mbit/s, GOP 30, no B-frames",
}
PHOTOS = {
    "12mp": "40 photos of 4000x3000: 16 real ones of 1280 pixels side by side in each, JPEG quality 90",
    "500": "600 of 500x375: cut out of real photos of 1280 pixels, made smaller, JPEG quality 98: about 100 kB, as "
    "ImageNet's",
    "own": "real JPEGs of more than 256 pixels in their own sizes and qualities, 280x360 to 4032x3024",
}
_TWELVE, _SMALL = 40, 600


@dataclass(frozen=True)
class ProxyMedia:
    """Files by name, made in ``work`` at the first use."""

    media: Path
    work: Path

    @property
    def trailer(self) -> Path:
        """The 720p trailer itself."""
        return self.media / TRAILER

    def film(self, key: str) -> Path:
        """The film of a row of `FILMS`."""
        if key == "720p":
            return self.trailer
        if key == "phone":
            return self._encode("phone-hevc.mp4", *self._as_phone("libx265", "14M", "-tag:v", "hvc1"))
        return self._encode(f"film-{key}.mp4", "-vf", f"scale=-2:{key[:-1]}:flags=lanczos", *_X264)

    def photos(self, key: str) -> list[str]:
        """The files of a row of `PHOTOS`."""
        if key == "own":
            return self._find_own_photos()
        real = find_photos([self.media])
        return self._join(real) if key == "12mp" else self._cut_out(real)

    def copies(self, count: int) -> list[str]:
        """Stream copies of the trailer; a title makes the bytes of each its own."""
        return [
            str(self._encode(f"copy-{number}.mp4", "-c", "copy", "-metadata", f"title=copy {number}"))
            for number in range(count)
        ]

    def folders(self) -> dict[str, tuple[str, list[str]]]:
        """What `estimate_proxies` is asked about: key -> what it is, and its files."""
        real = [path for path in sorted((self.media / "video").rglob("*")) if path.is_file()]

        def choose(*words: str) -> list[str]:
            return [str(path) for path in real if any(word in str(path) for word in words)]

        vp9, av1 = (
            self._cut(self._encode(f"film-{codec}.{ending}", *options), 6)
            for codec, ending, options in (
                ("vp9", "webm", ("-t", "24", "-c:v", "libvpx-vp9", "-b:v", "0", "-crf", "32", "-cpu-used", "5",
                                 "-row-mt", "1")),
                ("av1", "mp4", ("-t", "24", "-c:v", "libsvtav1", "-preset", "9", "-crf", "35", "-g", "120")),
            )
        )  # fmt: skip
        phone = self._encode("phone-h264.mp4", *self._as_phone("libx264", "17M"))
        h264 = [path for path in real if path.suffix in (".mp4", ".mov", ".mkv", ".flv")]
        return {
            "1080p films": ("the 1080p film, cut at key frames", self._cut(self.film("1080p"), 6)),
            "720p films": ("the trailer, cut at key frames", self._cut(self.trailer, 6)),
            "360p films": ("the 360p film, cut at key frames", self._cut(self.film("360p"), 6)),
            "phone, HEVC": ("1080p HEVC as phones write it, in pieces of 2 s; two real ones",
                            self._cut(self.film("phone"), 2)
                            + choose("sample_edit_list.mp4", "pixel-motion-photo-2-hevc-tracks.mp4")),
            "phone, H.264": ("1080p H.264 as phones write it, in pieces of 2 s", self._cut(phone, 2)),
            "VP9": ("720p of 24 s, cut at key frames; real screen recordings",
                    vp9 + choose("napari/", "marimo/reactive.webm")),
            "AV1": ("720p of 24 s, cut at key frames; two real ones",
                    av1 + choose("gradio/av1-video.mp4", "samdutton-simpl/av1-2018-06_550.webm")),
            "screens, H.264": ("real screen recordings", choose("marimo/", "gradio/compliment")),
            "real, all of H.264": ("all real .mp4, .mov, .mkv and .flv of more than 256 rows", [str(p) for p in h264]),
            "photos, 12 MP": (PHOTOS["12mp"], self.photos("12mp")),
            "photos, 500x375": (PHOTOS["500"], self.photos("500")),
            "photos, own sizes": (PHOTOS["own"], self.photos("own")),
            "mixed": ("50 photos of own sizes, the pieces of the trailer, and of the phone's H.264",
                      self.photos("own")[::2][:50] + self._cut(self.trailer, 6) + self._cut(phone, 2)),
        }  # fmt: skip

    def _as_phone(self, codec: str, rate: str, *words: str) -> tuple[str, ...]:
        quiet = ("-x265-params", "log-level=error") if codec == "libx265" else ()
        cut = ("-ss", "14", "-t", "16", "-vf", "scale=-2:1080:flags=lanczos", "-c:v", codec, "-preset", "fast")
        return *cut, "-b:v", rate, "-g", "30", "-bf", "0", *quiet, *words

    def _encode(self, name: str, *options: str) -> Path:
        return self._make(name, lambda part: run_ffmpeg("-i", str(self.trailer), *options, "-an", str(part)))

    def _cut(self, film: Path, seconds: int) -> list[str]:
        """Cut a film at key frames, without coding it again."""
        folder = self.work / f"pieces-{film.stem}-{seconds}"
        if not folder.exists():
            part = folder.with_name(f"part-{folder.name}")
            part.mkdir(parents=True, exist_ok=True)
            pattern = str(part / f"%02d{film.suffix}")
            run_ffmpeg("-i", str(film), "-map", "0:v:0", "-c", "copy", "-f", "segment", "-segment_time", str(seconds),
                       "-reset_timestamps", "1", pattern)  # fmt: skip
            os.replace(part, folder)
        return sorted(map(str, folder.iterdir()))

    def _find_own_photos(self) -> list[str]:
        found = []
        for path in sorted((self.media / "image").rglob("*")):
            if path.suffix.lower() in (".jpg", ".jpeg") and path.parent.name not in ("bad_handmade", "dali_fuzzing"):
                try:
                    index = ff.build_index(path)
                except ff.FramefeedError:
                    continue
                if min(index.stream.displayed) > 256 and _can_be_read(path):
                    found.append(str(path))
        return found

    def _join(self, real: Sequence[Path]) -> list[str]:
        """Photos of 12 megapixels in batches of 8, each of a different order of the real ones."""
        paths = list[str]()
        for turn in range(_TWELVE // 8):
            order = np.random.default_rng(turn).permutation(len(real))
            paths += make_photos([real[number] for number in order], self.work / f"twelve-{turn}", "12mp")
        return paths

    def _cut_out(self, real: Sequence[Path]) -> list[str]:
        folder = self.work / "photos-of-500"
        generator = np.random.default_rng(0)
        paths = []
        for number in range(_SMALL):
            share, place, turned = generator.uniform(0.6, 1), generator.random(2), generator.random() < 0.25

            def draw(part: Path, number: int = number, share: float = share, place: tuple[float, float] = tuple(place),
                     turned: bool = turned) -> None:  # fmt: skip
                with Image.open(real[number % len(real)]) as image:
                    picture = image.convert("RGB")
                rows, columns = (500, 375) if turned else (375, 500)
                scale = share * min(picture.height / rows, picture.width / columns)
                height, width = round(rows * scale), round(columns * scale)
                top = round(place[0] * (picture.height - height))
                left = round(place[1] * (picture.width - width))
                box = (left, top, left + width, top + height)
                picture.resize((columns, rows), Image.Resampling.LANCZOS, box).save(part, "JPEG", quality=_QUALITY)

            paths.append(str(self._make(f"{folder.name}/{number:03}.jpg", draw)))
        return paths

    def _make(self, name: str, write: Callable[[Path], object]) -> Path:
        path = self.work / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f"part-{path.name}")
            write(part)
            os.replace(part, path)
        return path


def _can_be_read(path: Path) -> bool:
    try:
        ff.VideoDecoder(path)[0]
    except ff.FramefeedError:
        return False
    return True


def run_ffmpeg(*words: str) -> None:
    """Run the ffmpeg program."""
    quiet = {**os.environ, "SVT_LOG": "1"}
    subprocess.run([ffmpeg.PROGRAM, "-v", "error", "-nostdin", "-y", *words], check=True, env=quiet)

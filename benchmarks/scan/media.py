"""The originals of what is scanned: the user's files, or pictures and videos as a training set has them, made here.

Trees of very many files that take no room are hard links to a few of them, removed whatever happens.
"""

from __future__ import annotations

import errno
import os
import shutil
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers import pillow
from framefeed.bench import Rounds, write_clip_in_time
from framefeed.encode import encode_still
from framefeed.testing import AudioSpec, ClipSpec, draw_stamp

STILL_SUFFIXES = (".jpg", ".jpeg", ".png")
VIDEO_SUFFIXES = (".mp4", ".mov", ".m4v")
_SIGNATURES = (b"\xff\xd8", b"\x89PNG\r\n\x1a\n")
LEAST_ORIGINALS = 16
MOST_ORIGINALS = 64
MOST_VIDEOS = 16
FILES_A_FOLDER = 1000
_QUALITY = 90
_SIZES = ((375, 500), (500, 375), (333, 500), (500, 333), (281, 500), (500, 500), (480, 640), (200, 300))
"""Height and width; most of ImageNet's are 500 pixels wide."""
_BROKEN = {"empty.jpg": b"", "text.jpg": b"no picture at all\n" * 8, "text.png": b"\x89PNG, or so it says\n" * 8}
_CLIPS = (
    ClipSpec(300, height=256, width=456, gop=250, b_frames=3),
    ClipSpec(900, height=360, width=640, gop=12, b_frames=0),
    ClipSpec(250, height=720, width=1280, gop=250, b_frames=2),
)
"""As large as training sets have them: opening costs the more, the larger the frame that is decoded to probe it."""


@dataclass(frozen=True, slots=True)
class Originals:
    """What the large trees are links of.

    Attributes:
        stills: JPEG and PNG files, at least 16 files on the disk even where fewer differ.
        videos: MP4 and MOV files of the user's, maybe none.
        broken: Files that look like pictures and cannot be read: they are checked, and not timed.
    """

    stills: list[Path]
    videos: list[Path]
    broken: list[Path]


def find_originals(media: Sequence[Path], work: Path, rounds: Rounds) -> Originals:
    """Copy some of the user's pictures, so that they can be linked to, and take videos where they are."""
    listed = [path for root in media for path in (sorted(root.rglob("*")) if root.is_dir() else [root])]
    stills = _spread([path for path in listed if _is_still(path)], MOST_ORIGINALS)
    sound = [path for path in stills if pillow.size_of(str(path))]
    work.mkdir(parents=True, exist_ok=True)
    for name, content in _BROKEN.items():
        (work / name).write_bytes(content)
    return Originals(
        _copy_stills(sound, work) if sound else make_stills(work, rounds),
        _spread([path for path in listed if path.suffix.lower() in VIDEO_SUFFIXES], MOST_VIDEOS),
        [path for path in stills if path not in sound] + [work / name for name in _BROKEN],
    )


def make_stills(folder: Path, rounds: Rounds) -> list[Path]:
    """Write twelve JPEG and four PNG files: most plain, one turned, one with a profile, one with a large thumbnail."""
    made = []
    for number in range(LEAST_ORIGINALS):
        rounds.check_time_to_make("pictures")
        picture = draw_stamp(number, *_SIZES[number % len(_SIZES)], seed=number)
        is_jpeg = number % 4 != 3
        data = encode_still(picture, "JPEG" if is_jpeg else "PNG", _QUALITY)
        path = folder / f"original_{number:03}{'.jpg' if is_jpeg else '.png'}"
        path.write_bytes(_SPLICED.get(number, b"").join((data[:2], data[2:])))
        made.append(path)
    return made


def make_videos(folder: Path, rounds: Rounds) -> list[Path]:
    """Write MP4 files of different sizes and lengths, with sound, with and without reordered frames."""
    return [
        write_clip_in_time(folder / f"original_{spec.num_frames}.mp4", spec, rounds, AudioSpec(spec.num_frames / 30))
        for spec in _CLIPS
    ]


def _segment(marker: int, payload: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(payload) + 2) + payload


def _exif(orientation: int, extra: bytes = b"") -> bytes:
    """An APP1 segment with one tag: 0x0112, a short (EXIF 2.32, sections 4.5 and 4.6)."""
    directory = struct.pack(">HHHIHHI", 1, 0x0112, 3, 1, orientation, 0, 0)
    return _segment(0xE1, b"Exif\0\0" + b"MM\0*" + struct.pack(">I", 8) + directory + extra)


_SPLICED = {
    1: _exif(6),
    5: _segment(0xE2, b"ICC_PROFILE\0\x01\x01" + bytes(3144)),
    9: _exif(1, bytes(8000)),  # A thumbnail: the size lies beyond the first 4 KB.
}
"""Number of a JPEG -> what goes behind its first marker."""


def _is_still(path: Path) -> bool:
    """Whether both the name and the first bytes say JPEG or PNG."""
    if path.suffix.lower() not in STILL_SUFFIXES or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(8).startswith(_SIGNATURES)


def _spread(paths: Sequence[Path], most: int) -> list[Path]:
    """At most so many, evenly from all."""
    count = min(most, len(paths))
    return [paths[number * len(paths) // count] for number in range(count)]


def _copy_stills(stills: Sequence[Path], folder: Path) -> list[Path]:
    """Copies, each of some file once or, where there are few, again."""
    copies = []
    for number in range(max(LEAST_ORIGINALS, len(stills))):
        still = stills[number % len(stills)]
        copies.append(folder / f"original_{number:03}{still.suffix.lower()}")
        shutil.copyfile(still, copies[-1])
    return copies


@dataclass(frozen=True, slots=True)
class Tree:
    """A folder of folders of files. File n is a link to original n modulo their number."""

    root: Path
    originals: list[Path]
    count: int

    def __len__(self) -> int:
        return self.count

    def path(self, number: int) -> str:
        """Name of a file; names rise with the number, byte by byte."""
        suffix = self.originals[number % len(self.originals)].suffix
        return f"{self.root}/{number // FILES_A_FOLDER:05}/{number:08}{suffix}"

    def paths(self, count: int | None = None) -> list[str]:
        """Names of the first files, or of all."""
        return [self.path(number) for number in range(self.count if count is None else min(count, self.count))]

    def folders(self) -> list[str]:
        """The folders that hold the files."""
        return [f"{self.root}/{number:05}" for number in range(-(-self.count // FILES_A_FOLDER))]


@contextmanager
def linked_tree(originals: Sequence[Path], root: Path, count: int, rounds: Rounds) -> Iterator[Tree]:
    """Make a tree of links to files of the same file system, and remove it at the end, also half made."""
    tree = Tree(root, list(originals), count)
    sources = [os.fspath(original) for original in originals]
    try:
        for folder in tree.folders():
            os.makedirs(folder)
        for number in range(count):
            if number % FILES_A_FOLDER == 0:
                rounds.check_time_to_make(f"a tree of {count:,} files")
            path = tree.path(number)
            try:
                os.link(sources[number % len(sources)], path)
            except OSError as error:
                if error.errno != errno.EMLINK:
                    raise
                # A file has so many names and no more (65,000 on ext4): a copy takes the next ones.
                shutil.copyfile(sources[number % len(sources)], path)
                sources[number % len(sources)] = path
        yield tree
    finally:
        shutil.rmtree(root, ignore_errors=True)

"""List the files of an image sequence in order, read them, and notice changes."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
import xxhash

from framefeed._arrays import IntArray
from framefeed._files import stat_regular
from framefeed._stopping import check_stop
from framefeed._values import SourceStat, clamp_ns, read_bytes
from framefeed.errors import MissingMedia, UnreadableMedia
from framefeed.media._readers import FileReader

# fmt: off
PICTURE_SUFFIXES = frozenset(
    {
        ".apng", ".avif", ".avifs", ".bmp", ".dib", ".gif", ".heic", ".heif", ".jfif", ".jpe", ".jpeg", ".jpg", ".jxl",
        ".mpo", ".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp",
    }
)
# fmt: on
"""Endings of picture files, in lower case."""
_HASHED_BYTES = 4096
"""Bytes hashed at the head and at the tail of each file: heads of one encoder are often alike, tails are not."""
_NANOSECONDS = 10**9
_DIGITS = re.compile(rb"(\d+)")


@dataclass(frozen=True, slots=True, eq=False)
class SequenceFiles:
    """Listing of a sequence's files."""

    paths: tuple[str, ...]  # in the order of the frames
    sizes: IntArray  # bytes of each, int64 [N]
    mtimes_ns: IntArray  # modification time of each, int64 [N]
    folder: Hashable = None  # stamp that changes when a file is added, removed or renamed; None for an explicit list
    # Bytes of all files; and a time, the mean of theirs to the second, whose nanoseconds are a checksum of names, sizes
    # and times in order, so that it changes with any of these.
    stat: SourceStat = field(init=False)

    def __post_init__(self) -> None:
        seconds = sum(self.mtimes_ns.tolist()) // max(1, len(self)) // _NANOSECONDS
        digest = xxhash.xxh3_64(b"\0".join(os.fsencode(os.path.basename(path)) for path in self.paths))
        digest.update(self.sizes.tobytes())
        digest.update(self.mtimes_ns.tobytes())
        time = seconds * _NANOSECONDS + digest.intdigest() % _NANOSECONDS
        object.__setattr__(self, "stat", SourceStat(int(self.sizes.sum()), clamp_ns(time)))

    def __len__(self) -> int:
        return len(self.paths)

    def fingerprint(self) -> str:
        """Hash names, sizes, heads and tails, in order; a copy of the folder has the same."""
        digest = xxhash.xxh3_128()
        for path, size in zip(self.paths, self.sizes.tolist(), strict=True):
            check_stop()
            reader = FileReader(path)
            try:
                head = read_bytes(reader, 0, _HASHED_BYTES)
                tail = read_bytes(reader, max(0, size - _HASHED_BYTES), _HASHED_BYTES)
            finally:
                reader.close()
            for part in (os.fsencode(os.path.basename(path)), str(size).encode(), head, tail):
                digest.update(len(part).to_bytes(8, "little") + part)
        return digest.hexdigest()

    def read(self, number: int) -> bytes | None:
        """Read one file; None if it differs from the listing before or after the read."""
        listed = SourceStat(int(self.sizes[number]), int(self.mtimes_ns[number]))
        reader = FileReader(self.paths[number])
        try:
            if reader.stat() != listed:
                return None
            data = read_bytes(reader, 0, listed.bytes)
            return data if len(data) == listed.bytes and reader.stat() == listed else None
        finally:
            reader.close()

    def describe_change(self, before: SequenceFiles) -> str | None:
        """Name one file that differs from an earlier listing; None if all are the same."""
        gone, come = set(before.paths) - set(self.paths), set(self.paths) - set(before.paths)
        if gone or come:
            return f"{min(gone)} is gone" if gone else f"{min(come)} was not there"
        changed = np.flatnonzero((self.sizes != before.sizes) | (self.mtimes_ns != before.mtimes_ns))
        return f"{self.paths[changed[0]]} has changed" if len(changed) else None


def make_natural_key(name: str) -> tuple[list[bytes | int], bytes]:
    """Make a sort key: runs of digits compare as numbers, all else as bytes; equal names so far compare as bytes."""
    raw = os.fsencode(name)
    parts: list[bytes | int] = [*_DIGITS.split(raw)]
    parts[1::2] = [int(part) for part in parts[1::2]]
    return parts, raw


def list_folder(folder: str) -> SequenceFiles:
    """List the pictures that lie directly in a folder, by their endings, in natural order."""
    try:
        # Taken before the listing: a change during it is then noticed the next time.
        stamp = stamp_folder(folder)
        with os.scandir(folder) as entries:
            pictures = [entry for entry in entries if os.path.splitext(entry.name)[1].lower() in PICTURE_SUFFIXES]
            names = [entry.name for entry in pictures if not entry.is_dir()]
    except FileNotFoundError as error:
        raise MissingMedia(f"{folder}: no such folder", source=folder, stage="open") from error
    except OSError as error:
        message = f"{folder}: cannot be listed as a folder of pictures: {error.strerror}"
        raise UnreadableMedia(message, source=folder, stage="open") from error
    names.sort(key=make_natural_key)
    return stat_files([os.path.join(folder, name) for name in names], stamp)


def stat_files(paths: Sequence[str], folder: Hashable = None) -> SequenceFiles:
    """Stat the files of an explicit list; errors as ``stat_regular``."""
    facts: list[tuple[int, int]] = []
    for path in paths:
        check_stop()
        status = stat_regular(path)
        facts.append((status.st_size, clamp_ns(status.st_mtime_ns)))
    sizes, times = np.array(facts, dtype=np.int64).reshape(-1, 2).T
    return SequenceFiles(tuple(paths), sizes, times, folder)


def stamp_folder(folder: str) -> Hashable:
    """Make the stamp of a folder, which changes when files are added or removed; OSError if it cannot be read."""
    facts = os.stat(folder)
    if not stat.S_ISDIR(facts.st_mode):
        raise NotADirectoryError(0, "it is not a folder")
    return (facts.st_dev, facts.st_ino, facts.st_mtime_ns)

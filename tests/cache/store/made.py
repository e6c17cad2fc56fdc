"""Frames that name themselves, stores of them, and the laws that every store keeps."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from framefeed.cache.store._files import Descriptor
from framefeed.cache.store._format import MISS, Kind, StoredFrame
from framefeed.cache.store._segment_writer import SegmentFrames, SegmentWriter
from framefeed.cache.store._store import FrameStore

HEAD = bytes(range(8))
KEYS = (
    HEAD + b"first   ",
    HEAD + b"second  ",
    (int.from_bytes(HEAD, "little") + 1).to_bytes(8, "little") + b"third   ",
)
"""The first halves of the first two are the same, and that of the third is one more."""
KINDS = (Kind("raw", "rgb24 4x2 2 0 p"), Kind("jpeg:90", "yuv420p 6x4 2 0 p"), Kind("zstd:3", "gray ü 1x1"))

Frames = Mapping[tuple[bytes, int], bytes]
Files = tuple[bytes, bytes]
"""Content of the data file and of the directory of a segment."""


def data_of(key: bytes, number: int, version: int = 0) -> bytes:
    """Bytes that no other frame and no other version has; of some frames there are none."""
    seed = b"%s %d %d" % (key, number, version)
    size = hashlib.sha256(seed).digest()[0] % 97
    return b"" if size == 0 else hashlib.shake_128(seed).digest(size + 8)


def frame_of(key: bytes, number: int, version: int = 0, data: bytes | None = None) -> StoredFrame:
    """A frame whose every field follows from its name."""
    chosen = data_of(key, number, version) if data is None else data
    words = np.frombuffer(hashlib.sha256(b"%s %d" % (key, number)).digest(), np.uint64)
    return StoredFrame(
        number, KINDS[number % len(KINDS)], chosen, 1000 + number % 7, stamp=int(words[0]), content=int(words[1])
    )


def description_of(key: bytes) -> str:
    return f'{{"stream": "{key.hex()}", "name": "ü"}}'


def add(store: FrameStore, key: bytes, numbers: Iterable[int], version: int = 0) -> bool:
    return store.add(key, description_of(key), [frame_of(key, number, version) for number in numbers])


def read_all(store: FrameStore, key: bytes, numbers: Sequence[int]) -> dict[int, bytes]:
    """Find and read frames; those that are there and sound. Everything else that the store says of them is checked."""
    locations = store.find(key, np.array(numbers, np.int64))
    assert len(locations) == len(numbers)
    where = np.flatnonzero(locations.segment != MISS).tolist()
    buffers = [memoryview(bytearray(int(locations.rows["nbytes"][at]))) for at in where]
    got = {}
    for at, buffer, is_sound in zip(where, buffers, store.read(locations, where, buffers), strict=True):
        if is_sound:
            frame = frame_of(key, numbers[at])
            assert locations.kinds[locations.rows["kind"][at]] == frame.kind
            assert int(locations.rows["raw_nbytes"][at]) == frame.raw_nbytes
            assert (int(locations.rows["stamp"][at]), int(locations.rows["content"][at])) == (
                frame.stamp,
                frame.content,
            )
            got[numbers[at]] = bytes(buffer)
    return got


def assert_exact_or_missing(store: FrameStore, frames: Frames) -> int:
    """The law of everything that is damaged: what is found is what was stored. Gives how much was found."""
    count = 0
    for key in {key for key, _ in frames}:
        numbers = [number for each, number in frames if each == key]
        got = read_all(store, key, numbers)
        if len(got) < len(numbers):
            # What is damaged is not found again; another of that name may be.
            got |= read_all(store, key, numbers)
        for number, data in got.items():
            assert data == frames[key, number]
        count += len(got)
    return count


def frames_of(keys: Iterable[bytes], numbers: Iterable[int]) -> dict[tuple[bytes, int], bytes]:
    listed = list(numbers)
    return {(key, number): data_of(key, number) for key in keys for number in listed}


def segments(folder: Path) -> list[Path]:
    """Data files of sealed segments."""
    return sorted(path.with_suffix(".data") for path in folder.glob("frames-*.rows"))


def directory_of(path: Path) -> Path:
    """Path of the directory of a segment, by that of its data file."""
    return path.with_suffix(".rows")


def parts(folder: Path) -> list[Path]:
    """Data files of segments that have no directory, and future directories without data."""
    data = {path for path in folder.glob("frames-*.data") if not directory_of(path).exists()}
    names = {path.name.partition(".")[0] for path in data}
    return sorted([*data, *(path for path in folder.glob("*.new") if path.name.partition(".")[0] not in names)])


def reserved(folder: Path) -> list[int]:
    """Bytes that the segments that are being written may reach."""
    return [int(path.name.split(".")[1]) for path in folder.glob("frames-*.new")]


def disk_bytes(folder: Path) -> int:
    total = 0
    for path in folder.iterdir() if folder.exists() else ():
        with suppress(FileNotFoundError):  # Another process may be at work.
            total += path.lstat().st_size
    return total


def sealed_files(folder: Path, keys: Iterable[bytes], numbers: Iterable[int]) -> Files:
    """The content of one segment that holds those frames."""
    listed = list(numbers)
    with FrameStore(os.fspath(folder)) as store:
        for key in keys:
            assert add(store, key, listed)
    (path,) = segments(folder)
    return path.read_bytes(), directory_of(path).read_bytes()


def write_segment(folder: Path, number: int, clips: Iterable[tuple[bytes, Sequence[int]]], created: int = 1) -> None:
    """Write a segment without a store around it."""
    write_clips(
        folder,
        number,
        [
            SegmentFrames(key, description_of(key), [frame_of(key, number) for number in numbers])
            for key, numbers in clips
        ],
        created,
    )


def write_clips(folder: Path, number: int, clips: Iterable[SegmentFrames], created: int = 1) -> None:
    """Write a segment of these clips without a store around it."""
    path = folder / name_of(number)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
    files = [Descriptor(os.open(each, flags, 0o600)) for each in (path, directory_of(path))]
    writer = SegmentWriter(*files, 1 << 30, created)
    for clip in clips:
        writer.append(clip)
    writer.finish()


def name_of(number: int) -> str:
    """Name of a data file."""
    return f"frames-{number:032x}.data"


def write_files(folder: Path, files: Files, number: int = 0) -> Path:
    """Write the content of a segment to files that are called like one; gives the path of the data file."""
    path = folder / name_of(number)
    path.write_bytes(files[0])
    directory_of(path).write_bytes(files[1])
    return path


def alone(folder: Path, files: Files, number: int = 0) -> Path:
    """A folder with two files that are called like a segment."""
    folder.mkdir(mode=0o700)
    write_files(folder, files, number)
    return folder

"""Count and verify everything that is stored."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import xxhash

from framefeed._shortage import SuppressFaults
from framefeed.cache.store._directory import read_directory, read_texts
from framefeed.cache.store._folder import Folder
from framefeed.cache.store._format import FILE, REF_BITS, Kind, OtherFormat, Refused, StoreInfo, Verified, frame_seed
from framefeed.cache.store._index import Segment, SegmentIndex

_CHUNK_BYTES = 1 << 20


def count_contents(folder: Folder, segments: SegmentIndex, max_bytes: int | None) -> StoreInfo:
    """Count the contents of a folder."""
    num_segments = num_frames = stored_bytes = raw_bytes = 0
    kinds: dict[Kind, tuple[int, int]] = {}
    descriptions: dict[str, str] = {}
    for number, segment in segments.sealed():
        directory = segments.directory(number)
        if directory is None:
            continue
        rows = directory.rows
        num_segments += 1
        num_frames += len(rows)
        stored_bytes += int(rows["nbytes"].sum())
        raw_bytes += int(rows["raw_nbytes"].sum())
        counts = np.bincount(rows["kind"], minlength=len(directory.kinds)).tolist()
        sizes = np.bincount(rows["kind"], rows["nbytes"], minlength=len(directory.kinds)).tolist()
        for kind, count, nbytes in zip(directory.kinds, counts, sizes, strict=True):
            before = kinds.get(kind, (0, 0))
            kinds[kind] = (before[0] + count, before[1] + int(nbytes))
        for stream, text in enumerate(_read_texts(folder, segment) or ()):
            descriptions.setdefault(directory.key(stream).hex(), text)
    bytes_on_disk, unfinished = 0, dict[str, tuple[list[str], int]]()
    with SuppressFaults(OSError):
        bytes_on_disk, unfinished = folder.bytes_on_disk(), folder.list_segments().unfinished
    return StoreInfo(
        bytes_on_disk=bytes_on_disk,
        max_bytes=max_bytes,
        num_segments=num_segments,
        num_frames=num_frames,
        stored_bytes=stored_bytes,
        raw_bytes=raw_bytes,
        kinds=kinds,
        descriptions=descriptions,
        refused=dict(segments.refused),
        unfinished=sorted(f"{name}.data" for name in unfinished),
    )


def _read_texts(folder: Folder, segment: Segment) -> list[str] | None:
    """Read the descriptions of the streams of a segment; None if they are damaged."""
    with SuppressFaults(Refused, OSError):
        file, size = folder.open_file(f"{segment.name}.rows")
        return read_texts(file.number, size)
    return None


def check_all(folder: Folder, segments: SegmentIndex, progress: Callable[[int], object] | None) -> Verified:
    """Read every stored byte; ``progress`` is called with the number of bytes checked since its last call."""
    damaged: dict[str, list[int]] = {}
    num_frames = num_bytes = num_segments = 0
    for number, segment in segments.sealed():
        directory, descriptor = segments.directory(number), segments.descriptor(number)
        if directory is None or descriptor is None:
            continue
        num_segments += 1
        num_frames += len(directory.rows)
        if _read_texts(folder, segment) is None:
            damaged[segment.file] = []
        for at, row in enumerate(directory.rows):
            key, frame = directory.key(int(row["stream"])), int(row["number"])
            num_bytes += int(row["nbytes"])
            if not _is_sound(descriptor.number, key, row):
                damaged.setdefault(segment.file, []).append(frame)
                segments.forget(key, frame, (number << REF_BITS) + at)
            if progress is not None:
                progress(int(row["nbytes"]))
    return Verified(num_segments, num_frames, num_bytes, damaged, dict(segments.refused))


def drop_damaged(folder: Folder, verified: Verified) -> dict[str, int]:
    """Remove segments with damaged frames, and those that are torn; see ``FrameStore.drop_damaged``."""
    removed: dict[str, int] = {}
    for file in {**verified.damaged, **verified.refused}:
        met = FILE.fullmatch(file)
        if met is not None and (file in verified.damaged or _is_torn(folder, met["name"])):
            freed = folder.remove(met["name"])
            if freed:
                removed[file] = freed
    return removed


def _is_torn(folder: Folder, name: str) -> bool:
    """Whether the files of a segment are ours, and neither sound nor those of another version of this package."""
    try:
        file, size = folder.open_file(f"{name}.rows")
        data_nbytes = folder.measure(f"{name}.data") if os.path.lexists(folder.file(f"{name}.data")) else None
    except (Refused, OSError):
        return False
    try:
        if data_nbytes is not None:
            read_directory(file.number, size, data_nbytes)
    except (OtherFormat, OSError):
        return False
    except Refused:
        return True
    return data_nbytes is None  # else it is complete now


def _is_sound(descriptor: int, key: bytes, row: np.void) -> bool:
    digest = xxhash.xxh3_64(seed=frame_seed(key, int(row["number"])))
    offset, left = int(row["offset"]), int(row["nbytes"])
    while left:
        data = b""
        with SuppressFaults(OSError):
            data = os.pread(descriptor, min(left, _CHUNK_BYTES), offset)
        if not data:
            return False
        digest.update(data)
        offset, left = offset + len(data), left - len(data)
    return digest.intdigest() == int(row["checksum"])

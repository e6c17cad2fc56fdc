"""Count and verify everything that is stored."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

import numpy as np
import xxhash

from framefeed.cache.store._folder import Folder
from framefeed.cache.store._format import (
    NO_FRAME,
    SEALED,
    Kind,
    OtherFormat,
    Refused,
    Rows,
    StoreInfo,
    Verified,
    frame_seed,
)
from framefeed.cache.store._index import SegmentIndex
from framefeed.cache.store._segment import read_directory
from framefeed.parallel import find_shortage

_CHUNK_BYTES = 1 << 20


def count_contents(folder: Folder, segments: SegmentIndex, max_bytes: int | None) -> StoreInfo:
    """Count the contents of a folder."""
    num_segments = num_frames = stored_bytes = raw_bytes = 0
    kinds: dict[Kind, tuple[int, int]] = {}
    descriptions: dict[str, str] = {}
    for number, _ in segments.sealed():
        directory = segments.directory(number)
        if directory is None:
            continue
        is_frame = directory.rows["kind"] != NO_FRAME
        frames = directory.rows[is_frame]
        num_segments += 1
        num_frames += len(frames)
        stored_bytes += int(frames["nbytes"].sum())
        raw_bytes += int(frames["raw_nbytes"].sum())
        counts = np.bincount(frames["kind"], minlength=len(directory.kinds)).tolist()
        sizes = np.bincount(frames["kind"], frames["nbytes"], minlength=len(directory.kinds)).tolist()
        for kind, count, nbytes in zip(directory.kinds, counts, sizes, strict=True):
            before = kinds.get(kind, (0, 0))
            kinds[kind] = (before[0] + count, before[1] + int(nbytes))
        _describe(segments, number, directory.rows[~is_frame], descriptions)
    try:
        bytes_on_disk, (_, parts) = folder.bytes_on_disk(), folder.names()
    except OSError as error:
        if find_shortage(error) is not None:
            raise
        bytes_on_disk, parts = 0, []
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
        unfinished=sorted(parts),
    )


def _describe(segments: SegmentIndex, segment: int, rows: Rows, descriptions: dict[str, str]) -> None:
    descriptor = segments.descriptor(segment)
    for row in rows:
        key = _key(row)
        if descriptor is None or key.hex() in descriptions or row["nbytes"] > _CHUNK_BYTES:
            continue
        try:
            text = os.pread(descriptor.number, int(row["nbytes"]), int(row["offset"]))
        except OSError as error:
            if find_shortage(error) is not None:
                raise
            return
        if xxhash.xxh3_64_intdigest(text, frame_seed(key, int(row["number"]))) == int(row["checksum"]):
            descriptions[key.hex()] = text.decode(errors="replace")


def check_all(segments: SegmentIndex, progress: Callable[[int], object] | None) -> Verified:
    """Read every stored byte.

    Args:
        segments: Segments to read.
        progress: Called with the number of bytes checked since its last call.
    """
    damaged: dict[str, list[int]] = {}
    num_frames = num_bytes = num_segments = 0
    for number, segment in segments.sealed():
        directory, descriptor = segments.directory(number), segments.descriptor(number)
        if directory is None or descriptor is None:
            continue
        num_segments += 1
        for at, row in enumerate(directory.rows):
            key, frame = _key(row), int(row["number"])
            num_frames += int(row["kind"] != NO_FRAME)
            num_bytes += int(row["nbytes"])
            if not _is_sound(descriptor.number, key, row):
                damaged.setdefault(segment.name, []).append(frame)
                segments.forget(key, frame, number, at)
            if progress is not None:
                progress(int(row["nbytes"]))
    return Verified(num_segments, num_frames, num_bytes, damaged, dict(segments.refused))


def drop_damaged(folder: Folder, verified: Verified) -> dict[str, int]:
    """Remove segments with damaged frames, and those that are torn.

    Args:
        folder: Where they are.
        verified: Result of a check. Of the refused files, those of another format, links and other users' files stay.

    Returns:
        File name -> bytes, of each that was removed.

    Raises:
        OSError: One cannot be removed.
    """
    removed: dict[str, int] = {}
    for name in {**verified.damaged, **verified.refused}:
        if not SEALED.fullmatch(name) or (name in verified.refused and not _is_torn(folder, name)):
            continue
        try:
            facts = os.lstat(folder.file(name))
            if stat.S_ISREG(facts.st_mode):
                os.unlink(folder.file(name))
                removed[name] = facts.st_size
        except FileNotFoundError:
            continue
    return removed


def _is_torn(folder: Folder, name: str) -> bool:
    """Whether a file is ours, and neither a segment nor one of another version of this package."""
    try:
        descriptor = folder.open_segment(name)
    except (Refused, OSError):
        return False
    try:
        read_directory(descriptor)
    except OtherFormat:
        return False
    except Refused:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False  # It is complete now.


def _key(row: np.void) -> bytes:
    return int(row["head"]).to_bytes(8, "little") + int(row["tail"]).to_bytes(8, "little")


def _is_sound(descriptor: int, key: bytes, row: np.void) -> bool:
    digest = xxhash.xxh3_64(seed=frame_seed(key, int(row["number"])))
    offset, left = int(row["offset"]), int(row["nbytes"])
    while left:
        try:
            data = os.pread(descriptor, min(left, _CHUNK_BYTES), offset)
        except OSError as error:
            if find_shortage(error) is not None:
                raise
            return False
        if not data:
            return False
        digest.update(data)
        offset, left = offset + len(data), left - len(data)
    return digest.intdigest() == int(row["checksum"])

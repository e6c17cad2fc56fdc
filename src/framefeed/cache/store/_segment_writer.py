"""Write a segment: the frames of clips at the end of a file, and at last its directory; see ``_format``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import accumulate

import numpy as np

from framefeed.cache.store._directory import Directory, kinds_json, pack_directory, texts_json
from framefeed.cache.store._files import BlockFile, Descriptor, write_buffers
from framefeed.cache.store._format import (
    DATA_START,
    HEADER,
    KEY_BYTES,
    MAX_FRAME_BYTES,
    MAX_KINDS_BYTES,
    MAX_ROWS,
    MAX_TEXTS_BYTES,
    ROW,
    Kind,
    Rows,
    StoredFrame,
    frame_checksum,
)


class SegmentFrames:
    """Frames to be written to a segment side by side, with all that can be computed without the file."""

    def __init__(self, key: bytes, description: str, frames: Sequence[StoredFrame]) -> None:
        self.key = key
        self.frames = frames
        self.description = description
        self.buffers = [memoryview(frame.data).cast("B") for frame in frames]
        self.checksums = [frame_checksum(key, f.number, data) for f, data in zip(frames, self.buffers, strict=True)]
        self.kinds = dict.fromkeys(frame.kind for frame in frames)
        self.data_nbytes = sum(buffer.nbytes for buffer in self.buffers)
        self.text_nbytes = len(texts_json([description]))

    @property
    def most_bytes(self) -> int:
        """Size of a segment with this clip alone."""
        return DATA_START + self.data_nbytes + _directory_bytes(len(self.frames), 1, self.kinds, self.text_nbytes)

    @property
    def is_storable(self) -> bool:
        """Whether it fits into a segment."""
        sizes = [max(buffer.nbytes, f.raw_nbytes) for buffer, f in zip(self.buffers, self.frames, strict=True)]
        is_small = max(sizes) <= MAX_FRAME_BYTES and len(self.frames) <= MAX_ROWS
        return is_small and len(kinds_json(self.kinds)) <= MAX_KINDS_BYTES and self.text_nbytes <= MAX_TEXTS_BYTES


class SegmentWriter:
    """A segment that is being written, from the start of empty files. One thread writes; others may search its rows.

    The last frames of the data file may be in memory only. ``max_bytes`` is of both files once they are finished.
    """

    def __init__(self, data: Descriptor, directory: Descriptor, max_bytes: int, created: int) -> None:
        self.data = BlockFile(data)
        self._directory = directory
        self._max_bytes = max_bytes
        self._created = created
        self.num_bytes = 0
        self._end = self.data.write([memoryview(bytes(DATA_START))], 0)
        self._rows: Rows = np.empty(64, ROW)
        self.num_rows = 0
        self._kinds: dict[Kind, int] = {}
        self._kinds_seen: tuple[Kind, ...] = ()
        self._streams: dict[bytes, int] = {}
        self._texts: list[str] = []
        self._texts_nbytes = 0

    def takes(self, clip: SegmentFrames) -> bool:
        """Whether the files with this clip stay within their largest size."""
        rows, texts = self.num_rows + len(clip.frames), self._texts_nbytes + clip.text_nbytes
        kinds = self._kinds | clip.kinds
        nbytes = self._end + clip.data_nbytes + _directory_bytes(rows, len(self._streams) + 1, kinds, texts)
        is_small = rows <= MAX_ROWS and texts <= MAX_TEXTS_BYTES and len(kinds_json(kinds)) <= MAX_KINDS_BYTES
        return nbytes <= self._max_bytes and is_small

    def append(self, clip: SegmentFrames) -> Rows:
        """Write a clip, and return its rows, ``ROW`` [N]; after an error the segment cannot be used any more."""
        for kind in clip.kinds:
            self._kinds.setdefault(kind, len(self._kinds))
        if clip.key not in self._streams:
            self._streams[clip.key] = len(self._streams)
            self._texts.append(clip.description)
            self._texts_nbytes += clip.text_nbytes
        begin, self._end = self._end, self.data.write(clip.buffers, self._end)
        first, last = self.num_rows, self.num_rows + len(clip.frames)
        if last > len(self._rows):
            # A search in another thread keeps the old array.
            grown = np.empty(max(last, 2 * len(self._rows)), ROW)
            grown[:first] = self._rows[:first]
            self._rows = grown
        rows = self._rows[first:last]
        rows["number"] = [frame.number for frame in clip.frames]
        rows["nbytes"] = sizes = [buffer.nbytes for buffer in clip.buffers]
        rows["offset"] = list(accumulate(sizes[:-1], initial=begin))
        rows["raw_nbytes"] = [frame.raw_nbytes for frame in clip.frames]
        rows["checksum"] = clip.checksums
        rows["stamp"] = [frame.stamp for frame in clip.frames]
        rows["content"] = [frame.content for frame in clip.frames]
        rows["stream"] = self._streams[clip.key]
        rows["kind"] = [self._kinds[frame.kind] for frame in clip.frames]
        self._kinds_seen = tuple(self._kinds)
        self.num_rows = last
        self.num_bytes += clip.data_nbytes
        return rows

    def directory(self) -> Directory:
        """View the rows so far as a directory without keys."""
        return Directory(self._rows[: self.num_rows], b"", self._kinds_seen, self._created, b"")

    def finish(self) -> Directory:
        """Bring the data to the disk, then write the directory and bring it to the disk."""
        self.data.flush(self._end)
        os.fsync(self.data.number)
        rows = self._rows[: self.num_rows].copy()
        directory = Directory(rows, b"".join(self._streams), self._kinds_seen, self._created, b"")
        parts, checksum = pack_directory(directory, self._texts, self._end)
        write_buffers(self._directory.number, parts, 0)
        os.fsync(self._directory.number)
        return Directory(rows, directory.keys, directory.kinds, self._created, checksum)


def _directory_bytes(num_rows: int, num_streams: int, kinds: Iterable[Kind], texts_nbytes: int) -> int:
    return HEADER.itemsize + ROW.itemsize * num_rows + KEY_BYTES * num_streams + len(kinds_json(kinds)) + texts_nbytes

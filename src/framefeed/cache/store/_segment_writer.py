"""Write a segment: clip by clip at the end of a file, the directory last; see ``_format``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import accumulate

import numpy as np
import pyarrow as pa

from framefeed._arrays import IntArray
from framefeed.cache.store._files import MAX_BUFFERS, skip_bytes
from framefeed.cache.store._format import (
    CHECKSUM,
    COLUMNS,
    MAX_FRAME_BYTES,
    MAX_KINDS_BYTES,
    MAX_ROWS,
    METADATA,
    NO_FRAME,
    ROW,
    SCHEMA,
    Kind,
    Rows,
    StoredFrame,
    columns_of,
    directory_checksum,
    directory_text,
    frame_checksum,
    halves,
)
from framefeed.parallel import try_again_in_shortage

_OFFSET = [name for name, _ in COLUMNS].index("offset")

# Largest sizes of the parts of a file.
_HEAD_BYTES = 2048
_ROW_BYTES = 88
_BATCH_BYTES = 2048
_FOOTER_BYTES = 4096
_BLOCK_BYTES = 24


class SegmentFrames:
    """Frames to be written to a segment, with all that can be computed without the file.

    Args:
        key: Of the stream, 16 bytes.
        description: Of the stream.
        frames: Frames to be stored side by side.

    Attributes:
        buffers: Their bytes.
        checksums: Of the bytes.
        kinds: Their codecs and layouts.
        added_bytes: Most bytes that they add to a segment, without its end.
    """

    def __init__(self, key: bytes, description: str, frames: Sequence[StoredFrame]) -> None:
        self.key = key
        self.frames = frames
        self.description = description.encode()
        self.buffers = [memoryview(frame.data).cast("B") for frame in frames]
        self.checksums = [frame_checksum(key, f.number, data) for f, data in zip(frames, self.buffers, strict=True)]
        self.kinds = dict.fromkeys(frame.kind for frame in frames)
        data = sum(buffer.nbytes for buffer in self.buffers) + len(self.description)
        self.added_bytes = data + _ROW_BYTES * self.num_rows + _BATCH_BYTES

    @property
    def num_rows(self) -> int:
        """Most rows; the last may describe the stream."""
        return len(self.frames) + 1

    @property
    def most_bytes(self) -> int:
        """Largest size of a segment with this clip alone."""
        return _HEAD_BYTES + self.added_bytes + _end_bytes(self.num_rows, 1, _kinds_bytes(self.kinds))

    @property
    def is_storable(self) -> bool:
        """Whether it fits into a segment."""
        sizes = [max(buffer.nbytes, f.raw_nbytes) for buffer, f in zip(self.buffers, self.frames, strict=True)]
        return (
            max(sizes) <= MAX_FRAME_BYTES and self.num_rows <= MAX_ROWS and _kinds_bytes(self.kinds) < MAX_KINDS_BYTES
        )


class SegmentWriter:
    """A segment that is being written, from the start of an empty file.

    Args:
        descriptor: Of the file, for reading and writing; stays open.
        max_bytes: Largest size of the finished file.
        created: See ``_format``.

    Attributes:
        kinds: Maps codecs and layouts to their number in the directory.
    """

    def __init__(self, descriptor: int, max_bytes: int, created: int) -> None:
        self.kinds: dict[Kind, int] = {}
        self._descriptor = descriptor
        self._max_bytes = max_bytes
        self._created = created
        self._sink = _Sink()
        self._arrow = pa.ipc.new_file(self._sink, SCHEMA)
        self._rows: list[Rows] = []
        self._num_rows = 0
        self._described: set[bytes] = set()
        self._nbytes = 0
        self._write()

    def takes(self, clip: SegmentFrames) -> bool:
        """Whether the file with this clip and its end stays within its largest size."""
        rows = self._num_rows + clip.num_rows
        kinds = _kinds_bytes(self.kinds.keys() | clip.kinds.keys())
        most = self._nbytes + clip.added_bytes + _end_bytes(rows, len(self._rows) + 1, kinds)
        return most <= self._max_bytes and rows <= MAX_ROWS and kinds < MAX_KINDS_BYTES

    def append(self, clip: SegmentFrames) -> Rows:
        """Write a clip.

        Returns:
            ``ROW`` [N], as the directory will have them; the last may describe the stream.

        Raises:
            OSError: It cannot be written; the segment cannot be used any more.
        """
        described = clip.key in self._described
        buffers = clip.buffers if described else [*clip.buffers, memoryview(clip.description)]
        for kind in clip.kinds:
            self.kinds.setdefault(kind, len(self.kinds))
        rows = _make_rows(clip, len(buffers), self.kinds)
        starts = np.fromiter(accumulate((buffer.nbytes for buffer in buffers), initial=0), np.int64, len(buffers) + 1)
        columns = columns_of(rows)
        self._arrow.write_batch(_batch(columns, self._sink.make_stand_in(starts, buffers)))
        # The batch refers to this memory, and is not written before now.
        columns[_OFFSET][:] = rows["offset"] = self._sink.begin + starts[:-1]
        self._write()
        self._rows.append(rows)
        self._num_rows += len(rows)
        self._described.add(clip.key)
        return rows

    def finish(self) -> str:
        """Write the directory and bring everything to the disk.

        Returns:
            Checksum of the directory.

        Raises:
            OSError: It cannot be written; the segment cannot be used any more.
        """
        rows = np.concatenate(self._rows)
        columns = columns_of(rows)
        text = directory_text(self._created, list(self.kinds))
        checksum = directory_checksum(text, [column.data for column in columns])
        metadata = {METADATA: text, CHECKSUM: checksum.encode()}
        self._arrow.write_batch(_batch(columns, pa.nulls(len(rows), pa.large_binary())), custom_metadata=metadata)
        self._arrow.close()
        self._write()
        try_again_in_shortage(partial(os.fsync, self._descriptor), "frame cache", "store")
        return checksum

    def _write(self) -> None:
        """Write the collected bytes to the file."""
        left: Sequence[memoryview] = self._sink.collect()
        while left:
            write = partial(os.pwritev, self._descriptor, left[:MAX_BUFFERS], self._nbytes)
            written = try_again_in_shortage(write, "frame cache", "store")
            self._nbytes += written
            left = skip_bytes(left, written)


def _kinds_bytes(kinds: Iterable[Kind]) -> int:
    return sum(len(json.dumps([kind.codec, kind.layout])) + 2 for kind in kinds)


def _end_bytes(num_rows: int, num_clips: int, kinds_bytes: int) -> int:
    """Size of directory and footer, at most."""
    return _BATCH_BYTES + _ROW_BYTES * num_rows + kinds_bytes + _FOOTER_BYTES + _BLOCK_BYTES * (num_clips + 1)


def _make_rows(clip: SegmentFrames, num_rows: int, kinds: dict[Kind, int]) -> Rows:
    """Make rows without offsets; the row after the frames, if there is one, describes the stream."""
    rows = np.zeros(num_rows, ROW)
    rows["head"], rows["tail"] = halves(clip.key)
    rows["number"], rows["nbytes"], rows["kind"] = -1, len(clip.description), NO_FRAME
    if num_rows > len(clip.frames):
        rows["checksum"][-1] = frame_checksum(clip.key, -1, clip.description)
    frames = rows[: len(clip.frames)]
    frames["number"] = [frame.number for frame in clip.frames]
    frames["nbytes"] = [buffer.nbytes for buffer in clip.buffers]
    frames["raw_nbytes"] = [frame.raw_nbytes for frame in clip.frames]
    frames["checksum"] = clip.checksums
    frames["stamp"] = [frame.stamp for frame in clip.frames]
    frames["content"] = [frame.content for frame in clip.frames]
    frames["kind"] = [kinds[frame.kind] for frame in clip.frames]
    return rows


def _batch(columns: Sequence[IntArray], data: pa.Array) -> pa.RecordBatch:
    arrays = [
        pa.Array.from_buffers(field.type, len(data), [None, pa.py_buffer(column)])
        for field, column in zip(SCHEMA, columns, strict=False)
    ]
    return pa.RecordBatch.from_arrays([*arrays, data], schema=SCHEMA)


class _Sink:
    """Collects the writes of Arrow without a copy.

    Attributes:
        begin: Offset in the file of the substituted buffers, once Arrow has written their batch.
    """

    closed = False

    def __init__(self) -> None:
        self.begin = 0
        self._position = 0
        self._buffers: list[memoryview] = []
        self._stand_in: pa.Buffer | None = None
        self._replaced_by: Sequence[memoryview] = ()

    def make_stand_in(self, starts: IntArray, buffers: Sequence[memoryview]) -> pa.LargeBinaryArray:
        """Make a column of so many bytes; when Arrow writes its values, the buffers are written instead.

        Args:
            starts: int64 [N + 1] of the buffers and of the end of the last.
            buffers: The values [N].
        """
        # None of its bytes is touched, so it takes no memory, and no buffer is copied.
        self._stand_in = pa.py_buffer(np.empty(int(starts[-1]), np.uint8))
        self._replaced_by = buffers
        self.begin = self._position
        columns = [None, pa.py_buffer(starts), self._stand_in]
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(buffers), columns)

    def write(self, data: bytes | pa.Buffer) -> None:
        """Collect one write; called by Arrow."""
        stand_in = self._stand_in
        if stand_in is not None and isinstance(data, pa.Buffer) and data.address == stand_in.address:
            self.begin = self._position
            self._buffers += self._replaced_by
        else:
            self._buffers.append(memoryview(data).cast("B"))
        self._position += len(data)

    def flush(self) -> None:
        """Do nothing; called by Arrow."""

    def collect(self) -> list[memoryview]:
        """Return the writes since the last call."""
        buffers, self._buffers = self._buffers, []
        self._stand_in, self._replaced_by = None, ()
        return buffers

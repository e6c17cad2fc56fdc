"""Writing a segment: clip by clip behind the end of a file, the directory last; see ``segment_format``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from framefeed.cache.store.segment_format import (
    CHECKSUM,
    COLUMNS,
    MAX_KINDS_BYTES,
    MAX_ROWS,
    METADATA,
    NO_FRAME,
    ROW,
    SCHEMA,
    Rows,
    columns_of,
    directory_checksum,
    directory_text,
    frame_checksum,
    halves,
)
from framefeed.cache.stored import IntArray, Kind, StoredFrame

_OFFSET = [name for name, _ in COLUMNS].index("offset")
_MOST_PIECES = 1024
"""Of one call of the system: IOV_MAX."""
_ROW_BYTES = 88
"""At most, of one row in a record batch without its data; so many of each batch and of the end of the file:"""
_BATCH_BYTES = 2048
_END_BYTES = 4096
_BLOCK_BYTES = 24
_KIND_BYTES = 16


class Clip:
    """Frames on their way into a segment: what takes time and no file.

    Args:
        key: Of the stream, 16 bytes.
        description: Of the stream.
        frames: To be stored side by side.
    """

    def __init__(self, key: bytes, description: str, frames: Sequence[StoredFrame]) -> None:
        self.key = key
        self.frames = frames
        self.description = description.encode()
        self.pieces = [memoryview(frame.data).cast("B") for frame in frames]
        self.checksums = [frame_checksum(key, f.number, data) for f, data in zip(frames, self.pieces, strict=True)]
        self.nbytes = sum(piece.nbytes for piece in self.pieces)
        self.kinds = {frame.kind for frame in frames}

    @property
    def most_bytes(self) -> int:
        """How much a new file grows by it at most, its end included."""
        kinds = sum(_kind_bytes(kind) for kind in self.kinds)
        rows = len(self.frames) + 1
        return self.nbytes + len(self.description) + 2 * (_ROW_BYTES * rows + _BATCH_BYTES) + _END_BYTES + kinds


class SegmentWriter:
    """A segment that is being written, from the start of an empty file.

    Args:
        descriptor: Of the file, for reading and writing; stays open.
        room: Bytes that the file may have in the end.
        created: See ``segment_format``.

    Attributes:
        nbytes: Of the file so far.
        num_rows: In it.
        kinds: How its frames are to be read.
    """

    def __init__(self, descriptor: int, room: int, created: int) -> None:
        self._descriptor = descriptor
        self._room = room
        self._created = created
        self._sink = _Sink()
        self._arrow = pa.ipc.new_file(self._sink, SCHEMA)
        self._rows: list[Rows] = []
        self._described: set[bytes] = set()
        self._kinds_bytes = 0
        self.kinds: dict[Kind, int] = {}
        self.num_rows = 0
        self.nbytes = 0
        self._write()

    def takes(self, clip: Clip) -> bool:
        """Whether the file with this clip and its end stays within its room."""
        kinds = self._kinds_bytes + sum(_kind_bytes(kind) for kind in clip.kinds - self.kinds.keys())
        rows = self.num_rows + len(clip.frames) + 1
        end = _END_BYTES + _BATCH_BYTES + _ROW_BYTES * rows + _BLOCK_BYTES * len(self._rows) + kinds
        grows = clip.nbytes + len(clip.description) + _ROW_BYTES * (len(clip.frames) + 1) + _BATCH_BYTES
        return self.nbytes + grows + end <= self._room and rows <= MAX_ROWS and kinds <= MAX_KINDS_BYTES

    def append(self, clip: Clip) -> Rows:
        """Write a clip.

        Returns:
            ``ROW`` [N], as the directory will have them; the last may describe the stream.

        Raises:
            OSError: It cannot be written; the segment is of no use any more.
        """
        described = clip.key in self._described
        pieces = clip.pieces if described else [*clip.pieces, memoryview(clip.description)]
        rows = self._rows_of(clip, len(pieces))
        starts = np.fromiter(accumulate((piece.nbytes for piece in pieces), initial=0), np.int64, len(pieces) + 1)
        columns = columns_of(rows)
        self._arrow.write_batch(_batch(columns, self._sink.standing_in(starts, pieces)))
        # The batch refers to this memory, and is not written before now.
        columns[_OFFSET][:] = rows["offset"] = self._sink.begin + starts[:-1]
        self._write()
        self._rows.append(rows)
        self._described.add(clip.key)
        self.num_rows += len(rows)
        return rows

    def finish(self) -> str:
        """Write the directory and bring everything to the disk.

        Returns:
            Checksum of the directory.

        Raises:
            OSError: It cannot be written; the segment is of no use any more.
        """
        rows = np.concatenate(self._rows)
        columns = columns_of(rows)
        text = directory_text(self._created, list(self.kinds))
        checksum = directory_checksum(text, [column.data for column in columns])
        metadata = {METADATA: text, CHECKSUM: checksum.encode()}
        self._arrow.write_batch(_batch(columns, pa.nulls(len(rows), pa.large_binary())), custom_metadata=metadata)
        self._arrow.close()
        self._write()
        os.fsync(self._descriptor)
        return checksum

    def _rows_of(self, clip: Clip, num_rows: int) -> Rows:
        """Fill in everything but the places."""
        for kind in clip.kinds - self.kinds.keys():
            self.kinds[kind] = len(self.kinds)
            self._kinds_bytes += _kind_bytes(kind)
        rows = np.zeros(num_rows, ROW)
        rows["head"], rows["tail"] = halves(clip.key)
        rows["kind"] = NO_FRAME
        rows["number"], rows["nbytes"] = -1, len(clip.description)
        if num_rows > len(clip.frames):
            rows["checksum"][-1] = frame_checksum(clip.key, -1, clip.description)
        frames = rows[: len(clip.frames)]
        frames["number"] = [frame.number for frame in clip.frames]
        frames["nbytes"] = [piece.nbytes for piece in clip.pieces]
        frames["raw_nbytes"] = [frame.raw_nbytes for frame in clip.frames]
        frames["checksum"] = clip.checksums
        frames["stamp"] = [frame.stamp for frame in clip.frames]
        frames["content"] = [frame.content for frame in clip.frames]
        frames["kind"] = [self.kinds[frame.kind] for frame in clip.frames]
        return rows

    def _write(self) -> None:
        """Write what the sink holds."""
        left = self._sink.taken()
        while left:
            written = os.pwritev(self._descriptor, left[:_MOST_PIECES], self.nbytes)
            self.nbytes += written
            done = 0
            while done < len(left) and written >= left[done].nbytes:
                written -= left[done].nbytes
                done += 1
            left = left[done:]
            if written:
                left[0] = left[0][written:]


def _kind_bytes(kind: Kind) -> int:
    return _KIND_BYTES + 6 * (len(kind.codec) + len(kind.layout))


def _batch(columns: Sequence[npt.NDArray[Any]], data: pa.Array) -> pa.RecordBatch:
    arrays = [
        pa.Array.from_buffers(field.type, len(data), [None, pa.py_buffer(column)])
        for field, column in zip(SCHEMA, columns, strict=False)
    ]
    return pa.RecordBatch.from_arrays([*arrays, data], schema=SCHEMA)


class _Sink:
    """Takes what Arrow writes, without a copy, until somebody comes for it.

    Attributes:
        begin: Position in the file of the pieces that were put in, once Arrow has written their batch.
    """

    closed = False

    def __init__(self) -> None:
        self._pieces: list[memoryview] = []
        self._position = 0
        self._stand_in: tuple[int, Sequence[memoryview]] = (0, ())
        self.begin = 0

    def standing_in(self, starts: IntArray, pieces: Sequence[memoryview]) -> pa.LargeBinaryArray:
        """Give a column of so many bytes; when Arrow writes its values, the pieces are put in their place.

        Args:
            starts: int64 [N + 1] of the pieces and of the end of the last.
            pieces: The values [N].
        """
        # Not one byte of it is touched, so that it takes no memory, and of no piece is made a copy.
        values = pa.py_buffer(np.empty(int(starts[-1]), np.uint8))
        self._stand_in = (values.address, pieces)
        self.begin = self._position
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(pieces), [None, pa.py_buffer(starts), values])

    def write(self, data: bytes | pa.Buffer) -> None:
        """Take a piece; what Arrow calls."""
        address, pieces = self._stand_in
        if isinstance(data, pa.Buffer) and data.address == address:
            self.begin = self._position
            self._pieces += pieces
            self._stand_in = (0, ())
        else:
            self._pieces.append(memoryview(data).cast("B"))
        self._position += len(data)

    def flush(self) -> None:
        """Do nothing; Arrow asks for it."""

    def taken(self) -> list[memoryview]:
        """Give what was written since the last time."""
        pieces, self._pieces = self._pieces, []
        return pieces

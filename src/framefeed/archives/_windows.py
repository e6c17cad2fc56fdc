"""Read small parts of a large source in order, by windows that fit how far they lie apart."""

from __future__ import annotations

from typing import NamedTuple

from framefeed._stopping import check_stop
from framefeed._values import ByteReader, read_bytes


class ReadSizes(NamedTuple):
    """How much to read at once."""

    least: int  # bytes of one read where headers lie far apart, from the next header on
    most: int  # bytes of one read where they lie near each other, so that the data between them are read too
    near: int  # bytes from one header to the next, on average over one read, up to which they lie near
    headers: int = 4096  # headers that are checked at once, and members of one table


LOCAL_READS = ReadSizes(2**12, 2**20, 2**13)
"""For files: a page costs no more than a header, and holds the labels beside a clip. Reading 8 KiB that are in memory
costs less than another read."""
REMOTE_READS = ReadSizes(2**16, 2**18, 2**16, headers=256)
"""For objects by URL, where a request costs as long as some hundred kilobytes. What was read for one table has the
labels of its samples: it is kept so long, and so is at most 16 MB."""


class Window:
    """Bytes of a source around the last part that was asked for.

    Attributes:
        reads: How much to read at once.
        data: The bytes.
        base: Offset of the first.
        end: Bytes of the source.
    """

    def __init__(self, reader: ByteReader, reads: ReadSizes) -> None:
        self._reader = reader
        self.reads = reads
        self.end = reader.stat().bytes
        self.data = b""
        self.base = 0
        self._parts = 0

    def move(self, offset: int, parts: int) -> None:
        """Read the window that begins at ``offset``; ``parts`` were taken since the source was opened."""
        check_stop()
        taken = parts - self._parts
        is_near = not self.data or offset - self.base <= taken * self.reads.near
        count = self.reads.most if is_near else self.reads.least
        self.data = read_bytes(self._reader, offset, min(count, self.end - offset))
        self.base, self._parts = offset, parts

    def read(self, offset: int, count: int) -> bytes:
        """Read bytes from the window, or from the source beside it; fewer at the source's end."""
        start = offset - self.base
        if start >= 0 and start + count <= len(self.data):
            return self.data[start : start + count]
        check_stop()
        return read_bytes(self._reader, offset, min(count, max(self.end - offset, 0)))

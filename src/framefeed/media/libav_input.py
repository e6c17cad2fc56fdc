"""A source as libav reads it: by positioned reads, bounded, with errors that are kept for the caller."""

from __future__ import annotations

import math
import os
from typing import TypeVar

from framefeed.errors import LimitExceeded
from framefeed.media.limits import Limits
from framefeed.media.source import MediaSource, read_bytes
from framefeed.parallel.outcome import Err, Ok, outcome_of
from framefeed.parallel.stopping import check_stop

T = TypeVar("T")
_READ_AHEAD_BYTES = 2**17
_BUFFER_BYTES = 2**15
_SEARCH_WEIGHT = 8
_MOVIE_BOXES = frozenset({b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"styp", b"moof", b"sidx"})


class LibavInput:
    """A source as libav reads it: by positioned reads, so that forked processes share no offset.

    What a read raises is kept for the caller, who asks for it once libav has returned: libav itself knows only numbers.

    Args:
        source: Where the bytes are.

    Attributes:
        name: What libav takes for the file's name.
        reader: The bytes.
        has_failed: Whether a read raised, so that libav takes the file to end there.
    """

    def __init__(self, source: MediaSource) -> None:
        self.reader = source.reader()
        self._at = 0
        self._source_name = source.name
        self._error: BaseException | None = None
        self.has_failed = False
        self._bytes_left = math.inf
        self._limit = ""
        self._weight = 1
        # libav's own guess of the format looks at the ending.
        self.name = f"file:{source.path}" if source.kind in ("path", "url") else source.name

    def read(self, count: int) -> bytes:
        """Read on; nothing at the end, or after an error."""
        if self.has_failed:
            return b""
        # Not kept in a local: an error's traceback reaches this frame, and would so reach itself.
        return self._value_of(outcome_of(self._read, count), b"")

    def _value_of(self, outcome: Ok[T] | Err, otherwise: T) -> T:
        if isinstance(outcome, Ok):
            return outcome.value
        self.has_failed = True
        self._error = self._error or outcome.error
        return otherwise

    def _read(self, count: int) -> bytes:
        check_stop()
        data = read_bytes(self.reader, self._at, count)
        self._at += len(data)
        self._bytes_left -= len(data) * (self._weight if count <= _BUFFER_BYTES else 1)
        if self._bytes_left < 0:
            what = "its header" if self._limit == "max_header_bytes" else "what lies before the next packet"
            raise LimitExceeded(
                f"{self._source_name}: {what} goes on for more bytes than {self._limit} allows: it may be damaged; "
                f"if you trust the file, give limits=ff.Limits({self._limit}=...) with a larger number",
                limit=self._limit,
                source=self._source_name,
                stage="open" if self._limit == "max_header_bytes" else "index",
            )
        return data

    def bound_header(self, limits: Limits, head: bytes) -> None:
        """Let libav read no more until the container is open than a header may take.

        The header of an MP4 file grows with its frames. That of another container is small but for what is read in one
        piece, such as an attachment; in search of one libav reads a buffer at a time, and looks at it byte by byte:
        there a byte counts as eight.

        Args:
            limits: What the file may claim.
            head: Its first bytes.
        """
        self._limit = "max_header_bytes"
        self._weight = 1 if head[4:8] in _MOVIE_BOXES else _SEARCH_WEIGHT
        self._bytes_left = limits.max_header_bytes + _READ_AHEAD_BYTES

    def bound_packet(self, limits: Limits) -> None:
        """Let libav read no more until the next packet than one packet may take."""
        self._limit, self._weight = "max_packet_bytes", 1
        self._bytes_left = limits.max_packet_bytes + _READ_AHEAD_BYTES

    def unbound(self) -> None:
        """Let libav read what it wants: a seek without an index reads all packets before."""
        self._bytes_left = math.inf

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the position."""
        if whence == os.SEEK_CUR:
            offset += self._at
        elif whence == os.SEEK_END:
            offset += self._value_of(outcome_of(self._size, None), 0)
        self._at = max(0, offset)
        return self._at

    def _size(self, _: None) -> int:
        return self.reader.stat().bytes

    def tell(self) -> int:
        """Give the position."""
        return self._at

    def raise_error(self) -> None:
        """Raise what a read raised; taken out first, for its traceback reaches the one that keeps it."""
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error

    def close_reader(self) -> None:
        """Release the file; libav never calls it."""
        self.reader.close()

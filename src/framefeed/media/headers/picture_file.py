"""A picture as Pillow reads it: counted, stopped from outside, and with the errors of reads kept."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from PIL import Image

from framefeed.errors import FramefeedError, LimitExceeded, MediaError
from framefeed.media.headers.facts import LEAST_READ_BYTES
from framefeed.media.limits import Limits
from framefeed.media.quiet import QUIET
from framefeed.media.source import ByteReader, read_bytes
from framefeed.parallel.shortage import shortage_in
from framefeed.parallel.stopping import check_stop

PILLOW_ERRORS = (
    OSError,  # also UnidentifiedImageError
    SyntaxError,
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    ArithmeticError,
    RuntimeError,
    AssertionError,
    AttributeError,
    struct.error,
    zlib.error,
)
"""What Pillow's readers raise over damaged files."""
_FREE_READS = 128
_READS_PER_STOP = 64
"""Of a picture in memory, whose reads take no time."""
_WINDOW_BYTES = 2**13
"""Read at once, for Pillow reads by bytes."""
# IMAGING_CODEC_MEMORY of Pillow, -9 in ImageFile.ERRORS and as libtiff's: its decoders raise no MemoryError.
_NO_MEMORY = ("out of memory error", "decoder error -9")


class PictureFile:
    """A source as Pillow reads it, from its start.

    What a read raises is kept: Pillow takes some of it for damage, and passes over some.

    Args:
        reader: The source.
        size: Its bytes.
        name: For messages.
        limits: ``max_header_bytes`` bounds what is read.
        whole: All bytes, where they are in memory: then only how often something is read counts, which is for pixels.
    """

    def __init__(self, reader: ByteReader, size: int, name: str, limits: Limits, whole: bytes | None = None) -> None:
        self._reader = reader
        self._size = size
        self._name = name
        self._most = limits.max_header_bytes
        self._left = self._most + _FREE_READS * LEAST_READ_BYTES
        self._counts_bytes = whole is None
        self._at = self._start = 0
        self._window = whole or b""
        self._error: BaseException | None = None
        self._num_reads = 0

    def read(self, count: int | None = -1) -> bytes:
        """Read on, up to the end without a count."""
        if self._error is not None:
            raise self._error
        left = max(0, self._size - self._at)
        try:
            return self._read(left if count is None or count < 0 else min(count, left))
        except BaseException as error:
            self._error = error
            raise

    def _read(self, count: int) -> bytes:
        self._num_reads += 1
        if self._counts_bytes or self._num_reads % _READS_PER_STOP == 1:
            check_stop()
        self._left -= max(count if self._counts_bytes else 0, LEAST_READ_BYTES)
        if self._left < 0:
            raise LimitExceeded(
                f"{self._name}: its header goes on for more bytes than max_header_bytes allows ({self._most}): it may "
                "be damaged; if you trust the file, give limits=ff.Limits(max_header_bytes=...) with a larger number",
                limit="max_header_bytes",
                source=self._name,
                stage="open",
            )
        begin = self._at - self._start
        if begin < 0 or begin + count > len(self._window):
            self._window = read_bytes(self._reader, self._at, max(count, min(_WINDOW_BYTES, self._size - self._at)))
            self._start, begin = self._at, 0
        data = self._window[begin : begin + count]
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the position."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if offset + start < 0:
            raise ValueError(f"a position of {offset + start}")
        self._at = offset + start
        return self._at

    def tell(self) -> int:
        """Give the position."""
        return self._at

    def raise_error(self) -> None:
        """Raise what a read raised."""
        error, self._error = self._error, None
        if error is not None:
            raise error


@contextmanager
def pillow_reads(file: PictureFile, translate: Callable[[BaseException], MediaError]) -> Iterator[None]:
    """Turn what Pillow raises over damaged pictures into framefeed's errors.

    What a read raised comes out as it is, and so does a shortage of the machine, whatever Pillow makes of them.

    Args:
        file: What it reads.
        translate: Builds the error.
    """
    try:
        with QUIET:  # Pillow warns of large or odd pictures: our limits decide.
            yield
    except FramefeedError:
        file.raise_error()
        raise
    except (Image.DecompressionBombError, *PILLOW_ERRORS) as error:
        file.raise_error()
        if str(error).startswith(_NO_MEMORY):
            raise MemoryError(str(error)) from error
        if shortage_in(error) is not None:
            raise
        raise translate(error) from error
    file.raise_error()


def bomb(error: Image.DecompressionBombError, name: str, stage: str) -> LimitExceeded:
    """Build the error for a picture that is beyond the bound which Pillow has for the whole program."""
    return LimitExceeded(
        f"{name}: {error}: if you trust the file, set PIL.Image.MAX_IMAGE_PIXELS and "
        "limits=ff.Limits(max_pixels=...) to larger numbers",
        limit="max_pixels",
        source=name,
        stage=stage,
    )

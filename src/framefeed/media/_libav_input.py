"""Input and options of libav: a file object with bounded reads, the allowed demuxers, limits and decoders."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import TypeVar

import av
from av.codec.codec import UnknownCodecError
from av.container import InputContainer

from framefeed._names import split_part
from framefeed._outcome import Err, Ok, catch_outcome
from framefeed._stopping import check_stop
from framefeed._values import Limits, bound_padded_pixels, read_bytes
from framefeed.bitstreams import STREAM_FORMATS, Codec
from framefeed.errors import LimitExceeded
from framefeed.media._identity import SourceIdentity
from framefeed.media._libav_errors import LogLine
from framefeed.media._source import MediaSource

T = TypeVar("T")
_READ_AHEAD_BYTES = 2**17
_BUFFER_BYTES = 2**15
_SEARCH_WEIGHT = 8
_MOVIE_BOXES = frozenset({b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"styp", b"moof", b"sidx"})


class LibavInput:
    """File object for libav that reads a source by positioned reads, so that forked processes share no offset.

    An exception of a read is kept until the caller asks for it by `raise_error`: libav passes on error numbers alone.
    After one, ``has_failed`` is true, which is the end of the file for libav.
    """

    def __init__(self, source: MediaSource, indexed: SourceIdentity | None = None) -> None:
        self.reader = source.reader(indexed)
        self._offset = 0
        self._source_name = source.name
        self._error: BaseException | None = None
        self.has_failed = False
        self._bytes_left = math.inf
        self._limit = ""
        self._weight = 1
        # libav guesses the format by the ending too, and repeats the name in its errors.
        part = split_part(source.name)
        path = part.member if part else source.path if source.kind == "path" else source.name.removesuffix("?...")
        self.name = f"file:{path}" if part or source.kind in ("path", "url") else path

    def read(self, count: int) -> bytes:
        """Read the next bytes; none at the end, or after an error."""
        if self.has_failed:
            return b""
        # Not kept in a local: an error's traceback reaches this frame, and would so reach itself.
        return self._take_value(catch_outcome(self._read, count), b"")

    def _take_value(self, outcome: Ok[T] | Err, otherwise: T) -> T:
        if isinstance(outcome, Ok):
            return outcome.value
        self.has_failed = True
        self._error = self._error or outcome.error
        return otherwise

    def _read(self, count: int) -> bytes:
        check_stop()
        data = read_bytes(self.reader, self._offset, count)
        self._offset += len(data)
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
        """Bound the bytes that libav reads until the container is open.

        The header of an MP4 file grows with its frames. Other headers are small, except for large single reads such
        as attachments. While libav searches for a header it reads buffer by buffer and examines each byte: such a
        byte counts as eight.
        """
        self._limit = "max_header_bytes"
        self._weight = 1 if head[4:8] in _MOVIE_BOXES else _SEARCH_WEIGHT
        self._bytes_left = limits.max_header_bytes + _READ_AHEAD_BYTES

    def bound_packet(self, limits: Limits) -> None:
        """Bound the bytes that libav reads until the next packet, by the size of one packet."""
        self._limit, self._weight = "max_packet_bytes", 1
        self._bytes_left = limits.max_packet_bytes + _READ_AHEAD_BYTES

    def remove_bound(self) -> None:
        """Remove the bound: a seek without an index reads all packets before."""
        self._bytes_left = math.inf

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the position."""
        if whence == os.SEEK_CUR:
            offset += self._offset
        elif whence == os.SEEK_END:
            offset += self._take_value(catch_outcome(lambda _: self.reader.stat().bytes, None), 0)
        self._offset = max(0, offset)
        return self._offset

    def tell(self) -> int:
        """Give the position."""
        return self._offset

    def raise_error(self) -> None:
        """Raise the exception of a read, if there is one; forget it, as its traceback refers to this object."""
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error

    def close_reader(self) -> None:
        """Release the file; libav never calls it."""
        self.reader.close()


FORMATS = (
    "mov,matroska,webm,avi,mpegts,mpeg,ogg,flv,ivf,asf,mxf,nut,dv,yuv4mpegpipe,gif,apng,swf,rm,wtv,nsv,"
    "wav,mp3,aac,flac,amr,ac3,eac3,aiff,caf," + ",".join(sorted(STREAM_FORMATS))
)
"""Demuxers that may open media; none of them opens a second file (S01). Audio ones lead to the error NoVideoStream."""
_WITH_TIMES = ("mov", "matroska", "flv")
"""Containers with times for each packet."""


HEAD_BYTES = 64
"""Of a file, by which ``name_known_format`` tells its format."""


def name_known_format(head: bytes) -> str | None:
    """Name the demuxer of an IVF or Matroska file; None for others, which libav probes.

    Probing takes half of an opening. The conditions are those of ``ivf_probe`` and ``matroska_probe`` at full score.
    """
    if head.startswith(b"DKIF\0\0\x20\0"):
        return "ivf"
    if head.startswith(b"\x1a\x45\xdf\xa3") and (b"\x42\x82\x84webm" in head or b"\x42\x82\x88matroska" in head):
        return "matroska"
    return None


def make_libav_options(limits: Limits, headers_only: bool) -> dict[str, str]:
    """Make the options of one opening; ``headers_only`` withholds decoders, and libav logs each refusal."""
    options = {
        "format_whitelist": FORMATS,
        "protocol_whitelist": "file",
        "max_streams": str(limits.max_streams + 1),
        # Reaches the decoders that probing runs, in containers that know their streams before it.
        "max_pixels": str(bound_padded_pixels(limits)),
    }
    return options | ({"codec_whitelist": _list_decoders()} if headers_only else {})


def needs_decoders(container: InputContainer) -> bool:
    """Whether libav needs the decoders that it was opened without: to choose a stream, or for times of packets."""
    contexts = [stream.codec_context for stream in container.streams.video]
    codecs = [None if context is None else Codec.of(context.codec.canonical_name) for context in contexts]
    if len(codecs) > 1:
        return any(codec is None or codec.is_withheld for codec in codecs)
    # Packets that a parser cuts have no times of their own.
    has_units = any(codec is not None and codec.units is not None for codec in codecs)
    return has_units and not str(container.format.name).startswith(_WITH_TIMES)


def drop_withheld_lines(lines: Sequence[LogLine]) -> list[LogLine]:
    """Remove libav's messages about withheld decoders from a log."""
    return [line for line in lines if "not on whitelist" not in line[2]]


@cache
def _list_decoders() -> str:
    """List the decoders of all codecs but the withheld ones, separated by commas."""
    names = []
    for name in sorted(av.codecs_available):
        with suppress(UnknownCodecError):  # an encoder
            if not Codec.of(av.Codec(name, "r").canonical_name).is_withheld:
                names.append(name)
    return ",".join(names)

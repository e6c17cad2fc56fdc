"""A source as libav reads it: by positioned reads, bounded, with errors that are kept for the caller.

What libav is asked for when it opens a container: which demuxers, which limits, and whether it may decode.
"""

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

from framefeed.errors import LimitExceeded
from framefeed.media._info import Limits, padded_pixels
from framefeed.media._libav_errors import LogLine
from framefeed.media._source import MediaSource, read_bytes
from framefeed.parallel import Err, Ok, check_stop, outcome_of

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


FORMATS = (
    "mov,matroska,webm,avi,mpegts,mpeg,mpegvideo,m4v,ogg,flv,ivf,h264,hevc,vvc,obu,av1,asf,mxf,nut,mjpeg,vc1,dv,"
    "yuv4mpegpipe,h263,h261,gif,apng,swf,rm,wtv,nsv,"
    "wav,mp3,aac,flac,amr,ac3,eac3,aiff,caf"
)
"""Demuxers that may open media; none of them opens a second file (S01). Audio ones only tell "no video stream"."""
WITHHELD_CODECS = frozenset({"vp9", "av1", "h264", "hevc"})
"""Codecs whose first picture libav decodes on opening, which takes longer than all else, and of which our provers read
the same in its header."""
_WITH_TIMES = ("mov", "matroska", "flv")
"""Containers that have the times of each packet."""


HEAD_BYTES = 64
"""Of a file, by which ``name_known_format`` tells its format."""


def name_known_format(head: bytes) -> str | None:
    """Name the demuxer that libav would find for a file: probing all of them takes half of an opening.

    As ``ivf_probe`` and ``matroska_probe``, which are as sure as any can be. None where that takes more than a look.
    """
    if head.startswith(b"DKIF\0\0\x20\0"):
        return "ivf"
    if head.startswith(b"\x1a\x45\xdf\xa3") and (b"\x42\x82\x84webm" in head or b"\x42\x82\x88matroska" in head):
        return "matroska"
    return None


def make_libav_options(limits: Limits, headers_only: bool) -> dict[str, str]:
    """Make the options of one opening.

    Args:
        limits: What the file may claim.
        headers_only: Keep libav from decoding pictures of the codecs in ``WITHHELD_CODECS``; it says so in its log.
    """
    options = {
        "format_whitelist": FORMATS,
        "protocol_whitelist": "file",
        "max_streams": str(limits.max_streams + 1),
        # Reaches the decoders that probing runs, in containers that know their streams before it.
        "max_pixels": str(padded_pixels(limits)),
    }
    return options | ({"codec_whitelist": _list_decoders()} if headers_only else {})


def needs_decoders(container: InputContainer) -> bool:
    """Whether libav has to decode what it opened without: to choose a stream, or for times of packets."""
    contexts = [stream.codec_context for stream in container.streams.video]
    codecs = {"" if context is None else context.codec.canonical_name for context in contexts}
    if len(contexts) > 1:
        return not codecs.isdisjoint({"", *WITHHELD_CODECS})
    # Packets that a parser cuts have no times of their own.
    return not codecs.isdisjoint({"h264", "hevc"}) and not str(container.format.name).startswith(_WITH_TIMES)


def drop_withheld_lines(lines: Sequence[LogLine]) -> list[LogLine]:
    """Leave out of a log what libav says of decoders that it was kept from."""
    return [line for line in lines if "not on whitelist" not in line[2]]


@cache
def _list_decoders() -> str:
    """List the decoders of all other codecs, as libav takes lists."""
    names = []
    for name in sorted(av.codecs_available):
        with suppress(UnknownCodecError):  # an encoder
            if av.Codec(name, "r").canonical_name not in WITHHELD_CODECS:
                names.append(name)
    return ",".join(names)

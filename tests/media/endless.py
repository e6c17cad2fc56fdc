"""Sources that go on for 100 GB after their first bytes, and count how they are read."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from typing import Any

from tests.pathologies.bitstreams import make_box
from tests.pictures.made import chunk, picture, saved, segment

SIZE = 100 * 10**9
NOTE = segment(0xFFFE, bytes(65_000))


class EndlessFile(io.RawIOBase):
    """A file object of a few bytes and zeros behind them; or of a part that comes again and again.

    Args:
        start: Its first bytes.
        part: What follows them, repeated.
        size: Bytes of the whole.
    """

    name = "endless"

    def __init__(self, start: bytes, part: bytes = b"\0", size: int = SIZE) -> None:
        self._start = start
        self._part = part * (1 + 2**16 // len(part))
        self._period = len(part)
        self._size = size
        self._at = 0
        self.reads = self.bytes_read = 0

    def read(self, size: int | None = -1) -> bytes:
        """Read on; what nobody could hold is refused."""
        count = max(0, self._size - self._at)
        if size is not None and size >= 0:
            count = min(count, size)
        assert count <= 2**28, "a read of all at once"
        self.reads += 1
        self.bytes_read += count
        data = bytearray(self._start[self._at : self._at + count])
        while len(data) < count:
            behind = (self._at + len(data) - len(self._start)) % self._period
            data += self._part[behind : behind + count - len(data)]
        self._at += count
        return bytes(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def seekable(self) -> bool:
        return True


def _png() -> bytes:
    return saved(picture(), "PNG")[:33]


def _gif() -> bytes:
    return saved(picture("P"), "GIF")


PICTURES: dict[str, Callable[[], EndlessFile]] = {
    "JPEG of zeros": lambda: EndlessFile(saved(picture(), "JPEG")[:20]),
    "JPEG of fill bytes": lambda: EndlessFile(b"\xff\xd8", b"\xff"),
    "JPEG of long notes": lambda: EndlessFile(b"\xff\xd8", NOTE),
    "JPEG of short notes": lambda: EndlessFile(b"\xff\xd8", b"\xff\xfe\0\2"),
    "PNG of one data chunk": lambda: EndlessFile(_png() + struct.pack(">I4s", 2**31 - 1, b"IDAT")),
    "PNG of small chunks": lambda: EndlessFile(_png(), chunk(b"prIv", b"")),
    "PNG of large chunks": lambda: EndlessFile(_png(), struct.pack(">I4s", 2**24, b"prIv") + bytes(2**24 + 4)),
    "PNG of a long text": lambda: EndlessFile(_png() + struct.pack(">I4s", 2**31 - 1, b"tEXt")),
    "GIF of zeros": lambda: EndlessFile(_gif()[:13]),
    "WebP": lambda: EndlessFile(b"RIFF" + struct.pack("<I", 2**32 - 16) + b"WEBPVP8X\x0a\0\0\0\x08" + bytes(9)),
    "AVIF": lambda: EndlessFile(saved(picture(), "AVIF")),
}
"""Pictures whose header says that it goes on."""


def movie(*, before: bytes = b"", behind: bytes = b"", inside: str = "", parts: bytes = b"") -> bytes:
    """A small MP4 file with boxes before and behind its own, or at the end of moov or of its first trak."""
    # Imported here: making the clip takes a while.
    from framefeed.testing import ClipSpec, clip_bytes

    whole = clip_bytes(ClipSpec(num_frames=6, gop=3, b_frames=0), "mp4")
    boxes = dict[str, bytes]()
    at = 0
    while at < len(whole):
        size, kind = struct.unpack_from(">I4s", whole, at)
        boxes[kind.decode()] = whole[at : at + size]
        at += size
    moov = boxes["moov"]
    if inside == "moov":
        moov = make_box("moov", moov[8:] + parts)
    elif inside == "trak":
        begin = moov.index(b"trak") - 4
        size = int.from_bytes(moov[begin : begin + 4], "big")
        trak = make_box("trak", moov[begin + 8 : begin + size] + parts)
        moov = make_box("moov", moov[8:begin] + trak + moov[begin + size :])
    order: list[Any] = [boxes["ftyp"], boxes["free"], boxes["mdat"], before, moov, behind]
    return b"".join(order)

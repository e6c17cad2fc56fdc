"""Read the packets of codecs without references between frames, or with key frames that say so."""

from __future__ import annotations

from collections.abc import Callable

from framefeed.bitstreams._bits import KEY_FRAME, SHOWN, OddUnits

Read = Callable[[memoryview], bool]
"""Whether a packet holds a key frame; raises OddUnits unless it holds exactly one frame."""


class IntraReader:
    """Reads the beginning of each packet."""

    format, colors, changes_size = None, None, False

    def __init__(self, read: Read) -> None:
        self._read = read

    def read(self, packet: memoryview) -> int:
        """Read a packet; return the flags of its frame."""
        return SHOWN | KEY_FRAME * self._read(packet)


_PNG = b"\x89PNG\r\n\x1a\n"
_DNXHD_HEADER_BYTES, _DNXHD_KINDS, _IS_FIELD = 0x280, frozenset({1, 2, 3}), 2
# ITU-T T.81 B.1.1.3 and table B.1.
_SOI, _SOS = b"\xff\xd8", 0xDA
_FRAMES = frozenset({0xC0, 0xC1, 0xC2})
_APPLICATION, _OTHER_SEGMENTS = range(0xE0, 0xF0), frozenset({0xC4, 0xDB, 0xDD, 0xFE})


def make_mjpeg_reader(height: int) -> Read:
    """Make the reader of Motion JPEG.

    Args:
        height: Rows of a frame in the container: libav takes a picture of less than three quarters of it for a field.
    """

    def read(packet: memoryview) -> bool:
        data = bytes(packet)
        rows, scan = _read_jpeg(data)
        # Behind the first scan's header these two bytes are always a marker.
        if not rows or 4 * rows < 3 * height or not scan or _SOI in data[scan:]:
            raise OddUnits("a packet of more or less than one picture of eight bits")
        return True

    return read


def _read_jpeg(data: bytes) -> tuple[int, int]:
    """Find the rows of a baseline or progressive picture, and the offset of its first scan; 0 if there is none."""
    at, rows = len(_SOI), 0
    while data.startswith(_SOI) and len(data) >= at + 9 and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == _SOS:
            return rows, at
        if marker in _FRAMES and not rows and data[at + 4] == 8:
            rows = int.from_bytes(data[at + 5 : at + 7], "big")
        elif marker not in _APPLICATION and marker not in _OTHER_SEGMENTS:
            break
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return rows, 0


def read_prores(packet: memoryview) -> bool:
    """Read the frame that fills a ProRes packet (SMPTE RDD 36, 5.1: frame_size, frame_identifier)."""
    if bytes(packet[4:8]) != b"icpf" or int.from_bytes(packet[:4], "big") != len(packet):
        raise OddUnits("a packet that is not one frame")
    return True


def read_png(packet: memoryview) -> bool:
    """Read the one picture of a PNG packet (ISO/IEC 15948 5.2 and 11.2)."""
    data = bytes(packet)
    if data[:8] != _PNG or data[12:16] != b"IHDR" or data.count(_PNG) != 1 or data[-8:-4] != b"IEND":
        raise OddUnits("a packet that is not one picture")
    return True


def read_ffv1(packet: memoryview) -> bool:
    """Read whether an FFV1 frame is a key frame: the first bit of its range coder (RFC 9043 3.8.1 and 4.4).

    Its first state is 128: the bit is set where the first two bytes lie in the upper half of the range 0xFF00.
    """
    if len(packet) < 2:
        raise OddUnits("a packet without a frame")
    return int.from_bytes(packet[:2], "big") >= 0xFF00 - (0xFF00 * 128 >> 8)


def read_dnxhd(packet: memoryview) -> bool:
    """Read the one frame of a DNxHD packet (SMPTE ST 2019-1: header prefix, field flags).

    A frame of two fields holds a header for each: it is left to decoding.
    """
    if len(packet) < _DNXHD_HEADER_BYTES or bytes(packet[:2]) != b"\0\0" or packet[4] not in _DNXHD_KINDS:
        raise OddUnits("a packet that does not begin with a frame")
    if packet[5] & _IS_FIELD:
        raise OddUnits("a frame of two fields")
    return True

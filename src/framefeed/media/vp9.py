"""What VP9 packets say of their frames: VP9 bitstream specification 0.6, clauses 6.2 and 7.2, annex B."""

from __future__ import annotations

import numpy as np

from framefeed.media.bits import Bits
from framefeed.media.limits import Limits
from framefeed.media.packets import PacketWalk
from framefeed.media.proving import FirstPicture, Proof, Unproved, prove_in_packet_order

_SHOWN, _KEY, _EXISTING = 1, 2, 4
"""Of a frame: it comes out, it is a key frame, it is one that was decoded earlier."""
_PROFILE = 0b0011_0000
_PROFILE_3 = 0b0011_0000
_INTRA_ONLY, _INTRA_ONLY_3 = 0x80, 0x40
"""In the second byte of a frame that is not shown; in profile 3 one bit later."""
_KEY_HEADER_BYTES = 16
_SYNC_CODE = 0x498342
_RGB = 7
# As libav numbers them (ITU-T H.273): unspecified, BT.601, BT.709, SMPTE 170, SMPTE 240, BT.2020, reserved, RGB.
_SPACES = (2, 5, 1, 6, 7, 9, 3, 0)
_LIMITED, _FULL = 1, 2
_DEPTHS = ("", "10le", "12le")
_CHROMA = {(False, False): "yuv444p", (True, False): "yuv422p", (False, True): "yuv440p", (True, True): "yuv420p"}
"""By whether columns and rows of chroma are halved."""


def _kind_of(first: int) -> int | None:
    """Read the first byte of a frame; None where no frame begins with it."""
    bits = Bits(memoryview(bytes((first, 0))))
    if bits.number(2) != 2 or (bits.number(2) == 3 and bits.flag()):
        return None
    if bits.flag():
        return _SHOWN | _EXISTING
    is_key, is_shown = not bits.flag(), bits.flag()
    return _SHOWN * is_shown | _KEY * is_key


_KINDS = tuple(_kind_of(first) for first in range(256))


class Vp9Prover:
    """Reads the superframe index of each packet, the first byte of each frame, and the header of each key frame."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._profile: int | None = None
        self._kinds: list[int] = []
        self._first: FirstPicture | None = None

    def add(self, packet: memoryview) -> None:
        """Take the next packet."""
        frames = _split(packet) if packet[-1] & 0xE0 == 0xC0 else None
        kinds = [self._kind(packet)] if frames is None else [self._kind(frame) for frame in frames]
        shown = [kind for kind in kinds if kind & _SHOWN]
        if len(shown) > 1:
            raise Unproved("two frames come of one packet")
        # A key frame that the same packet shows: its frame carries the flag of the picture that it shows.
        is_split_key = len(kinds) == 2 and kinds[0] == _KEY and kinds[1] & _EXISTING
        self._kinds.append(_SHOWN | _KEY if is_split_key else sum(shown))

    def _kind(self, frame: memoryview) -> int:
        first = frame[0]
        kind = _KINDS[first]
        if kind is None or (self._profile is not None and first & _PROFILE != self._profile):
            raise Unproved("no VP9 frame, or one of another profile than the first")
        self._profile = first & _PROFILE
        if kind & _KEY:
            picture = _read_key(frame)
            if picture.width * picture.height > self._limits.max_pixels:
                raise Unproved("pictures larger than allowed")
            self._first = self._first or picture
        elif not kind & _SHOWN:
            is_intra_only = _INTRA_ONLY_3 if first & _PROFILE == _PROFILE_3 else _INTRA_ONLY
            if len(frame) < 2 or frame[1] & is_intra_only:
                raise Unproved("an intra-only frame, which may be of another size and format")
        return kind

    def prove(self, walk: PacketWalk) -> Proof:
        """Prove which packets give a frame; see ``Prover.prove``."""
        kinds = np.array(self._kinds, dtype=np.uint8)
        if (walk.is_key & (kinds & _EXISTING != 0)).any():
            raise Unproved("a packet that shows an earlier picture, which the container calls a key frame")
        return prove_in_packet_order(walk, kinds & _SHOWN != 0, kinds & _KEY != 0, self._first)


def _split(packet: memoryview) -> list[memoryview] | None:
    """Split a superframe, whose index is at its end; None where it is one frame after all."""
    marker = packet[-1]
    count, length = (marker & 7) + 1, (marker >> 3 & 3) + 1
    end = len(packet) - count * length - 2
    if end < 0 or packet[end] != marker:
        return None
    frames, at = [], 0
    for number in range(count):
        place = end + 1 + number * length
        size = int.from_bytes(packet[place : place + length], "little")
        if not 0 < size <= end - at:
            raise Unproved("a superframe whose sizes do not fit")
        frames.append(packet[at : at + size])
        at += size
    return frames


def _read_key(frame: memoryview) -> FirstPicture:
    """Read the header of a key frame up to its size."""
    bits = Bits(frame[:_KEY_HEADER_BYTES])
    bits.number(2)
    profile = bits.number(1) | bits.number(1) << 1
    bits.number(5 if profile == 3 else 4)
    if bits.number(24) != _SYNC_CODE:
        raise Unproved("a key frame without a start code")
    depth = _DEPTHS[1 + bits.number(1) if profile >= 2 else 0]
    space = bits.number(3)
    is_full = space == _RGB or bits.flag()
    # Profiles 1 and 3 say how chroma is sampled, and have one more bit that is 0.
    is_halved = (True, True)
    if space == _RGB:
        is_halved = (False, False)
    elif profile & 1:
        is_halved = bits.flag(), bits.flag()
    if (profile & 1 and bits.flag()) or (profile & 1) == (is_halved == (True, True)):
        raise Unproved("a key frame of a reserved format")
    chroma = "gbrp" if space == _RGB else _CHROMA[is_halved]
    width, height = bits.number(16) + 1, bits.number(16) + 1
    return FirstPicture(
        width, height, chroma + depth, {"space": _SPACES[space], "range": _FULL if is_full else _LIMITED}
    )

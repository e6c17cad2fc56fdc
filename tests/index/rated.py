"""AVI files whose headers claim another rate."""

from __future__ import annotations

_SCALE, _RATE = 20, 24
"""Places in a stream's header."""


def with_avi_rate(avi: bytes, rate: int, scale: int, *, period: int | None = None) -> bytes:
    """Change the rate of the first stream, and the microseconds of a frame in the main header."""
    changed = bytearray(avi)
    at = avi.index(b"strh") + 8
    changed[at + _SCALE : at + _SCALE + 4] = scale.to_bytes(4, "little")
    changed[at + _RATE : at + _RATE + 4] = rate.to_bytes(4, "little")
    if period is not None:
        main = avi.index(b"avih") + 8
        changed[main : main + 4] = period.to_bytes(4, "little")
    return bytes(changed)

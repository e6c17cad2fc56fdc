"""Limits: how much a file may claim before anything is allocated for it."""

from __future__ import annotations

from dataclasses import dataclass

from framefeed.errors import LimitExceeded, UsageError


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what untrusted media may claim.

    Attributes:
        max_side: Columns or rows of one picture; 16384 covers 16K video.
        max_pixels: Columns times rows of one picture; 2**26 is 8192 x 8192.
        max_streams: Streams of one container.
        max_packets: Packets of one stream; 2**25 is 155 hours at 60 frames a second.
        max_packet_bytes: Bytes of one packet.
        max_header_bytes: Bytes that are read to understand a header; a frame in an MP4 file's header takes 8 to 32.
            In other containers a byte that is read in search of a header counts as eight. Each read of a picture's
            header counts as 1024 or more, each box of an MP4 file as 512 to 8192, so that neither goes on without end.

    Example:
        >>> Limits(max_pixels=1920 * 1080).max_side
        16384
    """

    max_side: int = 16_384
    max_pixels: int = 2**26
    max_streams: int = 64
    max_packets: int = 2**25
    max_packet_bytes: int = 2**28
    max_header_bytes: int = 2**28

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1")

    def check_picture(self, width: int, height: int, name: str) -> None:
        """Raise LimitExceeded if a picture of this size is larger than allowed."""
        if max(width, height) > self.max_side or width * height > self.max_pixels:
            raise LimitExceeded(
                f"{name}: claims pictures of {width}x{height}, more than the limits allow "
                f"(side {self.max_side}, {self.max_pixels} pixels)",
                source=name,
                stage="open",
            )


DEFAULT_LIMITS = Limits()


def limits_or_default(limits: Limits | None) -> Limits:
    """Take the default limits where none are given.

    Raises:
        UsageError: What is given is no `Limits`.
    """
    if limits is None:
        return DEFAULT_LIMITS
    if not isinstance(limits, Limits):
        raise UsageError(f"limits must be an ff.Limits or None, not {limits!r}")
    return limits

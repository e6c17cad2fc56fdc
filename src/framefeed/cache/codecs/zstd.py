"""ZstdCodec: compress with Zstandard through Arrow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from framefeed.cache.codecs.codec import BrokenFrame, Pixels, check_planes
from framefeed.decode.planes import PlaneLayout
from framefeed.errors import UsageError

LEVELS = range(1, 20)


def zstd(level: int | None = None) -> ZstdCodec:
    """Make the Zstandard codec.

    Args:
        level: 1 to 19, or None for 1.

    Raises:
        UsageError: The level is not from 1 to 19.
    """
    level = LEVELS.start if level is None else level
    if level not in LEVELS:
        raise UsageError(f"codec: expected a zstd level from {LEVELS.start} to {LEVELS.stop - 1}, got 'zstd:{level}'")
    return ZstdCodec(level)


@dataclass(frozen=True, slots=True)
class ZstdCodec:
    """Compress planes into one Zstandard frame, without its optional checksum.

    Attributes:
        level: One of ``LEVELS``.
    """

    level: int
    name: str = "zstd"
    is_exact: bool = True
    recipe: str = ""

    @property
    def label(self) -> str:
        """Name and level."""
        return f"{self.name}:{self.level}"

    def takes(self, layout: PlaneLayout) -> bool:
        """Accept every layout."""
        return True

    def encode(self, layout: PlaneLayout, planes: Pixels) -> bytes:
        """Compress; see ``FrameCodec.encode``."""
        check_planes(self, layout, planes)
        # As bytes: Arrow's own buffer shows what lies behind its end too.
        data: bytes = pa.Codec("zstd", compression_level=self.level).compress(planes, asbytes=True)
        return data

    def decode(self, data: memoryview, layout: PlaneLayout, out: Pixels) -> None:
        """Decompress; see ``FrameCodec.decode``."""
        out[:] = self.decoded(data, layout)

    def decoded(self, data: memoryview, layout: PlaneLayout) -> Pixels:
        """Decompress; see ``FrameCodec.decoded``."""
        # In one go: whatever the frame says of its content, memory is made for what is expected, and none for a window.
        try:
            return np.frombuffer(pa.Codec("zstd").decompress(data, layout.nbytes), np.uint8)
        except OSError as error:
            raise BrokenFrame(str(error)) from error

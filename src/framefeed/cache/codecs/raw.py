"""RawCodec: store planes without compression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from framefeed.cache.codecs.codec import BrokenFrame, Pixels, check_planes, new_memory
from framefeed.decode.planes import PlaneLayout


@dataclass(frozen=True, slots=True)
class RawCodec:
    """Store planes without compression."""

    name: str = "raw"
    is_exact: bool = True
    recipe: str = ""
    label: str = "raw"

    def takes(self, layout: PlaneLayout) -> bool:
        """Accept every layout."""
        return True

    def encode(self, layout: PlaneLayout, planes: Pixels) -> memoryview:
        """Return the memory of the planes itself."""
        check_planes(self, layout, planes)
        return planes.data

    def decode(self, data: memoryview, layout: PlaneLayout, out: Pixels) -> None:
        """Copy the planes; see ``FrameCodec.decode``."""
        out[:] = _sized(data, layout)

    def decoded(self, data: memoryview, layout: PlaneLayout) -> Pixels:
        """Copy the planes; see ``FrameCodec.decoded``."""
        out = new_memory(layout.nbytes)
        self.decode(data, layout, out)
        return out


def _sized(data: memoryview, layout: PlaneLayout) -> Pixels:
    if len(data) != layout.nbytes:
        raise BrokenFrame(f"{len(data)} bytes stored raw, where {layout.text} has {layout.nbytes}")
    return np.frombuffer(data, np.uint8)

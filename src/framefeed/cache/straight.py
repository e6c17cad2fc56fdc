"""Raw frames straight from disk into a batch: the shortest way, for what needs neither decompressing nor doubting."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from framefeed.cache.evidence import NO_STAMP
from framefeed.cache.keeper import Keeper
from framefeed.cache.stored import MISS, Found
from framefeed.decode.decoder import Pixels
from framefeed.decode.planes import PlaneLayout

RAW = "raw"
_NONE = np.zeros(0, dtype=np.int64)


def read_straight(keeper: Keeper, found: Found, stamp: int, layout: PlaneLayout, out: Pixels) -> npt.NDArray[np.int64]:
    """Read the frames that lie on disk as they are wanted, of a source that was not touched since.

    What is left out may still be served in another way.

    Args:
        keeper: The cache.
        found: Where N frames are.
        stamp: Of the source now.
        layout: Of the pixels.
        out: Where they go, uint8 [N, ...], each frame contiguous.

    Returns:
        Places of the frames that were read, int64 [M].
    """
    code = _raw_code(found, layout)
    if code < 0 or stamp == NO_STAMP or keeper.options.strict:
        return _NONE
    good = (found.kind == code) & (found.stamp == np.uint64(stamp)) & (found.segment != MISS)
    good &= (found.nbytes == layout.nbytes) & (found.raw_nbytes == layout.nbytes)
    places = np.flatnonzero(good)
    if not len(places):
        return places
    listed = places.tolist()
    if out.flags.c_contiguous:
        flat, nbytes = out.reshape(-1).data, layout.nbytes
        buffers = [flat[place * nbytes : (place + 1) * nbytes] for place in listed]
    else:
        buffers = [out[place].reshape(-1).data for place in listed]
    came = keeper.store.read(found, listed, buffers)
    return places if all(came) else places[came]


def _raw_code(found: Found, layout: PlaneLayout) -> int:
    text = layout.text
    for code, kind in enumerate(found.kinds):
        if kind.codec == RAW and kind.layout == text:
            return code
    return -1

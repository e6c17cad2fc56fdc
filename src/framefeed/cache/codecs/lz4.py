"""Lz4Codec: compress with LZ4 through Arrow; it decompresses fastest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import xxhash

from framefeed.cache.codecs.codec import BrokenFrame, Pixels, check_planes
from framefeed.decode.planes import PlaneLayout

_SEAL_BYTES = 8


@dataclass(frozen=True, slots=True)
class Lz4Codec:
    """Compress planes into one LZ4 block with a hash. A higher level is slower to write and as fast to read.

    Attributes:
        level: Of LZ4; from 3 on it is its "HC" compressor.
    """

    name: str
    level: int
    is_exact: bool = True
    recipe: str = ""

    @property
    def label(self) -> str:
        """Its name: what is read is of the same kind at every level."""
        return self.name

    def takes(self, layout: PlaneLayout) -> bool:
        """Accept every layout."""
        return True

    def encode(self, layout: PlaneLayout, planes: Pixels) -> bytes:
        """Compress; see ``FrameCodec.encode``."""
        check_planes(self, layout, planes)
        return sealed_block(planes, self.level)

    def decode(self, data: memoryview, layout: PlaneLayout, out: Pixels) -> None:
        """Decompress; see ``FrameCodec.decode``."""
        out[:] = opened_block(data, layout.nbytes)

    def decoded(self, data: memoryview, layout: PlaneLayout) -> Pixels:
        """Decompress; see ``FrameCodec.decoded``."""
        return opened_block(data, layout.nbytes)


def sealed_block(content: Pixels, level: int) -> bytes:
    """Compress bytes, uint8 [n], into an LZ4 block that tells whether all of them came out again.

    Arrow does not say how many bytes a block gave, only that they were not too many. So what is compressed ends in
    eight bytes, the content's hash, which also precede the block: one that gives less does not end in them.
    """
    seal = xxhash.xxh3_64_digest(content.data)
    sealed = np.empty(len(content) + _SEAL_BYTES, np.uint8)
    sealed[: len(content)] = content
    sealed[len(content) :] = np.frombuffer(seal, np.uint8)
    block: bytes = pa.Codec("lz4_raw", compression_level=level).compress(sealed, asbytes=True)
    return seal + block


def opened_block(data: memoryview, nbytes: int) -> Pixels:
    """Decompress what ``sealed_block`` gave: uint8 [nbytes], with memory for eight more bytes behind it.

    Memory for the expected bytes is made first, and no more is ever written. Arrow's codecs have no state, and making
    one takes a fifth of a microsecond.

    Raises:
        BrokenFrame: It is no such block, or of another length.
    """
    try:
        block = pa.Codec("lz4_raw").decompress(data[_SEAL_BYTES:], nbytes + _SEAL_BYTES)
    except OSError as error:
        raise BrokenFrame(str(error)) from error
    sealed = np.frombuffer(block, np.uint8)
    if sealed[nbytes:].tobytes() != data[:_SEAL_BYTES]:
        raise BrokenFrame(f"an LZ4 block that does not give {nbytes} bytes")
    return sealed[:nbytes]

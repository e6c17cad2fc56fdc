"""Codecs that treat planes as bytes: raw, and LZ4 and Zstandard through Arrow. LZ4 decompresses fastest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import xxhash

from framefeed.cache.codecs._codec import BrokenFrame, FrameCodec, allocate_memory, check_planes
from framefeed.decode import Pixels, PlaneLayout


@dataclass(frozen=True, slots=True)
class RawCodec(FrameCodec):
    """Store planes without compression."""

    name: str = "raw"

    def encode(self, layout: PlaneLayout, planes: Pixels) -> memoryview:
        check_planes(self, layout, planes)
        return planes.data

    def decode_into(self, data: memoryview, layout: PlaneLayout, out: Pixels) -> None:
        if len(data) != layout.nbytes:
            raise BrokenFrame(f"{len(data)} bytes stored raw, where {layout.text} has {layout.nbytes}")
        out[:] = np.frombuffer(data, np.uint8)


_HASH_BYTES = 8


@dataclass(frozen=True, slots=True)
class Lz4Codec(FrameCodec):
    """Compress planes into one LZ4 block with a hash. A higher level is slower to write and as fast to read.

    Attributes:
        level: Of LZ4; from 3 on it is its "HC" compressor. It is no part of the label: all levels are read alike.
    """

    level: int
    name: str = "lz4"

    def encode(self, layout: PlaneLayout, planes: Pixels) -> bytes:
        check_planes(self, layout, planes)
        return compress_block(planes, self.level)

    def decode_into(self, data: memoryview, layout: PlaneLayout, out: Pixels) -> None:
        out[:] = decompress_block(data, layout.nbytes)

    def decode(self, data: memoryview, layout: PlaneLayout) -> Pixels:
        return decompress_block(data, layout.nbytes)


def compress_block(content: Pixels, level: int) -> bytes:
    """Compress bytes, uint8 [n], into an LZ4 block that shows whether it was decompressed completely.

    Arrow does not say how many bytes a block gave, only that they were not too many. So the hash of the content is
    compressed behind it, and stored before the block too: a block that gives fewer bytes does not end in the hash.
    """
    digest = xxhash.xxh3_64_digest(content.data)
    # Memory that Arrow reuses, so that no new pages are mapped for each picture.
    hashed = allocate_memory(len(content) + _HASH_BYTES)
    hashed[: len(content)] = content
    hashed[len(content) :] = np.frombuffer(digest, np.uint8)
    block = pa.Codec("lz4_raw", compression_level=level).compress(hashed)
    hashed[len(content) :] = 0  # The next block may be decompressed into this memory, and must not find a hash there.
    return b"".join((digest, block))


def decompress_block(data: memoryview, nbytes: int) -> Pixels:
    """Decompress a block of ``compress_block``: uint8 [nbytes], with memory for eight more bytes behind it.

    Memory for the expected bytes is allocated first, and no more is ever written. Arrow's codecs have no state, and
    making one takes 0.2 microseconds.

    Raises:
        BrokenFrame: The data are not such a block, or have another length.
    """
    try:
        block = pa.Codec("lz4_raw").decompress(data[_HASH_BYTES:], nbytes + _HASH_BYTES)
    except OSError as error:
        raise BrokenFrame(str(error)) from error
    hashed = np.frombuffer(block, np.uint8)
    if hashed[nbytes:].tobytes() != data[:_HASH_BYTES]:
        raise BrokenFrame(f"an LZ4 block that does not give {nbytes} bytes")
    return hashed[:nbytes]


@dataclass(frozen=True, slots=True)
class ZstdCodec(FrameCodec):
    """Compress planes into one Zstandard frame, without its optional checksum."""

    level: int
    name: str = "zstd"

    @property
    def label(self) -> str:
        return f"{self.name}:{self.level}"

    def encode(self, layout: PlaneLayout, planes: Pixels) -> bytes:
        check_planes(self, layout, planes)
        # As bytes, because Arrow's buffer also gives access to memory behind its end.
        data: bytes = pa.Codec("zstd", compression_level=self.level).compress(planes, asbytes=True)
        return data

    def decode_into(self, data: memoryview, layout: PlaneLayout, out: Pixels) -> None:
        out[:] = self.decode(data, layout)

    def decode(self, data: memoryview, layout: PlaneLayout) -> Pixels:
        # With the expected size, so that no memory is allocated for the size or window that the frame claims.
        try:
            return np.frombuffer(pa.Codec("zstd").decompress(data, layout.nbytes), np.uint8)
        except OSError as error:
            raise BrokenFrame(str(error)) from error

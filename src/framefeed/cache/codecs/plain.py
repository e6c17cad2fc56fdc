"""No compression, and that of Arrow's libraries: LZ4 and Zstandard."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import xxhash

from framefeed.cache.codecs.codec import BrokenFrame, Pixels, check_planes
from framefeed.decode.planes import PlaneLayout

_SEAL_BYTES = 8


@dataclass(frozen=True, slots=True)
class RawCodec:
    """The planes as they are."""

    name: str = "raw"
    is_exact: bool = True
    recipe: str = ""
    label: str = "raw"

    def takes(self, layout: PlaneLayout) -> bool:
        """All."""
        return True

    def encode(self, layout: PlaneLayout, planes: Pixels) -> memoryview:
        """Give the planes' own memory."""
        check_planes(self, layout, planes)
        return planes.data

    def decode(self, data: memoryview, layout: PlaneLayout, out: Pixels) -> None:
        """Copy the planes; see ``FrameCodec.decode``."""
        out[:] = _sized(data, layout)

    def decoded(self, data: memoryview, layout: PlaneLayout) -> Pixels:
        """Copy the planes; see ``FrameCodec.decoded``."""
        return _sized(data, layout).copy()


def _sized(data: memoryview, layout: PlaneLayout) -> Pixels:
    if len(data) != layout.nbytes:
        raise BrokenFrame(f"{len(data)} bytes stored raw, where {layout.text} has {layout.nbytes}")
    return np.frombuffer(data, np.uint8)


@dataclass(frozen=True, slots=True)
class Lz4Codec:
    """One LZ4 block: read faster than any other. At a higher level it takes longer to write, and less to read.

    Arrow does not tell how many bytes a block gave, only that they were not too many. So the planes end in eight bytes,
    their hash, which also precede the block: a block that is too short does not end in them.

    Attributes:
        level: Of LZ4; from 3 on its "HC" compressor.
    """

    name: str
    level: int
    is_exact: bool = True
    recipe: str = ""

    @property
    def label(self) -> str:
        """Its name: what is read is the same at every level."""
        return self.name

    def takes(self, layout: PlaneLayout) -> bool:
        """All."""
        return True

    def encode(self, layout: PlaneLayout, planes: Pixels) -> bytes:
        """Compress; see ``FrameCodec.encode``."""
        check_planes(self, layout, planes)
        seal = xxhash.xxh3_64_digest(planes.data)
        sealed = np.empty(layout.nbytes + _SEAL_BYTES, np.uint8)
        sealed[: layout.nbytes] = planes
        sealed[layout.nbytes :] = np.frombuffer(seal, np.uint8)
        block: bytes = pa.Codec("lz4_raw", compression_level=self.level).compress(sealed, asbytes=True)
        return seal + block

    def decode(self, data: memoryview, layout: PlaneLayout, out: Pixels) -> None:
        """Decompress; see ``FrameCodec.decode``."""
        out[:] = self.decoded(data, layout)

    def decoded(self, data: memoryview, layout: PlaneLayout) -> Pixels:
        """Decompress; see ``FrameCodec.decoded``."""
        sealed = _decompressed("lz4_raw", data[_SEAL_BYTES:], layout.nbytes + _SEAL_BYTES)
        if sealed[layout.nbytes :].tobytes() != data[:_SEAL_BYTES]:
            raise BrokenFrame(f"an LZ4 block too short for {layout.text}")
        return sealed[: layout.nbytes]


@dataclass(frozen=True, slots=True)
class ZstdCodec:
    """One Zstandard frame, without its optional checksum.

    Attributes:
        level: Of Zstandard.
    """

    level: int = 1
    name: str = "zstd"
    is_exact: bool = True
    recipe: str = ""

    @property
    def label(self) -> str:
        """Its name and level."""
        return f"{self.name}:{self.level}"

    def takes(self, layout: PlaneLayout) -> bool:
        """All."""
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
        return _decompressed("zstd", data, layout.nbytes)


def _decompressed(library: str, data: memoryview, nbytes: int) -> Pixels:
    """Decompress in one go: memory for the expected bytes is made first, and no more is ever written.

    Arrow's codecs are without state, and making one takes a fifth of a microsecond.
    """
    try:
        return np.frombuffer(pa.Codec(library).decompress(data, nbytes), np.uint8)
    except OSError as error:
        raise BrokenFrame(str(error)) from error

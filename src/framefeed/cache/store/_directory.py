"""Write and read the directory of a segment, which may be damaged or hostile; see ``_format``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xxhash

from framefeed.cache.store._format import (
    FORMAT,
    HEADER,
    KEY_BYTES,
    MAGIC,
    MAX_FRAME_BYTES,
    MAX_KINDS_BYTES,
    MAX_ROWS,
    MAX_TEXTS_BYTES,
    ROW,
    Kind,
    OtherFormat,
    Refused,
    Rows,
)

_CHECKSUM_BYTES = 16
_FIRST_BYTES = 1 << 16
"""Read at once: all that is needed of most directories."""


@dataclass(frozen=True, slots=True, eq=False)
class Directory:
    """The directory of a segment."""

    rows: Rows  # ``ROW`` [N]
    keys: bytes  # of the streams, 16 bytes each, joined
    kinds: tuple[Kind, ...]  # codecs and layouts of its frames
    created: int
    checksum: bytes

    @property
    def nbytes(self) -> int:
        """Its memory, roughly."""
        return self.rows.nbytes + len(self.keys) + 256 * len(self.kinds)

    def key(self, stream: int) -> bytes:
        return self.keys[stream * KEY_BYTES : (stream + 1) * KEY_BYTES]


def kinds_json(kinds: Iterable[Kind]) -> bytes:
    return json.dumps([[kind.codec, kind.layout] for kind in kinds]).encode()


def texts_json(texts: Sequence[str]) -> bytes:
    return json.dumps(texts).encode()


def pack_directory(directory: Directory, texts: Sequence[str], data_nbytes: int) -> tuple[list[memoryview], bytes]:
    """Make the bytes of a directory, to be written one after the other, and its checksum."""
    kinds, described = kinds_json(directory.kinds), texts_json(texts)
    rows = np.ascontiguousarray(directory.rows).view(np.uint8).data
    numbers = (len(directory.rows), len(texts), len(kinds), directory.created, data_nbytes, len(described))
    header = np.array((MAGIC, FORMAT, *numbers, xxhash.xxh3_128_digest(described), b""), HEADER).tobytes()
    parts = [memoryview(header)[:-_CHECKSUM_BYTES], rows, memoryview(directory.keys), memoryview(kinds)]
    checksum = _hash(parts)
    return [parts[0], memoryview(checksum), *parts[1:], memoryview(described)], checksum


def _hash(parts: Iterable[memoryview]) -> bytes:
    digest = xxhash.xxh3_128()
    for part in parts:
        digest.update(part)
    return digest.digest()


def read_directory(descriptor: int, size: int, data_nbytes: int) -> Directory:
    """Read the directory of a sealed segment, without the descriptions; raise Refused if it is none of this version."""
    data = os.pread(descriptor, _FIRST_BYTES, 0)
    header = _Header.read(data, size)
    if header.data_nbytes != data_nbytes:
        raise Refused("the file is cut off, or belongs to another directory")
    end = header.kinds_at + header.kinds_nbytes
    if end > len(data):
        data = os.pread(descriptor, end, 0)
    whole = memoryview(data)
    checked = whole[: HEADER.itemsize - _CHECKSUM_BYTES], whole[HEADER.itemsize : end]
    if len(data) < end or _hash(checked) != header.checksum:
        raise Refused("the file is damaged: the checksum of its directory is wrong")
    rows = np.frombuffer(data, ROW, header.num_rows, HEADER.itemsize).copy()  # and the rest of the bytes is freed
    kinds = _read_kinds(data[header.kinds_at : end])
    _check(rows, header.num_streams, len(kinds), data_nbytes)
    return Directory(rows, data[header.keys_at : header.kinds_at], kinds, header.created, header.checksum)


def read_texts(descriptor: int, size: int) -> list[str]:
    """Read the descriptions of streams in a directory, as many as it has streams; raise Refused if they are damaged."""
    header = _Header.read(os.pread(descriptor, HEADER.itemsize, 0), size)
    data = os.pread(descriptor, header.texts_nbytes, header.kinds_at + header.kinds_nbytes)
    texts = _read_json(data) if xxhash.xxh3_128_digest(data) == header.texts_checksum else None
    if not isinstance(texts, list) or len(texts) != header.num_streams or not all(isinstance(t, str) for t in texts):
        raise Refused("the file is damaged: the descriptions of its streams cannot be read")
    return texts


@dataclass(frozen=True, slots=True)
class _Header:
    """The header of a directory, see ``_format``."""

    magic: bytes
    format: int
    num_rows: int
    num_streams: int
    kinds_nbytes: int
    created: int
    data_nbytes: int
    texts_nbytes: int
    texts_checksum: bytes
    checksum: bytes

    @classmethod
    def read(cls, data: bytes, size: int) -> _Header:
        """Read and check the header of a directory of ``size`` bytes; raise Refused if it claims what cannot be."""
        if len(data) < HEADER.itemsize:
            raise Refused("its directory is cut off")
        header = cls(*np.frombuffer(data, HEADER, 1)[0].item())
        if header.magic != MAGIC:
            raise Refused("its directory is not one of a frame cache")
        if header.format != FORMAT:
            raise OtherFormat(
                f"the file has format {header.format}, and this version of framefeed reads format {FORMAT}: use the "
                "version that wrote it, or another folder"
            )
        if not 0 < header.num_streams <= header.num_rows <= MAX_ROWS or header.created < 0 or header.data_nbytes < 0:
            raise Refused("the file is damaged: its directory has impossible numbers")
        if header.kinds_nbytes > MAX_KINDS_BYTES or not 0 <= header.texts_nbytes <= MAX_TEXTS_BYTES:
            raise Refused("the file is damaged: its directory has too many kinds or descriptions")
        if size != header.kinds_at + header.kinds_nbytes + header.texts_nbytes:
            raise Refused("its directory is cut off")
        return header

    @property
    def keys_at(self) -> int:
        return HEADER.itemsize + self.num_rows * ROW.itemsize

    @property
    def kinds_at(self) -> int:
        return self.keys_at + self.num_streams * KEY_BYTES


def _read_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Refused(f"the file is damaged: its directory cannot be read: {error}") from error


def _read_kinds(data: bytes) -> tuple[Kind, ...]:
    try:
        kinds = tuple(Kind(codec, layout) for codec, layout in _read_json(data))
    except (ValueError, TypeError) as error:
        raise Refused(f"the file is damaged: its directory has no valid kinds of frames: {error}") from error
    if not all(isinstance(kind.codec, str) and isinstance(kind.layout, str) for kind in kinds):
        raise Refused("the file is damaged: its directory has no valid kinds of frames")
    return kinds


def _check(rows: Rows, num_streams: int, num_kinds: int, data_nbytes: int) -> None:
    offset, nbytes, raw_nbytes = rows["offset"], rows["nbytes"], rows["raw_nbytes"]
    if min(nbytes.min(), raw_nbytes.min()) < 0 or max(nbytes.max(), raw_nbytes.max()) > MAX_FRAME_BYTES:
        raise Refused("the file is damaged: a frame has an impossible size")
    ends = np.minimum(offset, data_nbytes) + nbytes
    if offset[0] < 0 or ends[-1] > data_nbytes or (ends[:-1] > offset[1:]).any():
        raise Refused("the file is damaged: its frames overlap, or lie outside the file")
    if rows["kind"].min() < 0 or rows["kind"].max() >= num_kinds:
        raise Refused("the file is damaged: a frame has an unknown kind")
    if rows["stream"].min() < 0 or rows["stream"].max() >= num_streams:
        raise Refused("the file is damaged: a frame has an unknown stream")

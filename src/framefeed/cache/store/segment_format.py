"""A segment: the frames of many clips in one Arrow IPC file that never changes once it has its name.

This is the specification, format 1. Integers are little-endian.

**Names.** ``frames-<32 hex digits>.arrow`` is sealed: complete, on disk, immutable. ``frames-<the same>.<bytes>.part``
is being written by the process that holds a `flock` on it; the number is how large it may become. A part without
a lock was left by a dead writer. ``lock`` is locked by `flock` while parts are created and removed. Nothing else in
the folder is ours, and nothing in it depends on the folder's name or on the machine.

**Container.** An Arrow IPC file (random access, uncompressed, no dictionaries) with the columns of ``SCHEMA``. Its
schema's metadata hold ``framefeed``: JSON, ``{"format": 1}``.

**Clips.** Each record batch but the last is what was stored at once, its frames one after the other without padding in
the values of ``data``, which is the last buffer of the batch: one read gets a clip. A row whose ``kind`` is ``-1`` is
no frame: its data are the description of the stream ``key``, UTF-8; the first batch of a stream in a segment has one.

==========  ====================================================================================================
column      content
==========  ====================================================================================================
key         16 bytes that name the stream and how its frames were made
number      of the frame's packet in the stream
offset      position of the frame's bytes in the file
nbytes      how many they are
raw_nbytes  how many they are once decoded
checksum    XXH3 (64 bits) of these bytes; its seed is the XXH3 of ``key`` with ``number`` as seed, so that bytes of
            another frame are never taken for this one's
stamp       of the source file when the frame was decoded; 0: unknown
content     hash of the encoded bytes that the frame depends on
kind        index into the kinds of the directory; -1: no frame, see above
data        the bytes
==========  ====================================================================================================

**Directory.** The last record batch repeats all rows, with null as data. Its custom metadata hold ``framefeed``, JSON:
``format``; ``created``, nanoseconds, greater than that of every segment that its writer knew; ``kinds``, a list of
[label of the codec, text of the layout]; and ``checksum``: XXH3 (128 bits, hex) of that JSON and of the columns but
``data`` as they lie in the batch, one after the other.

**Limits.** A segment has at most 131,072 rows; a directory and a footer at most 16 MiB each, the JSON at most 1 MiB;
a frame, stored or decoded, less than 2 GiB. Rows come in the order of their places, and no two overlap.

**Reading.** Magic, footer, last block, directory: where anything there is not as said here, a reader leaves the whole
file alone, as that of a version to come, and never changes it. Of equal keys and numbers the newest counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from framefeed.cache.stored import IntArray, Kind

FORMAT = 1
SEALED = re.compile(r"frames-[0-9a-f]{32}\.arrow")
PART = re.compile(r"frames-[0-9a-f]{32}\.(\d{1,18})\.part")

METADATA = b"framefeed"
CHECKSUM = b"checksum"
NO_FRAME = -1
"""Kind of a row that describes a stream."""

MAX_ROWS = 1 << 17
"""Of a segment, so that a directory can be read whole: 11 MB."""
MAX_KINDS_BYTES = 1 << 20
"""Of what a directory says besides its rows."""
MAX_DIRECTORY_BYTES = 1 << 24
"""Also of the footer; what claims more is refused before it is read."""
MAX_FRAME_BYTES = (1 << 31) - 1
"""Stored or decoded, so that no memory is allocated for a mere claim."""

KEY_BYTES = 16
ROW = np.dtype(
    [
        ("head", "<u8"),
        ("tail", "<u8"),
        ("number", "<i8"),
        ("offset", "<i8"),
        ("nbytes", "<i8"),
        ("raw_nbytes", "<i8"),
        ("checksum", "<u8"),
        ("stamp", "<u8"),
        ("content", "<u8"),
        ("kind", "<i4"),
    ],
    align=True,
)
"""A row of a directory in memory; head and tail are the halves of the key."""

COLUMNS: tuple[tuple[str, npt.DTypeLike], ...] = (
    ("key", np.dtype(("V", KEY_BYTES))),
    *((name, ROW[name]) for name in (ROW.names or ())[2:]),
)
"""The columns but ``data``, as they lie in a record batch."""

SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary(KEY_BYTES), nullable=False),
        *(pa.field(name, pa.from_numpy_dtype(kind), nullable=False) for name, kind in COLUMNS[1:]),
        pa.field("data", pa.large_binary()),
    ],
    {METADATA: json.dumps({"format": FORMAT}).encode()},
)

Rows = npt.NDArray[Any]


class Refused(Exception):
    """A file cannot be used as a segment; the message says why."""


class OtherFormat(Refused):
    """A file was written by another version of framefeed; it may be sound."""


def halves(key: bytes) -> tuple[int, int]:
    """Split a key as ``ROW`` has it."""
    return int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")


def frame_seed(key: bytes, number: int) -> int:
    """Seed of a frame's checksum."""
    return xxhash.xxh3_64_intdigest(key, number & 0xFFFF_FFFF_FFFF_FFFF)


def frame_checksum(key: bytes, number: int, data: bytes | memoryview) -> int:
    """Hash stored bytes together with what they are of."""
    return xxhash.xxh3_64_intdigest(data, frame_seed(key, number))


def columns_of(rows: Rows) -> list[IntArray]:
    """Give the columns but ``data``, each in one piece, of whatever integers; the key as two words a row."""
    key = np.stack([rows["head"], rows["tail"]], axis=1)
    return [key, *(np.ascontiguousarray(rows[name]) for name, _ in COLUMNS[1:])]


def directory_text(created: int, kinds: Sequence[Kind]) -> bytes:
    """Write what a directory says besides its rows."""
    return json.dumps({"format": FORMAT, "created": created, "kinds": [[k.codec, k.layout] for k in kinds]}).encode()


def read_directory_text(text: bytes) -> tuple[int, tuple[Kind, ...]]:
    """Read what `directory_text` wrote.

    Raises:
        Refused: The text is of another format, or damaged.
    """
    if len(text) > MAX_KINDS_BYTES:
        raise Refused("the file is damaged: the metadata of its directory are too long")
    try:
        said = json.loads(text)
        if said["format"] != FORMAT:
            raise OtherFormat(
                f"the file has format {said['format']}, and this version of framefeed reads format {FORMAT}: use the "
                "version that wrote it, or another folder"
            )
        created, kinds = said["created"], tuple(Kind(codec, layout) for codec, layout in said["kinds"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Refused(f"the file is damaged: the metadata of its directory cannot be read: {error}") from error
    if type(created) is not int or not 0 <= created < 1 << 63:
        raise Refused("the file is damaged: its directory has no time of creation")
    if not all(isinstance(kind.codec, str) and isinstance(kind.layout, str) for kind in kinds):
        raise Refused("the file is damaged: its directory has no valid kinds of frames")
    return created, kinds


def directory_checksum(text: bytes, columns: Sequence[memoryview]) -> str:
    """Hash a directory.

    Args:
        text: As `directory_text` gives it.
        columns: Those but ``data``, in order.
    """
    digest = xxhash.xxh3_128(text)
    for column in columns:
        digest.update(column)
    return digest.hexdigest()

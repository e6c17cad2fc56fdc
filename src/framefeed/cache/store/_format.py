"""A segment: the frames of many clips in one Arrow IPC file that never changes once it has its name.

This is the specification, format 1. Integers are little-endian.

**Names.** ``frames-<32 hex digits>.arrow`` is sealed: complete, on disk, immutable. ``frames-<the same>.<bytes>.part``
is being written by the process that holds a `flock` on it; the number is its largest size. A part without
a lock was left by a dead writer. ``lock`` is locked by `flock` while parts are created and removed. Nothing else in
the folder is ours, and nothing in it depends on the folder's name or on the machine.

**Container.** An Arrow IPC file (random access, uncompressed, no dictionaries) with the columns of ``SCHEMA``. Its
schema's metadata hold ``framefeed``: JSON, ``{"format": 1}``.

**Clips.** Each record batch but the last was stored at once, its frames one after the other without padding in
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
a frame, stored or decoded, less than 2 GiB. Rows come in the order of their offsets, and no two overlap.

**Reading.** Magic, footer, last block, directory: if anything there differs from this specification, a reader ignores
the whole file, as one of a later version, and never changes it. Of equal keys and numbers the newest counts.

"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from framefeed._arrays import IntArray, WordArray

MISS = -1
"""In ``FrameLocations.segment``: the store does not have the frame."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Codec and layout of a stored frame.

    Attributes:
        codec: Label of its codec, such as "lz4" or "jpeg:90".
        layout: Text of its ``PlaneLayout``.
    """

    codec: str
    layout: str


@dataclass(frozen=True, slots=True, eq=False)
class StoredFrame:
    """One frame to be stored.

    Attributes:
        number: Of its packet in the stream.
        kind: Codec and layout.
        data: The bytes to store.
        raw_nbytes: Bytes once decoded.
        stamp: Of the source file when the frame was decoded; 0 if it is not a file.
        content: Hash of the encoded bytes that the frame depends on.
    """

    number: int
    kind: Kind
    data: bytes | memoryview
    raw_nbytes: int
    stamp: int = 0
    content: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class FrameLocations:
    """Locations of frames of one stream; arrays of one length [N], one entry for each requested frame.

    Attributes:
        segment: Number of the segment within this process, int64; ``MISS`` if the store does not have the frame; then
            the other columns have no meaning.
        row: Number of the frame in its segment, int64.
        offset: Byte position in the segment's file, int64.
        nbytes: Stored bytes, int64.
        raw_nbytes: Bytes once decoded, int64.
        checksum: Of the stored bytes, uint64.
        stamp: uint64; see ``StoredFrame``.
        content: uint64; see ``StoredFrame``.
        kind: Index into ``kinds``, int64.
        kinds: Codecs and layouts.
        key: Stream key, 16 bytes.
        numbers: Requested packet numbers, int64.
    """

    segment: IntArray
    row: IntArray
    offset: IntArray
    nbytes: IntArray
    raw_nbytes: IntArray
    checksum: WordArray
    stamp: WordArray
    content: WordArray
    kind: IntArray
    kinds: Sequence[Kind]
    key: bytes
    numbers: IntArray

    def __len__(self) -> int:
        return len(self.segment)

    @property
    def is_there(self) -> npt.NDArray[np.bool_]:
        """Whether the store has each frame, bool [N]."""
        there: npt.NDArray[np.bool_] = self.segment != MISS
        return there


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Options of a store.

    Attributes:
        max_bytes: Most bytes of files in the folder, or None.
        segment_bytes: Size at which a segment is sealed.
        shared: Accept a folder that belongs to another user, or that others may write to.
    """

    max_bytes: int | None = None
    segment_bytes: int = 64 << 20
    shared: bool = False


@dataclass(slots=True)
class StoreCounts:
    """Counts of a store in this process.

    Attributes:
        frames_read: Frames whose stored bytes were read and found sound.
        bytes_read: Their bytes.
        frames_written: Frames that are in sealed segments, or in the one that is being written.
        bytes_written: Their bytes.
        frames_lost: Frames that were in a segment that could not be finished; not among those written.
        frames_damaged: Frames whose stored bytes did not match their checksum.
        segments_refused: Files that are no sound segment of this version.
    """

    frames_read: int = 0
    bytes_read: int = 0
    frames_written: int = 0
    bytes_written: int = 0
    frames_lost: int = 0
    frames_damaged: int = 0
    segments_refused: int = 0


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """Sizes and contents of a cache on disk. A segment is one file of the cache.

    Attributes:
        bytes_on_disk: Size of all segments, unfinished ones included.
        max_bytes: Largest size of the cache, or None.
        num_segments: Finished segments that can be used.
        num_frames: Frames in them; a frame that was stored twice counts twice.
        stored_bytes: Size of these frames as stored.
        raw_bytes: Size of these frames uncompressed.
        kinds: Maps codec label and layout to (frames, stored bytes).
        descriptions: Maps the key of each stream (hex) to its description, JSON text.
        refused: Maps the name of each file that cannot be used to the reason.
        unfinished: Names of segments that are being written, or were left by a killed process.
    """

    bytes_on_disk: int
    max_bytes: int | None
    num_segments: int
    num_frames: int
    stored_bytes: int
    raw_bytes: int
    kinds: dict[Kind, tuple[int, int]] = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict, repr=False)
    refused: dict[str, str] = field(default_factory=dict)
    unfinished: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Verified:
    """Result of ``FrameCache.verify``.

    Attributes:
        num_segments: Files that were checked.
        num_frames: Frames that were checked.
        num_bytes: Bytes that were checked.
        damaged: Maps the name of each damaged file to the packet numbers of its damaged frames.
        refused: Maps the name of each file that cannot be used to the reason.
    """

    num_segments: int
    num_frames: int
    num_bytes: int
    damaged: dict[str, list[int]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


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
"""Of the metadata of a directory."""
MAX_DIRECTORY_BYTES = 1 << 24
"""Also of the footer; a larger claimed size is refused before reading."""
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
    """Hash the stored bytes of a frame."""
    return xxhash.xxh3_64_intdigest(data, frame_seed(key, number))


def columns_of(rows: Rows) -> list[IntArray]:
    """Make the columns but ``data``, each contiguous; the key as two integers a row."""
    key = np.stack([rows["head"], rows["tail"]], axis=1)
    return [key, *(np.ascontiguousarray(rows[name]) for name, _ in COLUMNS[1:])]


def directory_text(created: int, kinds: Sequence[Kind]) -> bytes:
    """Write the metadata of a directory as JSON."""
    return json.dumps({"format": FORMAT, "created": created, "kinds": [[k.codec, k.layout] for k in kinds]}).encode()


def read_directory_text(text: bytes) -> tuple[int, tuple[Kind, ...]]:
    """Read the text of `directory_text`.

    Raises:
        Refused: The text is of another format, or damaged.
    """
    if len(text) > MAX_KINDS_BYTES:
        raise Refused("the file is damaged: the metadata of its directory are too long")
    try:
        data = json.loads(text)
        if data["format"] != FORMAT:
            raise OtherFormat(
                f"the file has format {data['format']}, and this version of framefeed reads format {FORMAT}: use the "
                "version that wrote it, or another folder"
            )
        created, kinds = data["created"], tuple(Kind(codec, layout) for codec, layout in data["kinds"])
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

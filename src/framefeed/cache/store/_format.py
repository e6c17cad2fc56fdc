"""A segment: the frames of many clips in one file, and its directory in another; neither changes once it is sealed.

This is the specification, format 2. Integers are little-endian.

==============================  ================================================================================
file                            content
==============================  ================================================================================
``frames-<hex>.data``           some zeros (now ``DATA_START``), then the bytes of frames in the order of the rows, and
                                nothing else; while it is being written, its writer holds a `flock` on it
``frames-<hex>.rows``           its directory: complete, on disk, immutable. Only a directory makes frames visible
``frames-<hex>.<bytes>.new``    will be the directory; made with the data file. The number is what both may reach
``lock``                        locked by `flock` while files of segments are created and removed
==============================  ================================================================================

``<hex>`` are 32 hexadecimal digits. A data file with a ``.new`` file that no process has locked was left by a dead
writer. Nothing else
in the folder is ours, and nothing in it depends on the folder's name or on the machine.

**Directory.** ``HEADER``; then ``num_rows`` times ``ROW``; the keys of the streams, 16 bytes each; the kinds, JSON: a
list of [label of the codec, text of the layout]; the descriptions of the streams, JSON: a list of texts. Only `info`
reads these, so they have a checksum of their own: of pictures, each of which is a stream, they are ten times as long as
the rest.

===================  ===========================================================================================
field of the header  content
===================  ===========================================================================================
magic                ``MAGIC``
format               2
num_rows             frames, at least 1
num_streams          streams
kinds_nbytes         bytes of the kinds
created              nanoseconds since 1970, greater than that of every segment that its writer knew
data_nbytes          size of the data file
texts_nbytes         bytes of the descriptions
texts_checksum       XXH3 (128 bits) of the descriptions
checksum             XXH3 (128 bits) of all before it, and then of rows, keys and kinds
===================  ===========================================================================================

===================  ===========================================================================================
field of a row       content
===================  ===========================================================================================
number               of the frame's packet in the stream
offset               position of the frame's bytes in the data file
checksum             XXH3 (64 bits) of the bytes; its seed is the XXH3 of the stream's key with ``number`` as seed,
                     so that bytes of another frame are never taken for this one's
stamp                of the source file when the frame was decoded; 0: unknown
content              hash of the encoded bytes that the frame depends on
nbytes               how many bytes there are
raw_nbytes           how many they are once decoded
stream               index into the keys
kind                 index into the kinds
===================  ===========================================================================================

**Limits.** A segment has at most 131,072 rows; its kinds have at most 1 MiB, its descriptions 16 MiB; a frame, stored
or decoded, has less than 2 GiB. Rows come in the order of their offsets, and no two overlap.

**Reading.** If anything differs from this specification, a reader ignores the whole segment, as one of a later version,
and never changes it. Of equal keys and numbers the newest counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from framefeed._arrays import IntArray

FORMAT = 2
MAGIC = b"ff rows\n"

HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("format", "<u4"),
        ("num_rows", "<u4"),
        ("num_streams", "<u4"),
        ("kinds_nbytes", "<u4"),
        ("created", "<i8"),
        ("data_nbytes", "<i8"),
        ("texts_nbytes", "<i8"),
        ("texts_checksum", "V16"),
        ("checksum", "V16"),
    ]
)
ROW = np.dtype(
    [
        ("number", "<i8"),
        ("offset", "<i8"),
        ("checksum", "<u8"),
        ("stamp", "<u8"),
        ("content", "<u8"),
        ("nbytes", "<i4"),
        ("raw_nbytes", "<i4"),
        ("stream", "<i4"),
        ("kind", "<i4"),
    ]
)
KEY_BYTES = 16
KEY = np.dtype(("V", KEY_BYTES))

MAX_ROWS = 1 << 17
"""Of a segment, so that a directory can be read whole: 11 MB."""
MAX_KINDS_BYTES = 1 << 20
MAX_TEXTS_BYTES = 1 << 24
MAX_FRAME_BYTES = (1 << 31) - 1
"""Stored or decoded, so that no memory is allocated for a mere claim."""

FILE = re.compile(r"(?P<name>frames-[0-9a-f]{32})\.(?:(?P<ending>data|rows)|(?P<size>\d{1,18})\.new)")
"""A file of a segment."""

Rows = npt.NDArray[Any]

DATA_START = 128
"""Position of the first frame in a data file. Readers take it from the rows: it was 160 before. The kernel copies up to
eight times slower where the target lies 1 to 63 bytes after the source, within pages of 4,096 bytes. Batches begin at
multiples of 64, other arrays 0, 16 or 64 bytes after a multiple of 256, and most frames are a multiple of it long: so
where the frames in a file begin 128 bytes after one, this does not happen. Batches of a loader, which are aligned to 64
bytes as the file then is, are read in 4 % less time than from 160."""

REF_BITS = 32
MISS = -1
"""Row reference of a frame that the store does not have."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Codec and layout of a stored frame."""

    codec: str  # label of its codec, such as "lz4" or "jpeg:90"
    layout: str  # text of its ``PlaneLayout``


@dataclass(frozen=True, slots=True, eq=False)
class StoredFrame:
    """One frame to be stored."""

    number: int
    kind: Kind
    data: bytes | memoryview
    raw_nbytes: int
    stamp: int = 0  # of the source file when the frame was decoded; 0 if it is not a file
    content: int = 0  # hash of the encoded bytes that the frame depends on


@dataclass(slots=True, eq=False)
class FrameLocations:
    """Locations of frames; arrays of one length [N], one entry for each requested frame."""

    keys: Sequence[bytes]  # key of the stream of each, 16 bytes
    numbers: IntArray  # requested packet numbers, int64
    # Row references, int64: number of the segment within this process in the upper half, row in the lower half;
    # ``MISS`` if the store does not have the frame; then its row has no meaning.
    refs: IntArray
    rows: Rows  # ``ROW``, with ``kind`` as index into ``kinds``
    kinds: Sequence[Kind]  # codecs and layouts

    def __len__(self) -> int:
        return len(self.refs)

    @property
    def segment(self) -> IntArray:
        """Number of the segment within this process, int64; ``MISS`` if the store does not have the frame."""
        return self.refs >> REF_BITS

    @property
    def is_there(self) -> npt.NDArray[np.bool_]:
        """Whether the store has each frame, bool."""
        there: npt.NDArray[np.bool_] = self.refs != MISS
        return there


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Options of a store."""

    max_bytes: int | None = None  # most bytes of files in the folder, or None
    segment_bytes: int = 64 << 20  # size at which a segment is sealed
    shared: bool = False  # accept a folder that belongs to another user, or that others may write to


@dataclass(slots=True)
class StoreCounts:
    """Counts of a store in this process."""

    frames_read: int = 0  # frames whose stored bytes were read and found sound
    bytes_read: int = 0
    frames_written: int = 0  # frames that are in sealed segments, or in the one that is being written
    bytes_written: int = 0
    frames_lost: int = 0  # frames that were in a segment that could not be finished; not among those written
    frames_damaged: int = 0  # frames whose stored bytes did not match their checksum
    segments_refused: int = 0  # segments that are damaged, or of another version


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """Sizes and contents of a cache on disk. A segment is a file of frames, and its directory beside it.

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
        unfinished: Names of files that are being written, or were left by a killed process.
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
        num_segments: Files of frames that were checked.
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


class Refused(Exception):
    """A file cannot be used as a segment; the message says why."""


class OtherFormat(Refused):
    """A file was written by another version of framefeed; it may be sound."""


hash_bytes = xxhash.xxh3_64_intdigest
"""Hash bytes with a seed."""


def frame_checksum(key: bytes, number: int, data: bytes | memoryview) -> int:
    """Hash the stored bytes of a frame."""
    return hash_bytes(data, frame_seed(key, number))


def frame_seed(key: bytes, number: int) -> int:
    """Seed of a frame's checksum."""
    return hash_bytes(key, number & 0xFFFF_FFFF_FFFF_FFFF)


def make_seeds(keys: Sequence[bytes], numbers: IntArray) -> list[int]:
    """Make the seeds of the checksums of frames; the same as ``frame_seed`` of each."""
    return list(map(hash_bytes, keys, numbers.view(np.uint64).tolist()))

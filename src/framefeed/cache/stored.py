"""What passes between the cache and its store: frames on their way to disk, and where those on disk lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
WordArray = npt.NDArray[np.uint64]

MISS = -1
"""In ``Found.segment``: the store does not have the frame."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How a stored frame is to be read.

    Attributes:
        codec: Label of its codec, such as "lz4" or "jpeg:90".
        layout: Text of its ``PlaneLayout``.
    """

    codec: str
    layout: str


@dataclass(frozen=True, slots=True, eq=False)
class StoredFrame:
    """One frame as it is to be stored.

    Attributes:
        number: Of its packet in the stream.
        kind: How it is to be read.
        data: The bytes to store.
        raw_nbytes: Bytes once decoded.
        stamp: Of the source file when the frame was decoded; 0 where there is no file.
        content: Hash of the encoded bytes that the frame depends on.
    """

    number: int
    kind: Kind
    data: bytes | memoryview
    raw_nbytes: int
    stamp: int = 0
    content: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Where the frames of one stream are; arrays of one length [N], one entry a frame that was asked for.

    Attributes:
        segment: Number of the segment within this process, int64; ``MISS`` where the store does not have the frame,
            and then the other columns mean nothing.
        row: Number of the frame in its segment, int64.
        offset: Byte position in the segment's file, int64.
        nbytes: Stored bytes, int64.
        raw_nbytes: Bytes once decoded, int64.
        checksum: Of the stored bytes, uint64.
        stamp: uint64; see ``StoredFrame``.
        content: uint64; see ``StoredFrame``.
        kind: Index into ``kinds``, int64.
        kinds: How the frames are to be read.
        key: Stream key, 16 bytes.
        numbers: Packet numbers that were asked for, int64.
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
        """Which frames the store has, bool [N]."""
        there: npt.NDArray[np.bool_] = self.segment != MISS
        return there


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """How a store keeps its folder.

    Attributes:
        max_bytes: Most bytes of files in the folder, or None.
        segment_bytes: Size at which a segment is sealed.
        shared: Take a folder that belongs to another user, or that others may write to.
    """

    max_bytes: int | None = None
    segment_bytes: int = 64 << 20
    shared: bool = False


@dataclass(slots=True)
class StoreCounts:
    """What a store did in this process.

    Attributes:
        frames_read: Frames whose stored bytes were read and found sound.
        bytes_read: Their bytes.
        frames_written: Frames that are in sealed segments, or in the one that is being written.
        bytes_written: Their bytes.
        frames_lost: Frames that were in a segment that could not be finished; not among those written.
        frames_damaged: Frames whose stored bytes were not what was stored.
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

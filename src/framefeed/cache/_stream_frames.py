"""Read and store the frames of one stream in one form, in memory and on disk."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from framefeed._arrays import IntArray, WordArray
from framefeed._shortage import SuppressFaults
from framefeed.cache._keys import NO_CONTENT, NO_STAMP, Form, SourceCheck, StreamKey
from framefeed.cache._state import CacheState
from framefeed.cache.store._format import FrameLocations, Kind, StoredFrame
from framefeed.decode import Pixels, PlaneLayout
from framefeed.errors import FramefeedError, MediaError
from framefeed.index import FrameIndex
from framefeed.parallel import find_shortage

RAW = "raw"
_NO_PLANES = np.empty(0, dtype=np.uint8)
_READ_ERRORS = (MediaError, OSError)
"""Raised by reading a source."""
_SCRATCH_BYTES = 4 << 20
"""Stored bytes that are read together before they are decoded: few enough to stay in the processor's cache."""
_MAX_SCRATCH = 64 << 20
"""Bytes of scratch memory that a thread keeps."""


Frame = tuple[int, Kind, memoryview | None]
"""Index of a requested frame, codec and layout, and stored bytes; None if the pixels are in its target already."""


@dataclass(frozen=True, slots=True, eq=False)
class NewFrame:
    """A frame that was just decoded: uint8 [layout.nbytes], and as the codec encoded it, if it did already."""

    ordinal: int
    layout: PlaneLayout
    planes: Pixels
    data: bytes | memoryview | None = None


class StreamFrames:
    """The frames of one stream in one form, for one call of a decoder.

    Pictures that are stored as planes have height and width divided by ``reduction``; see `find_reduction`.
    """

    def __init__(self, state: CacheState, key: StreamKey, check: SourceCheck, form: Form, reduction: int = 1) -> None:
        self._state = state
        self._key = key
        self.form: Form = form
        self.reduction = reduction
        self.check = check
        self.source, self.index = check.source, check.index

    # --- reading --------------------------------------------------------------------------------------

    def read(
        self, ordinals: IntArray, layout: PlaneLayout | None = None, targets: Sequence[memoryview] | None = None
    ) -> Iterator[Frame]:
        """Read frames that the cache has, and whose source is unchanged, from memory and disk.

        Args:
            ordinals: Of the frames, int64 [N].
            layout: Accept only this layout; None accepts any.
            targets: Memory for the pixels of each, layout.nbytes bytes; raw frames on disk are read into it.

        Yields:
            Each frame once, in any order; its bytes are valid until the next one is requested.
        """
        packets = number_frames(self.index, ordinals)
        asked: Sequence[int] = range(len(packets))
        if self.has_memory:
            frames = self._read_memory(packets, ordinals, layout)
            for i, frame in frames.items():
                yield i, frame.kind, memoryview(frame.data)
            asked = [i for i in asked if i not in frames]
            ordinals, packets = ordinals[asked], packets[asked]
        locations = self._state.store.find(self._key.digest, packets)
        usable: list[int] = np.flatnonzero(self._find_usable(locations, ordinals, layout)).tolist()
        codes, sizes = locations.rows["kind"].tolist(), locations.rows["nbytes"].tolist()
        is_direct = [False] * len(sizes)
        if targets is not None:
            raw = [kind.codec == RAW for kind in locations.kinds]
            raw_sizes = locations.rows["raw_nbytes"].tolist()
            for i in usable:
                is_direct[i] = raw[codes[i]] and sizes[i] == raw_sizes[i]
        for part in _split_by_bytes(usable, [0 if is_direct[i] else sizes[i] for i in usable]):
            scratch, buffers = _get_scratch(sum([sizes[i] for i in part if not is_direct[i]])), list[memoryview]()
            for i in part:
                if targets is not None and is_direct[i]:
                    buffers.append(targets[asked[i]])
                else:
                    buffers.append(scratch[: sizes[i]])
                    scratch = scratch[sizes[i] :]
            sound = self._state.store.read(locations, part, buffers)
            for i, buffer, is_sound in zip(part, buffers, sound, strict=True):
                if is_sound:
                    if self.has_memory:
                        row, kind = locations.rows[i], locations.kinds[codes[i]]
                        facts = (int(row[name]) for name in ("raw_nbytes", "stamp", "content"))
                        frame = StoredFrame(int(locations.numbers[i]), kind, bytes(buffer), *facts)
                        self._state.keep_in_memory(self._key.digest, frame)
                    yield asked[i], locations.kinds[codes[i]], None if is_direct[i] else buffer

    @property
    def has_memory(self) -> bool:
        """Whether frames are kept in memory too, where they are looked up first."""
        return self._state.options.memory_bytes > 0

    def find_missing(self, ordinals: IntArray, layout: PlaneLayout | None) -> npt.NDArray[np.bool_]:
        """Find the frames that are not on disk, or whose source has changed, bool [N]."""
        locations = self._state.store.find(self._key.digest, number_frames(self.index, ordinals))
        return ~self._find_usable(locations, ordinals, layout)

    def reject(self, ordinal: int) -> None:
        """Count a frame as damaged whose stored bytes, though intact, do not match their codec and layout."""
        self._state.memory.drop((self._key.digest, int(self.index.frame_packet[ordinal])))
        self._state.count(frames_damaged=1)

    def _read_memory(self, packets: IntArray, ordinals: IntArray, layout: PlaneLayout | None) -> dict[int, StoredFrame]:
        """Find usable frames in memory, by their indices."""
        memory, key = self._state.memory, self._key.digest
        frames = enumerate([memory.get((key, packet)) for packet in packets.tolist()])
        usable = {i: frame for i, frame in frames if frame is not None and _has_layout(frame.kind, layout)}
        if not usable:
            return usable
        stamps = np.array([frame.stamp for frame in usable.values()], dtype=np.uint64)
        contents = np.array([frame.content for frame in usable.values()], dtype=np.uint64)
        matches = self._compare_with_source(ordinals[list(usable)], stamps, contents).tolist()
        for i, is_match in zip(list(usable), matches, strict=True):
            if not is_match:
                memory.drop((key, int(packets[i])))
                del usable[i]
        self._state.count(frames_from_memory=len(usable))
        return usable

    def _find_usable(
        self, locations: FrameLocations, ordinals: IntArray, layout: PlaneLayout | None
    ) -> npt.NDArray[np.bool_]:
        """Check whether frames are on disk, of the right layout and of the source as it is now, bool [N]."""
        usable: npt.NDArray[np.bool_] = locations.is_there
        rows = locations.rows
        if layout is not None and usable.any():
            right = np.array([_has_layout(kind, layout) for kind in locations.kinds], dtype=np.bool_)
            usable = usable & right[np.where(usable, rows["kind"], 0)] & (rows["raw_nbytes"] == layout.nbytes)
        if self._state.options.strict:  # Others are unknown, not outdated.
            usable = usable & (rows["content"] != NO_CONTENT)
        indices = np.flatnonzero(usable)
        if len(indices):
            usable = usable.copy()
            stamps, contents = rows["stamp"][indices], rows["content"][indices]
            usable[indices] = self._compare_with_source(ordinals[indices], stamps, contents)
            num_outdated = len(indices) - int(np.count_nonzero(usable))
            if num_outdated:
                self._state.count(frames_outdated=num_outdated)
        return usable

    def _compare_with_source(self, ordinals: IntArray, stamps: WordArray, contents: WordArray) -> npt.NDArray[np.bool_]:
        """Check whether the source still holds the bytes that each frame was made of, bool [N]."""
        now = self.check.read_stamps(ordinals)
        matches: npt.NDArray[np.bool_] = (stamps == now) & (now != NO_STAMP)
        doubtful = np.ones(len(ordinals), np.bool_) if self._state.options.strict else ~matches
        if not doubtful.any():
            return matches
        matches[doubtful] = False
        hashed, others = np.flatnonzero(doubtful & (contents != NO_CONTENT)), doubtful & (contents == NO_CONTENT)
        with SuppressFaults(*_READ_ERRORS):  # the decoder will raise the error of the source
            if len(hashed):
                matches[hashed] = self.check.hash_contents(ordinals[hashed]) == contents[hashed]
            if others.any() and not self._state.options.strict:
                matches[others] = self.check.has_fingerprint()
        return matches

    # --- storing --------------------------------------------------------------------------------------

    def apply_loss(self, frame: NewFrame) -> NewFrame:
        """Change a frame, in place, to the pixels that it will have when it is read; an exact codec changes none.

        So a batch does not depend on what the cache holds, with a lossy codec either.
        """
        if not self._state.is_lossy:
            return frame
        codec = self._state.select_codec(self.form, frame.layout)
        data = codec.encode(frame.layout, frame.planes)
        codec.decode_into(memoryview(data), frame.layout, frame.planes)
        return replace(frame, data=data)

    def encode(self, frame: NewFrame) -> NewFrame:
        """Encode a frame while its bytes are in the processor's cache, and drop these, if a codec is chosen."""
        if frame.data is not None or not (self._state.has_codec(self.form) and self._state.is_filling):
            return frame
        codec = self._state.select_codec(self.form, frame.layout)
        return replace(frame, data=bytes(codec.encode(frame.layout, frame.planes)), planes=_NO_PLANES)

    def store(self, frames: Sequence[NewFrame], stamps: WordArray) -> int:
        """Store new frames side by side, except those whose source has changed since.

        Args:
            frames: In the order in which they will be requested.
            stamps: Of the source, taken before each was decoded.

        Returns:
            Number of frames stored on disk; 0 if a resource ran out, because the frames themselves can be delivered.
        """
        try:
            num_stored, self._state.shortage = self._store(frames, stamps), None
        except (OSError, MemoryError, FramefeedError) as error:
            self._state.shortage = find_shortage(error)
            if self._state.shortage is None:
                raise
            return 0
        return num_stored

    def _store(self, frames: Sequence[NewFrame], stamps: WordArray) -> int:
        state = self._state
        if not frames or not (self.has_memory or state.is_filling):
            return 0
        ordinals = np.array([frame.ordinal for frame in frames], dtype=np.int64)
        contents = np.full(len(ordinals), NO_CONTENT, dtype=np.uint64)
        try:
            # Without a hash, frames are valid for any file with the fingerprint in their key: so this one must have it.
            if state.options.strict or self.check.is_known_by_content:
                contents = self.check.hash_contents(ordinals)
            elif not self.check.has_fingerprint():
                return 0
            # After the source was read, so that nothing changed meanwhile.
            unchanged = self.check.read_stamps(ordinals) == stamps
        except _READ_ERRORS as error:
            if find_shortage(error) is not None:
                raise
            return 0
        packets = number_frames(self.index, ordinals)
        kept = []
        for i in np.flatnonzero(unchanged & (packets >= 0)).tolist():
            frame = frames[i]
            codec = state.select_codec(self.form, frame.layout)
            data = codec.encode(frame.layout, frame.planes) if frame.data is None else frame.data
            if self.has_memory:
                data = bytes(data)  # which may be the caller's pixels
            kind, nbytes = Kind(codec.label, frame.layout.text), frame.layout.nbytes
            kept.append(StoredFrame(int(packets[i]), kind, data, nbytes, int(stamps[i]), int(contents[i])))
        if self.has_memory:
            for each in kept:
                state.keep_in_memory(self._key.digest, each)
        if not kept or not state.is_filling:
            return 0
        num_stored = len(kept) if state.store.add(self._key.digest, self._key.description, kept) else 0
        state.warn_of_trouble()
        return num_stored


def number_frames(index: FrameIndex, ordinals: IntArray) -> IntArray:
    """Return the numbers of some frames in the cache: their packets; -1 for those that no packet tells, int64 [N].

    A frame that the index knows to be damaged may have been stored under an index that did not.
    """
    numbers: IntArray = index.frame_packet[ordinals]
    if index.shares_packet is not None:
        numbers[index.shares_packet[ordinals]] = -1
    if len(index.damaged_frame_indices):
        numbers[index.is_damaged(ordinals)] = -1
    return numbers


def _has_layout(kind: Kind, layout: PlaneLayout | None) -> bool:
    return layout is None or kind.layout == layout.text


def _split_by_bytes(indices: Sequence[int], nbytes: Sequence[int]) -> Iterator[Sequence[int]]:
    """Split frames into parts that need no more scratch memory than ``_SCRATCH_BYTES``, or are one frame."""
    start, total = 0, 0
    for end, needed in enumerate(nbytes):
        if total and total + needed > _SCRATCH_BYTES:
            yield indices[start:end]
            start, total = end, 0
        total += needed
    if indices:
        yield indices[start:]


_local = threading.local()


def _get_scratch(nbytes: int) -> memoryview:
    """Return memory of this thread, of any content: new pages for every clip would cost more than reading it."""
    kept: memoryview | None = getattr(_local, "scratch", None)
    if kept is None or len(kept) < nbytes:
        kept = np.empty(nbytes, dtype=np.uint8).data
        if nbytes <= _MAX_SCRATCH:
            _local.scratch = kept
    return kept[:nbytes]

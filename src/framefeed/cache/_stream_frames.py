"""Read and store the frames of one stream in one form, in memory and on disk."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from framefeed._arrays import IntArray, WordArray
from framefeed.cache._keys import NO_CONTENT, NO_STAMP, SourceCheck, StreamKey
from framefeed.cache._state import CacheState
from framefeed.cache.codecs._codec import FrameCodec
from framefeed.cache.store._format import MISS, FrameLocations, Kind, StoredFrame
from framefeed.decode import Pixels, PlaneLayout
from framefeed.errors import FramefeedError, MediaError
from framefeed.parallel import find_shortage

RAW = "raw"
_NO_INDICES = np.zeros(0, dtype=np.int64)
_NO_PLANES = np.empty(0, dtype=np.uint8)
_READ_ERRORS = (MediaError, OSError)
"""Raised by reading a source."""
_MAX_SCRATCH = 64 << 20
"""Bytes of scratch memory that a thread keeps."""


@dataclass(frozen=True, slots=True, eq=False)
class CachedFrame:
    """A frame that the cache has.

    Attributes:
        kind: Codec and layout of its stored bytes.
        data: Stored bytes, valid until the next call from this thread; None if the pixels are in the target already.
    """

    kind: Kind
    data: memoryview | None


@dataclass(frozen=True, slots=True, eq=False)
class NewFrame:
    """A frame that was just decoded.

    Attributes:
        ordinal: Of the frame.
        layout: Of its bytes.
        planes: The bytes, uint8 [layout.nbytes].
        data: The bytes as the codec encoded them, if it did already.
        codec: The codec that encoded them, or None.
    """

    ordinal: int
    layout: PlaneLayout
    planes: Pixels
    data: bytes | memoryview | None = None
    codec: FrameCodec | None = None


class StreamFrames:
    """The frames of one stream in one form, for one call of a decoder.

    Args:
        state: State of the cache.
        key: Of the stream and form.
        check: Compares stored frames with the source.
    """

    def __init__(self, state: CacheState, key: StreamKey, check: SourceCheck) -> None:
        self._state = state
        self._key = key
        self.check = check
        self.source, self.index = check.source, check.index

    # --- reading --------------------------------------------------------------------------------------

    def read(
        self, ordinals: IntArray, targets: Sequence[Pixels] | None = None, layout: PlaneLayout | None = None
    ) -> list[CachedFrame | None]:
        """Find frames in memory and on disk, and read the stored bytes of the valid ones.

        Args:
            ordinals: Of the frames, int64 [N].
            targets: Memory for the pixels of each, uint8 [layout.nbytes]; raw frames are read into it.
            layout: Accept only this layout; None accepts any.

        Returns:
            One entry for each frame, None if the cache does not have it.
        """
        packets = self.index.frame_packet[ordinals]
        cached: list[CachedFrame | None] = [None] * len(packets)
        if self.has_memory:
            cached = self._read_memory(packets, ordinals, layout)
        absent = np.array([i for i, frame in enumerate(cached) if frame is None], dtype=np.int64)
        if len(absent):
            locations = self._state.store.find(self._key.digest, packets[absent])
            usable = self._find_usable(locations, ordinals[absent], layout)
            absent_targets = None if targets is None else [targets[i] for i in absent.tolist()]
            for i, frame in zip(absent.tolist(), self._read_disk(locations, usable, absent_targets), strict=True):
                cached[i] = frame
        return cached

    @property
    def has_memory(self) -> bool:
        """Whether frames are kept in memory too, where they are looked up first."""
        return self._state.memory.max_bytes > 0

    def read_raw(self, ordinals: IntArray, layout: PlaneLayout, out: Pixels) -> IntArray:
        """Read raw frames of an unchanged source from disk into a batch, without a copy.

        Args:
            ordinals: Of the frames, int64 [N].
            layout: Of the pixels.
            out: Memory for them, uint8 [N, ...], each frame contiguous.

        Returns:
            Indices of the frames that were read, int64 [M]; ``read`` may still find the others.
        """
        locations = self._state.store.find(self._key.digest, self.index.frame_packet[ordinals])
        raw = Kind(RAW, layout.text)
        code = next((i for i, kind in enumerate(locations.kinds) if kind == raw), None)
        stamp = self.check.stamp
        if code is None or stamp == NO_STAMP or self._state.options.strict:
            return _NO_INDICES
        good = (locations.kind == code) & (locations.stamp == np.uint64(stamp)) & (locations.segment != MISS)
        good &= (locations.nbytes == layout.nbytes) & (locations.raw_nbytes == layout.nbytes)
        indices = np.flatnonzero(good)
        if not len(indices):
            return indices
        listed = indices.tolist()
        if out.flags.c_contiguous:
            flat, nbytes = out.reshape(-1).data, layout.nbytes
            buffers = [flat[i * nbytes : (i + 1) * nbytes] for i in listed]
        else:
            buffers = [out[i].reshape(-1).data for i in listed]
        sound = self._state.store.read(locations, listed, buffers)
        return indices if all(sound) else indices[sound]

    def find_missing(self, ordinals: IntArray, layout: PlaneLayout | None) -> npt.NDArray[np.bool_]:
        """Find the frames that are not on disk, or whose source has changed, bool [N]."""
        locations = self._state.store.find(self._key.digest, self.index.frame_packet[ordinals])
        return ~self._find_usable(locations, ordinals, layout)

    def reject(self, ordinal: int) -> None:
        """Count a frame as damaged whose stored bytes, though intact, do not match their codec and layout."""
        self._state.memory.drop(self._key.digest, int(self.index.frame_packet[ordinal]))
        self._state.counters.add(frames_damaged=1)

    def _read_memory(
        self, packets: IntArray, ordinals: IntArray, layout: PlaneLayout | None
    ) -> list[CachedFrame | None]:
        frames = self._state.memory.get(self._key.digest, packets.tolist())
        usable = {i: frame for i, frame in enumerate(frames) if frame is not None and _has_layout(frame.kind, layout)}
        cached: list[CachedFrame | None] = [None] * len(packets)
        if not usable:
            return cached
        stamps = np.array([frame.stamp for frame in usable.values()], dtype=np.uint64)
        contents = np.array([frame.content for frame in usable.values()], dtype=np.uint64)
        matches = self._compare_with_source(ordinals[list(usable)], stamps, contents).tolist()
        for (i, frame), is_match in zip(usable.items(), matches, strict=True):
            if is_match:
                cached[i] = CachedFrame(frame.kind, memoryview(frame.data))
            else:
                self._state.memory.drop(self._key.digest, int(packets[i]))
        self._state.counters.add(frames_from_memory=sum(matches))
        return cached

    def _find_usable(
        self, locations: FrameLocations, ordinals: IntArray, layout: PlaneLayout | None
    ) -> npt.NDArray[np.bool_]:
        """Check whether frames are on disk, of the right layout and of the source as it is now, bool [N]."""
        usable: npt.NDArray[np.bool_] = locations.is_there
        if layout is not None and usable.any():
            right = np.array([_has_layout(kind, layout) for kind in locations.kinds], dtype=np.bool_)
            usable = usable & right[np.where(usable, locations.kind, 0)] & (locations.raw_nbytes == layout.nbytes)
        if self._state.options.strict:  # Others are unknown, not outdated.
            usable = usable & (locations.content != NO_CONTENT)
        indices = np.flatnonzero(usable)
        if len(indices):
            usable = usable.copy()
            usable[indices] = self._compare_with_source(
                ordinals[indices], locations.stamp[indices], locations.content[indices]
            )
            self._state.counters.add(frames_outdated=len(indices) - int(np.count_nonzero(usable)))
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
        try:
            if len(hashed):
                matches[hashed] = self.check.hash_contents(ordinals[hashed]) == contents[hashed]
            if others.any() and not self._state.options.strict:
                matches[others] = self.check.has_fingerprint()
        except _READ_ERRORS as error:
            if find_shortage(error) is not None:
                raise
            # The decoder will raise the error of the source.
        return matches

    def _read_disk(
        self, locations: FrameLocations, usable: npt.NDArray[np.bool_], targets: Sequence[Pixels] | None
    ) -> list[CachedFrame | None]:
        cached: list[CachedFrame | None] = [None] * len(locations)
        indices = np.flatnonzero(usable).tolist()
        if not indices:
            return cached
        kinds = [locations.kinds[code] for code in locations.kind[indices].tolist()]
        sizes = locations.nbytes[indices].tolist()
        raw_sizes = locations.raw_nbytes[indices].tolist()
        direct = [
            targets is not None and kind.codec == RAW and size == raw_size
            for kind, size, raw_size in zip(kinds, sizes, raw_sizes, strict=True)
        ]
        scratch = _get_scratch(sum(size for size, is_direct in zip(sizes, direct, strict=True) if not is_direct))
        buffers, start = [], 0
        for i, size, is_direct in zip(indices, sizes, direct, strict=True):
            if is_direct and targets is not None:
                buffers.append(targets[i].data)
            else:
                buffers.append(scratch[start : start + size])
                start += size
        sound = self._state.store.read(locations, indices, buffers)
        for i, kind, buffer, is_direct, is_sound in zip(indices, kinds, buffers, direct, sound, strict=True):
            if is_sound:
                cached[i] = CachedFrame(kind, None if is_direct else buffer)
                if self.has_memory:
                    facts = int(locations.raw_nbytes[i]), int(locations.stamp[i]), int(locations.content[i])
                    frame = StoredFrame(int(locations.numbers[i]), kind, bytes(buffer), *facts)
                    self._state.memory.put(self._key.digest, frame)
        return cached

    # --- storing --------------------------------------------------------------------------------------

    def apply_loss(self, frame: NewFrame) -> NewFrame:
        """Change a frame, in place, to the pixels that it will have when it is read; an exact codec changes none.

        So a batch does not depend on what the cache holds, with a lossy codec either.
        """
        if not self._state.is_lossy:
            return frame
        codec = self._state.select_codec(frame.layout, [frame.planes])
        data = codec.encode(frame.layout, frame.planes)
        codec.decode_into(memoryview(data), frame.layout, frame.planes)
        return replace(frame, data=data, codec=codec)

    def encode(self, frame: NewFrame) -> NewFrame:
        """Encode a frame while its bytes are in the processor's cache, and drop these, if a codec is chosen."""
        if frame.data is not None or not (self._state.has_codec and self._state.is_filling):
            return frame
        codec = self._state.select_codec(frame.layout, [frame.planes])
        data = bytes(codec.encode(frame.layout, frame.planes))
        return replace(frame, data=data, codec=codec, planes=_NO_PLANES)

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
        try:
            contents = self._hash_contents(ordinals)
            # After the source was read, so that nothing changed meanwhile.
            unchanged = self.check.read_stamps(ordinals) == stamps
        except _READ_ERRORS as error:
            if find_shortage(error) is not None:
                raise
            return 0
        if contents is None:
            return 0
        packets = self.index.frame_packet[ordinals]
        default = state.select_codec(frames[0].layout, [frame.planes for frame in frames if frame.data is None])
        kept = []
        for i in np.flatnonzero(unchanged & (packets >= 0)).tolist():
            frame = frames[i]
            codec = frame.codec or default
            data = codec.encode(frame.layout, frame.planes) if frame.data is None else frame.data
            if self.has_memory:
                data = bytes(data)  # which may be the caller's pixels
            kind, nbytes = Kind(codec.label, frame.layout.text), frame.layout.nbytes
            kept.append(StoredFrame(int(packets[i]), kind, data, nbytes, int(stamps[i]), int(contents[i])))
        if self.has_memory:
            for each in kept:
                state.memory.put(self._key.digest, each)
        if not kept or not state.is_filling:
            return 0
        num_stored = len(kept) if state.store.add(self._key.digest, self._key.description, kept) else 0
        if num_stored:
            state.note_stored(kept)
        state.warn_of_trouble()
        return num_stored

    def _hash_contents(self, ordinals: IntArray) -> WordArray | None:
        """Hash the bytes of frames to store, uint64 [N]; None if the source is not the one that their key names.

        Without a hash, frames are valid for any file with the fingerprint in their key: so this one must have it.
        """
        if self._state.options.strict or self.check.is_known_by_content:
            return self.check.hash_contents(ordinals)
        return np.full(len(ordinals), NO_CONTENT, dtype=np.uint64) if self.check.has_fingerprint() else None


def _has_layout(kind: Kind, layout: PlaneLayout | None) -> bool:
    return layout is None or kind.layout == layout.text


_local = threading.local()


def _get_scratch(nbytes: int) -> memoryview:
    """Return memory of this thread, of any content: new pages for every clip would cost more than reading it."""
    kept: memoryview | None = getattr(_local, "scratch", None)
    if kept is None or len(kept) < nbytes:
        kept = np.empty(nbytes, dtype=np.uint8).data
        if nbytes <= _MAX_SCRATCH:
            _local.scratch = kept
    return kept[:nbytes]

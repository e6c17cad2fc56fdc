"""The frames of one stream in one form: taken from memory or disk where sound, put there where new.

Raw frames straight from disk into a batch: the shortest way, for what needs neither decompressing nor doubting.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from framefeed._arrays import IntArray, WordArray
from framefeed.cache._keys import NO_STAMP, Evidence, StreamKey
from framefeed.cache._state import Held, Keeper
from framefeed.cache.codecs._codec import FrameCodec
from framefeed.cache.store._format import MISS, Found, Kind, StoredFrame
from framefeed.decode import Pixels, PlaneLayout
from framefeed.errors import FramefeedError, MediaError
from framefeed.index import FrameIndex
from framefeed.parallel import shortage_in

RAW = "raw"
_NONE = np.zeros(0, dtype=np.int64)


def read_straight(keeper: Keeper, found: Found, stamp: int, layout: PlaneLayout, out: Pixels) -> npt.NDArray[np.int64]:
    """Read the frames that lie on disk as they are wanted, of a source that was not touched since.

    What is left out may still be served in another way.

    Args:
        keeper: The cache.
        found: Where N frames are.
        stamp: Of the source now.
        layout: Of the pixels.
        out: Where they go, uint8 [N, ...], each frame contiguous.

    Returns:
        Places of the frames that were read, int64 [M].
    """
    code = _raw_code(found, layout)
    if code < 0 or stamp == NO_STAMP or keeper.options.strict:
        return _NONE
    good = (found.kind == code) & (found.stamp == np.uint64(stamp)) & (found.segment != MISS)
    good &= (found.nbytes == layout.nbytes) & (found.raw_nbytes == layout.nbytes)
    places = np.flatnonzero(good)
    if not len(places):
        return places
    listed = places.tolist()
    if out.flags.c_contiguous:
        flat, nbytes = out.reshape(-1).data, layout.nbytes
        buffers = [flat[place * nbytes : (place + 1) * nbytes] for place in listed]
    else:
        buffers = [out[place].reshape(-1).data for place in listed]
    came = keeper.store.read(found, listed, buffers)
    return places if all(came) else places[came]


def _raw_code(found: Found, layout: PlaneLayout) -> int:
    text = layout.text
    for code, kind in enumerate(found.kinds):
        if kind.codec == RAW and kind.layout == text:
            return code
    return -1


_NO_PLANES = np.empty(0, dtype=np.uint8)
_UNREADABLE = (MediaError, OSError)
"""What reading of a source raises."""
_KEPT_SCRATCH = 64 << 20
"""Bytes of scratch memory that a thread keeps."""


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """A frame that the cache has.

    Attributes:
        kind: How its bytes are to be read.
        data: Its stored bytes, valid until the next call from this thread; None where its pixels are in the target.
    """

    kind: Kind
    data: memoryview | None


@dataclass(frozen=True, slots=True, eq=False)
class Fresh:
    """A frame that was just decoded.

    Attributes:
        ordinal: Of the frame.
        layout: Of its bytes.
        planes: The bytes, uint8 [layout.nbytes].
        data: The same as they will be stored, where that was made already.
        codec: What made them so, or None.
    """

    ordinal: int
    layout: PlaneLayout
    planes: Pixels
    data: bytes | memoryview | None = None
    codec: FrameCodec | None = None


class Shelf:
    """The frames of one stream in one form, for one call of a decoder.

    Args:
        keeper: The cache.
        key: Of the stream and form.
        index: The source's frames.
        evidence: What is known of the source now.
    """

    def __init__(self, keeper: Keeper, key: StreamKey, index: FrameIndex, evidence: Evidence) -> None:
        self._keeper = keeper
        self._key = key
        self._index = index
        self._evidence = evidence

    # --- taking ---------------------------------------------------------------------------------------

    def take(
        self, ordinals: IntArray, targets: Sequence[Pixels] | None = None, layout: PlaneLayout | None = None
    ) -> list[Served | None]:
        """Find frames, and read the stored bytes of those that are sound.

        Args:
            ordinals: Of the frames, int64 [N].
            targets: Where the pixels of each go, uint8 [layout.nbytes]; raw frames are read straight into it.
            layout: The only one that is taken; None takes any.

        Returns:
            One entry a frame, None where the cache does not have it.
        """
        numbers = self._index.frame_packet[ordinals]
        served: list[Served | None] = [None] * len(numbers)
        if self._keeper.memory.max_bytes:
            served = self._from_memory(numbers, ordinals, layout)
        absent = np.array([place for place, frame in enumerate(served) if frame is None], dtype=np.int64)
        if len(absent):
            found = self._keeper.store.find(self._key.digest, numbers[absent])
            usable = self._sound(found, ordinals[absent], layout)
            wanted = None if targets is None else [targets[place] for place in absent.tolist()]
            for place, frame in zip(absent.tolist(), self._read(found, usable, wanted), strict=True):
                served[place] = frame
        return served

    @property
    def asks_memory(self) -> bool:
        """Whether there is a memory tier, which is asked before the disk."""
        return self._keeper.memory.max_bytes > 0

    def take_straight(self, ordinals: IntArray, layout: PlaneLayout, out: Pixels) -> IntArray:
        """Read the frames that lie on disk as they are wanted; see ``read_straight``."""
        found = self._keeper.store.find(self._key.digest, self._index.frame_packet[ordinals])
        return read_straight(self._keeper, found, self._evidence.stamp, layout, out)

    def lacks(self, ordinals: IntArray, layout: PlaneLayout | None) -> npt.NDArray[np.bool_]:
        """Which frames are not on disk, or not of the source as it is now, bool [N]."""
        found = self._keeper.store.find(self._key.digest, self._index.frame_packet[ordinals])
        return ~self._sound(found, ordinals, layout)

    def refuse(self, ordinal: int) -> None:
        """Note that the stored bytes of a frame, though sound, are no frame of the codec and layout that they claim."""
        self._keeper.memory.drop(self._key.digest, int(self._index.frame_packet[ordinal]))
        self._keeper.tally.add(frames_damaged=1)

    def _from_memory(self, numbers: IntArray, ordinals: IntArray, layout: PlaneLayout | None) -> list[Served | None]:
        found = self._keeper.memory.get(self._key.digest, numbers.tolist())
        held = {place: frame for place, frame in enumerate(found) if frame is not None and _fits(frame.kind, layout)}
        served: list[Served | None] = [None] * len(numbers)
        if not held:
            return served
        stamps = np.array([frame.stamp for frame in held.values()], dtype=np.uint64)
        contents = np.array([frame.content for frame in held.values()], dtype=np.uint64)
        sound = self._agrees(ordinals[list(held)], stamps, contents).tolist()
        for (place, frame), is_sound in zip(held.items(), sound, strict=True):
            if is_sound:
                served[place] = Served(frame.kind, memoryview(frame.data))
            else:
                self._keeper.memory.drop(self._key.digest, int(numbers[place]))
        self._keeper.tally.add(frames_from_memory=sum(sound))
        return served

    def _sound(self, found: Found, ordinals: IntArray, layout: PlaneLayout | None) -> npt.NDArray[np.bool_]:
        usable: npt.NDArray[np.bool_] = found.is_there
        if layout is not None and usable.any():
            fitting = np.array([_fits(kind, layout) for kind in found.kinds], dtype=np.bool_)
            usable = usable & fitting[np.where(usable, found.kind, 0)] & (found.raw_nbytes == layout.nbytes)
        places = np.flatnonzero(usable)
        if len(places):
            usable = usable.copy()
            usable[places] = self._agrees(ordinals[places], found.stamp[places], found.content[places])
            self._keeper.tally.add(frames_outdated=len(places) - int(np.count_nonzero(usable)))
        return usable

    def _agrees(self, ordinals: IntArray, stamps: WordArray, contents: WordArray) -> npt.NDArray[np.bool_]:
        """Whether the source still holds what each frame was made of, bool [N]."""
        now = self._evidence.stamps(ordinals)
        agrees: npt.NDArray[np.bool_] = (stamps == now) & (now != NO_STAMP)
        doubted = np.arange(len(ordinals)) if self._keeper.options.strict else np.flatnonzero(~agrees)
        if not len(doubted):
            return agrees
        try:
            agrees[doubted] = self._evidence.contents(ordinals[doubted]) == contents[doubted]
        except _UNREADABLE as error:
            if shortage_in(error) is not None:
                raise
            # Whatever is wrong with the source, the decoder will say it.
            agrees[doubted] = False
        return agrees

    def _read(
        self, found: Found, usable: npt.NDArray[np.bool_], targets: Sequence[Pixels] | None
    ) -> list[Served | None]:
        served: list[Served | None] = [None] * len(found)
        places = np.flatnonzero(usable).tolist()
        if not places:
            return served
        kinds = [found.kinds[code] for code in found.kind[places].tolist()]
        sizes = found.nbytes[places].tolist()
        whole = found.raw_nbytes[places].tolist()
        direct = [
            targets is not None and kind.codec == RAW and size == raw
            for kind, size, raw in zip(kinds, sizes, whole, strict=True)
        ]
        scratch = _scratch(sum(size for size, is_direct in zip(sizes, direct, strict=True) if not is_direct))
        buffers, at = [], 0
        for place, size, is_direct in zip(places, sizes, direct, strict=True):
            if is_direct and targets is not None:
                buffers.append(targets[place].data)
            else:
                buffers.append(scratch[at : at + size])
                at += size
        came = self._keeper.store.read(found, places, buffers)
        for place, kind, buffer, is_direct, is_sound in zip(places, kinds, buffers, direct, came, strict=True):
            if is_sound:
                served[place] = Served(kind, None if is_direct else buffer)
                self._remember(found, place, kind, buffer)
        return served

    def _remember(self, found: Found, place: int, kind: Kind, data: memoryview) -> None:
        memory = self._keeper.memory
        if memory.max_bytes:
            held = Held(kind, bytes(data), int(found.stamp[place]), int(found.content[place]))
            memory.put(self._key.digest, int(found.numbers[place]), held)

    # --- putting --------------------------------------------------------------------------------------

    def settled(self, frame: Fresh) -> Fresh:
        """Have a frame lose now, in place, what it will have lost when it is read; with an exact codec that is nothing.

        So a batch does not depend on what the cache holds, with a lossy codec either.
        """
        if not self._keeper.is_lossy:
            return frame
        codec = self._keeper.codec_for(frame.layout, [frame.planes])
        data = codec.encode(frame.layout, frame.planes)
        codec.decode(memoryview(data), frame.layout, frame.planes)
        return replace(frame, data=data, codec=codec)

    def encoded(self, frame: Fresh) -> Fresh:
        """Encode a frame now, while the processor has its bytes at hand, and drop these, if a codec is chosen."""
        if frame.data is not None or not (self._keeper.has_chosen and self._keeper.is_filling):
            return frame
        codec = self._keeper.codec_for(frame.layout, [frame.planes])
        data = bytes(codec.encode(frame.layout, frame.planes))
        return replace(frame, data=data, codec=codec, planes=_NO_PLANES)

    def put(self, frames: Sequence[Fresh], stamps: WordArray) -> int:
        """Store frames that were just decoded, side by side; those whose source changed meanwhile are left out.

        Args:
            frames: In the order in which they will be wanted.
            stamps: Of the source, taken for each before it was decoded.

        Returns:
            How many were stored on disk; none where something ran out, for the frames themselves are at hand.
        """
        try:
            stored, self._keeper.shortage = self._put(frames, stamps), None
        except (OSError, MemoryError, FramefeedError) as error:
            self._keeper.shortage = shortage_in(error)
            if self._keeper.shortage is None:
                raise
            return 0
        return stored

    def _put(self, frames: Sequence[Fresh], stamps: WordArray) -> int:
        memory = self._keeper.memory
        if not frames or not (memory.max_bytes or self._keeper.is_filling):
            return 0
        ordinals = np.array([frame.ordinal for frame in frames], dtype=np.int64)
        try:
            steady = self._evidence.stamps(ordinals) == stamps
            contents = self._evidence.contents(ordinals)
        except _UNREADABLE as error:
            if shortage_in(error) is not None:
                raise
            return 0
        samples = [frame.planes for frame in frames if frame.data is None]
        codec = self._keeper.codec_for(frames[0].layout, samples)
        kept = [
            _stored(frame, codec, (number, stamp, content))
            for frame, number, is_steady, stamp, content in zip(
                frames,
                self._index.frame_packet[ordinals].tolist(),
                steady.tolist(),
                stamps.tolist(),
                contents.tolist(),
                strict=True,
            )
            if is_steady and number >= 0
        ]
        if memory.max_bytes:
            for each in kept:
                held = Held(each.kind, bytes(each.data), each.stamp, each.content)
                memory.put(self._key.digest, each.number, held)
        if not kept or not self._keeper.is_filling:
            return 0
        stored = len(kept) if self._keeper.store.add(self._key.digest, self._key.description, kept) else 0
        if stored:
            self._keeper.note_stored(kept)
        self._keeper.say_trouble()
        return stored


def _fits(kind: Kind, layout: PlaneLayout | None) -> bool:
    return layout is None or kind.layout == layout.text


def _stored(frame: Fresh, codec: FrameCodec, facts: tuple[int, int, int]) -> StoredFrame:
    number, stamp, content = facts
    used = frame.codec or codec
    kind = Kind(used.label, frame.layout.text)
    data = used.encode(frame.layout, frame.planes) if frame.data is None else frame.data
    return StoredFrame(number, kind, data, frame.layout.nbytes, stamp, content)


_local = threading.local()


def _scratch(nbytes: int) -> memoryview:
    """This thread's memory, of any content: fresh pages for every clip would cost more than reading it."""
    kept: memoryview | None = getattr(_local, "scratch", None)
    if kept is None or len(kept) < nbytes:
        kept = np.empty(nbytes, dtype=np.uint8).data
        if nbytes <= _KEPT_SCRATCH:
            _local.scratch = kept
    return kept[:nbytes]

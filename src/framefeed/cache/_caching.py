"""CachingDecoder: a decoder that stores what another decoder decoded, and reads it from the cache the next time."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed._arrays import IntArray, WordArray
from framefeed.cache._keys import Evidence, Form, Recipe, key_of
from framefeed.cache._state import Keeper
from framefeed.cache._stream_frames import Fresh, Shelf
from framefeed.cache.codecs._codec import BrokenFrame, new_memory
from framefeed.cache.codecs._registry import codec_labelled
from framefeed.decode import (
    ClipSlot,
    DecodeCounts,
    Decoder,
    DecodeReport,
    Pixels,
    Places,
    PlaneLayout,
    copy_planes,
    gives_frames,
    layout_of,
    naming,
    new_pixels,
    output_layout,
    picture_name,
    picture_of,
    recipe_of,
    writer_of,
)
from framefeed.errors import ResourceExhausted, UsageError
from framefeed.index import FrameIndex, holds_pictures
from framefeed.media import MediaSource
from framefeed.parallel import shortage_in, try_again_in_shortage
from framefeed.plan import OutputSpec

_PUT_BYTES = 16 << 20
"""Planes of about so many bytes are stored together."""
_AHEAD = 16
"""Frames that are looked up, or stored, together where a source is read in order."""


def without_planes(decoder: Decoder) -> UsageError:
    """Build the error for form="planes" with a decoder that has no method ``frames``."""
    return UsageError(
        f'form="planes" needs a decoder that gives pictures before their conversion (method frames), which '
        f'{decoder.name!r} does not: use form="output", or backend="auto"'
    )


class CachingDecoder:
    """Read frames from a cache if it has them; else decode them with another decoder, and store them.

    With an exact codec, the pixels are bit for bit those of the other decoder. With a lossy codec, every frame has the
    pixels of a stored frame, also when it was just decoded. Errors are those of the other decoder; a frame that fails
    is never stored. Sources that cannot be identified by their contents, and frames whose packet is unknown, are
    decoded and not stored. If memory or file descriptors run out while the cache is read, frames are decoded and not
    stored; with a lossy codec, ``ResourceExhausted`` is raised instead.

    ``ff.FrameCache.decoder`` makes one.

    Args:
        inner: The other decoder.
        keeper: State of the cache in this process.
        form: "output" stores the requested pixels; "planes" stores the decoder's own pictures at full size, from which
            any crop and size can be made; None stores planes where whole pictures are requested.

    Raises:
        UsageError: Raised by ``decode``: form="planes" with a decoder that has no method ``frames``.
    """

    name = "cached"

    def __init__(self, inner: Decoder, keeper: Keeper, form: Form | None = None) -> None:
        self._inner = inner
        self._keeper = keeper
        self._form = form
        self._counts_reads = True

    def __repr__(self) -> str:
        return f"CachingDecoder({self._inner.name!r}, form={self._form!r}, {self._keeper.options.path!r})"

    def for_building(self) -> CachingDecoder:
        """Give the same decoder for a build: it counts no hits and no misses."""
        other = CachingDecoder(self._inner, self._keeper, self._form)
        other._counts_reads = False
        return other

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        """Read the clips of one source from the cache, and decode what it lacks; see ``Decoder.decode``."""
        if index.identity is None or not _is_known(index, slots):
            return self._inner.decode(source, index, slots)
        if any(slot.accepts_damaged for slot in slots):
            return self._decode_apart(source, index, slots)
        form = self._form_of(index, [slot.output for slot in slots])
        if form == "output" and not all(_is_kept(output, index) for output in {slot.output for slot in slots}):
            return self._inner.decode(source, index, slots)
        source.check_identity(index.identity)
        decode = partial(self._from_planes if form == "planes" else self._from_outputs, source, index, slots)

        def decode_without_cache(resource: str) -> DecodeReport:
            self._keeper.shortage = resource
            return self._inner.decode(source, index, slots)

        # What a lossy codec keeps is not what the other decoder gives.
        again = None if self._keeper.is_lossy else decode_without_cache
        report = try_again_in_shortage(decode, source.name, "cache", again)
        if self._counts_reads:
            asked, cached = sum(len(slot.indices) for slot in slots), report.counts.frames_cached
            self._keeper.tally.add(frames_hit=cached, frames_missed=asked - cached)
        return report

    def _decode_apart(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        """Let slots that accept damaged pictures pass the cache by."""
        report = DecodeReport(errors=[None] * len(slots))
        for decoder, accepts in ((self, False), (self._inner, True)):
            chosen = [number for number, slot in enumerate(slots) if slot.accepts_damaged == accepts]
            if chosen:
                done = decoder.decode(source, index, [slots[number] for number in chosen])
                report.counts += done.counts
                for number, error in zip(chosen, done.errors, strict=True):
                    report.errors[number] = error
        return report

    def _from_planes(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        evidence = Evidence(source, index)
        shelf = self._shelf(index, evidence, "planes", None)
        return _PlanesCall(self._inner, shelf, (source, index)).decode(slots, evidence)

    def _from_outputs(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        evidence = Evidence(source, index)
        report = DecodeReport(errors=[None] * len(slots))
        for output, numbered in _by_output(slots).items():
            shelf = self._shelf(index, evidence, "output", output)
            _OutputCall(self._inner, shelf, (source, index)).decode(numbered, report, evidence)
        return report

    def pictures(
        self, source: MediaSource, index: FrameIndex, stretch: range, output: OutputSpec
    ) -> Iterator[tuple[int, Pixels]]:
        """Yield (ordinal, pixels) for consecutive frames; see ``PictureStream.pictures``.

        Frames that the cache lacks are decoded in order, up to the next frame that it has.
        """
        at = stretch.start
        while at < stretch.stop:
            part = range(at, min(at + _AHEAD, stretch.stop))
            if self._has_all(source, index, part, output) is False:
                at = yield from self._onward(source, (index, output), range(at, stretch.stop))
            else:
                yield from self._together(source, (index, output), part)
                at = part.stop

    def _has_all(self, source: MediaSource, index: FrameIndex, part: range, output: OutputSpec) -> bool | None:
        """Whether the cache has some frames; None where that cannot be known, because something ran out."""
        if not part:
            return False
        try:
            return not self.lacks(source, index, np.arange(part.start, part.stop), output).any()
        except ResourceExhausted:
            return None

    def _together(
        self, source: MediaSource, of: tuple[FrameIndex, OutputSpec], part: range
    ) -> Iterator[tuple[int, Pixels]]:
        index, output = of
        memory = _frames_memory(source, (len(part), 1, *output.shape(*index.stream.displayed)))
        slots = [ClipSlot(np.array([i], dtype=np.int64), output, clip) for i, clip in zip(part, memory, strict=True)]
        report = self.decode(source, index, slots)
        for ordinal, slot, error in zip(part, slots, report.errors, strict=True):
            if error is None:
                yield ordinal, slot.out[0]

    def _onward(
        self, source: MediaSource, of: tuple[FrameIndex, OutputSpec], stretch: range
    ) -> Generator[tuple[int, Pixels], None, int]:
        """Decode on and store, until what follows is there; give the ordinal that is next."""
        index, output = of
        evidence, form = Evidence(source, index), self._form_of(index, [output])
        stamps = None if index.identity is None else _stamps_if_known(evidence, stretch)
        if stamps is None or not hasattr(self._inner, "pictures") or not _is_kept(output, index):
            yield from self._together(source, of, stretch[:_AHEAD])
            return stretch.start + len(stretch[:_AHEAD])
        shelf = self._shelf(index, evidence, form, output if form == "output" else None)
        fresh: list[Fresh] = []
        for ordinal, frame, pixels in self._one_by_one(shelf, source, of, stretch):
            self._keeper.tally.add(frames_missed=1)
            fresh += [frame] if frame is not None else []
            is_whole = len(fresh) == _AHEAD
            if is_whole or ordinal == stretch[-1]:
                # Before the frame is yielded: behind the last one the caller may not ask for another.
                shelf.put(fresh, stamps[[each.ordinal - stretch.start for each in fresh]])
                fresh = []
            yield ordinal, pixels
            following = stretch[ordinal + 1 - stretch.start :][:_AHEAD]
            if is_whole and self._has_all(source, index, following, output) is not False:
                return ordinal + 1
        shelf.put(fresh, stamps[[each.ordinal - stretch.start for each in fresh]])
        return stretch.stop

    def _one_by_one(
        self, shelf: Shelf, source: MediaSource, of: tuple[FrameIndex, OutputSpec], stretch: range
    ) -> Iterator[tuple[int, Fresh | None, Pixels]]:
        """Yield (ordinal, what to store, pixels) as the other decoder gives them."""
        index, output = of
        inner: Any = self._inner
        if self._form_of(index, [output]) == "output":
            layout = output_layout(output, *index.stream.displayed)
            for ordinal, pixels in inner.pictures(source, index, stretch, output):
                frame = shelf.settled(Fresh(ordinal, layout, pixels.reshape(-1)))
                # What is stored is a copy: the pixels belong to the caller, who may write to them before it is stored.
                yield ordinal, replace(frame, planes=frame.planes.copy()), pixels
            return
        for ordinal, picture in inner.frames(source, index, stretch):
            fresh, shown = _kept_planes(shelf, index, ordinal, picture)
            pixels = _frames_memory(source, output.shape(*index.stream.displayed))
            with naming(source):
                writer_of(shown, index, picture_name(source, int(index.frame_packet[ordinal])))(output, pixels)
            yield ordinal, fresh, pixels

    def lacks(
        self, source: MediaSource, index: FrameIndex, ordinals: IntArray, output: OutputSpec
    ) -> npt.NDArray[np.bool_]:
        """Find the frames that the cache lacks, bool [N]; frames of a changed source count as lacking.

        Nothing is decoded.

        Args:
            source: The source.
            index: Index of the source.
            ordinals: Frames to look up, int64 [N].
            output: Size, crop and dimension order of the pixels.

        Raises:
            ResourceExhausted: Memory or file descriptors ran out, so the cache cannot be read.
        """
        form, evidence = self._form_of(index, [output]), Evidence(source, index)
        if index.identity is None or (form == "output" and not _is_kept(output, index)):
            return np.ones(len(ordinals), dtype=np.bool_)
        layout = None if form == "planes" else output_layout(output, *index.stream.displayed)
        shelf = self._shelf(index, evidence, form, None if form == "planes" else output)
        return try_again_in_shortage(lambda: shelf.lacks(ordinals, layout), source.name, "cache")

    def close(self) -> None:
        """Close the other decoder; the cache stays open."""
        self._inner.close()

    def recipe(self, index: FrameIndex) -> str:
        """Return the recipe of the other decoder."""
        return recipe_of(self._inner, index)

    def _form_of(self, index: FrameIndex, outputs: Sequence[OutputSpec]) -> Form:
        able = gives_frames(self._inner, index)
        if self._form is None:
            return "planes" if able and any(output.size is None for output in outputs) else "output"
        if self._form == "output" or able:
            return self._form
        raise without_planes(self._inner)

    def _shelf(self, index: FrameIndex, evidence: Evidence, form: Form, output: OutputSpec | None) -> Shelf:
        assert index.identity is not None
        recipe = Recipe(form, output, recipe_of(self._inner, index), self._keeper.pixels)
        return Shelf(self._keeper, key_of(index.identity, index.stream, recipe), index, evidence)


def _frames_memory(source: MediaSource, shape: Sequence[int]) -> Pixels:
    return new_pixels(shape, f"{source.name}: frames {list(shape)}", source=source.name)


def _is_known(index: FrameIndex, slots: Sequence[ClipSlot]) -> bool:
    """Whether the index has every frame; where it does not, the other decoder complains."""
    # Negative numbers are large ones without a sign.
    return all(not len(slot.indices) or slot.indices.view(np.uint64).max() < len(index) for slot in slots)


def _is_kept(output: OutputSpec, index: FrameIndex) -> bool:
    """Whether pixels of a form are of a size that is kept."""
    try:
        return output_layout(output, *index.stream.displayed).nbytes > 0
    except UsageError:
        return False


def _stamps_if_known(evidence: Evidence, stretch: range) -> WordArray | None:
    """Stamp the files of consecutive frames; None where something ran out."""
    try:
        return evidence.lasting_stamps(np.arange(stretch.start, stretch.stop))
    except OSError as error:
        if shortage_in(error) is None:
            raise
        return None


def _by_output(slots: Sequence[ClipSlot]) -> dict[OutputSpec, list[tuple[int, ClipSlot]]]:
    """Slots with their numbers, by the form of their pixels."""
    grouped: dict[OutputSpec, list[tuple[int, ClipSlot]]] = {}
    for number, slot in enumerate(slots):
        grouped.setdefault(slot.output, []).append((number, slot))
    return grouped


class _OutputCall:
    """Clips of one source in one form, stored in that form."""

    def __init__(self, inner: Decoder, shelf: Shelf, of: tuple[MediaSource, FrameIndex]) -> None:
        self._inner = inner
        self._shelf = shelf
        self._source, self._index = of

    def decode(self, numbered: list[tuple[int, ClipSlot]], report: DecodeReport, evidence: Evidence) -> None:
        """Fill slots, and note their errors under their numbers in the report."""
        layout = output_layout(numbered[0][1].output, *self._index.stream.displayed)
        wanted: list[tuple[int, ClipSlot, npt.NDArray[np.bool_]]] = []
        for number, slot in numbered:
            missing = np.ones(len(slot.indices), dtype=np.bool_)
            if slot.out.nbytes == layout.nbytes * len(slot.indices):
                self._serve(slot, missing, layout)
            absent = int(np.count_nonzero(missing))
            report.counts.frames_cached += len(missing) - absent
            report.counts.frames_delivered += len(missing) - absent
            if absent:
                wanted.append((number, slot, missing))
        self._fill(wanted, (layout, evidence), report)

    def _serve(self, slot: ClipSlot, missing: npt.NDArray[np.bool_], layout: PlaneLayout) -> None:
        """Write the frames that the cache has, and strike them from what is missing."""
        if not self._shelf.asks_memory:
            missing[self._shelf.take_straight(slot.indices, layout, slot.out)] = False
        places = np.flatnonzero(missing)
        if not len(places):
            return
        ordinals, targets = slot.indices[places], [slot.out[place].reshape(-1) for place in places.tolist()]
        served = self._shelf.take(ordinals, targets, layout)
        for place, target, frame in zip(places.tolist(), targets, served, strict=True):
            if frame is None:
                continue
            try:
                if frame.data is not None:
                    codec_labelled(frame.kind.codec).decode(frame.data, layout, target)
                missing[place] = False
            except (BrokenFrame, UsageError):
                self._shelf.refuse(int(slot.indices[place]))

    def _fill(
        self,
        wanted: list[tuple[int, ClipSlot, npt.NDArray[np.bool_]]],
        facts: tuple[PlaneLayout, Evidence],
        report: DecodeReport,
    ) -> None:
        """Have the missing frames decoded and stored."""
        if not wanted:
            return
        layout, evidence = facts
        partial = [_slot_of(slot, missing) for _, slot, missing in wanted]
        stamps = [evidence.lasting_stamps(slot.indices) for slot in partial]
        done = self._inner.decode(self._source, self._index, partial)
        report.counts += done.counts
        seen: set[int] = set()
        for (number, whole, missing), slot, stamp, error in zip(wanted, partial, stamps, done.errors, strict=True):
            report.errors[number] = error
            if error is None:
                report.counts.frames_stored += self._store(slot, (stamp, layout), seen)
                _spread(slot, whole, missing)

    def _store(self, slot: ClipSlot, facts: tuple[WordArray, PlaneLayout], seen: set[int]) -> int:
        stamps, layout = facts
        numbered = enumerate(slot.indices.tolist())
        frames = [self._shelf.settled(Fresh(i, layout, slot.out[place].reshape(-1))) for place, i in numbered]
        new = [place for place, frame in enumerate(frames) if _is_first(frame.ordinal, seen)]
        return self._shelf.put([frames[place] for place in new], stamps[new])


def _is_first(ordinal: int, seen: set[int]) -> bool:
    if ordinal in seen:
        return False
    seen.add(ordinal)
    return True


def _slot_of(slot: ClipSlot, missing: npt.NDArray[np.bool_]) -> ClipSlot:
    """The slot itself where all of it is missing, else one for what is missing, each frame once."""
    if missing.all():
        return slot
    ordinals = np.unique(slot.indices[missing])
    return ClipSlot(ordinals, slot.output, np.empty((len(ordinals), *slot.out.shape[1:]), dtype=np.uint8))


def _spread(part: ClipSlot, whole: ClipSlot, missing: npt.NDArray[np.bool_]) -> None:
    """Copy frames that were decoded apart to their places."""
    if part is whole:
        return
    places = np.searchsorted(part.indices, whole.indices[missing])
    for place, at in zip(np.flatnonzero(missing).tolist(), places.tolist(), strict=True):
        whole.out[place] = part.out[at]


def _is_regular(layout: PlaneLayout, index: FrameIndex) -> bool:
    """Whether a picture is of its stream's size, and its pixels follow from its planes.

    Of other sizes there are too few to remember, and none to be believed.
    """
    stream = index.stream
    height, width = stream.displayed if holds_pictures(index) else (stream.height, stream.width)
    return (layout.height, layout.width) == (height, width) and layout.is_convertible and layout.is_settled


def _kept_planes(shelf: Shelf, index: FrameIndex, ordinal: int, picture: Any) -> tuple[Fresh | None, Any]:
    """Copy the planes of a picture that are to be stored, if they are; give the picture to be shown too."""
    try:
        layout = layout_of(picture)
    except UsageError:  # larger than what is kept
        return None, picture
    if not _is_regular(layout, index):
        return None, picture
    planes = new_memory(layout.nbytes)
    copy_planes(picture, planes)
    frame = shelf.settled(Fresh(ordinal, layout, planes))
    return shelf.encoded(frame), picture if frame.data is None else picture_of(layout, planes)


class _PlanesCall:
    """Clips of one source, from planes."""

    def __init__(self, inner: Decoder, shelf: Shelf, of: tuple[MediaSource, FrameIndex]) -> None:
        self._inner = inner
        self._shelf = shelf
        self._source, self._index = of

    def decode(self, slots: Sequence[ClipSlot], evidence: Evidence) -> DecodeReport:
        """Fill slots."""
        report = DecodeReport(errors=[None] * len(slots))
        places = Places(slots, report, self._source)
        self._serve(places, report.counts)
        missing = np.array(places.waiting, dtype=np.int64)
        if len(missing):
            report.counts.frames_stored += self._fill(missing, places, report.counts, evidence)
        for number in places.slots_waiting():
            # Asked again for these clips alone, the decoder says best what is wrong with them.
            again = self._inner.decode(self._source, self._index, [slots[number]])
            report.errors[number] = again.errors[0]
            report.counts += again.counts
        return report

    def _serve(self, places: Places, counts: DecodeCounts) -> None:
        waiting = places.waiting
        for ordinal, frame in zip(waiting, self._shelf.take(np.array(waiting, dtype=np.int64)), strict=True):
            if frame is None or frame.data is None:
                continue
            try:
                layout = PlaneLayout.parse(frame.kind.layout)
                if not _is_regular(layout, self._index):
                    raise BrokenFrame(f"a picture of {layout.text} in this stream")
                picture = picture_of(layout, codec_labelled(frame.kind.codec).decoded(frame.data, layout))
            except (BrokenFrame, UsageError):
                self._shelf.refuse(ordinal)
                continue
            before = counts.frames_delivered
            places.fill(ordinal, self._writer(picture, ordinal))
            counts.frames_cached += counts.frames_delivered - before

    def _fill(self, missing: IntArray, places: Places, counts: DecodeCounts, evidence: Evidence) -> int:
        stamps = dict(zip(missing.tolist(), evidence.lasting_stamps(missing).tolist(), strict=True))
        stored, fresh = 0, list[Fresh]()
        frames: Iterator[tuple[int, Any]] = self._inner.frames(  # type: ignore[attr-defined]
            self._source, self._index, missing, counts
        )
        for ordinal, picture in frames:
            frame, shown = _kept_planes(self._shelf, self._index, ordinal, picture)
            if frame is not None:
                if fresh and (fresh[0].layout != frame.layout or len(fresh) * frame.layout.nbytes > _PUT_BYTES):
                    stored += self._put(fresh, stamps)
                    fresh = []
                fresh.append(frame)
            places.fill(ordinal, self._writer(shown, ordinal))
        return stored + self._put(fresh, stamps)

    def _put(self, fresh: list[Fresh], stamps: dict[int, int]) -> int:
        return self._shelf.put(fresh, np.array([stamps[frame.ordinal] for frame in fresh], dtype=np.uint64))

    def _writer(self, picture: Any, ordinal: int) -> Any:
        name = picture_name(self._source, int(self._index.frame_packet[ordinal]))
        return writer_of(picture, self._index, name)

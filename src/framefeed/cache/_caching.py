"""CachingDecoder: a decoder that stores what another decoder decoded, and reads it from the cache the next time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from framefeed._arrays import IntArray, WordArray
from framefeed.cache._clips import copy_planes_to_store, decode_outputs, decode_planes, list_targets
from framefeed.cache._keys import Form, Recipe, SourceCheck, StreamKey, find_key_facts, hash_stamp, make_key, read_stamp
from framefeed.cache._state import CacheState
from framefeed.cache._stream_frames import NewFrame, StreamFrames, number_frames
from framefeed.cache._whole_clips import RawFrames, read_raw_frames
from framefeed.decode import (
    BaseDecoder,
    ClipSlot,
    DecodeCounts,
    Decoder,
    DecodeReport,
    Pixels,
    PlaneLayout,
    SourceClips,
    adapt_decoder,
    allocate_pixels,
    make_output_layout,
    make_writer,
    name_picture,
    write_frame,
)
from framefeed.errors import FramefeedError, ResourceExhausted, UsageError
from framefeed.index import FrameIndex
from framefeed.media import FileStamp, MediaSource
from framefeed.parallel import find_shortage, try_again_in_shortage
from framefeed.request import OutputSpec

_READ_AHEAD = 16
"""Frames that are looked up, or stored, together if a source is read in order."""


class CachingDecoder(BaseDecoder):
    """Read frames from a cache if it has them; else decode them with another decoder, and store them.

    With an exact codec, the pixels are bit for bit those of the other decoder. With a lossy codec, every frame has the
    pixels of a stored frame, also when it was just decoded. Errors are those of the other decoder; a frame that fails
    is never stored. Sources that cannot be identified by their contents, and frames whose packet is unknown, are
    decoded and not stored. If memory or file descriptors run out while the cache is read, frames are decoded and not
    stored; with a lossy codec, ``ResourceExhausted`` is raised instead.

    ``ff.FrameCache.decoder`` makes one.

    Args:
        inner: The other decoder.
        state: State of the cache in this process.
        form: "output" stores the requested pixels; "planes" stores the decoder's own pictures at full size, from which
            any crop and size can be made; None stores planes where whole pictures are requested.

    Raises:
        UsageError: Raised by ``decode``: form="planes" with a decoder that has no method ``iter_native``.
    """

    name = "cached"

    def __init__(self, inner: Decoder, state: CacheState, form: Form | None = None) -> None:
        self._inner = adapt_decoder(inner)
        self._state = state
        self._form = form
        self._counts_reads = True

    def __repr__(self) -> str:
        return f"CachingDecoder({self._inner.name!r}, form={self._form!r}, {self._state.options.path!r})"

    def without_counting(self) -> CachingDecoder:
        """Return the same decoder for a build, which counts no hits and no misses."""
        other = CachingDecoder(self._inner, self._state, self._form)
        other._counts_reads = False
        return other

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        """Read the clips of one source from the cache, and decode what it lacks; see ``Decoder.decode``."""
        # The other decoder raises the error.
        has_all = all(_are_below(slot.indices, len(index)) for slot in slots)
        if index.identity is None or not slots or not has_all:
            return self._inner.decode(source, index, slots)
        if any(slot.accepts_damaged for slot in slots):
            intact, damaged = _group(slots, lambda slot: slot.accepts_damaged, (False, True))
            return _decode_apart(source, index, slots, [(self, intact), (self._inner, damaged)])
        by_output: dict[OutputSpec, dict[int, ClipSlot]] = {}
        for number, slot in enumerate(slots):
            by_output.setdefault(slot.output, {})[number] = slot
        form = self._choose_form(index, list(by_output))
        if form == "output" and not all(_can_store(output, index) for output in by_output):
            return self._inner.decode(source, index, slots)
        if form == "planes" and len(reductions := {self._reduce(index, output) for output in by_output}) > 1:
            groups = _group(slots, lambda slot: self._reduce(index, slot.output), sorted(reductions))
            return _decode_apart(source, index, slots, [(self, numbers) for numbers in groups])
        source.check_identity(index.identity)

        def decode_with_cache() -> DecodeReport:
            open_frames = partial(self._open_frames, source, index, form)
            if form == "planes":
                return decode_planes(self._inner.for_output(index, slots[0].output), open_frames, slots)
            return decode_outputs(self._inner, open_frames, by_output, len(slots))

        def decode_without_cache(resource: str) -> DecodeReport:
            self._state.shortage = resource
            return self._inner.decode(source, index, slots)

        # Frames of a lossy codec differ from those of the other decoder.
        fallback = None if self._state.is_lossy else decode_without_cache
        report = try_again_in_shortage(decode_with_cache, source.name, "cache", fallback)
        if self._counts_reads:
            requested, cached = sum(len(slot.indices) for slot in slots), report.counts.frames_cached
            self._state.count(frames_hit=cached, frames_missed=requested - cached)
        return report

    def read_ready(self, clips: Iterable[SourceClips]) -> list[DecodeReport | None]:
        """Read clips that are stored raw and whole; see ``BaseDecoder.read_ready``."""
        options = self._state.options
        # With these, frames are looked up or compared in more than one way.
        if not self._state.has_raw or options.strict or options.memory_bytes or self._state.is_lossy:
            return [None for _ in clips]
        reports: list[DecodeReport | None] = []
        by_layout: dict[PlaneLayout, dict[int, RawFrames]] = {}
        for each in clips:
            with suppress(FramefeedError):  # ``decode`` raises it again.
                if (asked := self._find_raw_frames(*each)) is not None:
                    by_layout.setdefault(asked[0], {})[len(reports)] = asked[1]
            reports.append(None)
        for layout, frames_of in by_layout.items():
            for number in self._read_raw_frames(layout, frames_of):
                num_read = len(frames_of[number].numbers)
                errors: list[FramefeedError | None] = [None] * frames_of[number].num_clips
                reports[number] = DecodeReport(errors, DecodeCounts(frames_cached=num_read, frames_delivered=num_read))
                if self._counts_reads:
                    self._state.count(frames_hit=num_read)
        return reports

    def list_ranges(self, index: FrameIndex, ordinals: IntArray, output: OutputSpec) -> list[tuple[int, int]]:
        """List the bytes that the other decoder reads, if the cache lacks a frame; see ``BaseDecoder.list_ranges``."""
        if index.identity is not None:
            key = self._make_key(index, self._choose_form(index, [output]), output)
            with suppress(OSError, MemoryError, FramefeedError):  # ``decode`` raises it again.
                if self._state.store.find(key.digest, number_frames(index, ordinals)).is_there.all():
                    return []
        return self._inner.list_ranges(index, ordinals, output)

    def _read_raw_frames(self, layout: PlaneLayout, frames_of: Mapping[int, RawFrames]) -> list[int]:
        """Read frames; list the numbers of the sources that the cache had whole."""
        try:
            are_read = read_raw_frames(self._state, layout, list(frames_of.values()))
        except (OSError, MemoryError, FramefeedError) as error:
            if not isinstance(error, FramefeedError) and find_shortage(error) is None:
                raise
            return []  # ``decode`` tries again.
        return [number for number, is_read in zip(frames_of, are_read, strict=True) if is_read]

    def _find_raw_frames(
        self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]
    ) -> tuple[PlaneLayout, RawFrames] | None:
        """Find what must be stored for the clips of a source; None if they are left to ``decode``."""
        output = slots[0].output
        if index.identity is None or source.local_path is None or self._choose_form(index, [output]) != "output":
            return None
        layout = make_output_layout(output, *index.stream.displayed)
        nbytes, targets = layout.nbytes, list[memoryview]()
        for slot in slots:
            clip = slot.out
            # Most have the same object, which takes less time to see than that two are equal.
            is_alike = slot.output is output or slot.output == output
            if slot.accepts_damaged or not is_alike or clip.nbytes != nbytes * len(slot.indices):
                return None
            targets += list_targets(clip, nbytes)
        ordinals = slots[0].indices if len(slots) == 1 else np.concatenate([slot.indices for slot in slots])
        if not len(ordinals) or not _are_below(ordinals, len(index)):
            return None
        stamp = source.check_identity(index.identity)
        key = self._make_key(index, "output", output)
        # The key of a part of a file is none: then the file is asked again.
        file_stamp = hash_stamp(stamp) if isinstance(stamp, FileStamp) else read_stamp(source.local_path)
        numbers, check = number_frames(index, ordinals), SourceCheck(source, index)
        return layout, RawFrames(key.digest, numbers, file_stamp, check, targets, len(slots))

    def iter_rgb(
        self, source: MediaSource, index: FrameIndex, ordinals: Sequence[int], output: OutputSpec
    ) -> Iterator[tuple[int, Pixels]]:
        """Yield (ordinal, pixels) of frames, each in new memory; see ``BaseDecoder.iter_rgb``.

        Frames that the cache lacks are decoded in order, up to the next frame that it has.
        """
        numbers = np.asarray(ordinals, np.int64)
        for run in np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1):
            start, stop = (int(run[0]), int(run[-1]) + 1) if len(run) else (0, 0)
            while start < stop:
                part = range(start, min(start + _READ_AHEAD, stop))
                if self._has_all(source, index, part, output) is False:
                    start = yield from self._decode_in_order(source, index, range(start, stop), output)
                else:
                    yield from self._decode_together(source, index, part, output)
                    start = part.stop

    def _has_all(self, source: MediaSource, index: FrameIndex, part: range, output: OutputSpec) -> bool | None:
        """Whether the cache has some frames; None if a resource ran out, so that this is unknown."""
        if not part:
            return False
        try:
            return not self.find_missing(source, index, np.arange(part.start, part.stop), output).any()
        except ResourceExhausted:
            return None

    def _decode_together(
        self, source: MediaSource, index: FrameIndex, part: range, output: OutputSpec
    ) -> Iterator[tuple[int, Pixels]]:
        memory = _allocate_frames(source, (len(part), 1, *output.shape(*index.stream.displayed)))
        slots = [ClipSlot(np.array([i], dtype=np.int64), output, clip) for i, clip in zip(part, memory, strict=True)]
        report = self.decode(source, index, slots)
        for ordinal, slot, error in zip(part, slots, report.errors, strict=True):
            if error is None:
                yield ordinal, slot.out[0]

    def _decode_in_order(
        self, source: MediaSource, index: FrameIndex, ordinals: range, output: OutputSpec
    ) -> Generator[tuple[int, Pixels], None, int]:
        """Decode and store until the cache has the frames that follow; return the next ordinal."""
        form = self._choose_form(index, [output])
        check = SourceCheck(source, index)
        stamps = None if index.identity is None else _read_stamps_if_possible(check, ordinals)
        if stamps is None or not self._inner.can_iter_rgb(index) or not _can_store(output, index):
            yield from self._decode_together(source, index, ordinals[:_READ_AHEAD], output)
            return ordinals.start + len(ordinals[:_READ_AHEAD])
        frames = self._open_frames(source, index, form, output)
        new: list[NewFrame] = []
        for ordinal, frame, pixels in self._decode_each(frames, ordinals, output):
            self._state.count(frames_missed=1)
            new += [frame] if frame is not None else []
            is_full = len(new) == _READ_AHEAD
            if is_full or ordinal == ordinals[-1]:
                # Before the frame is yielded: after the last one the caller may not ask for another.
                frames.store(new, stamps[[each.ordinal - ordinals.start for each in new]])
                new = []
            yield ordinal, pixels
            following = ordinals[ordinal + 1 - ordinals.start :][:_READ_AHEAD]
            if is_full and self._has_all(source, index, following, output) is not False:
                return ordinal + 1
        frames.store(new, stamps[[each.ordinal - ordinals.start for each in new]])
        return ordinals.stop

    def _decode_each(
        self, frames: StreamFrames, ordinals: range, output: OutputSpec
    ) -> Iterator[tuple[int, NewFrame | None, Pixels]]:
        """Yield (ordinal, frame to store, pixels) as the other decoder gives them."""
        source, index = frames.source, frames.index
        if frames.form == "output":
            layout = make_output_layout(output, *index.stream.displayed)
            for ordinal, pixels in self._inner.iter_rgb(source, index, ordinals, output):
                frame = frames.apply_loss(NewFrame(ordinal, layout, pixels.reshape(-1)))
                # A copy is stored: the pixels belong to the caller, who may write to them before that.
                yield ordinal, replace(frame, planes=frame.planes.copy()), pixels
            return
        for ordinal, picture in self._inner.for_output(index, output).iter_native(source, index, ordinals):
            new, shown = copy_planes_to_store(frames, ordinal, picture)
            pixels = _allocate_frames(source, output.shape(*index.stream.displayed))
            write = make_writer(shown, index, name_picture(source, int(index.frame_packet[ordinal])))
            write_frame(write, output, pixels, source)
            yield ordinal, new, pixels

    def find_missing(
        self, source: MediaSource, index: FrameIndex, ordinals: IntArray, output: OutputSpec
    ) -> npt.NDArray[np.bool_]:
        """Find the frames that the cache lacks, bool [N]; frames of a changed source count as lacking.

        Nothing is decoded.

        Raises:
            ResourceExhausted: Memory or file descriptors ran out, so the cache cannot be read.
        """
        form = self._choose_form(index, [output])
        if index.identity is None or (form == "output" and not _can_store(output, index)):
            return np.ones(len(ordinals), dtype=np.bool_)
        layout = None if form == "planes" else make_output_layout(output, *index.stream.displayed)
        frames = self._open_frames(source, index, form, output)
        return try_again_in_shortage(lambda: frames.find_missing(ordinals, layout), source.name, "cache")

    def close(self) -> None:
        """Close the other decoder; the cache stays open."""
        self._inner.close()

    def recipe(self, index: FrameIndex) -> str:
        """Return the recipe of the other decoder."""
        return self._inner.recipe(index)

    def _choose_form(self, index: FrameIndex, outputs: Sequence[OutputSpec]) -> Form:
        if self._form == "output":
            return self._form
        has_planes = self._inner.can_iter_native(index)
        if self._form is None:
            return "planes" if has_planes and any(output.size is None for output in outputs) else "output"
        if has_planes:
            return self._form
        if self._state.options.form == "auto":  # planes suit the plan, and this decoder gives none
            return "output"
        raise UsageError(
            f'form="planes" needs a decoder that gives pictures before their conversion (method iter_native), which '
            f'{self._inner.name!r} does not: use form="output", or backend="auto"'
        )

    def _open_frames(self, source: MediaSource, index: FrameIndex, form: Form, output: OutputSpec) -> StreamFrames:
        key = self._make_key(index, form, output)
        return StreamFrames(self._state, key, SourceCheck(source, index), form, self._reduce(index, output))

    def _make_key(self, index: FrameIndex, form: Form, output: OutputSpec) -> StreamKey:
        assert index.identity is not None
        decoder = self._inner.for_output(index, output).recipe(index)
        recipe = Recipe(form, None if form == "planes" else output, decoder, self._state.pixels)
        return make_key(index.identity, find_key_facts(index), recipe)

    def _reduce(self, index: FrameIndex, output: OutputSpec) -> int:
        return self._inner.for_output(index, output).reduction


def _group(slots: Sequence[ClipSlot], key: Callable[[ClipSlot], int], values: Sequence[int]) -> list[list[int]]:
    """List the numbers of the slots of each value of a key."""
    return [[number for number, slot in enumerate(slots) if key(slot) == value] for value in values]


def _decode_apart(
    source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot], groups: Iterable[tuple[BaseDecoder, list[int]]]
) -> DecodeReport:
    """Decode each group of slots, given by their numbers, with a decoder of its own."""
    report = DecodeReport(errors=[None] * len(slots))
    for decoder, numbers in groups:
        if numbers:
            part = decoder.decode(source, index, [slots[number] for number in numbers])
            report.counts += part.counts
            for number, error in zip(numbers, part.errors, strict=True):
                report.errors[number] = error
    return report


def _allocate_frames(source: MediaSource, shape: Sequence[int]) -> Pixels:
    return allocate_pixels(shape, f"{source.name}: frames {list(shape)}", source=source.name)


def _are_below(ordinals: IntArray, count: int) -> bool:
    """Whether none is negative, or beyond the last of so many frames."""
    if len(ordinals) == 1:
        return 0 <= int(ordinals[0]) < count
    # Viewed without a sign, negative numbers are large ones.
    return not len(ordinals) or int(ordinals.view(np.uint64).max()) < count


def _can_store(output: OutputSpec, index: FrameIndex) -> bool:
    """Whether frames of this output are small enough to be stored."""
    try:
        return make_output_layout(output, *index.stream.displayed).nbytes > 0
    except UsageError:
        return False


def _read_stamps_if_possible(check: SourceCheck, ordinals: range) -> WordArray | None:
    """Stamp the files of consecutive frames; None if a resource ran out."""
    try:
        return check.read_stamps(np.arange(ordinals.start, ordinals.stop), are_lasting=True)
    except OSError as error:
        if find_shortage(error) is None:
            raise
        return None

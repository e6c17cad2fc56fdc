"""What decoders by other libraries have in common: what each can do, open files, times compared, errors, output kept.

Such a library ("engine") finds frames by itself, and some find others than were asked for. So:
    - What an engine cannot do, or does wrongly without a sign, is declared (`EngineFacts`) and refused before it opens.
    - Where an engine tells the time of each picture, the picture is taken only if no other frame of the index is nearer
      to that time. An engine that counts the frames of the file must count as many as the index has.
Frames come at full size as RGB; crop and resize are the recipe of ``decode._convert``, as for still pictures.

What an engine prints belongs to its errors, not on the user's terminal. An engine with a log level is silenced by it.
Where it prints all the same, standard error (file descriptor 2) leads to memory for the time of a call, under one lock:
while a file is opened, and while frames are read of a file that printed then, or again after a failure. In 420 files,
no engine printed otherwise. Lines of others that come in that time are written on when the call ends.
"""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NoReturn, Protocol

import numpy as np
from av.video.frame import VideoFrame

from framefeed._per_process import PerProcess, keep_forever
from framefeed._shortage import collect_and_release, find_shortage, make_shortage_error, try_again_in_shortage
from framefeed._values import DEFAULT_LIMITS, Limits
from framefeed.decode._convert import describe_conversion
from framefeed.decode._decoder import BaseDecoder, ClipSlot, DecodeCounts, DecodeReport, Pixels
from framefeed.decode._registry import check_kind, find_decoder
from framefeed.decode._slots import PendingFrames, get_thread_converter, make_missing_error
from framefeed.decode.backends._engine_facts import EngineFacts
from framefeed.decode.backends._pyav_pools import IdlePool
from framefeed.decode.backends._standard_error import keeping_output
from framefeed.errors import CorruptMedia, FormatChanged, FrameNotFound, MediaError, UnsupportedCodec
from framefeed.index import FrameIndex, StreamFacts
from framefeed.media import MediaSource, VideoContainer, bound_picture_bytes, is_memory_there
from framefeed.request import OutputSpec

# Idle open files of a process, of all engines together, and pixels of one picture of each, summed: of a 4K video, an
# engine keeps about 100 MB.
MAX_FILES, MAX_FILE_PIXELS = 8, 2**23
PROGRESSIVE, UNKNOWN_ORDER = 1, 0
"""libav's AVFieldOrder."""
PARAMETER_SETS = frozenset({"h264", "hevc"})
"""Codecs whose pictures have the size that their parameter sets say."""
_LINES = 3
_NO_MEMORY = re.compile(
    r"bad_alloc|[Cc]annot allocate|[Cc]an't allocate|out of memory|not enough memory|[Ii]nsufficient memory|"
    r"[Ff]ailed to allocate|[Ff]ailed to create.*buffer|buffer sink context|aten::empty"
)
"""What engines say where memory ran out."""
_DESCRIPTORS = 4
"""Descriptors that are open, or were, while an engine opens a file: its own, and those that keep standard error."""


@dataclass(slots=True)
class Picture:
    """One picture of an engine."""

    ordinal: int
    pixels: Pixels  # RGB, uint8 [H, W, 3]; valid until the next one is requested
    seconds: float | None = None  # None if the engine tells no times


class EngineFile(Protocol):
    """A file that an engine has opened, and the frames that the engine counted in it."""

    num_frames: int

    def read(self, ordinals: Sequence[int]) -> Iterator[Picture]:
        """Yield the pictures of distinct, ascending ordinals, up to an EngineFailure."""

    def close(self) -> None: ...


class EngineFailure(Exception):
    """An engine could not give frames; the message is the engine's."""


class NotOpened(EngineFailure):
    """An engine could not open a file."""


class EngineDecoder(BaseDecoder):
    """Decode with another library, in the calling thread; open files are kept for the next call of any thread.

    A subclass has ``name``, ``facts``, and ``open_file``.
    """

    facts: EngineFacts
    # Bytes of the pictures that the engine is asked for at once. glibc keeps freed blocks of up to 32 MiB for the next
    # call; for larger ones it asks the system, and touching them the first time takes longer than copying them.
    batch_bytes = 2**24

    def __init__(self, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self.limits = limits

    def open_file(self, source: MediaSource, index: FrameIndex) -> EngineFile:
        """Open a source with the engine, or raise NotOpened."""
        raise NotImplementedError

    def set_loud(self, loud: bool) -> None:
        """Let the engine print, or silence it, if it has a log level."""

    @contextmanager
    def listening(self, *, loud: bool, keeps: bool) -> Iterator[list[str]]:
        """Call the engine in the block, ``loud`` or silenced if it can be.

        Give a list, which has what it printed after the block, if that ``keeps`` it.
        """
        if not keeps:
            self.set_loud(False)
            yield []
            return
        with keeping_output() as lines:
            try:
                self.set_loud(loud)
                yield lines
            finally:
                self.set_loud(False)

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        check_kind(self, index, source.name)
        if index.stream.is_proxy:
            raise UnsupportedCodec(
                f"{source.name}: is a proxy, which has the times of its original, and {self.facts.library} knows those "
                "of the file alone: use backend='pyav'",
                source=source.name,
                stage="open",
            )
        self.facts.check(source, index)
        self.limits.check_picture(index.stream.width, index.stream.height, source.name)
        report, source = DecodeReport(errors=[None] * len(slots)), source.with_limits(self.limits)
        for with_damage in sorted({slot.accepts_damaged for slot in slots}):
            numbers = [number for number, slot in enumerate(slots) if slot.accepts_damaged == with_damage]
            pending = PendingFrames(slots, report, source, numbers)
            ordinals = np.array(sorted(pending.waiting), dtype=np.int64)
            if len(ordinals) and not 0 <= ordinals[0] <= ordinals[-1] < len(index):
                bad = ordinals[0] if ordinals[0] < 0 else ordinals[-1]
                raise FrameNotFound(f"{source.name}: there is no frame {bad}: the index has {len(index)} frames")
            if index.num_damaged_frames and not with_damage:
                ordinals = ordinals[~index.is_damaged(ordinals)]
            call = _Call(self, source, index, pending, report.counts)
            try_again_in_shortage(partial(call.read, ordinals.tolist()), source.name, "decode")
            for slot, missing in pending.slots_waiting().items():
                report.errors[slot] = call.make_error(missing)
        return report

    def recipe(self, index: FrameIndex) -> str:
        return f"{self.name}, {self.describe_versions()}, {describe_conversion()}"

    def describe_versions(self) -> str:
        """Name the engine's libraries with their versions."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the idle files of all engines."""
        _FILES.value.release_idle()


@dataclass(slots=True)
class _Call:
    """One call of ``EngineDecoder.decode``, for slots that accept damage alike."""

    decoder: EngineDecoder
    source: MediaSource
    index: FrameIndex
    pending: PendingFrames
    counts: DecodeCounts
    failed: dict[int, tuple[type[MediaError], str]] = field(default_factory=dict)  # frames that did not come, and why

    @property
    def library(self) -> str:
        return self.decoder.facts.library

    def read(self, ordinals: list[int]) -> None:
        """Read frames, and write them to their slots; those that a call before has written are left out."""
        waiting = set(self.pending.waiting)
        ordinals = [ordinal for ordinal in ordinals if ordinal in waiting]
        if not ordinals:
            return
        key = self.source.check_identity(self.index.identity)
        height, width = self.index.stream.displayed
        most = max(1, self.decoder.batch_bytes // (3 * height * width))
        for start in range(0, len(ordinals), most):
            self._read_some(key, ordinals[start : start + most], again=False)
        # If the file was replaced while it was read, the data belong to neither file (D09).
        self.source.check_identity(self.index.identity)

    def _drop_other_sizes(self, ordinals: list[int], sizes: dict[int, tuple[int, int]]) -> list[int]:
        """Fail the frames whose key frame has another size than the stream; return the others.

        ``sizes`` are width and height of key frames, by ordinal; those that are decoded for this are added.
        """
        keys, stream = self.index.key_frame_indices, self.index.stream
        if stream.codec in PARAMETER_SETS and stream.contiguous and not stream.inband_parameters:
            return ordinals  # one set of parameters, with one size, serves all
        keys = keys if len(keys) else np.zeros(1, dtype=np.int64)
        starts = keys[np.maximum(np.searchsorted(keys, ordinals, "right") - 1, 0)].tolist()
        size = (stream.width, stream.height)
        if unknown := sorted(set(starts) - sizes.keys()):
            reference = find_decoder("pyav", self.decoder.limits)
            key_frames = reference.iter_native(self.source, self.index, unknown)
            sizes |= {ordinal: (frame.width, frame.height) for ordinal, frame in key_frames}
        others = {ordinal for ordinal, start in zip(ordinals, starts, strict=True) if sizes.get(start, size) != size}
        for ordinal in others:
            reason = f"its picture has another size than {size[0]}x{size[1]}, to which {self.library} would bring it"
            self.failed[ordinal] = FormatChanged, reason
        return [ordinal for ordinal in ordinals if ordinal not in others]

    def _read_some(self, key: Hashable, ordinals: list[int], *, again: bool) -> None:
        """Read frames in one call of the engine; after a failure, each half again with the file opened anew."""
        done: set[int] = set()
        reason, lines = "", list[str]()
        try:
            with self._opening(key, again=again) as opened:
                if self.decoder.facts.one_size:
                    ordinals = self._drop_other_sizes(ordinals, opened.sizes)
                with self.decoder.listening(loud=again, keeps=again or opened.prints) as lines:
                    for picture in opened.file.read(ordinals) if ordinals else ():
                        done.add(picture.ordinal)
                        self._take(picture)
            return
        except NotOpened as error:
            reason = str(error)
            if again and self._find_shortage(reason) is None:
                self._refuse(f"cannot open it: {reason}", error)
        except EngineFailure as error:
            reason = in_one_line([str(error), *lines])
        resource = self._find_shortage(reason)
        if resource is not None:
            if again:
                raise make_shortage_error(resource, self.source.name, f"decode by {self.library}: {reason}")
            collect_and_release()
        left = [ordinal for ordinal in ordinals if ordinal not in done]
        if again and len(left) == 1:
            self.failed[left[0]] = CorruptMedia, reason
            return
        middle = len(left) // 2 if again else len(left)
        for half in (left[:middle], left[middle:]):
            if half:
                self._read_some(key, half, again=True)

    def _find_shortage(self, reason: str) -> str | None:
        return find_engine_shortage(reason, bound_picture_bytes(self.decoder.limits))

    @contextmanager
    def _opening(self, key: Hashable, *, again: bool) -> Iterator[_Opened]:
        """Open the file, or take it from those that are idle; return it unless something is raised."""
        key = (self.decoder.name, key, self.index.stream.stream_index)
        idle = _FILES.value.take(key)
        if idle is None:
            idle = self._open(again=again)
            self.counts.opens += 1
            self.counts.contexts_made += 1
        try:
            yield idle
        except BaseException:
            idle.file.close()
            raise
        _FILES.value.give(key, idle)

    def _open(self, *, again: bool) -> _Opened:
        decoder, source, index = self.decoder, self.source, self.index
        facts = decoder.facts
        if not (facts.chooses_stream and facts.interlaced):
            with VideoContainer(source, None, decoder.limits) as container:
                is_only, order = container.is_only_video, int(container.decoder().field_order)
            if not facts.chooses_stream and not is_only:
                self._refuse(f"cannot be told to decode stream {index.stream.stream_index} of several, covers included")
            if not facts.interlaced and (order > PROGRESSIVE or (order == UNKNOWN_ORDER and self._is_interlaced())):
                self._refuse("does not convert interlaced pictures")
        lines: list[str] = []
        try:
            with decoder.listening(loud=again, keeps=True) as lines:
                opened = decoder.open_file(source, index)
        except NotOpened as error:
            raise NotOpened(in_one_line([str(error), *lines])) from error
        if facts.counts and opened.num_frames != len(index):
            opened.close()
            raise CorruptMedia(
                f"{source.name}: {facts.library} counts {opened.num_frames} frames where the index has {len(index)}, "
                "so its numbers are those of other frames: use backend='pyav'",
                source=source.name,
                stage="open",
            )
        return _Opened(opened, bool(lines), index.stream.height * index.stream.width)

    def _is_interlaced(self) -> bool:
        """Whether the first picture is interlaced."""
        reference = find_decoder("pyav", self.decoder.limits)
        return any(frame.interlaced_frame for _, frame in reference.iter_native(self.source, self.index, [0]))

    def _refuse(self, reason: str, cause: BaseException | None = None) -> NoReturn:
        name = self.source.name
        raise UnsupportedCodec(
            f"{name}: {self.library} {reason}: use backend='pyav', which decodes it", source=name, stage="open"
        ) from cause

    def _take(self, picture: Picture) -> None:
        """Compare a picture with the index, and write it to its slots."""
        ordinal, pixels, stream = picture.ordinal, picture.pixels, self.index.stream
        turns = self.decoder.facts.rotations is not None
        size = stream.displayed if turns else (stream.height, stream.width)
        if (reason := self._compare_times(picture)) is not None:
            self.failed[ordinal] = CorruptMedia, reason
        elif pixels.shape[:2] != size:
            rows, columns = pixels.shape[:2]
            reason = f"{self.library} gave a picture of {columns}x{rows} where the index has {size[1]}x{size[0]}"
            self.failed[ordinal] = FormatChanged, reason
        else:
            self.counts.frames_decoded += 1
            upright = replace(stream, width=size[1], height=size[0], rotation=0, mirrored=False)
            self.pending.fill(ordinal, partial(_write, pixels, upright if turns else stream))

    def _compare_times(self, picture: Picture) -> str | None:
        """Say why a picture's time is not that of the frame; None if it is, or if the engine tells none."""
        facts, index, ordinal = self.decoder.facts, self.index, picture.ordinal
        if facts.times is None or picture.seconds is None:
            return None
        origin = 0 if facts.times == "stream" else int(index.pts[0])
        around = index.pts[max(0, ordinal - 1) : ordinal + 2]
        nearest = int(np.diff(around).min()) if len(around) > 1 else 2 * index.step
        if not nearest:
            return f"another frame has the same time, and {self.library} cannot say which of them it gave"
        due = float((int(index.pts[ordinal]) - origin) * index.time_base)
        if abs(picture.seconds - due) < float(nearest * index.time_base) / 2:
            return None
        return f"{self.library} gave the picture of {picture.seconds:.6f} s for the frame at {due:.6f} s"

    def make_error(self, ordinals: Sequence[int]) -> MediaError:
        """Make the error of one slot, for frames that were not written to it."""
        name, known = self.source.name, [ordinal for ordinal in ordinals if ordinal in self.failed]
        if not known:
            return make_missing_error(self.source, self.index, ordinals)
        more = "" if len(ordinals) == 1 else f" and {len(ordinals) - 1} more"
        kind, said = self.failed[known[0]]
        by = "" if self.library in said else f"{self.library}: "
        message = f"{name}: frame {known[0]}{more}: {by}{said}: use backend='pyav'"
        if kind is FormatChanged:
            return FormatChanged(message, source=name, stage="decode")
        return CorruptMedia(message, frames=ordinals, source=name, stage="decode")


def _write(pixels: Pixels, stream: StreamFacts, output: OutputSpec, out: Pixels) -> None:
    """Write a picture as the engine gave it, of the stream's size; a turn is left to the conversion."""
    target = out if output.dimension_order == "NHWC" else out.transpose(1, 2, 0)
    is_stored = not stream.rotation and not stream.mirrored
    if is_stored and output.crop is None and target.shape == pixels.shape:
        target[:] = pixels
        return
    frame = VideoFrame.from_ndarray(np.ascontiguousarray(pixels), "rgb24")
    get_thread_converter().write(frame, stream, output, out)


def in_one_line(texts: Sequence[str]) -> str:
    """Write the first distinct lines of what an engine said on one line."""
    lines = [" ".join(line.split()) for text in texts for line in text.splitlines()]
    return "; ".join([line for line in dict.fromkeys(lines) if line][:_LINES])


def find_engine_shortage(text: str, most_bytes: int) -> str | None:
    """Name the resource that an engine lacked when it failed; None if it has another reason.

    FFmpeg says of absurd sizes in damaged headers, too, that memory ran out. It did not if as much is there as the
    limits allow a file to need.
    """
    if _NO_MEMORY.search(text) and not is_memory_there(most_bytes):
        return "memory"
    taken: list[int] = []
    try:
        for _ in range(_DESCRIPTORS):
            taken.append(os.open(os.curdir, os.O_RDONLY | os.O_DIRECTORY))
    except OSError as error:
        return find_shortage(error)
    finally:
        for descriptor in taken:
            os.close(descriptor)
    return None


@dataclass(slots=True)
class _Opened:
    """A file that is open in an engine."""

    file: EngineFile
    prints: bool  # the engine printed while it was opened
    pixels: int  # of one picture
    sizes: dict[int, tuple[int, int]] = field(default_factory=dict)  # width and height of key frames, by ordinal


def _leave(pool: IdlePool[_Opened]) -> IdlePool[_Opened]:
    keep_forever(pool)  # an engine may have threads
    return _make_pool()


def _make_pool() -> IdlePool[_Opened]:
    return IdlePool(
        MAX_FILES, lambda opened: opened.file.close(), lambda opened: opened.pixels, max_weight=MAX_FILE_PIXELS
    )


_FILES = PerProcess(_make_pool, _leave)

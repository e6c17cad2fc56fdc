"""Say what a plan gives at one position: a clip of one or more parts, whose frames come from sources."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from hashlib import blake2b
from math import nan
from typing import Any, NamedTuple

import numpy as np

from framefeed._arrays import AnyArray, BoolArray, FloatArray, IntArray
from framefeed._checks import expected
from framefeed._values import MISSING_PTS
from framefeed.errors import UsageError
from framefeed.index import FrameIndex
from framefeed.media import ImageSequence, source_name
from framefeed.plan._clip_text import read_clip, replace_sources, write_clip
from framefeed.request import Box, OnDamaged, OutputSpec, Placement, Size

_KEY_VERSION = 1
"""Rises if the same frames and form get other pixels."""


class FrameFacts(NamedTuple):
    """What pickles and texts of a take keep of its frame index."""

    pts: IntArray  # of each frame in ticks of the time base, int64 [T]; MISSING_PTS where unknown
    time_base: Fraction  # seconds in one tick
    bytes: int | None  # of the source; None where unknown
    fingerprint: str | None  # of the source, as catalogs have it; None where unknown


@dataclass(frozen=True, slots=True, eq=False)
class Take:
    """Frames of one source in one form. T is their number.

    Attributes:
        source: Path, URL, bytes or image sequence.
        indices: Frame numbers, int64 [T].
        pts_seconds: Time of each frame on the stream's timeline, float64 [T]; NaN if the stream has no times.
        pick_error_seconds: Picked minus wanted time, float64 [T]; NaN where it has no meaning.
        valid: False where the policy replaced a frame past the end, bool [T].
        segment: Number of the clip rule's segment of each frame, int64 [T].
        output: Form of the pixels.
        damaged: True for frames that the index knows as damaged, bool [T]; None if there are none.
        on_damaged: As in ``plan_clips``.
        flipped: Whether left and right of all pictures are swapped after decoding.
        placement: Where the pictures, of the size of ``output``, lie in those that are delivered, after the swap; None
            if they are these.
        displayed: (height, width) of the displayed pictures of the source; -1 where unknown.
        seconds: From the first frame of the source, float64 [T]: the requested times of rules and requests by time,
            else those of the frames; NaN if the stream has no times.
        end_seconds: When the last picture leaves the screen, on the same clock; NaN if it is not known.
        index: The frame index, or what pickles and texts keep of it.
    """

    source: str | bytes | ImageSequence
    indices: IntArray
    pts_seconds: FloatArray
    pick_error_seconds: FloatArray
    valid: BoolArray
    segment: IntArray
    output: OutputSpec
    damaged: BoolArray | None
    on_damaged: OnDamaged
    flipped: bool
    placement: Placement | None
    displayed: Size
    seconds: FloatArray
    end_seconds: float
    index: FrameIndex | FrameFacts

    def __len__(self) -> int:
        return len(self.indices)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore_take, (*(getattr(self, name) for name in _TAKE_FIELDS[:-1]), self.facts))

    @property
    def facts(self) -> FrameFacts:
        """Exact times of the frames, and what identifies the source."""
        if isinstance(self.index, FrameFacts):
            return self.index
        pts, identity = self.index.pts[self.indices], self.index.identity
        known = (None, None) if identity is None else (identity.bytes, identity.fingerprint or None)
        return FrameFacts(pts, self.index.time_base, *known)

    @property
    def key(self) -> Hashable:
        """What is equal in equal takes."""
        arrays = (self.indices, self.pts_seconds, self.pick_error_seconds, self.valid, self.segment, self.damaged)
        forms = (self.source, self.output, self.on_damaged, self.flipped, self.placement)
        return (*forms, *(None if each is None else each.tobytes() for each in arrays))

    @property
    def picture_shape(self) -> tuple[int, int, int]:
        """Shape of the delivered pictures, (C, H, W)."""
        return self.output.shape(*self.displayed) if self.placement is None else (3, *self.placement.size)

    @property
    def skipped(self) -> BoolArray | None:
        """True where zeros are delivered and no frame is decoded, bool [T]; None if nowhere."""
        return self.damaged if self.on_damaged == "skip" else None

    @property
    def storable(self) -> IntArray:
        """Frame numbers that a cache may keep, int64: all but those of damaged frames that are skipped or delivered."""
        return self.indices if self.damaged is None or self.on_damaged == "error" else self.indices[~self.damaged]

    @property
    def decoded(self) -> IntArray:
        """Frame numbers that are decoded, int64."""
        return self.indices if self.skipped is None else self.indices[~self.skipped]


_TAKE_FIELDS = tuple(field.name for field in fields(Take))


def _restore_take(*values: Any) -> Take:
    """Make a take whose arrays are read-only, as they were; pickles of takes name this function."""
    for each in (*values, values[-1].pts):
        if isinstance(each, np.ndarray):
            each.flags.writeable = False
    return Take(*values)


def _make_take(values: dict[str, Any]) -> Take:
    """Make a take of what a text says, which has no times that follow from others."""
    facts = FrameFacts(*(values[name] for name in FrameFacts._fields))
    # As `FrameIndex.to_seconds`: each is rounded once.
    times = np.array([nan if tick == MISSING_PTS else float(tick * facts.time_base) for tick in facts.pts.tolist()])
    seconds = times if values["seconds"] is None else values["seconds"]
    made = {**values, "pts_seconds": times, "seconds": seconds, "index": facts}
    return _restore_take(*(made[name] for name in _TAKE_FIELDS))


class ClipPart:
    """One of the streams of a clip; T is its number of frames. Made by a plan. The arrays are read-only.

    Its frames come from one source, but for pictures in tables at several times, which have a source each: then
    ``source`` and the form of the pixels are those of the first.
    """

    __slots__ = ("_takes",)

    def __init__(self, takes: tuple[Take, ...]) -> None:
        self._takes = takes

    @property
    def takes(self) -> tuple[Take, ...]:
        """Frames of each source, one after the other."""
        return self._takes

    def _join(self, name: str) -> AnyArray:
        takes = self.takes
        array: AnyArray = getattr(takes[0], name)
        return array if len(takes) == 1 else np.concatenate([getattr(take, name) for take in takes])

    def __len__(self) -> int:
        return sum(map(len, self.takes))

    @property
    def source(self) -> str | bytes | ImageSequence:
        """Path, URL, bytes or image sequence."""
        return self.takes[0].source

    @property
    def name(self) -> str:
        """The source's name for messages."""
        return source_name(self.source)

    @property
    def indices(self) -> IntArray:
        """Frame numbers, int64 [T]."""
        return self._join("indices")

    @property
    def pts_seconds(self) -> FloatArray:
        """Time of each frame on the stream's timeline, float64 [T]; NaN if the stream has no times."""
        return self._join("pts_seconds")

    @property
    def seconds(self) -> FloatArray:
        """Times from the source's first frame, float64 [T]: the requested ones of rules by time, else the frames'."""
        return self._join("seconds")

    @property
    def end_seconds(self) -> float:
        """When the last picture leaves the screen, on the clock of ``seconds``; NaN if it is not known."""
        return self.takes[-1].end_seconds

    @property
    def pick_error_seconds(self) -> FloatArray:
        """Picked minus wanted time, float64 [T]; NaN where it has no meaning."""
        return self._join("pick_error_seconds")

    @property
    def valid(self) -> BoolArray:
        """False where the policy replaced a frame past the end, bool [T]."""
        return self._join("valid")

    @property
    def segment(self) -> IntArray:
        """Number of the clip rule's segment of each frame, int64 [T]."""
        return self._join("segment")

    @property
    def damaged(self) -> BoolArray | None:
        """True for frames that the index knows as damaged, bool [T]; None if there are none."""
        takes = self.takes
        if all(take.damaged is None for take in takes):
            return None
        parts = [np.zeros(len(take), np.bool_) if take.damaged is None else take.damaged for take in takes]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    @property
    def skipped(self) -> BoolArray | None:
        """True where zeros are delivered for a damaged frame, bool [T]; None if nowhere."""
        return self.damaged if self.on_damaged == "skip" else None

    @property
    def output(self) -> OutputSpec:
        """Form of the pixels."""
        return self.takes[0].output

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of the delivered pixels, (T, C, H, W)."""
        return (sum(map(len, self.takes)), *self.takes[0].picture_shape)

    @property
    def on_damaged(self) -> OnDamaged:
        """As in ``plan_clips``."""
        return self.takes[0].on_damaged

    @property
    def flipped(self) -> bool:
        """Whether left and right of all pictures are swapped after decoding."""
        return self.takes[0].flipped

    @property
    def placement(self) -> Placement | None:
        """Where the pictures lie in those that are delivered, after the swap; None if they are these."""
        return self.takes[0].placement

    @property
    def box(self) -> Box | None:
        """(top, left, height, width) of the pictures in those that are delivered; None if they are these."""
        return None if self.placement is None else self.placement.box

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClipPart) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> Hashable:
        return tuple(take.key for take in self.takes)

    def __repr__(self) -> str:
        flipped = ", flipped" if self.flipped else ""
        return f"{type(self).__name__}({self.name!r}, {len(self)} frames, {self.output}{flipped})"


def text_key(text: str) -> str:
    """Return a text of 32 characters by which to store what is computed from a text, such as its embedding.

    Raises:
        UsageError: It is no text.
    """
    if not isinstance(text, str):
        raise expected("text", "a text", text)
    return blake2b(f"text {_KEY_VERSION} {text}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class PlannedClip(ClipPart):
    """The clip at one position of a plan, made by ``plan[i]``: hashable and picklable, without media.

    A clip of one stream has the attributes of its only part; of several, ``clip["rgb"]`` is the part of a stream, and
    ``len`` and iteration are those of the names. Clips are equal if they have the same frames in the same form.

    Attributes:
        position: Global position in the epoch.
        row: Row of the clip as batches have it: in the catalog of the plan, or of the first stream.
        line: Line of the clip in the plan's columns.
        parts: The parts by name; that of a clip of one stream has the name "".
    """

    __slots__ = ("line", "parts", "position", "row")

    def __init__(self, position: int, row: int, line: int, parts: Mapping[str, ClipPart]) -> None:
        self.position = position
        self.row = row
        self.line = line
        self.parts = parts

    @property
    def takes(self) -> tuple[Take, ...]:
        """Frames of each source of a clip of one stream."""
        part = self.parts.get("")
        if part is None:
            names = list(self.parts)
            raise UsageError(f"this clip has the streams {names}: write plan[position][{names[0]!r}]")
        return part.takes

    def __getitem__(self, name: str) -> ClipPart:
        """Return the part of a stream.

        Raises:
            UsageError: The clip has no such stream.
        """
        part = self.parts.get(name) if isinstance(name, str) and name else None
        if part is None:
            names = [each for each in self.parts if each]
            known = f"its streams are {names}" if names else "it has one stream: its attributes are those of the frames"
            raise UsageError(f"this clip has no stream {name!r}: {known}")
        return part

    def __iter__(self) -> Iterator[str]:
        return iter([name for name in self.parts if name])

    def __len__(self) -> int:
        return super().__len__() if "" in self.parts else len(self.parts)

    @property
    def key(self) -> str:
        """A text of 32 characters by which to store what is computed from the clip's frames, such as latents.

        It is a hash of the sources' contents, frame numbers, and form of the pixels with crop and flip; where a content
        has no fingerprint, of the name. The same frames in the same form have one key in any plan, epoch or process,
        also after files moved; a file that changed has another.
        """
        parts = []
        for name, part in self.parts.items():
            for take in part.takes:
                skipped = b"" if take.skipped is None else take.skipped.tobytes()
                source = take.facts.fingerprint or source_name(take.source)
                form = (take.output, take.flipped, take.placement)
                parts.append((name, source, take.indices.tobytes(), skipped, form))
        return blake2b(repr((_KEY_VERSION, parts)).encode(), digest_size=16).hexdigest()

    def to_json(self) -> str:
        """Write the clip as a text without secrets of URLs, which `from_json` reads in another process.

        Raises:
            UsageError: A source is bytes, or there are more than 100,000 frames.
        """
        parts: dict[str, list[dict[str, Any]]] = {name: [] for name in self.parts}
        for name, part in self.parts.items():
            for take in part.takes:
                values = {each: getattr(take, each) for each in _TAKE_FIELDS} | take.facts._asdict()
                is_same = take.seconds.tobytes() == take.pts_seconds.tobytes()
                parts[name].append(values | {"seconds": None} if is_same else values)
        return write_clip({name: int(getattr(self, name)) for name in ("position", "row", "line")}, parts)

    @classmethod
    def from_json(cls, text: str, *, source: Any = None, strict: bool = False) -> PlannedClip:
        """Read a clip that `to_json` wrote; no file is opened.

        Args:
            text: All of it is checked, but it may name any path or URL: of texts from others, look at ``source``.
            source: Another path or URL of the same file, such as a presigned one; of several streams, a dict by
                stream; of a part with several sources, a list of them. None for those of the text.
            strict: Refuse a text of another version of framefeed, PyAV or libavcodec, or of another CPU family.

        Raises:
            UsageError: It is no text of `to_json`, ``source`` does not fit it, or with ``strict``, versions differ.
        """
        if not isinstance(strict, bool):
            raise expected("strict", "True or False", strict)
        numbers, parts = read_clip(text, strict=strict)
        if source is not None:
            replace_sources(parts, source)
        return cls(**numbers, parts={name: ClipPart(tuple(map(_make_take, takes))) for name, takes in parts.items()})

    def _key(self) -> Hashable:
        return tuple((name, part._key()) for name, part in self.parts.items())

    def __repr__(self) -> str:
        if "" in self.parts:
            return super().__repr__()
        each = ", ".join(f"{name}: {part!r}" for name, part in self.parts.items())
        return f"PlannedClip({{{each}}})"


def iterate_takes(clip: PlannedClip) -> Iterator[Take]:
    """Yield the takes of a clip, part by part."""
    for part in clip.parts.values():
        yield from part.takes

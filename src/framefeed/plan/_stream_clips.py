"""Clips of several streams, and of parts with several sources: aligned clips of one number, with one draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from framefeed._arrays import FloatArray, IntArray
from framefeed._cached import cached_property
from framefeed.errors import FramefeedError, FrameNotFound, TimeUnavailable, UsageError
from framefeed.index import ExactTimes, FrameIndex, Timeline
from framefeed.plan._clips import (
    CatalogClips,
    CatalogClipsAt,
    ClipFacts,
    Clips,
    Draws,
    PartForm,
    Shape,
    hash_text,
)
from framefeed.plan._options import OMITTED_VALUES
from framefeed.plan._planned import ClipPart, PlannedClip, Take
from framefeed.plan._tables import Excluded, describe_source
from framefeed.request import ClipContext, ClipFrames, Picking, PictureRule, SharedCrop, SharedDraw, choose_times

_CLIPS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Following:
    """The frames at the times of the clip's first stream, counted from the first output frame of each."""

    on: str
    picking: Picking
    num_frames: int | None
    needs_times = True

    def choose(self, timeline: Timeline, context: ClipContext) -> ClipFrames:
        """Choose the frames of a clip whose first stream is planned."""
        draw = context.draw
        if draw is None or draw.seconds is None or draw.valid is None or draw.segments is None:
            raise UsageError(
                "the frames of this stream follow those of the first: plan[position] has the frames of all streams"
            )
        if np.isnan(draw.seconds).any():
            raise TimeUnavailable("the first stream of the clip has no times that this one could follow")
        ticks = timeline.to_ticks(ExactTimes.of(draw.seconds.tolist()))
        chosen = choose_times(timeline, ticks, draw.segments, self.picking)
        return ClipFrames(chosen.ordinals, chosen.errors, chosen.valid & draw.valid, chosen.segments, chosen.seconds)


@dataclass(frozen=True, eq=False)
class StreamClips(Clips):
    """Clips whose parts are clips of catalogs with the same numbers; columns are those of the first."""

    # The takes of each part by its name, of which all but pictures in tables at several times have one.
    parts: Mapping[str, tuple[CatalogClips, ...]]
    unjoined: tuple[Excluded, ...] = ()  # rows without a partner in another catalog
    has_table_rows: bool = False  # whether rows of batches are lines of the columns, not rows of the first catalog
    recipe: tuple[Callable[..., Any], tuple[Any, ...]] | None = None  # makes the clips again; None to pickle the parts

    def __reduce__(self) -> tuple[Any, ...]:
        if self.recipe is not None:
            return self.recipe
        return (join_clips, (self.parts, self.unjoined, self.has_table_rows))

    @cached_property
    def takes(self) -> list[tuple[str, CatalogClips]]:
        """The clips of each take, with the name of its part."""
        return [(name, clips) for name, takes in self.parts.items() for clips in takes]

    @cached_property
    def inner(self) -> list[CatalogClips]:
        return [clips for _, clips in self.takes]

    @property
    def count(self) -> int:
        return self.inner[0].count

    @cached_property
    def starts(self) -> list[int]:
        """Number of the first source of each take's catalog."""
        return [self.sources.find_start(clips.catalog) for clips in self.inner]

    @cached_property
    def forms(self) -> Mapping[str, PartForm]:
        return {name: _join_forms([clips.form for clips in takes]) for name, takes in self.parts.items()}

    @property
    def columns(self) -> Mapping[str, Any]:
        return self.inner[0].columns

    @property
    def excluded(self) -> list[Excluded]:
        return [*dict.fromkeys(each for clips in self.inner for each in clips.excluded), *self.unjoined]

    @cached_property
    def facts(self) -> ClipFacts:
        """What a checkpoint holds; an option in which streams differ has the texts of all."""
        named = [(name, clips.facts) for name, clips in self.takes]
        options = {}
        for option in dict.fromkeys(option for _, each in named for option in each.options):
            texts = [(name, each.options.get(option, OMITTED_VALUES.get(option, "None"))) for name, each in named]
            is_one = len({text for _, text in texts}) == 1
            options[option] = texts[0][1] if is_one else f"{{{', '.join(f'{name}: {text}' for name, text in texts)}}}"
        return ClipFacts(
            hash_text(repr([(name, each.fingerprint) for name, each in named])),
            str({name: clips.rule for name, clips in self.takes}),
            options,
            hash_text(repr([each.sources for _, each in named])),
        )

    def split_streams(self) -> Mapping[str, Clips]:
        if "" in self.parts:
            return {}
        return {name: takes[0] if len(takes) == 1 else join_clips({"": takes}) for name, takes in self.parts.items()}

    def predict_costs(self, clips: IntArray) -> FloatArray:
        """Predict the CPU seconds of clips: those of the first stream."""
        return self.inner[0].predict_costs(clips)

    def describe(self, count: int, order: str) -> str:
        if "" in self.parts:
            return self.inner[0].describe(count, order)
        rules = ", ".join(f"{name}: {takes[0].rule!r}" for name, takes in self.parts.items())
        return f"{count} clips of {{{rules}}}, {order}"

    def at(self, clips: IntArray, draws: Draws) -> StreamClipsAt:
        return StreamClipsAt(self, [take.at(clips, draws) for take in self.inner], draws)

    def at_one(self, clip: int, draws: Draws) -> StreamClipsAt:
        return StreamClipsAt(self, [take.at_one(clip, draws) for take in self.inner], draws)


def join_clips(
    parts: Mapping[str, tuple[CatalogClips, ...]],
    unjoined: tuple[Excluded, ...] = (),
    has_table_rows: bool = False,
    recipe: tuple[Callable[..., Any], tuple[Any, ...]] | None = None,
) -> StreamClips:
    """Join clips of one count to clips of several streams, and let their random crops share one draw."""
    return StreamClips(_share_crops(parts), unjoined, has_table_rows, recipe)


@dataclass(eq=False, repr=False)
class StreamClipsAt:
    """Some clips of several streams, found together."""

    _clips: StreamClips
    _takes: list[CatalogClipsAt]
    _draws: Draws

    @cached_property
    def rows(self) -> Sequence[Sequence[int]]:
        return [
            [start + row for row in take.located.rows] if start else take.located.rows
            for start, take in zip(self._clips.starts, self._takes, strict=True)
        ]

    def find_shapes(self, slots: slice) -> list[list[Shape]]:
        shapes: dict[str, list[Shape]] = {}
        for (name, _), at in zip(self._clips.takes, self._takes, strict=True):
            (own,) = at.find_shapes(slots)
            earlier = shapes.setdefault(name, own)
            if earlier is not own:  # takes of one part: pictures, whose T the rule says
                shapes[name] = [(one[0] + two[0], *one[1:]) for one, two in zip(earlier, own, strict=True)]
        return list(shapes.values())

    def make(self, slot: int) -> PlannedClip:
        draw = SharedDraw()
        made: dict[str, tuple[Take, ...]] = {}
        for (name, clips), at in zip(self._clips.takes, self._takes, strict=True):
            try:
                take = at.make_take(slot, draw)
                if draw.segments is None:
                    _note_leader(draw, take, at.read_facts(slot).index)
            except (FrameNotFound, TimeUnavailable) as error:
                source = describe_source(clips.catalog, at.located.rows[slot])
                where = f"{source} (stream {name!r})" if name else source
                raise type(error)(f"{where}: {error}", source=source) from error
            except FramefeedError as error:
                error.stream = error.stream or name or None
                raise
            made[name] = (*made.get(name, ()), take)
        located = self._takes[0].located
        row = located.lines[slot] if self._clips.has_table_rows else located.rows[slot]
        parts = {name: ClipPart(takes) for name, takes in made.items()}
        return PlannedClip(self._draws.positions[slot], row, located.lines[slot], parts)

    def name_source(self, slot: int) -> str:
        return self._takes[0].name_source(slot)

    def read_line(self, slot: int) -> dict[str, Any]:
        return self._takes[0].read_line(slot)

    def read_columns(self, slots: slice) -> dict[str, Any]:
        return self._takes[0].read_columns(slots)

    def name_rows(self, slots: slice) -> IntArray:
        located = self._takes[0].located
        rows = located.lines if self._clips.has_table_rows else located.rows
        return np.array(rows[slots], dtype=np.int64)


def _join_forms(forms: Sequence[PartForm]) -> PartForm:
    """Join the forms of the takes of a part."""
    if len(forms) == 1:
        return forms[0]
    lengths = tuple(form.num_frames for form in forms)
    num_frames = sum(length for length in lengths if length is not None)
    return replace(forms[0], num_frames=None if None in lengths else num_frames, takes=lengths)


def _note_leader(draw: SharedDraw, take: Take, index: FrameIndex) -> None:
    """Note what the other streams follow."""
    draw.segments, draw.valid = take.segment, take.valid
    base = index.time_base
    draw.seconds = np.full(len(take), np.nan)
    if index.has_timestamps:
        ticks = index.pts[take.indices] - index.pts[0]
        draw.seconds = ticks * base.numerator / base.denominator


def _share_crops(parts: Mapping[str, tuple[CatalogClips, ...]]) -> dict[str, tuple[CatalogClips, ...]]:
    """Let the random crops of all takes share one draw: of one crop the same part of each picture."""
    every = [clips for takes in parts.values() for clips in takes]
    drawn = [clips for clips in every if _is_drawn(clips.pictures)]
    crops = {repr(clips.pictures.crop) for clips in drawn if isinstance(clips.pictures, PictureRule)}
    is_one_part = len(crops) == 1 and len(drawn) == len(every)
    if is_one_part:
        _check_same_part(parts)

    def share(clips: CatalogClips) -> CatalogClips:
        rule: Any = clips.pictures
        if not _is_drawn(rule) or isinstance(rule.crop, SharedCrop):
            return clips
        return replace(clips, pictures=replace(rule, crop=SharedCrop(rule.crop, is_one_part)))

    return {name: tuple(map(share, takes)) for name, takes in parts.items()}


def _is_drawn(rule: Any) -> bool:
    return isinstance(rule, PictureRule) and bool(getattr(rule.crop, "is_random", False))


def _check_same_part(parts: Mapping[str, tuple[CatalogClips, ...]]) -> None:
    """Check that a random crop of so many pixels, which are not resized, is the same part of each picture."""
    (leader, first), *others = [(name, clips) for name, takes in parts.items() for clips in takes]
    pictures: Any = first.pictures
    if pictures.size is not None or pictures.crop.resizes:
        return
    for start in range(0, first.count, _CLIPS_AT_ONCE):
        numbers = np.arange(start, min(start + _CLIPS_AT_ONCE, first.count), dtype=np.int64)
        own = first.layout.find_rows(numbers)
        for name, clips in others:
            rows = clips.layout.find_rows(numbers)
            heights = clips.catalog.heights[rows] != first.catalog.heights[own]
            differs = heights | (clips.catalog.widths[rows] != first.catalog.widths[own])
            if differs.any():
                row = int(rows[int(differs.argmax())])
                raise UsageError(
                    f"{pictures.crop!r} without size= is not the same part of the pictures of streams {leader!r} and "
                    f"{name!r}, which differ in size ({describe_source(clips.catalog, row)}): give size=(height, "
                    'width), or unlike crops by stream, crop={"NAME": ff.RandomCrop(...), ...}'
                )

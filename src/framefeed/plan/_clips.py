"""Plan clips by their numbers: those of a catalog under a clip rule, and what all kinds of clips have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from math import nan
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from framefeed._arrays import AnyArray, FloatArray, IntArray
from framefeed._cached import cached_property
from framefeed.catalog import (
    Catalog,
    ListColumn,
    TextColumn,
    Texts,
    check_plannable,
    list_texts,
    read_plan_column,
    read_row,
)
from framefeed.errors import FrameNotFound, UsageError
from framefeed.index import (
    STILL_TIMELINE,
    FrameIndex,
    Timeline,
    count_seconds,
    find_end_seconds,
    has_still_timeline,
    read_seconds,
)
from framefeed.media import ImageSequence
from framefeed.plan._balance import estimate_row_costs
from framefeed.plan._checkpoint import keep_effective_options
from framefeed.plan._layouts import Layout, Located, RequestRows, VideoClips, VideoFrames
from framefeed.plan._options import ClipOptions
from framefeed.plan._order import MOST_POSITIONS, Order
from framefeed.plan._planned import ClipPart, PlannedClip, Take
from framefeed.plan._request_rule import Requests, make_row_requests
from framefeed.plan._rules import ALIKE_IN_STILLS, ClipRule, EveryFrame, choose_by
from framefeed.plan._sources import Sources
from framefeed.plan._tables import (
    Excluded,
    Windows,
    as_delivered,
    check_targets,
    count_frames,
    describe_source,
    find_common_picture,
    find_failing,
    list_excluded,
    list_rows,
)
from framefeed.request import ClipContext, ClipFrames, OutputSpec, PictureRule, SharedDraw, Size, is_flipped

_CLIPS_VERSION = 2
"""Rises if a global position of the same plan gets another clip."""


class Draws(NamedTuple):
    """What the random choices of some clips are drawn from."""

    seed: int
    epoch: int
    positions: Sequence[int]  # global ones, a list of N


@dataclass(frozen=True, slots=True, eq=False)
class PartForm:
    """What the parts of one name have in common in all clips."""

    num_frames: int | None  # T; None where clips differ in it
    lengths: IntArray | None  # T of each clip by its number, int64 [N], where clips differ in it; else None
    takes: tuple[int | None, ...]  # frames of each take of a part, in their order; of a single take, T
    picture: Size | None  # of all delivered pictures; None if they differ, or if there are none
    unequal: bool  # whether clips may differ in shape
    has_boxes: bool  # whether pictures lie in larger ones that are delivered

    @property
    def is_ragged(self) -> bool:
        """Whether clips of one batch may differ in T."""
        return self.unequal and self.num_frames is None

    @property
    def picture_shape(self) -> tuple[int, int, int]:
        """Shape of every delivered picture, (C, H, W), where all have one."""
        if self.unequal:
            raise UsageError("a plan with unequal=True has no common picture shape: use plan[position].shape")
        if self.picture is None:
            raise UsageError("this plan has no clips, and so no picture shape: plan.excluded says which rows and why")
        return (3, *self.picture)


class ClipFacts(NamedTuple):
    """What a checkpoint holds of clips."""

    fingerprint: str  # hash of all that determines the clip of a number
    rule: str  # the clip rule, or what stands for it
    options: dict[str, str]  # that determine the clips, as text, without those at their defaults
    sources: str  # hash of the sources, of the columns that choose clips, and of what joins them


def hash_text(text: str) -> str:
    """Hash a text to 32 hexadecimal digits."""
    return blake2b(text.encode(), digest_size=16).hexdigest()


Shape: TypeAlias = tuple[int, int, int, int]
"""(T, C, H, W) of the delivered pixels of a part; T is -1 where it, and a size that depends on it, are known when the
clip is planned."""


class ClipsAt(Protocol):
    """Some clips, found together: N of them, each of K takes."""

    @property
    def rows(self) -> Sequence[Sequence[int]]:
        """Number of each take's source among those of the plan: K lists of N."""

    def find_shapes(self, slots: slice) -> list[list[Shape]]:
        """Find the shapes of some of the clips without planning them: a list of n for each part."""

    def make(self, slot: int) -> PlannedClip:
        """Plan one of the clips, below N."""

    def name_source(self, slot: int) -> str:
        """Name the first source of one of the clips for messages."""

    def read_line(self, slot: int) -> dict[str, Any]:
        """Read the delivered columns of one of the clips: numbers, arrays and text as they are, codes as int64."""

    def read_columns(self, slots: slice) -> dict[str, Any]:
        """Read the delivered columns of some of the clips as batches have them, [n] or [n, ...] each, as copies.

        Those of text are lists of n.
        """

    def name_rows(self, slots: slice) -> IntArray:
        """Number the rows of some of the clips as batches do: in the user's own catalog or table, int64 [n]."""


class Clips(Protocol):
    """The clips of a plan by number, without an order; those that join others, ``inner``, have what these say."""

    @property
    def inner(self) -> Sequence[Clips]:
        """The clips that these are made of, in their order; none of those of a catalog."""

    @property
    def count(self) -> int:
        """Number of clips of an epoch."""

    @cached_property
    def sources(self) -> Sources:
        """The sources of all clips."""
        return Sources([catalog for each in self.inner for catalog in each.sources.catalogs])

    @property
    def forms(self) -> Mapping[str, PartForm]:
        """Form of each part by its name: "" for clips of one stream."""

    @property
    def columns(self) -> Mapping[str, Any]:
        """Delivered columns by name, or what has their shape and dtype."""

    @property
    def classes(self) -> tuple[Any, ...]:
        """Labels in the order of their codes."""
        return self.inner[0].classes

    @property
    def texts(self) -> Mapping[str, tuple[Any, ...]]:
        """Texts of the codes of each column: those that it is delivered as, and those of a column of text."""
        return self.inner[0].texts

    @property
    def excluded(self) -> list[Excluded]:
        """Rows that are not planned."""

    @property
    def has_flips(self) -> bool:
        """Whether left and right of clips may be swapped."""
        return any(each.has_flips for each in self.inner)

    @property
    def is_random(self) -> bool:
        """Whether frames, crops or flips are drawn, so that epochs differ in more than their order."""
        return any(each.is_random for each in self.inner)

    @property
    def draws_frames(self) -> bool:
        """Whether frames or crops are drawn, so that epochs differ in what is decoded."""
        return any(each.draws_frames for each in self.inner)

    @property
    def facts(self) -> ClipFacts:
        """What a checkpoint holds of them."""

    @property
    def mixed(self) -> Sequence[object]:
        """The plans of a mixture, which are an `EpochPlan` each; none of other clips."""
        return ()

    @property
    def buckets(self) -> Sequence[tuple[int, int, int]]:
        """Shapes (T, H, W), one of which all clips of a batch have; none if a batch may have others."""
        return ()

    def without_buckets(self) -> Clips:
        """Return the same clips, of which a batch may have any."""
        return self

    def count_buckets(self, order: Order) -> Any:
        """Count clips and steps of each bucket; None if there are no buckets."""
        return None

    def split_streams(self) -> Mapping[str, Clips]:
        """Split the clips of several streams into those of each, by its name; none of clips of one stream."""
        return {}

    def list_plain(self) -> list[CatalogClips]:
        """List the clips of catalogs that these are made of."""
        return [plain for each in self.inner for plain in each.list_plain()]

    def at(self, clips: IntArray, draws: Draws) -> ClipsAt:
        """Find the clips of some numbers."""

    def at_one(self, clip: int, draws: Draws) -> ClipsAt:
        """Find the clip of one number, as `at` does: for one, NumPy takes longer than Python."""

    def predict_costs(self, clips: IntArray) -> FloatArray:
        """Predict the CPU seconds of clips, float64 [N]."""

    def describe(self, count: int, order: str) -> str:
        """Write the text of a plan of these clips, of so many positions, with that of its order."""


@dataclass(frozen=True, slots=True, eq=False)
class _RowFacts:
    """What the clips of a row have in common."""

    row: int
    index: FrameIndex
    timeline: Timeline | None  # what frames are chosen from; None if all clips of still pictures have the same frames
    source: str | bytes | ImageSequence
    height: int  # of the displayed picture; -1 where unknown
    width: int


@dataclass(frozen=True, eq=False)
class CatalogClips:
    """The clips of a catalog under a clip rule."""

    catalog: Catalog
    rule: ClipRule
    options: ClipOptions
    layout: Layout  # the row of each clip
    columns: Mapping[str, AnyArray | ListColumn | TextColumn]  # delivered with the clips, by row or by request
    classes: tuple[Any, ...]  # labels in the order of their codes
    windows: Windows | None  # parts of the videos that clips are chosen from; None for whole videos
    pictures: PictureRule | Requests
    picture: Size | None  # of all delivered pictures; None if there are none, or if they differ
    left_out: tuple[Excluded, ...] = ()  # rows that are known to fail, or that have no frame in window or column
    has_table_columns: bool = False  # whether the columns are of a table of their own, not of the catalog
    joined: str = ""  # hash of the rows that belong together, where other catalogs choose rows
    recipe: tuple[Callable[..., Any], tuple[Any, ...]] | None = None  # makes the clips again, in another process
    title: str = ""  # what a plan of them is said to have, in place of clips by the rule

    @classmethod
    def of(cls, catalog: Catalog, rule: ClipRule, options: ClipOptions, some: IntArray | None = None) -> CatalogClips:
        """Make and check the clips of all plannable rows, or of ``some`` of them."""
        check_plannable(catalog)
        if isinstance(rule, Requests):
            return _make_request_clips(catalog, rule, options)
        windows = None if options.within is None else Windows.of(catalog, options.within, rule)
        rows, pictures = catalog.plannable_rows if some is None else some, options.pictures
        if pictures.needs_frames and rule.num_frames is None and not options.unequal:
            raise UsageError(
                f"size={options.size} with {rule!r}: clips differ in their number of frames, and so in their size: "
                "give unequal=True"
            )
        left_out: tuple[Excluded, ...] = ()
        for is_failing, reason in find_failing(catalog, rule, options, rows, windows):
            left_out += list_rows(catalog, rows[is_failing], reason)
            rows = rows[~is_failing]
        if "label" in options.columns:
            check_targets(catalog, "label", rows)
        if len(rows) * options.clips_per_video > MOST_POSITIONS:
            raise UsageError(
                f"clips_per_video: expected at most {MOST_POSITIONS // len(rows)} for {len(rows)} rows, got "
                f"{options.clips_per_video}"
            )
        layout: Layout = VideoClips(rows, options.clips_per_video)
        if isinstance(rule, EveryFrame):
            counts, frameless = count_frames(catalog, rows, windows)
            left_out += frameless
            layout = VideoFrames.of(rows, counts)
        return cls(
            catalog,
            rule,
            options,
            layout=layout,
            columns={
                name: read_plan_column(catalog, name, rows, as_codes=name in options.coded) for name in options.columns
            },
            classes=tuple(catalog.classes),
            windows=windows,
            pictures=pictures,
            picture=find_common_picture(catalog, pictures.for_frames(rule.num_frames or 1), rows, options.unequal),
            left_out=left_out,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        if self.recipe is not None:
            return self.recipe
        at = self.rule.at if isinstance(self.rule, Requests) else None
        return (make_catalog_clips, (self.catalog, self.rule if at is None else at, self.options))

    # --- as `Clips` says ------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        return len(self.layout)

    @cached_property
    def sources(self) -> Sources:
        return Sources([self.catalog])

    @cached_property
    def form(self) -> PartForm:
        """Form of the only part."""
        rule, options = self.rule, self.options
        length = rule.num_frames
        lengths = np.diff(rule.offsets) if isinstance(rule, Requests) and length is None else None
        return PartForm(length, lengths, (length,), self.picture, options.unequal, options.has_boxes)

    @cached_property
    def forms(self) -> Mapping[str, PartForm]:
        return {"": self.form}

    @cached_property
    def texts(self) -> Mapping[str, tuple[Any, ...]]:
        makers: dict[str, Callable[[], Sequence[Any]]] = {}
        for name, column in self.columns.items():
            if isinstance(column, TextColumn) and not column.has_lists:
                makers[name] = column.list_distinct
            elif name == "label" and self.classes:
                makers[name] = partial(tuple, self.classes)
            elif name in self.options.coded:
                makers[name] = partial(list_texts, self.catalog, name)
        return Texts(makers)

    @property
    def excluded(self) -> list[Excluded]:
        return list_excluded(self.catalog, self.left_out)

    @property
    def has_flips(self) -> bool:
        return self.options.horizontal_flip > 0

    @property
    def is_random(self) -> bool:
        return self.draws_frames or 0 < self.options.horizontal_flip < 1

    @property
    def draws_frames(self) -> bool:
        return any(getattr(each, "is_random", False) for each in (self.rule, self.options.crop))

    @cached_property
    def facts(self) -> ClipFacts:
        options = keep_effective_options(self.catalog, self.options, own_forms=self.pictures is self.rule)
        # What a column ``at`` holds is a part of the rule.
        sources = self.catalog.hash_sources(options.within or ()) + self.joined
        parts = (
            f"framefeed clips {_CLIPS_VERSION}",
            sources,
            self.rule,
            (options.clips_per_video, options.size, options.crop, options.within, options.on_damaged),
            # Bilinear plans keep the fingerprints that they had before there was another filter.
            (options.still_quality, options.horizontal_flip, *({options.filter} - {"bilinear"})),
        )
        return ClipFacts(hash_text(repr(parts)), repr(self.rule), options.texts, sources)

    inner = mixed = buckets = ()

    def without_buckets(self) -> CatalogClips:
        return self

    def count_buckets(self, order: Order) -> None:
        return None

    def split_streams(self) -> Mapping[str, Clips]:
        return {}

    def list_plain(self) -> list[CatalogClips]:
        return [self]

    @cached_property
    def _row_costs(self) -> FloatArray:
        """Predicted CPU seconds of a clip of each row of the catalog."""
        lengths = None
        if isinstance(self.rule, Requests) and self.form.lengths is not None:
            lengths = np.zeros(len(self.catalog), np.int64)
            np.maximum.at(lengths, self.rule.rows, self.form.lengths)
        return estimate_row_costs(self.catalog, self.rule, lengths)

    def predict_costs(self, clips: IntArray) -> FloatArray:
        costs: FloatArray = self._row_costs[self.layout.find_rows(clips)]
        return costs

    def describe(self, count: int, order: str) -> str:
        flip = self.options.horizontal_flip
        what = self.title or f"clips, {self.rule!r}"
        return f"{count} {what}, {order}{f', horizontal_flip={flip}' if flip else ''}"

    def at(self, clips: IntArray, draws: Draws) -> CatalogClipsAt:
        return CatalogClipsAt(self, self.layout.locate(clips), draws)

    def at_one(self, clip: int, draws: Draws) -> CatalogClipsAt:
        row, number, line = self.layout.locate_one(clip)
        return CatalogClipsAt(self, Located((row,), (number,), (line,)), draws)

    @cached_property
    def still_frames(self) -> tuple[ClipFrames, FloatArray] | None:
        """The frames of any still picture, and their times; None if they depend on the clip, or are an error."""
        if self.windows is not None or type(self.rule) not in ALIKE_IN_STILLS:
            return None
        try:
            chosen = choose_by(self.rule, STILL_TIMELINE, ClipContext(0, 0, 0))
        except FrameNotFound:
            return None
        return chosen, read_seconds(STILL_TIMELINE.index, chosen.ordinals)


@dataclass(slots=True, eq=False, repr=False)
class CatalogClipsAt:
    """Some clips of a catalog, found together."""

    _clips: CatalogClips
    located: Located
    _draws: Draws
    # Of the row of the clip that was planned last: the clips of a batch are often of one video.
    _facts: _RowFacts | None = None

    @property
    def rows(self) -> tuple[Sequence[int]]:
        return (self.located.rows,)

    def find_shapes(self, slots: slice) -> list[list[Shape]]:
        clips, rows, numbers = self._clips, self.located.rows[slots], self.located.numbers[slots]
        form = clips.form
        if form.num_frames is not None and not form.unequal:
            return [[(form.num_frames, *form.picture_shape)] * len(rows)]
        lengths = [-1 if form.num_frames is None else form.num_frames] * len(rows)
        if form.lengths is not None:
            lengths = form.lengths[np.array(numbers, dtype=np.int64)].tolist()
        if not form.unequal:
            return [[(length, *form.picture_shape) for length in lengths]]
        heights, widths, pictures = clips.catalog.heights, clips.catalog.widths, clips.pictures
        return [
            [
                (length, *pictures.for_frames(max(1, length)).find_shape(int(heights[row]), int(widths[row]), number))
                for length, row, number in zip(lengths, rows, numbers, strict=True)
            ]
        ]

    def make(self, slot: int) -> PlannedClip:
        part = ClipPart((self.make_take(slot),))
        return PlannedClip(self._draws.positions[slot], self.located.rows[slot], self.located.lines[slot], {"": part})

    def read_facts(self, slot: int) -> _RowFacts:
        """Read what the clips of a clip's row have in common."""
        row, facts, clips = self.located.rows[slot], self._facts, self._clips
        if facts is None or facts.row != row:
            source, index = read_row(clips.catalog, row)
            timeline = None
            if clips.still_frames is None or not has_still_timeline(index):
                timeline = Timeline.whole(index) if clips.windows is None else clips.windows.timeline(index, row)
            height, width = int(clips.catalog.heights[row]), int(clips.catalog.widths[row])
            self._facts = facts = _RowFacts(row, index, timeline, source, height, width)
        return facts

    def make_take(self, slot: int, draw: SharedDraw | None = None) -> Take:
        """Plan the frames of one of the clips."""
        clips, (seed, epoch, positions), facts = self._clips, self._draws, self.read_facts(slot)
        options, index, position = clips.options, facts.index, positions[slot]
        context = ClipContext(seed, epoch, position, self.located.numbers[slot], draw)
        if facts.timeline is None:
            assert clips.still_frames is not None
            chosen, seconds = clips.still_frames
            own_seconds, end_seconds = seconds, nan
        else:
            chosen = choose_by(clips.rule, facts.timeline, context)
            seconds = read_seconds(index, chosen.ordinals)
            end_seconds = find_end_seconds(index, int(chosen.ordinals[-1]))
            if chosen.seconds is not None:
                own_seconds = chosen.seconds
            else:  # most videos begin at 0, and then these are the times on the stream's timeline
                own_seconds = count_seconds(index, chosen.ordinals) if index.pts[0] else seconds
        pictures = clips.pictures.for_frames(len(chosen.ordinals))
        output = pictures.output(facts.height, facts.width, context)
        damaged = None
        if len(index.damaged_frame_indices) and (is_damaged := index.is_damaged(chosen.ordinals)).any():
            damaged = is_damaged
            if options.on_damaged == "skip":
                chosen = replace(chosen, valid=chosen.valid & ~damaged)
        flipped = is_flipped(seed, epoch, position, options.horizontal_flip)
        # Clips share what is the same in them.
        for array in (chosen.ordinals, seconds, own_seconds, chosen.errors, chosen.valid, chosen.segments):
            array.setflags(write=False)
        if damaged is not None:
            damaged.setflags(write=False)
        return Take(
            facts.source,
            chosen.ordinals,
            seconds,
            chosen.errors,
            chosen.valid,
            chosen.segments,
            output,
            damaged,
            options.on_damaged,
            flipped,
            pictures.place(output, is_flipped=flipped),
            (facts.height, facts.width),
            own_seconds,
            end_seconds,
            index,
        )

    def name_source(self, slot: int) -> str:
        return describe_source(self._clips.catalog, self.located.rows[slot])

    def read_line(self, slot: int) -> dict[str, Any]:
        line = self.located.lines[slot]
        return {name: values[line] for name, values in self._clips.columns.items()}

    def read_columns(self, slots: slice) -> dict[str, Any]:
        lines = np.array(self.located.lines[slots], dtype=np.int64)
        return {name: as_delivered(values[lines]) for name, values in self._clips.columns.items()}

    def name_rows(self, slots: slice) -> IntArray:
        return np.array(self.located.rows[slots], dtype=np.int64)


def make_catalog_clips(catalog: Catalog, rule: ClipRule | str, options: ClipOptions) -> CatalogClips:
    """Make clips from a rule, or from the name of the column of their frames; pickles of plans name this function."""
    rule = make_row_requests(catalog, rule, options) if isinstance(rule, str) else rule
    return CatalogClips.of(catalog, rule, options)


def _make_request_clips(catalog: Catalog, rule: Requests, options: ClipOptions) -> CatalogClips:
    own_forms = any(output != OutputSpec() for output in rule.outputs)
    if own_forms and (options.size is not None or options.crop is not None):
        raise UsageError("give size= and crop= either to plan_requests, or as output= of its requests, but not both")
    if own_forms:
        name = partial(describe_source, catalog)
        picture = rule.common_picture(catalog.heights, catalog.widths, name, unequal=options.unequal)
    else:
        pictures = options.pictures.for_frames(rule.num_frames or 1)
        picture = find_common_picture(catalog, pictures, np.unique(rule.rows), options.unequal)
    left_out: tuple[Excluded, ...] = ()
    if rule.at is not None:
        missing = np.setdiff1d(catalog.plannable_rows, rule.rows)
        for is_failing, reason in find_failing(catalog, rule, options, missing):
            left_out += list_rows(catalog, missing[is_failing], reason)
            missing = missing[~is_failing]
        reason = f"UsageError: column {rule.at!r} names no frame in this row, or has a null"
        left_out += list_rows(catalog, missing, reason)
    return CatalogClips(
        catalog,
        rule,
        options,
        layout=RequestRows(rule.rows),
        columns=rule.columns,
        classes=rule.classes,
        windows=None,
        pictures=rule if own_forms else options.pictures,
        picture=picture,
        left_out=left_out,
    )

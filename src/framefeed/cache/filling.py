"""Filling a cache with the frames of one group: what is there already is not decoded, what fails does not stop it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from framefeed.cache.frame_cache import FrameCache
from framefeed.cache.wanted import Group, Piece
from framefeed.decode.decoder import ClipSlot, Decoder
from framefeed.errors import CacheError, ResourceExhausted, UsageError
from framefeed.index.frame_index import FrameIndex
from framefeed.index.sequence_index import holds_pictures
from framefeed.media.sequence import source_name
from framefeed.media.source import MediaSource
from framefeed.parallel import Err
from framefeed.parallel.outcome import outcome_of
from framefeed.parallel.shortage import resource_exhausted, shortage_in
from framefeed.plan.epoch import EpochPlan
from framefeed.plan.request import OutputSpec

Failed = tuple[str, str, str]
"""Source, error type, message."""

_CORNER = 16
"""Side of the part of each picture that is converted where planes are stored: it is not looked at."""


@dataclass(slots=True)
class Filled:
    """What became of some groups; adding two gives their sum.

    Attributes:
        wanted: Frames of the clips, repeats included.
        stored: Frames that were decoded and stored.
        present: Frames that the cache had.
        failed: Frames that could not be had.
        failures: The first failure of each source.
    """

    wanted: int = 0
    stored: int = 0
    present: int = 0
    failed: int = 0
    failures: dict[str, Failed] = field(default_factory=dict)

    def __iadd__(self, other: Filled) -> Self:
        self.wanted += other.wanted
        self.stored += other.stored
        self.present += other.present
        self.failed += other.failed
        self.failures = {**other.failures, **self.failures}
        return self

    def fail(self, name: str, error: BaseException, frames: int = 0) -> None:
        """Note that frames of a source cannot be had."""
        self.failed += frames
        self.failures.setdefault(name, (name, type(error).__name__, str(error)))


class Filler:
    """Fills a cache with groups of a plan; called by several threads at once.

    Args:
        plan: That the groups are of.
        cache: What to fill.
        inner: Decodes what is missing.
        epochs: How many epochs the groups are of.

    Attributes:
        form: In which frames are stored.
    """

    def __init__(self, plan: EpochPlan, cache: FrameCache, inner: Decoder, epochs: int = 1) -> None:
        self._plan = plan
        self._cache = cache
        self._decoder = cache.decoder_for(plan, inner, epochs).for_building()
        self.form = cache.form_for(plan)

    def __call__(self, group: Group) -> Filled:
        """Fill in a group; a wish to stop, a wrong call and a shortage are raised, all other errors noted."""
        done = Filled(group.wanted)
        source = self._plan.catalog.source(group.row)
        for error in group.errors:
            done.fail(source_name(source), error)
        if not self._cache.is_filling or not group.pieces:
            return done
        outcome = outcome_of(self._fill, (group, done))
        if isinstance(outcome, Err):
            if isinstance(outcome.error, UsageError) or not isinstance(outcome.error, Exception):
                raise outcome.error
            resource = shortage_in(outcome.error)
            if isinstance(outcome.error, ResourceExhausted):
                raise outcome.error
            if resource is not None:
                raise resource_exhausted(resource, source_name(source), "cache") from outcome.error
            done.fail(source_name(source), outcome.error, group.num_frames - done.present - done.stored)
        return done

    def _fill(self, group_and_done: tuple[Group, Filled]) -> None:
        group, done = group_and_done
        catalog = self._plan.catalog
        source, index = MediaSource.of(catalog.source(group.row)), catalog.frame_index(group.row)
        self._cache.store.refresh()  # The group may have been sealed only now, by a process that claimed it before.
        lacking = [self._lacking(source, index, piece) for piece in group.pieces]
        count = sum(map(len, lacking))
        done.present += group.num_frames - count
        errors = self._decode(source, index, [piece for piece in lacking if len(piece)], done)
        if errors and self.form == "output":
            # Of a clip that fails nothing is stored; frame by frame, all of it is but the frames that fail.
            single = [Piece(piece.ordinals[[i]], piece.output) for piece, _ in errors for i in range(len(piece))]
            errors = self._decode(source, index, single, done)
        left = 0
        if done.stored < count:
            # Some may have been stored by others meanwhile.
            left = sum(len(self._lacking(source, index, piece)) for piece in lacking)
            done.present += count - done.stored - left
        resource = self._cache.keeper.shortage or self._cache.store.shortage
        if left and resource is not None:
            raise resource_exhausted(resource, self._cache.path, "store")
        if left and self._cache.is_filling:
            unknown = CacheError(
                f"{source.name}: {left} frame{'' if left == 1 else 's'} cannot be stored: the source cannot be "
                "identified by its contents, or the file was changed while it was read, or just before; if a program "
                "writes to the file, build again when it has ended"
            )
            done.fail(source.name, errors[0][1] if errors else unknown, left)

    def _decode(
        self, source: MediaSource, index: FrameIndex, pieces: Sequence[Piece], done: Filled
    ) -> list[tuple[Piece, BaseException]]:
        """Decode and store pieces; give those that failed."""
        if not pieces:
            return []
        report = self._decoder.decode(source, index, [self._slot(index, piece) for piece in pieces])
        done.stored += report.counts.frames_stored
        for error in report.errors:
            if isinstance(error, ResourceExhausted):
                raise error
        failed = zip(pieces, report.errors, strict=True)
        return [(piece, error) for piece, error in failed if error is not None]

    def _slot(self, index: FrameIndex, piece: Piece) -> ClipSlot:
        height, width = index.stream.displayed
        output = piece.output
        if self.form == "planes":
            # Pictures of a sequence may differ in size, and then have no common corner.
            corner = (0, 0, min(_CORNER, height), min(_CORNER, width))
            output = OutputSpec(size=(_CORNER, _CORNER)) if holds_pictures(index) else OutputSpec(crop=corner)
        return ClipSlot(piece.ordinals, output, np.empty((len(piece), *output.shape(height, width)), dtype=np.uint8))

    def _lacking(self, source: MediaSource, index: FrameIndex, piece: Piece) -> Piece:
        """What the cache has not, or not of the source as it is now."""
        lacks = self._decoder.lacks(source, index, piece.ordinals, piece.output)
        return Piece(piece.ordinals[lacks], piece.output)

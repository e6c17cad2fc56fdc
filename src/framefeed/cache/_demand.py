"""What a plan wants of each source, in groups that are decoded together, so that each GOP is decoded once. Pure.

Outlook: how many frames a plan wants, and how many pictures must be decoded for them. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, pairwise

import numpy as np

from framefeed._arrays import IntArray
from framefeed.errors import FrameNotFound, TimeUnavailable
from framefeed.index import FrameIndex
from framefeed.plan import DecodeRequest, EpochPlan, OutputSpec, plan_runs

JOINED_FRAMES = 16
"""Pieces are joined until they have so many frames: what is stored together has a directory of its own on disk."""

GROUP_FRAMES = 256
"""Of a group, about: one long video is work for several threads, and progress shows."""
_MOST_GROUPS_JOINED = 4
"""Clips that chain GOP to GOP would else make one group, and work for one thread, of a long video."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Frames that are stored side by side: those of one clip, or of a few short ones.

    Attributes:
        ordinals: Each once, int64 [N].
        output: In which form they are wanted.
    """

    ordinals: IntArray
    output: OutputSpec

    def __len__(self) -> int:
        return len(self.ordinals)


@dataclass(slots=True, eq=False)
class Group:
    """Pieces of one source.

    Attributes:
        number: Which group of the plan it is; the same in every process, whatever the cache holds.
        row: Of the source in the catalog.
        pieces: What to decode; no frame is in two groups of a source.
        wanted: Frames of the clips that end with this group, repeats included.
        errors: Why clips have no frames.
    """

    number: int
    row: int
    pieces: list[Piece] = field(default_factory=list)
    wanted: int = 0
    errors: list[Exception] = field(default_factory=list)

    @property
    def num_frames(self) -> int:
        """Distinct frames."""
        return sum(map(len, self.pieces))


@dataclass(frozen=True, slots=True)
class Gathering:
    """How groups are made.

    Attributes:
        by_output: Whether the same frame in two forms is stored twice, and pixels of a whole group are in memory at
            once: then ``max_bytes`` counts more than that groups end where GOPs end.
        max_bytes: Most bytes of a group's pixels.
    """

    by_output: bool
    max_bytes: int


def gathered(plan: EpochPlan, epochs: int, gathering: Gathering) -> Iterator[Group]:
    """Yield all that this rank's positions want, source by source in the order of the catalog.

    Args:
        plan: At the first epoch.
        epochs: How many epochs from there on.
        gathering: How groups are made.
    """
    plans = [plan.with_epoch(plan.epoch + number) for number in range(epochs)]
    numbers = count()
    for row, places in _by_row(plans):
        index = plan.catalog.frame_index(row)
        clips: list[DecodeRequest] = []
        failed = Group(-1, row)
        for epoch, position in zip(*np.divmod(places, len(plan)), strict=True):
            try:
                clips.append(plans[epoch][position])
            except (FrameNotFound, TimeUnavailable) as error:
                failed.errors.append(error)
        if failed.errors:
            failed.number = next(numbers)
            yield failed
        for group in grouped(row, index, clips, gathering):
            group.number = next(numbers)
            yield group


def grouped(row: int, index: FrameIndex, clips: Sequence[DecodeRequest], gathering: Gathering) -> Iterator[Group]:
    """Yield the groups of one source, not numbered yet.

    Args:
        row: Of the source in the catalog.
        index: Its frames.
        clips: All that is wanted of it.
        gathering: How groups are made.
    """
    # Neighbours in the file are decoded together, whichever epoch they are of.
    stored = [clip for clip in clips if len(clip.storable)]
    in_order = sorted(stored, key=lambda clip: int(index.frame_start[clip.storable].min()))
    return _Groups(index, gathering).of(row, in_order)


def _by_row(plans: Sequence[EpochPlan]) -> Iterator[tuple[int, IntArray]]:
    """Yield each row with the numbers of its places in all epochs, one epoch behind the other."""
    rows = np.concatenate([_rows(plan) for plan in plans])
    order = np.argsort(rows, kind="stable")
    bounds = np.flatnonzero(np.diff(rows[order], prepend=-1, append=-1)).tolist()
    for first, stop in pairwise(bounds):
        yield int(rows[order[first]]), order[first:stop]


def _rows(plan: EpochPlan) -> IntArray:
    return np.fromiter((plan.row_at(position) for position in range(len(plan))), np.int64, len(plan))


class _Groups:
    """Makes the groups of one source.

    Args:
        index: Of the source.
        gathering: How.
    """

    def __init__(self, index: FrameIndex, gathering: Gathering) -> None:
        self._index = index
        self._gathering = gathering
        self._seen: dict[OutputSpec | None, set[int]] = {}

    def of(self, row: int, clips: Sequence[DecodeRequest]) -> Iterator[Group]:
        """Yield groups; the last one of a clip counts its frames as wanted."""
        group, nbytes, last = Group(-1, row), 0, -1
        for clip in clips:
            frame_bytes = math.prod(clip.output.shape(*self._index.stream.displayed))
            for part in self._cut(self._news(clip), max(1, self._gathering.max_bytes // frame_bytes)):
                starts = self._index.frame_start[part]
                size = group.num_frames + len(part), nbytes + len(part) * frame_bytes
                if group.pieces and self._is_too_large(size, starts.min() <= last):
                    yield group
                    group, nbytes = Group(-1, row), 0
                _append(group.pieces, part, clip.output)
                nbytes += len(part) * frame_bytes
                last = int(starts.max())
            group.wanted += len(clip.storable)
        if group.wanted:
            yield group

    def _is_too_large(self, size: tuple[int, int], is_within_gop: bool) -> bool:
        """Whether a group of so many frames and bytes is none, if it would be cut within a GOP or not."""
        frames, nbytes = size
        most = self._gathering.max_bytes
        if self._gathering.by_output and nbytes > most:
            return True
        times = _MOST_GROUPS_JOINED if is_within_gop else 1
        return frames > times * GROUP_FRAMES or nbytes > times * most

    def _news(self, clip: DecodeRequest) -> IntArray:
        """Frames of a clip that no clip before it wants, each once, in the clip's order."""
        seen = self._seen.setdefault(clip.output if self._gathering.by_output else None, set())
        news = [ordinal for ordinal in dict.fromkeys(clip.storable.tolist()) if ordinal not in seen]
        seen.update(news)
        return np.array(news, dtype=np.int64)

    def _cut(self, ordinals: IntArray, most: int) -> Iterator[IntArray]:
        """Cut what is too long, between two GOPs where it can be."""
        limit = min(most, GROUP_FRAMES)
        if len(ordinals) > limit:
            ordinals = ordinals[np.argsort(self._index.frame_packet[ordinals], kind="stable")]
        starts = self._index.frame_start[ordinals]
        first = 0
        while first < len(ordinals):
            stop = first + limit
            if stop < len(ordinals):
                stop = self._between_gops(starts, (first, stop, first + most))
            yield ordinals[first:stop]
            first = stop

    def _between_gops(self, starts: IntArray, places: tuple[int, int, int]) -> int:
        """Find the end of a GOP: the last before where a cut is wanted, else the next, if it is not too far."""
        first, stop, furthest = places
        edges = np.flatnonzero(np.diff(starts[first:], append=-1)) + first + 1
        within = edges[edges <= stop]
        if len(within):
            return int(within[-1])
        return min(int(edges[0]), furthest) if self._gathering.by_output else int(edges[0])


def _append(pieces: list[Piece], ordinals: IntArray, output: OutputSpec) -> None:
    if pieces and pieces[-1].output == output and len(pieces[-1]) < JOINED_FRAMES:
        ordinals = np.concatenate([pieces.pop().ordinals, ordinals])
    pieces.append(Piece(ordinals, output))


PLANNED_CLIPS = 4096
"""Plans up to here are gone through as a whole, which takes about a second; of others a sample is."""
_WINDOW = 512
"""Most neighbouring positions of one source that are looked at together."""
_WINDOWS = 64
_COMPARED = 32
"""Clips that are compared between two epochs."""
_GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a plan wants of its sources.

    Attributes:
        clips: Of this rank, all epochs together.
        clip_frames: Frames of them, repeats included.
        frames: Distinct frames, each of which is stored once.
        pictures: That come out of the decoder for them.
        pieces: In which they are stored.
        varies: Whether further epochs want other frames.
        frames_at_most: Frames that all epochs together can want, or None if there is no end of them.
    """

    clips: int
    clip_frames: int
    frames: int
    pictures: int
    pieces: int
    varies: bool
    frames_at_most: int | None


@dataclass(slots=True)
class _Sums:
    clip_frames: int = 0
    frames: int = 0
    pictures: int = 0
    pieces: int = 0

    def add(self, plan: EpochPlan, group: Group) -> None:
        self.clip_frames += group.wanted
        self.frames += group.num_frames
        self.pieces += len(group.pieces)
        if group.pieces:
            ordinals = np.concatenate([piece.ordinals for piece in group.pieces])
            self.pictures += plan_runs(plan.catalog.frame_index(group.row), ordinals).num_decoded


def outlook(plan: EpochPlan, epochs: int, gathering: Gathering) -> Outlook:
    """Look at a plan, or at a sample of it where it is long.

    Args:
        plan: At the first epoch.
        epochs: How many epochs from there on.
        gathering: How its frames would be gathered.
    """
    sums, clips = _Sums(), len(plan) * epochs
    if clips <= PLANNED_CLIPS:
        for group in gathered(plan, epochs, gathering):
            sums.add(plan, group)
        share = 1.0
    else:
        positions = 0
        for row, requests, count in _windows(plan, epochs):
            positions += count
            for group in grouped(row, plan.catalog.frame_index(row), requests, gathering):
                sums.add(plan, group)
        share = clips / max(1, positions)
    return Outlook(
        clips=clips,
        clip_frames=round(sums.clip_frames * share),
        frames=round(sums.frames * share),
        pictures=round(sums.pictures * share),
        pieces=round(sums.pieces * share),
        varies=varies(plan, gathering.by_output),
        frames_at_most=_frames_at_most(plan, gathering),
    )


def varies(plan: EpochPlan, by_output: bool) -> bool:
    """Whether the next epoch wants other frames than this one.

    Args:
        plan: At this epoch.
        by_output: Whether outputs are stored, not whole pictures.
    """
    return _differs(plan, lambda request: (request.ordinals.tolist(), request.output if by_output else None))


def _frames_at_most(plan: EpochPlan, gathering: Gathering) -> int | None:
    if gathering.by_output and _varies_in_form(plan):
        return None
    return int(plan.catalog.num_frames[plan.catalog.usable_rows].sum())


def _unshuffled(plan: EpochPlan, epoch: int) -> EpochPlan:
    """The plan's clips in the order of the catalog, of all ranks: neighbours are of one source."""
    return replace(plan, options=replace(plan.options, shuffle=False, rank=0, world_size=1, epoch=epoch))


def _windows(plan: EpochPlan, epochs: int) -> Iterator[tuple[int, list[DecodeRequest], int]]:
    """Yield (row, clips of all epochs, number of positions) of neighbours, spread over the plan."""
    plans = [_unshuffled(plan, plan.epoch + number) for number in range(epochs)]
    first_plan, planned = plans[0], 0
    for number in scattered(_WINDOWS):
        place = (2 * number + 1) * len(first_plan) // (2 * _WINDOWS)
        row = first_plan.row_at(place)
        first = stop = place
        while first > max(0, place - _WINDOW // 2) and first_plan.row_at(first - 1) == row:
            first -= 1
        while stop < min(len(first_plan), first + _WINDOW) and first_plan.row_at(stop) == row:
            stop += 1
        yield row, _requests(plans, range(first, stop)), (stop - first) * epochs
        planned += (stop - first) * epochs
        if planned >= PLANNED_CLIPS:
            return


def scattered(count: int) -> list[int]:
    """Order the numbers below ``count`` so that each few that follow each other lie far apart."""
    return sorted(range(count), key=lambda number: number * _GOLDEN % 1)


def _requests(plans: Sequence[EpochPlan], positions: range) -> list[DecodeRequest]:
    found = []
    for each in plans:
        for position in positions:
            try:
                found.append(each[position])
            except (FrameNotFound, TimeUnavailable):
                continue
    return found


def _varies_in_form(plan: EpochPlan) -> bool:
    return _differs(plan, lambda request: request.output)


def _differs(plan: EpochPlan, fact: Callable[[DecodeRequest], object]) -> bool:
    """Whether a fact of the same clips differs between this epoch and the next."""
    now, then = (_unshuffled(plan, plan.epoch + number) for number in range(2))
    step = max(1, len(now) // _COMPARED)
    for position in range(0, len(now), step):
        one, other = (_requests([each], range(position, position + 1)) for each in (now, then))
        if [fact(request) for request in one] != [fact(request) for request in other]:
            return True
    return False

"""Plan epochs: a position gives a clip, a pure function of sources, rule, seed, epoch and position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, SupportsIndex, overload

import numpy as np

from framefeed._arrays import IntArray
from framefeed._cached import cached_property
from framefeed._checks import OutOfRange, check_integer, check_position
from framefeed.catalog import Catalog
from framefeed.errors import UsageError
from framefeed.plan._bucket_order import BucketOrder
from framefeed.plan._checkpoint import STATE_VERSION, read_state, shorten, shorten_options
from framefeed.plan._clips import CatalogClips, Clips, ClipsAt, Draws, hash_text
from framefeed.plan._description import PlanDescription, describe_clips, measure_waits
from framefeed.plan._found import PlannedClips, plan_clip
from framefeed.plan._order import Balance, Order
from framefeed.plan._planned import PlannedClip
from framefeed.plan._shard import Shard
from framefeed.plan._short_rows import find_short_rows
from framefeed.plan._tables import Excluded

_SHAPES_AT_ONCE = 4096
_OPTIONS_OF_STATE = ("seed", "epoch", "rank", "world_size", "balance", "tail")


@dataclass(frozen=True, eq=False)
class EpochPlan:
    """The clips of one epoch for one rank: a sequence of `PlannedClip`, each planned when it is read.

    Made by ``plan_clips``, ``plan_requests`` and ``mix_plans``. Its memory grows with the rows of the catalogs, not
    with the positions.

    Attributes:
        order: Which clip is at which position: integers alone.
        clips: The clips by number, without an order.
    """

    order: Order
    clips: Clips

    def __repr__(self) -> str:
        order = self.order
        shuffle = "" if self.parts else f"shuffle={order.shuffle!r}, "
        text = f"seed={order.seed}, epoch={order.epoch}, {shuffle}rank={order.rank} of {order.world_size}"
        return f"EpochPlan({self.clips.describe(len(self), text)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (EpochPlan, (self.order, self.clips))

    # --- the order ------------------------------------------------------------------------------------

    @cached_property
    def _shard(self) -> Shard:
        return self.order.deal(self.clips.predict_costs)

    def __len__(self) -> int:
        return len(self._shard)

    @overload
    def global_position(self, position: int) -> int: ...
    @overload
    def global_position(self, position: IntArray) -> IntArray: ...
    def global_position(self, position: int | IntArray) -> int | IntArray:
        """Return the position counted over all ranks, for one position of this rank or an int64 array of them.

        Raises:
            IndexError: There is no such position.
        """
        if isinstance(position, np.ndarray):
            if position.size and not (position.min() >= 0 and position.max() < len(self)):
                raise OutOfRange(
                    f"position: expected 0 to {len(self) - 1}, got positions from {position.min()} to {position.max()}"
                )
            return self._shard.global_position(position)
        number = position if type(position) is int else check_integer("position", position)
        return self._shard.global_position(check_position("position", number, len(self), "plan"))

    # --- clips ----------------------------------------------------------------------------------------

    def clips_at(self, global_positions: IntArray) -> PlannedClips:
        """Find the clips at some global positions of the epoch, int64 [N], which are planned one by one.

        Raises:
            IndexError: There is no such position.
        """
        if len(global_positions) and not 0 <= global_positions.min() <= global_positions.max() < self.order.count:
            raise OutOfRange(
                f"global_positions: expected 0 to {self.order.count - 1}, got {global_positions.min()} to "
                f"{global_positions.max()}"
            )
        return PlannedClips.find(self.order, self.clips, global_positions)

    @overload
    def __getitem__(self, position: SupportsIndex) -> PlannedClip: ...
    @overload
    def __getitem__(self, position: slice) -> list[PlannedClip]: ...
    def __getitem__(self, position: SupportsIndex | slice) -> PlannedClip | list[PlannedClip]:
        """Return the clip at one position of this rank, or a list of the clips of a slice.

        Negative positions count from the end.

        Raises:
            IndexError: There is no such position.
            FrameNotFound: A frame is beyond the tolerance, or past the end with policy="error", or the clip's window is
                empty.
            TimeUnavailable: The rule needs times, but the stream has no usable timestamps.
        """
        if isinstance(position, slice):
            return [self[each] for each in range(*position.indices(len(self)))]
        at, global_position = self._locate(position)
        return plan_clip(at, 0, global_position)

    def __iter__(self) -> Iterator[PlannedClip]:
        # Python's default ends at an IndexError, and a FrameNotFound is one.
        return (self[position] for position in range(len(self)))

    def _locate(self, position: SupportsIndex) -> tuple[ClipsAt, int]:
        """Find the clip at a position of this rank, and its global position."""
        number = position if type(position) is int else check_integer("position", position)
        order, global_position = self.order, self.global_position(number)
        draws = Draws(order.seed, order.epoch, (global_position,))
        return self.clips.at_one(order.find_clip(global_position), draws), global_position

    def columns_at(self, position: SupportsIndex) -> dict[str, Any]:
        """Return the chosen columns of one position as a dict: numbers, arrays and text as they are, codes as int64."""
        return self._locate(position)[0].read_line(0)

    # --- all positions --------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """Number of the epoch, from 0."""
        return self.order.epoch

    @property
    def catalog(self) -> Catalog:
        """The files and their frame indexes.

        Raises:
            UsageError: The plan has several catalogs.
        """
        if isinstance(self.clips, CatalogClips):
            return self.clips.catalog
        catalogs = self.clips.sources.catalogs
        if len(catalogs) == 1:
            return catalogs[0]
        raise UsageError(
            "catalog: this plan has several catalogs: take that of a part of a mixture, plan.parts[0].catalog, or of a "
            "stream, plan.streams[NAME].catalog, which batch.rows refers to"
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that ``columns_at`` gives."""
        return tuple(self.clips.columns)

    @property
    def classes(self) -> list[Any]:
        """Labels in the order of their int64 codes."""
        return list(self.clips.classes)

    @property
    def texts(self) -> Mapping[str, tuple[Any, ...]]:
        """Texts of codes by column: ``plan.texts["verb"][code]``; of a column of text, its distinct texts, sorted.

        The texts of a column are listed when they are asked for. Code -1 is null.
        """
        return self.clips.texts

    @cached_property
    def parts(self) -> tuple[EpochPlan, ...]:
        """The plans of a mixture, in the order of ``batch["plan"]``; none of other plans."""
        return tuple(each for each in self.clips.mixed if isinstance(each, EpochPlan))

    @cached_property
    def streams(self) -> Mapping[str, EpochPlan]:
        """The plan of each stream by its name, of the whole epoch on one rank; none if clips have one stream."""
        if self.parts:
            return self.parts[0].streams
        order = self.order.whole
        return {name: EpochPlan(order, clips) for name, clips in self.clips.split_streams().items()}

    @property
    def frames_per_clip(self) -> int | None:
        """T, the number of frames of every clip; None where clips or streams differ in it."""
        lengths = {form.num_frames for form in self.clips.forms.values()}
        return lengths.pop() if len(lengths) == 1 else None

    @property
    def picture_shape(self) -> tuple[int, int, int]:
        """Shape of every delivered picture, (C, H, W).

        Raises:
            UsageError: The plan has no clips, ``unequal=True``, several streams, or buckets.
        """
        if "" not in self.clips.forms or self.clips.buckets:
            raise self._refuse_shape("picture_shape")
        return self.clips.forms[""].picture_shape

    @property
    def clip_shape(self) -> tuple[int, int, int, int]:
        """Shape of every clip, (T, C, H, W).

        Raises:
            UsageError: The plan has no clips, ``unequal=True``, streams, buckets, or clips of different lengths.
        """
        if "" not in self.clips.forms or self.clips.buckets:
            raise self._refuse_shape("clip_shape")
        picture_shape = self.picture_shape
        if self.frames_per_clip is None:
            raise UsageError("the clips of this plan differ in their number of frames: use plan[position].shape")
        return (self.frames_per_clip, *picture_shape)

    def shapes(self) -> list[tuple[int, int, int]]:
        """List (T, H, W) of the clip at each position of this rank; clips whose rule says no T are planned for it.

        Raises:
            UsageError: The plan has several streams.
            FrameNotFound: A clip cannot be planned, as for ``plan[position]``.
        """
        if "" not in self.clips.forms:
            raise self._refuse_shape("shapes()")
        shapes: list[tuple[int, int, int]] = []
        for first in range(0, len(self), _SHAPES_AT_ONCE):
            positions = np.arange(first, min(first + _SHAPES_AT_ONCE, len(self)), dtype=np.int64)
            found = self.clips_at(self.global_position(positions))
            for slot, shape in enumerate(found.find_shapes()[0]):
                length, _, height, width = shape if shape[0] >= 0 else found.plan(slot).shape
                shapes.append((length, height, width))
        return shapes

    def keys(self) -> list[str]:
        """List `PlannedClip.key` of the clip at each position of this rank, each planned for it.

        Raises:
            FrameNotFound: A clip cannot be planned, as for ``plan[position]``.
        """
        return [self[position].key for position in range(len(self))]

    def _refuse_shape(self, what: str) -> UsageError:
        if self.clips.buckets:
            return UsageError(
                f"{what}: each batch of this plan has the shape of its bucket: use batch.bucket or shapes()"
            )
        return UsageError(f"this plan has several streams: take plan.streams[{next(iter(self.streams))!r}].{what}")

    @property
    def excluded(self) -> list[Excluded]:
        """List of the rows that are not planned, each with ``source`` and ``error``."""
        return self.clips.excluded

    def with_epoch(self, epoch: int) -> EpochPlan:
        """Return the same plan at another epoch, which it has in full."""
        order = self.order.with_epoch(epoch)
        return self if order.epoch == self.epoch else EpochPlan(order, self.clips)

    def batches(self) -> list[range]:
        """List the positions of this rank in each batch of a plan of buckets: a ``batch_sampler`` of torch.

        Raises:
            UsageError: The plan does not say the batches.
        """
        bounds = self.order.step_bounds
        if bounds is None:
            raise UsageError("batches: this plan does not say them: give batch_size= to ff.ClipLoader or DataLoader")
        return [range(first, last) for first, last in pairwise(bounds.tolist())]

    def without_steps(self) -> EpochPlan:
        """Return the same clips in the same order, in batches of any: lists of clips, as with ``unequal=True``.

        For plans of buckets, where steps are made of the clips by others, as by Ray.
        """
        if not isinstance(self.order, BucketOrder):
            return self
        return EpochPlan(replace(self.order, has_steps=False), self.clips.without_buckets())

    @cached_property
    def whole(self) -> EpochPlan:
        """The plan of the whole epoch on one rank, whose positions are the global ones."""
        return EpochPlan(self.order.whole, self.clips)

    def without(
        self, clips: int | Sequence[int], world_size: int | None = None, balance: Balance | None = None
    ) -> EpochPlan:
        """Return a plan of the clips that ranks have not delivered yet, dealt anew to the ranks of this plan.

        Args:
            clips: Clips of this plan that every rank delivered, or a list with the number of each rank.
            world_size: Number of ranks that delivered them; None for the ranks of this plan.
            balance: How clips were dealt to them.
        """
        return EpochPlan(self.order.without(clips, world_size, balance, self.clips.predict_costs), self.clips)

    # --- checkpoints ----------------------------------------------------------------------------------

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all that determines the clip at a global position, except the epoch."""
        return hash_text(repr((self.clips.facts.fingerprint, *self.order.identity)))

    def _make_state(self) -> dict[str, Any]:
        order, facts = self.order, self.clips.facts
        options = {} if order.shuffle is True else {"shuffle": repr(order.shuffle)}
        return {
            "version": STATE_VERSION,
            "fingerprint": self.fingerprint,
            **{name: getattr(order, name) for name in _OPTIONS_OF_STATE},
            "deliveries": [delivery.dump() for delivery in order.deliveries],
            "num_clips": order.num_clips,
            "rule": shorten(facts.rule),
            "options": {**options, **facts.options},
            "catalog": facts.sources,
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the plan's part of a checkpoint: a dict for JSON, of at most 900 bytes."""
        state = self._make_state()
        return {**state, "options": shorten_options(state["options"])}

    def with_state(self, state: Mapping[str, Any]) -> EpochPlan:
        """Return the plan at the epoch of a checkpoint; rank and world size may differ from the checkpoint's.

        What runs before the checkpoint's delivered is left out, if they had another number of ranks.

        Raises:
            UsageError: The checkpoint belongs to another plan.
        """
        epoch, deliveries = read_state(state, self._make_state())
        return EpochPlan(replace(self.order, epoch=epoch, deliveries=deliveries), self.clips)

    def describe(self) -> PlanDescription:
        """Estimate the cost of this rank's epoch from at most a few hundred of its clips."""
        waits, order, clips = None, self.order, self.clips
        if order.world_size > 1 and len(self) and isinstance(clips, CatalogClips):
            balanced, plain = (replace(order, balance=each).deal(clips.predict_costs) for each in ("cost", None))
            waits = measure_waits(order, clips, self._shard, plain, balanced)
        # Of several streams those of the first, which alone has such a rule.
        short_videos = sum(len(find_short_rows(each)[0]) for each in clips.list_plain())
        described = describe_clips(order, clips, self._shard, self.frames_per_clip, waits, short_videos)
        return replace(described, buckets=clips.count_buckets(order))
